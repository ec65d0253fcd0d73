//go:build deep

package agents_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// client is a CLI agent that lists its MCP servers.
type client struct {
	// program is where the package has it, file where the entry belongs below the home.
	program, file string
	// list lists the servers; connected finds that the bridge's one answered.
	list      []string
	connected *regexp.Regexp
	// reaches: the list connects to the server, so that the bridge sees its token.
	reaches bool
	// prepare makes the client trust its project.
	prepare func(h *home)
}

var clients = map[string]client{
	"codex": {program: ".bin/codex", file: ".codex/config.toml", list: []string{"mcp", "list", "--json"}, connected: regexp.MustCompile(`"name": "drawbridge",\s+"enabled": true`)},
	"claude": {program: "@anthropic-ai/claude-code-*/claude", file: "project/.mcp.json", list: []string{"mcp", "list"}, connected: regexp.MustCompile(`drawbridge: .* - ✔ Connected`), reaches: true,
		prepare: func(h *home) {
			h.put(".claude.json", fmt.Sprintf(`{"projects":{%q:{"enabledMcpjsonServers":["drawbridge"],"hasTrustDialogAccepted":true}}}`, h.project))
		}},
	"gemini": {program: ".bin/gemini", file: "project/.gemini/settings.json", list: []string{"mcp", "list"}, connected: regexp.MustCompile(`✓ drawbridge: .* - Connected`), reaches: true,
		prepare: func(h *home) { h.put(".gemini/trustedFolders.json", fmt.Sprintf(`{%q:"TRUST_FOLDER"}`, h.project)) }},
	"opencode": {program: "opencode-*/bin/opencode", file: "project/opencode.json", list: []string{"mcp", "list"}, connected: regexp.MustCompile(`✓ drawbridge .*connected`), reaches: true},
}

// Each client reads the entry that mcp-config writes for it, and reaches the bridge by it: over HTTP and by the program, the
// token from its environment and in the entry.
func TestClientsReadTheirEntry(t *testing.T) {
	t.Parallel()
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modules := agentsHome(t, name)
			w := newWorld(t)
			path := program(t, modules, c.program)
			for _, flags := range [][]string{nil, {"--inline"}, {"--stdio"}, {"--stdio", "--inline"}} {
				h := w.newHome()
				if c.prepare != nil {
					c.prepare(h)
				}
				h.put(c.file, w.cli(append([]string{"mcp-config", "main", "--for", name}, flags...)...))
				if len(flags) == 0 || flags[len(flags)-1] != "--inline" {
					h.env = []string{tokenVariable + "=" + strings.TrimSpace(w.cli("token", "main"))}
				}
				before := opened(w)
				_, said, err := h.run(path, c.list...)
				if plain := ansi.ReplaceAllString(said, ""); err != nil || !c.connected.MatchString(plain) {
					t.Errorf("%s %v: %v\n%s", name, flags, err, plain)
				}
				if c.reaches && opened(w) == before {
					t.Errorf("%s %v: the bridge saw nothing of it", name, flags)
				}
			}
		})
	}
}

var ansi = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// opened counts the requests at the door that a token opened.
func opened(w *world) (n int) {
	for line := range strings.Lines(w.log.String()) {
		var got struct {
			Route, Token string
			Status       int
		}
		if json.Unmarshal([]byte(line), &got) == nil && got.Route == "/mcp" && got.Token != "" && got.Status < 300 {
			n++
		}
	}
	return n
}
