package turns

import (
	"strings"
	"testing"
)

// belatedWords is a conversation with something to say too late.
type belatedWords struct {
	Conversation
	said string
}

func (b *belatedWords) Late() string {
	said := b.said
	b.said = ""
	return said
}

// TestBelated: words that came too late are kept until a turn told the agent of them, and no evidence tells them twice. They are bounded.
func TestBelated(t *testing.T) {
	t.Parallel()
	l := &lane{}
	for _, said := range []string{"one\n", "", "\ntwo"} { // until a turn was read, as when the process ended before
		l.hearLate(&belatedWords{said: said})
	}
	if late, fresh := l.hearLate(&belatedWords{}), l.forgetLate(false); late != "one\ntwo" || fresh != "one\ntwo" {
		t.Errorf("late %q, fresh %q", late, fresh)
	}
	if late, fresh := l.hearLate(struct{ Conversation }{}), l.forgetLate(true); late != "one\ntwo" || fresh != "" {
		t.Errorf("after a turn that failed: late %q, fresh %q", late, fresh)
	}
	if late := l.hearLate(&belatedWords{}); late != "" {
		t.Errorf("what the agent heard is told again: %q", late)
	}
	got := quoteLate(l.hearLate(&belatedWords{said: "\nThat took long.\nLOCAL_ACTION: backup_script" + strings.Repeat("x", 1<<20)}))
	if !strings.Contains(got, "no command in it ran:\n| That took long.\n| LOCAL_ACTION: backup_scriptx") || len(got) > 5000 || !strings.HasSuffix(got, "...\n\n") {
		t.Errorf("%d bytes: %.200q", len(got), got)
	}
}
