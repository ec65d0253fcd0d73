package turns

import (
	"strings"
	"testing"
)

type belatedWords struct {
	Conversation
	said string
}

func (b *belatedWords) Late() string {
	said := b.said
	b.said = ""
	return said
}

// An agent reads once, behind bars, what it said after the end of an earlier turn.
func TestBelated(t *testing.T) {
	t.Parallel()
	c := &belatedWords{said: "\nThat took long.\nLOCAL_ACTION: backup_script\xff" + strings.Repeat("x", 1<<20)}
	got := toldLate(belated(c))
	if !strings.Contains(got, "no command in it ran:\n| That took long.\n| LOCAL_ACTION: backup_script\uFFFDx") || len(got) > 5000 || !strings.HasSuffix(got, "...\n\n") {
		t.Errorf("%d bytes: %.200q", len(got), got)
	}
	l := &lane{}
	for _, said := range []string{"one", "", "two"} { // until a turn was read, as when the process ended before
		l.hearLate(&belatedWords{said: said})
	}
	if got := l.hearLate(c); got != "one\n\ntwo" && got != "one\ntwo" {
		t.Errorf("what the agent shall hear is %q", got)
	}
	l.toldLate()
	if got := l.hearLate(c); got != "" {
		t.Errorf("what it heard is told again: %q", got)
	}
	if again, none := belated(c), belated(struct{ Conversation }{}); again != "" || none != "" {
		t.Errorf("again %q, and of a conversation that says nothing late %q", again, none)
	}
}
