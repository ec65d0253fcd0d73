package engine_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
)

// uncertainLaunch runs a world in which a v0 launch's answer was lost and the
// agent cannot be found.
func uncertainLaunch(t *testing.T, lose string, test func(t *testing.T, w *world, m bridge.Command)) {
	t.Helper()
	play(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/acme/old, prompt=x", "github.com/acme/old": "done"}), func(t *testing.T, w *world) {
		r := rules
		r.Repos = append(r.Repos[:len(r.Repos):len(r.Repos)], v0Rule)
		w.allow(r)
		var lost atomic.Bool
		w.cloud.Hidden = func(prompt string) bool { return prompt == "x" }
		w.cloud.Unreadable = func(text string) error {
			if w.silent.Load() && text == "x" {
				return bridge.Errorf(bridge.Unavailable, "the Cloud Agents API cannot be reached")
			}
			return nil
		}
		w.cloud.Fail = func(point, text string) error {
			if point == lose && text == "x" && !lost.Swap(true) {
				return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
			}
			return nil
		}
		w.launch("go")
		w.until("uncertain", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandUncertain})
			return err == nil && len(all) == 1
		})
		test(t, w, w.oneCommand(bridge.CommandUncertain))
	})
}

func TestResolveLaunched(t *testing.T) {
	t.Parallel()
	uncertainLaunch(t, "after launch", func(t *testing.T, w *world, m bridge.Command) {
		external := w.cloud.External("x")
		if _, err := w.engine.Resolve(t.Context(), m.ID, engine.Word{External: "no such/id"}); bridge.KindOf(err) != bridge.Invalid {
			t.Errorf("bad id: %v", err)
		}
		if _, err := w.engine.Resolve(t.Context(), m.ID, engine.Word{External: external}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Resolve(t.Context(), m.ID, engine.Word{External: external}); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("resolved twice: %v", err)
		}
		w.reported(m.ID)
		if m := w.oneCommand(bridge.CommandReported); m.Reason != "" {
			t.Errorf("still in doubt: %s", m.Reason)
		}
		if n := w.cloud.Effects("launch github.com/acme/old"); n != 1 {
			t.Errorf("launched %d times", n)
		}
	})
}

func TestResolveNotLaunched(t *testing.T) {
	t.Parallel()
	uncertainLaunch(t, "before launch", func(t *testing.T, w *world, m bridge.Command) {
		if _, err := w.engine.Resolve(t.Context(), m.ID, engine.Word{}); err != nil {
			t.Fatal(err)
		}
		w.reported(m.ID)
		if sent := strings.Join(w.cloud.Log(), "\n"); !strings.Contains(sent, "a person says that it was not launched") {
			t.Errorf("the agent was not told:\n%s", sent)
		}
		if n := w.cloud.Effects("launch github.com/acme/old"); n != 0 {
			t.Errorf("launched %d times", n)
		}
	})
}

// reported waits until an agent was told what came of a command.
func (w *world) reported(id bridge.CommandID) (m bridge.Command) {
	w.t.Helper()
	w.until("reported", func(tx *bridge.Scene) bool {
		var err error
		m, err = tx.Command(id)
		return err == nil && m.State == bridge.CommandReported
	})
	return m
}

// refusesSends lets the API refuse follow-ups while broken, which is true first.
func (w *world) refusesSends() (broken *atomic.Bool) {
	broken = new(atomic.Bool)
	broken.Store(true)
	w.cloud.Fail = func(point, _ string) error {
		if point == "before send" && broken.Load() {
			return bridge.Errorf(bridge.Invalid, "the API does not like this")
		}
		return nil
	}
	return broken
}

func TestReplay(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		broken := w.refusesSends()
		a := w.launch("go")
		failed := w.turnsIn(a.ID, bridge.TurnFailed, 1)[0]
		broken.Store(false)
		if _, err := w.engine.Continue(t.Context(), failed.ID); err != nil {
			t.Fatal(err)
		}
		w.idle(3)
		if sent := strings.Join(w.cloud.Log(), "\n"); !strings.Contains(sent, "executed, exit code 0") {
			t.Errorf("the outcome was lost:\n%s", sent)
		}
		replied := w.turnsIn(a.ID, bridge.TurnReplied, 2)[0]
		if _, err := w.engine.Continue(t.Context(), replied.ID); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("replayed a turn that ran: %v", err)
		}
	})
}

// TestReplayTellsWhatWaitsNow: what an old failed turn carried was told by a later one. Its replay tells the message that waits now,
// and has that message's cause.
func TestReplayTellsWhatWaitsNow(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "LOCAL_ACTION: backup_script"}), func(t *testing.T, w *world) {
		broken := w.refusesSends()
		a := w.launch("go")
		old := w.turnsIn(a.ID, bridge.TurnFailed, 1)[0]
		broken.Store(false)
		if _, err := w.engine.Say(t.Context(), a.ID, "go on"); err != nil {
			t.Fatal(err)
		}
		w.turnsIn(a.ID, bridge.TurnReplied, 2)
		broken.Store(true)
		if err := w.engine.Change(t.Context(), func(tx bridge.Change) error {
			_, err := tx.Notify(bridge.Notice{Agent: a.ID, Cause: bridge.CauseMessage, Text: "a message"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		w.turnsIn(a.ID, bridge.TurnFailed, 2)
		broken.Store(false)
		again, err := w.engine.Continue(t.Context(), old.ID)
		if err != nil || old.Cause != bridge.CauseActionOutcome || again.Cause != bridge.CauseMessage {
			t.Errorf("an old turn of cause %q is replayed with cause %q, %v", old.Cause, again.Cause, err)
		}
		w.turnsIn(a.ID, bridge.TurnReplied, 3)
		if sent := w.sent("github.com/me/agent-env"); !strings.Contains(sent[len(sent)-1], "a message") {
			t.Errorf("the message was not told: %q", sent)
		}
	})
}

// A retry that waits is the replay: the same words are not said twice.
func TestReplayOfATurnThatIsTriedAgainAnyway(t *testing.T) {
	t.Parallel()
	play(t, nil, func(t *testing.T, w *world) {
		var heal atomic.Bool
		w.cloud.Answer = func(_, text string) bridge.Observation {
			if strings.Contains(text, "words") && !heal.Load() {
				return bridge.Observation{State: bridge.RunError}
			}
			return bridge.Observation{State: bridge.RunFinished, Reply: "ok"}
		}
		a := w.launch("go")
		w.idle(1)
		if _, err := w.engine.Say(t.Context(), a.ID, "words"); err != nil {
			t.Fatal(err)
		}
		failed := w.turnsIn(a.ID, bridge.TurnFailed, 1)[0]
		w.turnsIn(a.ID, bridge.TurnQueued, 1)
		heal.Store(true)
		again, err := w.engine.Continue(t.Context(), failed.ID)
		if err != nil {
			t.Fatal(err)
		}
		if again.Seq != 3 {
			t.Errorf("turn %d says it again; turn 3 waits to", again.Seq)
		}
		w.turnsIn(a.ID, bridge.TurnReplied, 2)
		w.idle(3)
		if n := w.cloud.Effects("send"); n != 2 {
			t.Errorf("sent %d times: %q", n, w.cloud.Log())
		}
	})
}

// A webhook that tells of an agent that a person said was never launched raises an alarm.
func TestWebhookOfALaunchThatWasGivenUp(t *testing.T) {
	t.Parallel()
	uncertainLaunch(t, "after launch", func(t *testing.T, w *world, m bridge.Command) {
		if _, err := w.engine.Resolve(t.Context(), m.ID, engine.Word{}); err != nil {
			t.Fatal(err)
		}
		d := bridge.Delivery{Op: m.Child, External: w.cloud.External("x"), Event: "statusChange", Status: "FINISHED", SentAt: "now"}
		if _, err := w.engine.RecordDelivery(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if alarms := w.timeline(bridge.EventAlarm); len(alarms) != 1 || alarms[0].Agent != m.Child {
			t.Errorf("alarms: %+v, want one of agent %s", alarms, m.Child)
		}
	})
}

// What is being said again is not said once more beside it.
func TestReplayOfATurnThatIsBeingSaidAgain(t *testing.T) {
	t.Parallel()
	play(t, nil, func(t *testing.T, w *world) {
		var calls atomic.Int32
		w.cloud.Answer = func(_, text string) bridge.Observation {
			switch {
			case !strings.Contains(text, "words"):
				return bridge.Observation{State: bridge.RunFinished, Reply: "ok"}
			case calls.Add(1) == 1:
				return bridge.Observation{State: bridge.RunCancelled}
			}
			return bridge.Observation{State: bridge.RunRunning}
		}
		a := w.launch("go")
		w.idle(1)
		if _, err := w.engine.Say(t.Context(), a.ID, "words"); err != nil {
			t.Fatal(err)
		}
		failed := w.turnsIn(a.ID, bridge.TurnFailed, 1)[0]
		for range 3 {
			again, err := w.engine.Continue(t.Context(), failed.ID)
			if err != nil || again.Seq != 3 {
				t.Errorf("turn %d says it again, %v", again.Seq, err)
			}
			w.turnsIn(a.ID, bridge.TurnRunning, 1)
		}
	})
}

// A v1 launch can only have made the one agent whose id comes from its operation.
func TestResolveTakesOnlyTheLaunchsOwnAgent(t *testing.T) {
	t.Parallel()
	play(t, script(map[string]string{"github.com/me/agent-env": "SUBAGENT: repo=github.com/me/my-app, prompt=x"}), func(t *testing.T, w *world) {
		w.cloud.Fail = func(point, text string) error {
			if point == "before launch" && text == "x" {
				return bridge.Errorf(bridge.RateLimited, "slow down")
			}
			return nil
		}
		w.launch("go")
		var m bridge.Command
		w.until("waiting to be sent", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandGranted})
			if err != nil || len(all) != 1 {
				return false
			}
			m = all[0]
			return true
		})
		w.stop()
		w.start()
		var own string
		if err := w.engine.Change(t.Context(), func(c bridge.Change) error {
			a, err := c.Agent(m.Child)
			if err != nil {
				return err
			}
			own = bridge.ExternalID(a.OpKey)
			turn, err := c.OpenTurn(a.ID)
			if err != nil {
				return err
			}
			turn.State, turn.DoubtSince, m.State = bridge.TurnUncertain, c.Now(), bridge.CommandUncertain
			return errors.Join(c.UpdateTurn(turn), c.UpdateCommand(m))
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.Resolve(t.Context(), m.ID, engine.Word{External: "bc-somebody-elses"}); bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), own) {
			t.Errorf("another agent's id: %v, want one that names %s", err, own)
		}
		if got, err := w.engine.Resolve(t.Context(), m.ID, engine.Word{External: own}); err != nil || got.State != bridge.CommandConfirmed {
			t.Errorf("its own id: %s, %v", got.State, err)
		}
	})
}

// The id that a person names for a v0 launch is somebody's: the API says whether
// it can be the agent that was granted. A stranger's would be obeyed, or cancelled.
func TestResolveAsksTheAPIAboutAnAgent(t *testing.T) {
	t.Parallel()
	uncertainLaunch(t, "after launch", func(t *testing.T, w *world, m bridge.Command) {
		resolve := func(word engine.Word) error {
			_, err := w.engine.Resolve(t.Context(), m.ID, word)
			return err
		}
		w.launchNamed("other", "go elsewhere")
		w.until("another", func(*bridge.Scene) bool { return w.cloud.External("go elsewhere") != "" })
		for name, tt := range map[string]struct {
			external, want string
		}{
			"nobody's":              {"bc-nobody", "does not know agent bc-nobody"},
			"on another repository": {w.cloud.External("go elsewhere"), `works on "github.com/me/agent-env", but this launch is for "github.com/acme/old"`},
		} {
			if err := resolve(engine.Word{External: tt.external}); bridge.KindOf(err) != bridge.Invalid || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		external := w.cloud.External("x")
		w.silent.Store(true)
		if err := resolve(engine.Word{External: external}); bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(err.Error(), "--unchecked") {
			t.Errorf("asked without success: %v", err)
		}
		if n := w.cloud.Effects("cancel"); n != 0 || w.oneCommand(bridge.CommandUncertain).ID != m.ID {
			t.Errorf("it was believed: %q", w.cloud.Log())
		}
		if err := resolve(engine.Word{External: external, Unchecked: true}); err != nil {
			t.Fatal(err)
		}
		w.silent.Store(false)
		w.reported(m.ID)
	})
}
