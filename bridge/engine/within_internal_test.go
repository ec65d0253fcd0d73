package engine

import (
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/runtimes"
	"drawbridge/parser"
)

// TestHeldLaunchSaysWhoseWorkspace: a person who approves such a launch sees that the agent works in its parent's workspace.
func TestHeldLaunchSaysWhoseWorkspace(t *testing.T) {
	t.Parallel()
	hold(t, func(w *court) {
		w.c.e.o.Homes = runtimes.Homes{Place: func(string) string { return "laptop" }}
		a, err := w.c.Agent("agt_1")
		w.must(err)
		a.Runtime, a.API, a.Repo = "local", "", "github.com/me/app"
		w.must(w.c.UpdateAgent(a))
		cmd := parser.Command{Verb: parser.Subagent, Repo: "github.com/me/app", Prompt: "fix it", Role: "worker", Name: "kid"}
		own := w.question(w.ask(cmd).ID)
		cmd.Shared = true
		q := w.question(w.ask(cmd).ID)
		if !effectHas(q, "workspace", "that of main") || effectHas(own, "workspace", "that of main") || q.Hash == own.Hash {
			t.Errorf("%v and %v", q.Effect, own.Effect)
		}
		for role, want := range map[string]bool{"worker": false, bridge.RoleReviewer: true} {
			cmd.Role = role
			kid := bridge.Agent{ID: "agt_kid", Command: w.ask(cmd).ID, Parent: "agt_1", Runtime: "local", Repo: "github.com/me/app"}
			home, err := w.c.e.o.Homes.Home(w.c.Scene, kid)
			if err != nil || home.ReadOnly != want || home.Within == nil || home.Within.Name != "main" {
				t.Errorf("a %s works in %+v, %v", role, home, err)
			}
		}
	})
}
