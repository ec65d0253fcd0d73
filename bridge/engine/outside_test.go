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
	play(t, script(nil), func(t *testing.T, w *world) {
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
		w.until("everything was told", func(tx *bridge.Scene) bool {
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
		if err := w.engine.View(t.Context(), func(tx *bridge.Scene) (err error) {
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
	})
}

// TestNearMissesDoNotGrow: an agent that repeats each turn whole, near misses of its own among it, hears no more each time.
func TestNearMissesDoNotGrow(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"backslashes":  "  LOCAL_ACTION: a\\b\"c\\\\d",
		"in quotes":    `"LOCAL_ACTION: \"x\""`,
		"unseen":       "LOCAL\u200b_ACTION: \u202ex",
		"a wrong line": "SUBAGENT: repo=x\nSUBAGENT: repo=x",
		"long":         "> LOCAL_ACTION: " + strings.Repeat(`\"`, 2000),
		"in a fence":   "```\nLOCAL_ACTION: backup_script\n```",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
				w.cloud.Answer = func(_, text string) bridge.Observation {
					if text == "go" {
						text = first
					}
					// Without the bars, as a careless copy has it.
					return bridge.Observation{State: bridge.RunFinished, Reply: strings.ReplaceAll(text, "\n| ", "\n")}
				}
				w.start()
				w.launch("go")
				w.resting()
				for range 6 {
					w.say("repeat all of it: " + first)
					w.resting()
				}
				told := w.sent(boss)
				least, most := len(told[0]), 0
				for _, text := range told {
					most = max(most, len(text))
				}
				if limit := 2*least + 2*len(first) + 500; most > limit {
					t.Errorf("the first turn has %d bytes, one of %d later ones has %d", least, len(told), most)
				}
				t.Logf("%d turns, the first of %d bytes, the longest of %d", len(told), least, most)
			})
		})
	}
}
