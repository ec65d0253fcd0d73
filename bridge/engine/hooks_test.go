package engine_test

import (
	"testing"

	"drawbridge/bridge"
)

// TestDeliveries: a signed webhook may name its own operation's agent, or one that nobody knows while the launch is in doubt,
// and decides nothing but that the API is asked.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	uncertainLaunch(t, "after launch", func(t *testing.T, w *world, m bridge.Command) {
		main, err := w.engine.FindAgent(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		deliver := func(op bridge.AgentID, external, event, status, at string) (string, error) {
			return w.engine.RecordDelivery(t.Context(), bridge.Delivery{Op: op, External: external, Event: event, Status: status, SentAt: at})
		}
		for _, tt := range []struct {
			name                        string
			op                          bridge.AgentID
			external, event, status, at string
			verdict                     string
			kind                        bridge.ErrorKind
		}{
			{"unknown operation", "agt_none", main.External, "statusChange", "FINISHED", "1", "", bridge.NotFound},
			{"another agent than the bound one", main.ID, "bc-other", "statusChange", "FINISHED", "1", "", bridge.Conflict},
			{"in doubt, and the agent of another operation", m.Child, main.External, "statusChange", "FINISHED", "1", "", bridge.Conflict},
			{"unknown event", main.ID, main.External, "renamed", "", "1", bridge.VerdictStored, ""},
			{"unknown status", main.ID, main.External, "statusChange", "PAUSED", "1", bridge.VerdictStored, ""},
			{"own agent", main.ID, main.External, "statusChange", "FINISHED", "1", bridge.VerdictAccepted, ""},
			{"the same again", main.ID, main.External, "statusChange", "FINISHED", "1", bridge.VerdictDuplicate, ""},
			{"of a later run", main.ID, main.External, "statusChange", "FINISHED", "2", bridge.VerdictAccepted, ""},
		} {
			if verdict, err := deliver(tt.op, tt.external, tt.event, tt.status, tt.at); verdict != tt.verdict && err == nil || bridge.KindOf(err) != tt.kind {
				t.Errorf("%s: verdict %q, error %v; want %q, kind %q", tt.name, verdict, err, tt.verdict, tt.kind)
			}
		}
		if verdict, err := deliver(m.Child, w.cloud.External("x"), "statusChange", "ERROR", "1"); verdict != bridge.VerdictAccepted || err != nil {
			t.Fatalf("the launch in doubt: %q, %v", verdict, err)
		}
		w.until("bound", func(tx *bridge.Scene) bool {
			a, err := tx.Agent(m.Child)
			return err == nil && a.External == w.cloud.External("x") && a.State == bridge.AgentDone // FINISHED is the API's word
		})
		if alarms := w.timeline(bridge.EventAlarm); len(alarms) > 0 {
			t.Errorf("alarms: %+v", alarms)
		}
	})
}
