package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
)

// TestCrashesCostAnActionNoPatience: a relay that does not answer is asked again
// for a minute, however often the bridge died with the action in its hands.
func TestCrashesCostAnActionNoPatience(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "LOCAL_ACTION: backup_script"}, func(t *testing.T, w *world, _ *cast) {
		var calls atomic.Int32
		w.relay.Fail = func(point, _ string) error {
			switch {
			case point != "before":
				return nil
			case calls.Add(1) == 1:
				return &bridge.Error{Kind: bridge.RateLimited, Message: "later", RetryAfter: time.Hour}
			case calls.Load() <= 5:
				return bridge.Errorf(bridge.Unavailable, "relay laptop is not reachable")
			}
			return nil
		}
		w.start()
		w.launch("go")
		w.until("asked once", func(tx *bridge.Scene) bool {
			all, err := tx.Commands(bridge.CommandFilter{State: bridge.CommandGranted})
			return err == nil && len(all) == 1 && calls.Load() == 1
		})
		w.stop()
		w.crash("action/laptop/backup_script", 20)
		w.start()
		w.resting()
		if got := w.relay.Log(); len(got) != 1 || calls.Load() != 6 {
			t.Errorf("ran %q after %d calls; events:\n%v", got, calls.Load(), w.events())
		}
	})
}

// crash lets so many processes die with the head of a lane in their hands. The
// engine must have been stopped.
func (w *world) crash(lane string, times int) {
	w.t.Helper()
	s := w.disk.Open()
	now := time.Now().Add(-time.Second)
	err := s.Update(w.t.Context(), func(tx *bridge.Scene) error { return tx.WakeLane(lane, now) })
	for range times {
		works, err := s.Claim(w.t.Context(), bridge.Claim{Now: now, Lease: time.Millisecond, Limit: 1})
		if err != nil || len(works) != 1 || works[0].Lane != lane {
			w.t.Fatalf("claimed %+v, %v", works, err)
		}
		now = now.Add(time.Millisecond)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// TestDeadlyTurnRaisesAnAlarm: a turn at which the bridge dies again and again is
// told to a person, waits, and is not lost.
func TestDeadlyTurnRaisesAnAlarm(t *testing.T) {
	t.Parallel()
	virtual(t, map[string]string{boss: "done"}, func(t *testing.T, w *world, _ *cast) {
		w.start()
		a := w.launch("go")
		w.resting()
		w.cloud.Fail = func(point, _ string) error {
			if point == "before send" {
				return &bridge.Error{Kind: bridge.RateLimited, Message: "later", RetryAfter: time.Hour}
			}
			return nil
		}
		w.say("more")
		w.until("put off", func(tx *bridge.Scene) bool {
			got, err := tx.OpenTurn(a.ID)
			return err == nil && got.Attempts == 1 && got.State == bridge.TurnQueued
		})
		w.stop()
		w.cloud.Fail = nil
		w.crash("agent/"+string(a.ID), 10)
		w.start()
		w.until("an alarm", func(tx *bridge.Scene) bool {
			got, err := tx.Agent(a.ID)
			return err == nil && strings.Contains(got.Trouble, "has failed 10 times")
		})
		wants(t, w.agent().Trouble, "ended without an answer")
		w.resting()
		if got := w.sent(boss); len(got) != 1 {
			t.Errorf("said %q", got)
		}
	})
}
