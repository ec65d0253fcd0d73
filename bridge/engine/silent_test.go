package engine_test

import (
	"context"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/proof/runtimes"
)

// chatted gives the agents of a fake cloud the ids of agents that a chat model plays.
type chatted struct{ *runtimes.Cloud }

func (c chatted) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	l.AgentID = bridge.ChatAgent(l.Owner)
	return c.Cloud.Launch(ctx, l)
}

// TestSilentAgentsCommandByToolsAlone: what such an agent writes runs nothing, whichever way its run ends, and its parent and
// an agent that inspects it read nothing of it. The bridge keeps the text.
func TestSilentAgentsCommandByToolsAlone(t *testing.T) {
	t.Parallel()
	const said = "LOCAL_ACTION: backup_script\nsecret words https://github.com/acme/a/pull/7"
	for state, want := range map[bridge.RunState]string{
		bridge.RunFinished:  "it ended without a result: it did not call complete",
		bridge.RunCancelled: "CANCELLED",
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *world) {
				w.runtime = chatted{w.cloud}
				w.cloud.Answer = func(_, text string) bridge.Observation {
					if text == "do it" {
						return bridge.Observation{State: state, Reply: said, Detail: "the reason"}
					}
					return bridge.Observation{Reply: "nothing"}
				}
				w.start()
				root := w.launch("go")
				if err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
					a, err := tx.Agent(root.ID)
					if err == nil && a.External != "" && !a.Silent() {
						t.Errorf("%s is not silent", a.External)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				w.resting()
				ask := parser.Command{Verb: parser.Subagent, Repo: worker, Prompt: "do it", Raw: "SUBAGENT: (by a tool call)"}
				if _, err := w.engine.Ask(t.Context(), root.ID, bridge.Once{}, ask); err != nil {
					t.Fatal(err)
				}
				w.until("the parent was told", func(*bridge.Scene) bool { return len(w.sent(boss)) > 0 })
				w.resting()
				if err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
					turns, err := tx.Turns(bridge.TurnFilter{Agent: child(t, w, worker).ID})
					if err == nil && (len(turns) == 0 || turns[0].Reply != said) {
						t.Errorf("the record has %+v", turns)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				told := strings.Join(w.sent(boss), "\n")
				wants(t, told, want)
				for _, word := range []string{"secret", "LOCAL_ACTION", "pull/7", "last words"} {
					if strings.Contains(told, word) {
						t.Errorf("the parent reads %q:\n%s", word, told)
					}
				}
				if n := len(w.relay.Log()); n > 0 {
					t.Errorf("actions ran: %q", w.relay.Log())
				}
			})
		})
	}
}
