package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// asker is a machine at which people are asked, or which says so.
type asker struct {
	*diary
	questions []wire.Asked // guarded by state
}

// Asking implements wire.Asker.
func (a *asker) Asking() ([]wire.Asked, <-chan struct{}) {
	a.state.Lock()
	defer a.state.Unlock()
	return append([]wire.Asked(nil), a.questions...), a.changed
}

func (a *asker) say(ids ...string) {
	a.state.Lock()
	defer a.state.Unlock()
	a.questions = nil
	for _, id := range ids {
		a.questions = append(a.questions, wire.Asked{ID: id, AgeMS: 3000, LeftMS: 60_000})
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// asked reads the question about a request, as any replica does, or nil.
func asked(t *testing.T, store bridge.Store, request string) *bridge.MachineQuestion {
	t.Helper()
	var q bridge.MachineQuestion
	err := store.View(t.Context(), func(tx *bridge.Scene) (err error) { q, err = tx.MachineQuestion(request); return err })
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return &q
}

// hold sends requests that wait at their relay, and returns when they are there.
func (s *site) hold(t *testing.T, relay string, a *asker, ids ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for _, id := range ids {
		go func() {
			if _, err := s.RunAction(ctx, ask(t, "a", relay, id)); err != nil && !bridge.IsUnclear(err) {
				t.Errorf("%s was not sent: %v", id, err)
			}
		}()
		eventually(t, id+" is there", func() bool {
			return t.Failed() || slices.ContainsFunc(a.requests(), func(r wire.Request) bool { return r.ID == id })
		})
	}
}

// The bridge knows about which requests a person at a machine is asked, over a connection that was lost too, and when the questions
// are over. The two clocks may differ.
func TestWhatMachinesAsk(t *testing.T) {
	t.Parallel()
	disk := memstore.NewDisk()
	s := siteOn(t, disk, nil)
	other := disk.Open()
	path := joined(t, s, "laptop")
	a := &asker{diary: newDiary("a")}
	_, finish := a.busy()
	defer finish()
	connect(t, path, a, func(o *link.Options) { o.Now = s.clock.now })
	s.online(t, "laptop")
	s.hold(t, "laptop", a, "op-1", "op-2", "op-3")
	a.say("op-1", "op-2")
	eventually(t, "two are asked", func() bool { return asked(t, other, "op-1") != nil && asked(t, other, "op-2") != nil })
	q, now := asked(t, other, "op-1"), s.clock.now()
	if since, left := now.Sub(q.Since), q.Until.Sub(now); q.Relay != "laptop" || since < 3*time.Second || since > time.Minute || left > time.Minute {
		t.Errorf("%+v at %s", q, now)
	}
	if q := asked(t, other, "op-3"); q != nil {
		t.Errorf("nobody is asked about op-3: %+v", q)
	}
	a.say("op-2", "op-3")
	eventually(t, "one is over", func() bool { return asked(t, other, "op-1") == nil && asked(t, other, "op-3") != nil })
	view, err := s.RelayByName(t.Context(), "laptop")
	if err != nil {
		t.Fatal(err)
	}
	a.state.Lock()
	a.questions = a.questions[1:] // and no frame on the old connection
	a.state.Unlock()
	s.clock.forward(80 * time.Second) // the bridge takes the connection for dead
	eventually(t, "another connection is there", func() bool {
		v, err := s.RelayByName(t.Context(), "laptop")
		return err == nil && v.Connected && v.Session != view.Session
	})
	eventually(t, "what changed meanwhile is known", func() bool { return asked(t, other, "op-2") == nil && asked(t, other, "op-3") != nil })
	a.say()
	eventually(t, "nothing is open", func() bool { return asked(t, other, "op-3") == nil })
}

// A new process of a relay asks nobody about what an earlier one was sent.
func TestQuestionsEndWithTheirProcess(t *testing.T) {
	t.Parallel()
	disk := memstore.NewDisk()
	s := siteOn(t, disk, nil)
	store, path := disk.Open(), joined(t, s, "laptop")
	a := &asker{diary: newDiary("a")}
	_, finish := a.busy()
	defer finish()
	stop := connect(t, path, a, nil)
	s.online(t, "laptop")
	s.hold(t, "laptop", a, "op-1")
	a.say("op-1")
	eventually(t, "it is asked", func() bool { return asked(t, store, "op-1") != nil })
	finish()
	stop()
	s.offline(t, "laptop")
	next := &asker{diary: a.clone()}
	_, finishNext := next.busy()
	defer finishNext()
	connect(t, path, next, nil)
	s.online(t, "laptop")
	s.hold(t, "laptop", next, "op-2")
	next.say("op-1", "op-2")
	eventually(t, "its own is asked", func() bool { return asked(t, store, "op-2") != nil })
	if q := asked(t, store, "op-1"); q != nil {
		t.Errorf("an answer at the new process would run nothing: %+v", q)
	}
}

// A relay that lies about whom it asks changes nothing of another relay, and the bridge keeps nothing that it did not send there.
func TestLyingAskers(t *testing.T) {
	t.Parallel()
	disk := memstore.NewDisk()
	s := siteOn(t, disk, nil)
	store := disk.Open()
	honest, liar := &asker{diary: newDiary("a")}, &asker{diary: newDiary("a")}
	for name, a := range map[string]*asker{"laptop": honest, "evil": liar} {
		_, finish := a.busy()
		connect(t, joined(t, s, name), a, nil)
		t.Cleanup(finish)
		s.online(t, name)
	}
	s.hold(t, "laptop", honest, "op-1", "op-2")
	s.hold(t, "evil", liar, "op-3")
	honest.say("op-1")
	eventually(t, "the honest one's is there", func() bool { return asked(t, store, "op-1") != nil })
	lies := []string{"op-1", "op-2", "op-3"}
	for n := len(lies); n < wire.MaxQuestions; n++ {
		lies = append(lies, fmt.Sprintf("made-up-%d", n))
	}
	liar.say(lies...)
	eventually(t, "its own is there", func() bool { return asked(t, store, "op-3") != nil })
	if q := asked(t, store, "op-1"); q == nil || q.Relay != "laptop" {
		t.Errorf("the question of another relay: %+v", q)
	}
	for _, id := range append(lies[3:], "op-2") {
		if q := asked(t, store, id); q != nil {
			t.Errorf("%s: %+v", id, q)
		}
	}
	liar.say()
	eventually(t, "its own is over", func() bool { return asked(t, store, "op-3") == nil })
	if asked(t, store, "op-1") == nil {
		t.Error("a relay ended the question of another")
	}
}

// slowly holds up the step that writes that a relay is here, once that is written.
type slowly struct {
	bridge.Store
	written, proceed chan struct{}
	looked           atomic.Int64 // views since it was written
}

func (s *slowly) View(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	defer s.looked.Add(1)
	return s.Store.View(ctx, fn, hints...)
}

func (s *slowly) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	here := false
	err := s.Store.Update(ctx, func(tx *bridge.Scene) error {
		if err := fn(tx); err != nil {
			return err
		}
		r, err := tx.Relay("laptop")
		here = err == nil && r.Replica != ""
		return nil
	}, hints...)
	if here {
		s.looked.Store(0)
		select {
		case s.written <- struct{}{}:
		case <-s.proceed:
		}
		<-s.proceed
	}
	return err
}

// Requests that come between the store's word that a relay is here and the relay's place on the list wait for that place.
func TestRequestsMeetRelaysThatCome(t *testing.T) {
	t.Parallel()
	hold := &slowly{written: make(chan struct{}), proceed: make(chan struct{})}
	s := siteOn(t, memstore.NewDisk(), func(o *hub.Options) { hold.Store = o.Store; o.Store = hold })
	connect(t, joined(t, s, "laptop"), newDiary("a"), nil)
	<-hold.written
	const requests = 20 // one alone could come to the list too late to be refused
	done := make(chan error, requests)
	for i := range requests {
		go func() {
			_, err := s.RunAction(t.Context(), ask(t, "a", "laptop", fmt.Sprint("op-", i)))
			done <- err
		}()
	}
	eventually(t, "they have read that the relay is here", func() bool { return hold.looked.Load() >= requests })
	close(hold.proceed)
	for range requests {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
