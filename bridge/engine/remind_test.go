package engine_test

import (
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
)

// TestReminderComesBack: once, at its time, over a restart.
func TestReminderComesBack(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "REMIND: 2h, tea"}, func(t *testing.T, w *world, _ *cast) {
		w.start()
		w.launch("go")
		w.resting()
		begun := time.Now()
		w.restart()
		w.until("reminded", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
		if after := time.Since(begun); after < 119*time.Minute || after > 2*time.Hour {
			t.Errorf("after %s", after)
		}
		w.resting()
		wants(t, w.sent(boss)[0], "reminder that you set for 2h:\n| tea")
		if got := w.commands(); len(got) != 1 || !strings.HasSuffix(got[0], "reported") {
			t.Errorf("commands %q", got)
		}
	})
}

// TestReminderCap: more than the limit are refused until one has come back.
func TestReminderCap(t *testing.T) {
	t.Parallel()
	virtual(t, nil, func(t *testing.T, w *world, _ *cast) {
		w.cloud.Answer = func(_, text string) bridge.Observation {
			if strings.HasSuffix(text, "go") {
				return bridge.Observation{Reply: "REMIND: 10m, one\nREMIND: 20m, two\nREMIND: 30m, three"}
			}
			return bridge.Observation{Reply: "ok"}
		}
		r := rules
		r.Limits.Reminders = 2
		w.allow(r)
		w.start()
		w.launch("go")
		w.until("told", func(*bridge.Scene) bool { return len(w.sent(boss)) == 1 })
		wants(t, w.sent(boss)[0], "line 3 (REMIND): refused: this agent has 2 reminders waiting and the limit is 2 (limits.reminders)")
		w.until("both came", func(*bridge.Scene) bool { return len(w.sent(boss)) == 3 })
		w.resting()
		w.say("let us go")
		w.until("two more", func(*bridge.Scene) bool {
			all := strings.Join(w.sent(boss), "\n")
			return strings.Count(all, "| one") == 2 && strings.Count(all, "| two") == 2
		})
		if all := strings.Join(w.sent(boss), "\n"); strings.Contains(all, "| three") {
			t.Errorf("told %s", all)
		}
	})
}

// TestCancelReminder: it never comes back, and the agent reads of it in its next turn.
func TestCancelReminder(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "REMIND: 10m, tea\nLOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		w.start()
		w.launch("go")
		w.resting()
		m := w.oneCommand(bridge.CommandGranted)
		got, err := w.engine.CancelReminder(t.Context(), m.ID)
		if err != nil || got.State != bridge.CommandFailed {
			t.Fatalf("%s, %v", got.State, err)
		}
		turns := len(w.turns())
		var action bridge.Command
		w.until("nothing is due", func(tx *bridge.Scene) bool {
			next, err := w.engine.NextDue(t.Context())
			all, err2 := tx.Commands(bridge.CommandFilter{})
			action = all[0]
			return err == nil && err2 == nil && next.IsZero()
		})
		if n := len(w.turns()); n != turns {
			t.Errorf("it got %d turns more", n-turns)
		}
		for name, id := range map[string]bridge.CommandID{"again": m.ID, "no reminder": action.ID} {
			if _, err := w.engine.CancelReminder(t.Context(), id); bridge.KindOf(err) != bridge.Conflict {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := w.engine.CancelReminder(t.Context(), "cmd_none"); bridge.KindOf(err) != bridge.NotFound {
			t.Errorf("unknown: %v", err)
		}
		w.say("what else?")
		w.resting()
		all := strings.Join(w.sent(boss), "\n")
		wants(t, all, "line 1 of your turn (REMIND 10m): a person cancelled the reminder")
		if strings.Contains(all, "| tea") {
			t.Errorf("told %s", all)
		}
	})
}

// A reminder that was held and is approved when there is no room is refused, and
// the agent hears of it at once.
func TestApprovedReminderWithoutRoom(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "REMIND: 10h, tea\nREMIND: 10h, tea"}, func(t *testing.T, w *world, _ *cast) {
		r := rules
		r.Limits.Reminders = 1
		w.allow(r)
		w.start()
		w.launch("go")
		w.resting()
		held, before := w.oneCommand(bridge.CommandHeld), len(w.sent(boss))
		got, err := w.yes(held.ID)
		if err != nil || got.State != bridge.CommandRefused {
			t.Fatalf("%s, %v", got.State, err)
		}
		begun := time.Now()
		w.until("told", func(*bridge.Scene) bool { return len(w.sent(boss)) == before+1 })
		if after := time.Since(begun); after > time.Minute {
			t.Errorf("after %s", after)
		}
		wants(t, w.sent(boss)[before], "the limit is 1 (limits.reminders)")
	})
}
