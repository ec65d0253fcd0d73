package mcpserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"drawbridge/mail"
	"drawbridge/memory"
	"drawbridge/proof/pages"
)

const toolsIntro = `# MCP tools

What an agent is offered at the MCP door ([connect a client](../how-to/connect-mcp-client.md)). A toolset is a group of tools. An agent has the
` + "`toolsets`" + ` of its orchestrator in [bridge.yaml](bridge-yaml.md), else those of its runtime. If both say nothing, it has ` + "`bridge`" + `; a chat model has
` + "`bridge`" + `, ` + "`team`" + `, ` + "`channels`" + ` and ` + "`memory`" + `. What ` + "`drawbridge up`" + ` writes for a runtime is ` + "`bridge`" + `, ` + "`team`" + `, ` + "`threads`" + ` and ` + "`memory`" + `.

An argument in brackets may be left out. A tool marked *Looks* changes nothing. Two toolsets of an agent may have a tool of the same name. Then
the later set's one has the set's name in front, such as ` + "`threads_send_message`" + `. The texts are those that a model reads.
`

// TestToolsPage: docs/reference/mcp-tools.md lists the tools as agents are offered them.
//
//go:generate go test . -run TestToolsPage -update
func TestToolsPage(t *testing.T) {
	t.Parallel()
	d := &Door{o: Options{Mail: new(mail.Service), Memory: new(memory.Service), Log: zerolog.Nop()}}
	sets, err := d.toolsets()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(toolsIntro)
	for _, set := range SetNames() {
		fmt.Fprintf(&b, "\n## %s\n\n| tool | arguments | what it does |\n|---|---|---|\n", set)
		for _, tool := range sets[set] {
			var args []string
			for _, name := range tool.schema.PropertyOrder {
				if slices.Contains(tool.schema.Required, name) {
					args = append(args, "`"+name+"`")
				} else {
					args = append(args, "[`"+name+"`]")
				}
			}
			about := tool.about
			if tool.nature.readOnly {
				about = "*Looks*: " + about
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", tool.name, strings.Join(args, " "), pages.Cell(about))
		}
	}
	pages.Same(t, "../docs/reference/mcp-tools.md", b.String())
}
