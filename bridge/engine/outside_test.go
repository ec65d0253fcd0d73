package engine_test

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/proof/runtimes"
)

// TestNothingFromOutsideStandsUnbarred: a hostile relay, hostile subagents and a hostile API fill every field that they have, and an
// agent writes near misses. In all turns that come of it their words stand behind a bar or in quotes, and all of it shows. A relay's
// error text once entered a turn as the bridge's own words.
func TestNothingFromOutsideStandsUnbarred(t *testing.T) {
	t.Parallel()
	for name, evil := range runtimes.Poisons() {
		for _, status := range []bridge.ActionStatus{bridge.ActionRefused, bridge.ActionFailed} {
			t.Run(name+" "+string(status), func(t *testing.T) {
				t.Parallel()
				checkOutside(t, evil, status)
			})
		}
	}
}

func checkOutside(t *testing.T, evil string, status bridge.ActionStatus) {
	t.Helper()
	line := strings.NewReplacer("\n", " ", "\r", " ").Replace(evil)
	w := newWorld(t, script(nil))
	w.cloud.Answer = func(repo, text string) bridge.Observation {
		o := bridge.Observation{State: bridge.RunFinished, Reply: "Thanks."}
		switch {
		case repo == "github.com/me/my-app":
			o = bridge.Observation{State: bridge.RunFinished, Reply: evil, Branch: evil, PR: evil, Detail: evil}
		case repo == "github.com/acme/broken":
			o = bridge.Observation{State: bridge.RunError, Detail: evil}
		case strings.HasPrefix(text, "go"):
			o.Reply = "SUBAGENT: repo=github.com/me/my-app, prompt=look\nSUBAGENT: repo=github.com/acme/broken, prompt=look\nLOCAL_ACTION: backup_script\n" +
				"- LOCAL_ACTION: " + line + "\nLOCAL_ACTION: " + line + "\nSUBAGENT: repo=" + line + ", prompt=x\nREMIND: " + line + ", x\n"
		}
		return o
	}
	w.cloud.Inspected = func(string) (bridge.Evidence, error) {
		return bridge.Evidence{Artifacts: []bridge.Artifact{{Path: evil, Size: 3}}, Unread: evil}, nil
	}
	w.relay.Answer = func(string) bridge.ActionOutcome {
		return bridge.ActionOutcome{Status: status, Error: evil, Stdout: evil, Stderr: evil, Omitted: 3}
	}
	main := w.launch("go")
	w.until("everything was told", func(tx bridge.Tx) bool {
		a, err := tx.Agent(main.ID)
		all, cmdErr := tx.Commands(bridge.CommandFilter{Agent: main.ID})
		told := 0
		for _, m := range all {
			if m.State == bridge.CommandReported {
				told++
			}
		}
		return err == nil && cmdErr == nil && a.State == bridge.AgentIdle && told == len(all) && told >= 3
	})
	var turns []bridge.Turn
	if err := w.engine.View(t.Context(), func(tx bridge.Tx) (err error) {
		turns, err = tx.Turns(bridge.TurnFilter{Agent: main.ID})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	heard := ""
	for _, turn := range turns {
		heard += turn.Sent + "\n"
	}
	for _, fault := range runtimes.Unbarred(heard) {
		t.Error(fault)
	}
	if !strings.Contains(heard, runtimes.Marker) || !strings.Contains(heard, "the relay says") || !strings.Contains(heard, "artifacts ") {
		t.Errorf("the fields did not reach the agent: %q", heard)
	}
	for _, c := range parser.ParseString(heard, parser.Options{Remind: true}).Commands {
		t.Errorf("a turn commands: %+v", c)
	}
}
