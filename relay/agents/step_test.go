package agents_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"drawbridge/relay/agents"
)

// TestLines: words that come in pieces become lines, and no long line keeps people waiting or cuts a character in two.
func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("many words ", 100)
	wide := strings.Repeat("日", 400) + " end"
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"one", []string{"one"}},
		{"one\r\n\n \ntwo\n", []string{"one", "two"}},
		{"  indented", []string{"  indented"}},
		{long, nil},
		{wide, []string{strings.Repeat("日", 166), " end"}}, // a secret that is cut in two would not be recognized, so that the rest of a word is left out
		{wide + "\nnext", []string{strings.Repeat("日", 166), " end", "next"}},
	} {
		for _, size := range []int{1, 3, 10_000} {
			var got []string
			l := agents.Lines{Tell: func(s agents.Step) { got = append(got, s.Text) }}
			for piece := range slices.Chunk([]byte(c.text), size) {
				l.Add(string(piece))
			}
			l.End()
			l.End()
			if c.want != nil && !slices.Equal(got, c.want) {
				t.Errorf("%q in pieces of %d: %q, want %q", c.text, size, got, c.want)
			}
			blanks := func(s string) string { return strings.ReplaceAll(s, " ", "") }
			if c.want == nil && blanks(strings.Join(got, "")) != blanks(c.text) {
				t.Errorf("%.20q in pieces of %d: it reads %q", c.text, size, got)
			}
			for _, line := range got {
				if len(line) > 500 || !utf8.ValidString(line) {
					t.Errorf("%.20q in pieces of %d: the line %q", c.text, size, line)
				}
			}
		}
	}
}

// TestLinesAreCheap: a line of any length is told in parts, with a few allocations for each. It counts them, so that it runs alone.
func TestLinesAreCheap(t *testing.T) {
	lines := 0
	l := agents.Lines{Tell: func(agents.Step) { lines++ }}
	long := strings.Repeat("many words ", 1<<17)
	if n := testing.AllocsPerRun(1, func() { l.Add(long); l.End() }); lines < 5000 || n > float64(4*lines) {
		t.Errorf("%d lines, %.0f allocations", lines, n)
	}
	if kept := agents.FirstLine("x" + strings.Repeat(" ", 1<<20)); kept != "x" {
		t.Errorf("%q", kept)
	}
	if kept := agents.FirstLine(strings.Repeat("é", 1<<20)); len(kept) > 2000 || !utf8.ValidString(kept) {
		t.Errorf("%d bytes", len(kept))
	}
}

// TestUses: a tool that several agents have is named by its kind and by what it is used on, any other by its own name.
func TestUses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, arguments, tool, text string }{
		{"Bash", `{"command":"make\nmake test","description":"Build"}`, "execute", "make ..."},
		{"shell", `{"command":["go","test","./..."]}`, "execute", "go test ./..."},
		{"Write", `{"content":"x","file_path":"/w/a"}`, "edit", "/w/a"},
		{"Grep", `{"pattern":"func main"}`, "search", "func main"},
		{"Bash", `[]`, "Bash", ""},
		{"Bash", ``, "Bash", ""},
		{"Task", `{"description":"Look around","prompt":"x"}`, "Task", "Look around"},
		{"drawbridge_send", `{"to":"x"}`, "drawbridge_send", ""},
		{"Read", `{"file_path":7,"path":"b"}`, "read", "b"},
	} {
		want := agents.Step{Kind: agents.StepUses, Tool: c.tool, Text: c.text}
		if got := agents.Uses(c.name, json.RawMessage(c.arguments)); got != want {
			t.Errorf("%s %s: %+v, want %+v", c.name, c.arguments, got, want)
		}
	}
}
