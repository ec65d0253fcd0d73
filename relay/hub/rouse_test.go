package hub_test

import (
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
)

// waits puts a request for an action into its lane, as it stands when its relay was not there.
func waits(t *testing.T, s bridge.Store, lane string) {
	t.Helper()
	err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		return tx.Enqueue(bridge.Work{Lane: lane, Kind: bridge.WorkAction, Ref: lane, Due: time.Now().Add(time.Hour)})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// due returns the lanes of what can be taken up now, and takes it up.
func due(t *testing.T, s bridge.Store) map[string]bool {
	t.Helper()
	lanes := map[string]bool{}
	works, err := s.Claim(t.Context(), bridge.Claim{Now: time.Now(), Lease: time.Minute, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range works {
		lanes[w.Lane] = true
	}
	return lanes
}

// What waits for a relay is due as soon as the relay has connected, to whichever replica, and nothing else is. By then the relay
// is there to be asked.
func TestConnectingRouses(t *testing.T) {
	t.Parallel()
	disk := memstore.NewDisk()
	store := disk.Open()
	waiting := map[string]bool{bridge.ActionLane("laptop", "backup"): true, bridge.ActionLane("", "lock"): true, "agent/laptop": true}
	for lane := range waiting {
		waits(t, store, lane)
	}
	for _, other := range []string{bridge.ActionLane("desk", "backup"), bridge.ActionLane("laptop", "unlisted"), bridge.ActionLane("", "other"), "agent/desk"} {
		waits(t, store, other)
	}
	woken := make(chan struct{}, 2)
	s := siteOn(t, disk, func(o *hub.Options) {
		o.Woken = func() { woken <- struct{}{} }
		o.Lanes = func(_ *bridge.Scene, relay string) ([]string, error) { return []string{"agent/" + relay}, nil }
	})
	path := joined(t, s, "laptop")
	d := newDiary("backup", "lock")
	stop := connect(t, path, d, nil)
	<-woken
	if out, err := s.RunAction(t.Context(), ask(t, "lock", "", "op-1")); err != nil || out.Status != bridge.ActionExecuted {
		t.Errorf("what is tried at once meets %+v, %v", out, err)
	}
	got := due(t, store)
	for lane := range waiting {
		if !got[lane] {
			t.Errorf("%s is not due; due is %v", lane, got)
		}
	}
	if len(got) != len(waiting) {
		t.Errorf("due is %v", got)
	}
	stop()

	// Again with each connection.
	connect(t, path, d.clone(), func(o *link.Options) { o.URL = s.url })
	<-woken
}
