package engine_test

import (
	"testing"

	"drawbridge/bridge"
)

// A reminder that cannot be set any more when a person lets it pass is told to the agent.
func TestReminderOverTheCapAtItsApprovalIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(map[string]string{"github.com/me/agent-env": "REMIND: 3d, x\nREMIND: 3d, x"}))
	w.launch("go")
	w.idleOrWaiting()
	m := w.oneCommand(bridge.CommandHeld)
	r := rules
	r.Limits.Reminders = 1
	w.allow(r)
	if m, err := w.engine.Approve(t.Context(), m.ID); err != nil || m.State != bridge.CommandRefused {
		t.Fatalf("%s, %v", m.State, err)
	}
	w.told("the limit is 1")
}

// An agent that only asks for reminders that cannot be set is not answered for ever.
func TestBadRemindersAreNotAnsweredForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(string, string) string { return "REMIND: soon, look" })
	w.launch("go")
	w.idle(4)
}
