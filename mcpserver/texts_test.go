package mcpserver_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"drawbridge/mcpserver"
)

// TestWaysToWriteSayWhenToUseThem: three tools lead to one agent. The text of each says when to use it, whom it reaches, whether
// it wakes and what becomes of an answer, and docs/how-to/mail.md has a row for each.
func TestWaysToWriteSayWhenToUseThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam, mcpserver.SetThreads, mcpserver.SetChannels}
	w.launch("main")
	page, err := os.ReadFile("../docs/how-to/mail.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := w.texts("")
	for name, says := range map[string][]string{
		"send_message":         {"Use this tool to ask or tell one of your team", "your parent, a child or a sibling", "it wakes the recipient", "With sync, your next message is the reply or a notice that none comes"},
		"threads_send_message": {"Use this tool for a discussion of several agents, and for an agent of your tree that is not your parent, child or sibling", "A direct message wakes the recipient", "Replies arrive as your next turn"},
		"send_dm":              {"Use this tool if you need no answer", "another agent of your tree or of one of your channels", "wakes the other agent only near the beginning of a conversation"},
	} {
		for _, part := range says {
			if !strings.Contains(texts[name], part) {
				t.Errorf("%s does not say %q: %s", name, part, texts[name])
			}
		}
		if !regexp.MustCompile("(?m)^\\| .*`" + name + "`.* \\| .+ \\| .+ \\| .+ \\|$").MatchString(string(page)) {
			t.Errorf("docs/how-to/mail.md has no row of four columns for %s", name)
		}
	}
}

// texts returns what the door says of each tool of a set, or of all that are offered when set is "".
func (w *world) texts(set string) map[string]string {
	w.Helper()
	if set != "" {
		set = "/" + set
	}
	listed, err := w.connect("main", newEra, set).ListTools(w.Context(), nil)
	if err != nil {
		w.Fatal(err)
	}
	texts := map[string]string{}
	for _, tool := range listed.Tools {
		texts[tool.Name] = tool.Description
	}
	return texts
}
