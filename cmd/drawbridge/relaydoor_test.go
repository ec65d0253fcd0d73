package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
)

// TestRelayDoor: a relay speaks for the agents that it hosts and for no others, whatever session it names, and an agent whose launch is
// not on record yet is waited for.
func TestRelayDoor(t *testing.T) {
	t.Parallel()
	store := memstore.NewDisk().Open()
	insert := func(id, runtime, external string) error {
		return store.Update(t.Context(), func(tx *bridge.Scene) error {
			return tx.InsertAgent(bridge.Agent{ID: bridge.AgentID(id), Name: strings.ReplaceAll(id, "_", "-"), Root: bridge.AgentID(id), Runtime: runtime, External: external, State: bridge.AgentIdle})
		})
	}
	for _, a := range [][3]string{{"agt_laptop", "code", "bc-1"}, {"agt_tower", "other", "bc-2"}, {"agt_cloud", bridge.CloudRuntime, "bc-3"}, {"agt_script", "script", "bc-4"}} {
		if err := insert(a[0], a[1], a[2]); err != nil {
			t.Fatal(err)
		}
	}
	hosts := map[string]string{"code": "laptop", "other": "tower"}
	door := relayDoor{store: store, hosts: func(runtime string) string { return hosts[runtime] }}
	for _, c := range []struct{ relay, session, want string }{
		{"laptop", "bc-1", "agt_laptop"}, {"tower", "bc-2", "agt_tower"},
		{"laptop", "bc-2", ""}, {"tower", "bc-1", ""}, {"laptop", "bc-3", ""}, {"laptop", "bc-4", ""}, {"", "bc-3", ""}, {"laptop", "bc-9", ""}, {"laptop", "agt_laptop", ""},
	} {
		got, err := door.Agent(t.Context(), c.relay, c.session)
		if string(got) != c.want || (err == nil) != (c.want != "") || err != nil && bridge.KindOf(err) != bridge.Denied {
			t.Errorf("%s %s: %q, %v", c.relay, c.session, got, err)
		}
	}
	door.bindFor = time.Hour
	found := make(chan bridge.AgentID, 1)
	go func() {
		id, err := door.Agent(t.Context(), "laptop", "bc-5")
		if err != nil {
			t.Error(err)
		}
		found <- id
	}()
	if err := insert("agt_new", "code", "bc-5"); err != nil {
		t.Fatal(err)
	}
	if id := <-found; id != "agt_new" {
		t.Errorf("an agent that was launched just now: %q", id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := door.Agent(ctx, "laptop", "bc-9"); bridge.KindOf(err) != bridge.Unavailable {
		t.Errorf("given up: %v", err)
	}
}
