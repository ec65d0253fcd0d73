package engine_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/policy"
)

// heldCommand waits for the one command that waits for a person with a reason.
func (w *world) heldCommand(reason string) (m bridge.Command) {
	w.t.Helper()
	w.until("held: "+reason, func(tx *bridge.Scene) bool {
		all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandHeld})
		if err != nil || len(all) != 1 || !strings.Contains(all[0].Reason, reason) {
			return false
		}
		m = all[0]
		return true
	})
	return m
}

func (w *world) question(id bridge.CommandID) bridge.Question {
	w.t.Helper()
	q, err := w.engine.Question(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return q
}

// yes approves a held command as it is shown now.
func (w *world) yes(id bridge.CommandID) (bridge.Command, error) {
	w.t.Helper()
	q, err := w.engine.Question(w.t.Context(), id)
	if err != nil {
		return bridge.Command{}, err
	}
	return w.engine.Approve(w.t.Context(), id, q.Hash)
}

func (w *world) approve(m bridge.Command) {
	w.t.Helper()
	if _, err := w.yes(m.ID); err != nil {
		w.t.Fatal(err)
	}
}

// ranOnce waits until the agent was told what came of a command, which ran once.
func (w *world) ranOnce(m bridge.Command) bridge.Command {
	w.t.Helper()
	m = w.reported(m.ID)
	if got := w.relay.Log(); len(got) != 1 {
		w.t.Errorf("it ran %d times", len(got))
	}
	return m
}

func definition(letter string) string { return strings.Repeat(letter, 64) }

// The relay wants the operator's word: the command is held for it, the word counts for the definition that was shown, and a
// definition that changed meanwhile is asked about again. Over a restart as well.
func TestRelayWantsApproval(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		var now atomic.Value
		now.Store(definition("a"))
		w.relay.Wants = func(string) string { return now.Load().(string) }
		w.launch("go")
		m := w.heldCommand("definition aaaaaaaaaaaa")
		if m.Code != "relay_needs_approval" || m.Approved || !strings.Contains(m.Reason, "it would run /bin/backup_script") {
			t.Errorf("%+v", m)
		}
		w.restart()
		now.Store(definition("b")) // somebody changed the action after the question
		w.approve(m)
		m = w.heldCommand("definition bbbbbbbbbbbb")
		if len(w.relay.Log()) != 0 {
			t.Fatal("it ran with an approval of another definition")
		}
		w.approve(m)
		w.ranOnce(m)
	})
}

// offer lets the relay say what it would run.
func (w *world) offer(offer bridge.RelayOffer) {
	w.t.Helper()
	err := w.engine.Change(w.t.Context(), func(tx bridge.Change) error {
		if err := tx.PutRelay(bridge.Relay{Name: "laptop", State: bridge.RelayEnrolled}); err != nil {
			return err
		}
		return tx.PutOffers("laptop", []bridge.RelayOffer{offer})
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// One word serves both gates when the relay has told beforehand what it wants, and the person sees what that is. The agent does
// not. When the relay offers something else between the look and the word, the word counts for nothing and the person looks again.
func TestOneApprovalForBothGates(t *testing.T) {
	t.Parallel()
	shown := bridge.RelayOffer{Action: "backup_script", Approval: "each", Bridge: true, Definition: definition("a"), Shows: "it would run /bin/backup --all"}
	blind, other, same := shown, shown, shown
	blind.Shows = ""
	other.Definition = definition("b")
	same.Shows = "it would run /bin/something else" // under the same definition
	once := policy.Approval{Mode: policy.ApprovalOnce, For: time.Hour}
	for _, c := range []struct {
		name     string
		rule     policy.Approval
		offer    bridge.RelayOffer
		shows    string
		askAgain bool
	}{
		{"shown", policy.Approval{Mode: policy.ApprovalEach}, shown, "aaaaaaaaaaaa: it would run /bin/backup --all", false},
		{"shown, once", once, shown, "aaaaaaaaaaaa: it would run /bin/backup --all", false},
		{"not shown", policy.Approval{Mode: policy.ApprovalEach}, blind, "nothing that the bridge may approve", true},
		{"changed since", policy.Approval{Mode: policy.ApprovalEach}, other, "bbbbbbbbbbbb: it would run /bin/backup --all", true},
		{"other words since", policy.Approval{Mode: policy.ApprovalEach}, same, "it would run /bin/something else", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
				r := rules
				r.Actions = []policy.ActionRule{{ID: "backup_script", Relay: "laptop", Approval: c.rule}}
				w.allow(r)
				w.relay.Wants = func(string) string { return definition("a") }
				w.offer(c.offer)
				w.launch("go")
				m := w.heldCommand("approval")
				q := w.question(m.ID)
				if !strings.Contains(words.Question(q), c.shows) {
					t.Fatalf("the person reads %s", words.Question(q))
				}
				w.offer(shown) // nobody was shown this one
				_, err := w.engine.Approve(t.Context(), m.ID, q.Hash)
				if c.askAgain != (bridge.KindOf(err) == bridge.Conflict) || (!c.askAgain && err != nil) {
					t.Fatalf("the word on what was shown: %v", err)
				}
				if c.askAgain {
					w.approve(m)
				}
				w.ranOnce(m)
				told := w.sent("github.com/me/agent-env")
				if len(told) == 0 || strings.Contains(strings.Join(told, "\n"), "/bin/backup") {
					t.Errorf("the agent reads %q", told)
				}
			})
		})
	}
}

// Denied is refused, and a relay that is never content is not asked about without end.
func TestApprovalThatDoesNotHelp(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		w.relay.Wants = func(string) string { return definition("a") }
		w.launch("go")
		m := w.heldCommand("definition")
		if _, err := w.engine.Deny(t.Context(), m.ID, "no"); err != nil {
			t.Fatal(err)
		}
		w.until("refused and told", func(tx *bridge.Scene) bool {
			c, err := tx.Command(m.ID)
			return err == nil && c.State == bridge.CommandReported && c.Code == "denied"
		})
		if got := w.relay.Log(); len(got) != 0 {
			t.Errorf("it ran %d times", len(got))
		}
	})
}

// A person at the relay's machine may answer what the operator here was asked: then the relay is asked again, once. Another relay
// cannot say so, and it is no word for what the allowlist wants the operator's for.
func TestAnsweredAtTheMachine(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("the allowlist wants a word %t", own), func(t *testing.T) {
			t.Parallel()
			play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
				r := rules
				r.Actions = []policy.ActionRule{{ID: "backup_script", Relay: "laptop"}}
				if own {
					r.Actions[0].Approval = policy.Approval{Mode: policy.ApprovalEach}
				}
				w.allow(r)
				var yes atomic.Bool
				w.relay.Wants = func(string) string {
					if yes.Load() {
						return ""
					}
					return definition("a")
				}
				w.launch("go")
				if own {
					w.approve(w.heldCommand("approval"))
				}
				m := w.heldCommand("definition aaaaaaaaaaaa")
				answered := func(relay string) {
					t.Helper()
					if err := w.engine.RelayAnswered(t.Context(), relay, m.OpKey); err != nil {
						t.Fatal(err)
					}
				}
				yes.Store(true)
				answered("other")
				if got := w.heldCommand("definition aaaaaaaaaaaa"); got.ID != m.ID {
					t.Error("another relay let it go")
				}
				answered("laptop")
				answered("laptop") // it says so until it is asked again
				if own {
					w.approve(w.heldCommand("definition aaaaaaaaaaaa"))
				}
				if got := w.ranOnce(m); got.Approved != own {
					t.Errorf("approved: %v", got.Approved)
				}
				answered("laptop")
				w.ranOnce(m)
			})
		})
	}
}
