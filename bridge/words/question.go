package words

import (
	"fmt"
	"strings"

	"drawbridge/bridge"
)

// Question shows everything that a person decides on, in printable ASCII and
// whole: nothing is cut, whatever its length. The lines of a text stand behind a bar.
func Question(q bridge.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s@%s waits for you", q.Command.ID, q.Hash)
	if n := len(q.Same); n > 1 {
		fmt.Fprintf(&b, " (the agent asked %d times; your yes runs it once and closes the other requests)", n)
	}
	b.WriteString("\n  A yes would do this:\n")
	for _, f := range q.Effect {
		fact(&b, f)
	}
	b.WriteString("  To judge it by:\n")
	for _, f := range q.Context {
		fact(&b, f)
	}
	if q.Refused != "" {
		fact(&b, bridge.Fact{Name: "refused now", Text: q.Refused})
	}
	return b.String()
}

// fact writes one line, or for a text of several lines a name and the lines behind bars.
func fact(b *strings.Builder, f bridge.Fact) {
	lines := strings.Split(f.Text, "\n")
	if len(lines) == 1 {
		fmt.Fprintf(b, "    %-12s %s\n", escape(f.Name), escape(f.Text))
		return
	}
	fmt.Fprintf(b, "    %s\n", escape(f.Name))
	for _, line := range lines {
		fmt.Fprintf(b, "      | %s\n", escape(line))
	}
}

// Since says what a question asks beyond the last yes for the same target.
func Since(last bridge.Yes, effect []bridge.Fact) string {
	when := last.At.UTC().Format("2006-01-02 15:04:05 UTC")
	was := map[string]string{}
	for _, f := range last.Effect {
		was[f.Name] = f.Text
	}
	var changes []string
	for _, f := range effect {
		before, known := was[f.Name]
		delete(was, f.Name)
		switch {
		case !known:
			changes = append(changes, "new: "+f.Name)
		case before != f.Text && len(before) <= maxWas:
			changes = append(changes, fmt.Sprintf("changed: %s (it was %s)", f.Name, before))
		case before != f.Text:
			changes = append(changes, "changed: "+f.Name)
		}
	}
	for _, f := range last.Effect {
		if _, gone := was[f.Name]; gone {
			changes = append(changes, "gone: "+f.Name)
		}
	}
	if len(changes) == 0 {
		return "the same as approved on " + when
	}
	return "since the yes of " + when + ", " + strings.Join(changes, "; ")
}

// maxWas bounds what is repeated of an earlier text, in bytes.
const maxWas = 120
