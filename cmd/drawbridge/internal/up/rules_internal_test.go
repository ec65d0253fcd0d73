package up

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/settings"
)

// A at a question shows the rule that would allow the call, and writes it on a yes alone. The call passes then, and a question without a rule says why.
func TestAlways(t *testing.T) {
	t.Parallel()
	out, machine := &buffer{}, &fakeDesk{}
	var written []string
	var broken error
	u := &upping{Options: Options{Dir: "/x", Shown: func(s string) string { return s }}, screen: &screen{out: out}, own: &ownDesk{}}
	c := &console{u: u, over: map[string]bool{}, heard: map[desk][]question{}, desks: []desk{machine, u.own}, lines: make(chan typed), addRule: func(entry string, rule settings.Command) error {
		if broken == nil {
			written = append(written, entry+" "+rule.String())
		}
		return broken
	}}
	rule := &approval.Rule{Command: settings.Command{Program: "go", Args: []string{"test"}}}
	put := func(id string, rule *approval.Rule) {
		machine.all = append(machine.all, question{id: id, key: key(id), agent: "app (claude)", entry: "claude", text: "may it " + id + "?", desk: machine, rule: rule})
	}
	step := func(text string, prompted int, want ...string) {
		t.Helper()
		if text != "" {
			c.answer(t.Context(), text, prompted)
		}
		c.look(t.Context())
		got := out.takes()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%q: no %q in %q", text, w, got)
			}
		}
		if len(want) == 0 && got != "" {
			t.Errorf("%q: it says %q", text, got)
		}
	}
	put("one", rule)
	put("two", &approval.Rule{None: "the command is not one simple command: it has \">\""})
	put("three", nil)
	step("", 0, "Question 1, agent app (claude):\nmay it one?\n  A            allows always: go test …\n", "Question 2, agent app (claude):\nmay it two?\n")
	step("A 2", 1, `this program cannot write a rule for question 2: the command is not one simple command: it has ">"; type y or n`)
	step("a 3", 1, "question 3 cannot be always allowed; type y or n")
	step("A", 1, "Question 4, agent app (claude):\nmay all agents that use claude, on every clone, always do this without a question?\n  allows       go test … (… means any further arguments)\n  rule         { program: go, args: [test] }\n  place        agents: claude: permissions: execute: in /x/relay.yaml\n")
	if c.open[0].number != 4 {
		t.Errorf("the prompt is about question %d", c.open[0].number)
	}
	step("A 1", 4, "the rule for question 1: that question is already open")
	step("n", 4)
	if len(written) > 0 || len(machine.decided) > 0 {
		t.Errorf("after a no: %q %q", written, machine.decided)
	}
	step("A 1", 1, "Question 5")
	broken = errors.New("relay.yaml cannot be written")
	step("y", 5, "question 5: relay.yaml cannot be written")
	if len(machine.decided) > 0 || len(c.open) != 4 {
		t.Errorf("without the rule: %q, %d open", machine.decided, len(c.open))
	}
	broken = nil
	machine.away = true // the relay starts again
	step("y", 5, "relay.yaml allows it now: go test …", "question 1: away")
	machine.away = false
	if len(c.open) != 3 || c.open[0].number != 1 {
		t.Errorf("a call that could not pass is not open any more: %d open", len(c.open))
	}
	step("A", 1, "Question 6")
	step("y", 6, "relay.yaml allows it now: go test …")
	step("", 0)
	if len(written) != 2 || written[0] != "claude go test …" || !slices.Equal(machine.decided, []string{"one true"}) || len(c.open) != 2 {
		t.Errorf("after a yes: %q %q, %d open", written, machine.decided, len(c.open))
	}
	put("four", rule)
	step("", 0, "Question 7")
	step("A 7", 2, "Question 8")
	step("n 7", 8, "") // the question about the rule ends with its own
	step("", 0, "question 8 (this rule) is not open any more")
	put("five", rule)
	step("", 0, "Question 9")
	step("A 9", 2, "Question 10")
	written = nil
	c.ends(t.Context())
	if out.takes(); len(u.own.asked) > 0 || len(written) > 0 {
		t.Errorf("nobody who types is a no: %v %q", u.own.asked, written)
	}
}
