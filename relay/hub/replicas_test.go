package hub_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// sharedStore is a store whose writes wake the others, as PostgreSQL's notifications do, and that can be frozen, as a
// process is that was stopped in the middle.
type sharedStore struct {
	bridge.Store
	mu     sync.Mutex // guards others and frozen
	others []*site
	frozen chan struct{}
}

func (s *sharedStore) wait() {
	s.mu.Lock()
	frozen := s.frozen
	s.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// Update implements bridge.Store.
func (s *sharedStore) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	s.wait()
	err := s.Store.Update(ctx, fn, hints...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.others {
		other.Wake()
	}
	return err
}

// View implements bridge.Store.
func (s *sharedStore) View(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	s.wait()
	return s.Store.View(ctx, fn, hints...)
}

// replica is a site with its store.
type replica struct {
	*site
	store *sharedStore
}

// freeze holds everything that the replica wants of the store, until thaw.
func (r *replica) freeze() {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.store.frozen = make(chan struct{})
}

func (r *replica) thaw() {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	if r.store.frozen != nil {
		close(r.store.frozen)
		r.store.frozen = nil
	}
}

// calls counts what waits for any replica.
func (r *replica) calls(t *testing.T, to string) (n int) {
	t.Helper()
	err := r.store.Store.View(t.Context(), func(tx *bridge.Scene) error {
		list, err := tx.WaitingCalls(to)
		n = len(list)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func twoReplicas(t *testing.T) (a, b *replica) {
	t.Helper()
	disk := memstore.NewDisk()
	start := func(name string) *replica {
		r := &replica{store: &sharedStore{Store: disk.Open()}}
		var named atomic.Bool
		r.site = siteOn(t, disk, func(o *hub.Options) {
			o.Store, o.Shared = r.store, true
			o.NewID = func(prefix string) string {
				if !named.Swap(true) { // the replica's own id
					return name
				}
				return bridge.NewID(prefix)
			}
		})
		t.Cleanup(r.thaw) // before the site stops
		return r
	}
	a, b = start("rep_a"), start("rep_b")
	for _, pair := range [][2]*replica{{a, b}, {b, a}} {
		pair[0].store.mu.Lock()
		pair[0].store.others = []*site{pair[1].site}
		pair[0].store.mu.Unlock()
	}
	return a, b
}

func TestOtherReplica(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	m := newDiary("backup")
	connect(t, joined(t, b.site, "laptop"), m, nil)
	a.online(t, "laptop")
	for id, relay := range map[string]string{"op-1": "laptop", "op-2": ""} {
		out, err := a.RunAction(t.Context(), ask(t, "backup", relay, id))
		if err != nil || out.Stdout != "out of backup" || out.ExitCode != 3 {
			t.Errorf("%s: %+v, %v", id, out, err)
		}
	}
	m.set("backup", func(context.Context, wire.Request, func(wire.Output)) wire.Outcome {
		return wire.Outcome{Answer: wire.Refused("backup", "slow down"), Refusal: wire.RefusedRate, RetryMS: 2000}
	})
	if _, err := a.RunAction(t.Context(), ask(t, "backup", "laptop", "op-3")); bridge.KindOf(err) != bridge.RateLimited || bridge.RetryAfter(err) != 2*time.Second {
		t.Errorf("an error from the other replica: %v", err)
	}
	// Revoked here, cut off there.
	if _, err := a.Revoke(t.Context(), "laptop"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other replica cuts the connection", func() bool {
		var r bridge.Relay
		err := b.store.Store.View(t.Context(), func(tx *bridge.Scene) (err error) { r, err = tx.Relay("laptop"); return err })
		return err == nil && r.Replica == ""
	})
	if _, err := b.RunAction(t.Context(), ask(t, "backup", "laptop", "op-4")); bridge.KindOf(err) != bridge.Denied {
		t.Errorf("asked a revoked relay: %v", err)
	}
}

// A key that one replica makes is announced by the other, which holds the connection.
func TestRotateElsewhere(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	m := newDiary("a")
	path := joined(t, b.site, "laptop")
	connect(t, path, m, nil)
	a.online(t, "laptop")
	first := keyOf(t, path)
	if _, err := a.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the relay trusts the new key", func() bool { return keyOf(t, path) != first })
}

// The replica that holds the connection is gone before it took the call: nothing was sent.
func TestReplicaGoneBefore(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	connect(t, joined(t, b.site, "laptop"), newDiary("a"), nil)
	a.online(t, "laptop")
	b.stop()
	if _, err := a.RunAction(t.Context(), ask(t, "a", "laptop", "op-1")); bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) {
		t.Errorf("asked a replica that ended: %v", err)
	}
}

// The caller gives up before the call was taken: it is withdrawn, and nothing is sent later.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	m := newDiary("a")
	connect(t, joined(t, b.site, "laptop"), m, nil)
	a.online(t, "laptop")
	b.freeze()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := a.RunAction(ctx, ask(t, "a", "laptop", "op-1"))
		result <- err
	}()
	eventually(t, "the call waits", func() bool { return a.calls(t, "rep_b") == 1 })
	cancel()
	if err := <-result; bridge.IsUnclear(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("withdrawn: %v", err)
	}
	b.thaw()
	b.Wake()
	if _, err := b.RunAction(t.Context(), ask(t, "a", "laptop", "op-2")); err != nil {
		t.Fatal(err)
	}
	if len(m.requests()) != 1 {
		t.Errorf("the relay got %+v", m.requests())
	}
}
