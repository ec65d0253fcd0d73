package engine_test

import (
	"slices"
	"strings"
	"testing"

	"drawbridge/bridge"
)

// The end of a run names the turns that it came of: a subagent's first one the turn that launched it, and the turn that
// tells its result the subagent's. Traces link them.
func TestARunNamesWhatItCameOf(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{
		"github.com/me/agent-env": "I delegate.\nSUBAGENT: repo=github.com/me/my-app, prompt=Add it",
		"github.com/me/my-app":    "Added it.",
	}), func(t *testing.T, w *world) {
		root := w.launch("Ship it")
		var of map[bridge.AgentID][]bridge.Event
		w.until("the root was told", func(tx *bridge.Scene) bool {
			of = map[bridge.AgentID][]bridge.Event{}
			all, err := tx.Events(0, 1000)
			for _, e := range all {
				if e.Kind == bridge.EventCompleted {
					of[e.Agent] = append(of[e.Agent], e)
				}
			}
			return err == nil && len(of[root.ID]) == 2
		})
		first, second := of[root.ID][0], of[root.ID][1]
		delete(of, root.ID)
		if first.Fields["after"] != "" || len(of) != 1 {
			t.Fatalf("the first run came of %q; %d subagents", first.Fields["after"], len(of))
		}
		for _, runs := range of {
			if len(runs) != 1 || runs[0].Fields["after"] != string(first.Turn) {
				t.Errorf("the subagent's run came of %q, want its launch in %s", runs[0].Fields["after"], first.Turn)
			}
			if !slices.Contains(strings.Fields(second.Fields["after"]), string(runs[0].Turn)) {
				t.Errorf("the turn that tells the result came of %q, want %s", second.Fields["after"], runs[0].Turn)
			}
		}
	})
}

// ended are the events of a kind, once there are n of them.
func (w *world) ended(kind string, n int) (found []bridge.Event) {
	w.t.Helper()
	w.until("the turns ended", func(*bridge.Scene) bool {
		found = w.timeline(kind)
		return len(found) == n
	})
	return found
}

// A turn that mail caused names the turn that wrote it. The bridge's and a person's messages have no turn.
func TestARunNamesTheSenderOfItsMail(t *testing.T) {
	t.Parallel()
	play(t, script(nil), func(t *testing.T, w *world) {
		sender, reader := w.launchNamed("sender", "Write"), w.launchNamed("reader", "Read")
		wrote := w.ended(bridge.EventCompleted, 2)[0].Turn
		send := func(id bridge.MessageID, from bridge.AgentID, turn bridge.TurnID) {
			if err := w.engine.Change(t.Context(), func(tx bridge.Change) error {
				if err := tx.InsertMessage(bridge.Message{ID: id, Kind: bridge.MailDirect, From: from, FromName: "sender", To: []bridge.AgentID{reader.ID}, Text: "news", Turn: turn, CreatedAt: tx.Now()}); err != nil {
					return err
				}
				_, err := tx.Notify(bridge.Notice{Agent: reader.ID, Cause: bridge.CauseMessage, Text: "A message came.", Untrusted: "news", Message: id})
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		send("msg_1", sender.ID, wrote)
		if last := w.ended(bridge.EventCompleted, 3)[2]; last.Agent != reader.ID || last.Fields["after"] != string(wrote) {
			t.Errorf("the turn that mail caused came of %q, want %s", last.Fields["after"], wrote)
		}
		send("msg_2", bridge.User, "")
		if last := w.ended(bridge.EventCompleted, 4)[3]; last.Fields["after"] != "" {
			t.Errorf("the turn that a person's message caused came of %q", last.Fields["after"])
		}
	})
}

// A turn that fails without a completion says so itself: how long it was out, why it failed, and what it came of.
func TestATurnWithoutACompletionTellsItsEnd(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=Add it"}), func(t *testing.T, w *world) {
		w.cloud.Fail = func(point, text string) error {
			if point == "before launch" && strings.Contains(text, "Add it") {
				return bridge.Errorf(bridge.Invalid, "this repository is not installed")
			}
			return nil
		}
		root := w.launch("Ship it")
		failed := w.ended(bridge.EventTurnFailed, 1)[0]
		first := w.ended(bridge.EventCompleted, 2)[0]
		if failed.Agent == root.ID || failed.Fields["error"] != string(bridge.Invalid) || failed.Fields["duration_ms"] == "" || failed.Fields["after"] != string(first.Turn) {
			t.Errorf("the failed launch says %v, want error invalid after %s", failed.Fields, first.Turn)
		}
	})
}

// The end of a run names the tokens that the run used, where the API tells them.
func TestTheEndOfARunNamesItsTokens(t *testing.T) {
	t.Parallel()
	for name, spent := range map[string]*bridge.Tokens{"told": {Input: 1, Output: 2, CacheWrite: 3, CacheRead: 4}, "not told": nil} {
		play(t, script(nil), func(t *testing.T, w *world) {
			w.cloud.Inspected = func(string) (bridge.Evidence, error) {
				return bridge.Evidence{Usage: &bridge.Usage{Tokens: 500}, Spent: spent}, nil
			}
			w.launch("Ship it")
			got := w.ended(bridge.EventCompleted, 1)[0].Fields
			for key, want := range map[string]string{"input_tokens": "1", "output_tokens": "2", "cache_write_tokens": "3", "cache_read_tokens": "4"} {
				if spent == nil {
					want = ""
				}
				if got[key] != want {
					t.Errorf("%s: %s is %q, want %q", name, key, got[key], want)
				}
			}
		})
	}
}
