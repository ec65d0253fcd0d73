package host

import (
	"strings"
	"testing"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
)

// The report about an agent that did not answer says how long the check waited, what the agent printed last, and what to try.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	h := &Host{Config: settings.Config{File: "/etc/relay.yaml", Agents: map[string]settings.Agent{"mine": {Argv: []string{"/opt/mine"}, StartTimeout: 90 * time.Second}}}}
	hung := &agents.Error{Cause: agents.Hung, Reason: "the agent did not start in time"}
	for printed, want := range map[string]string{
		"":                                "and it wrote nothing to its error output",
		"loading\nOpen this page: http\n": `and the last line on its error output is "Open this page: http"`,
	} {
		p := &Process{stderr: output.NewTail(keepStderr, h.Config.Redactor())}
		if _, err := p.stderr.Write([]byte(printed)); err != nil {
			t.Fatal(err)
		}
		got := h.unanswered(&Report{Name: "mine"}, p, hung)
		for _, part := range []string{"the agent did not start in time: the check waited 1m30s", want, "run: drawbridge-relay login mine --config /etc/relay.yaml -- ARGUMENTS", "add it to argv"} {
			if !strings.Contains(got, part) {
				t.Errorf("no %q in %s", part, got)
			}
		}
		if other := h.unanswered(&Report{Name: "mine"}, p, &agents.Error{Cause: agents.Crashed, Reason: "it ended"}); strings.Contains(other, "waited") {
			t.Error(other)
		}
	}
}
