package mail_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"drawbridge/bridge"
	"drawbridge/mail"
	"drawbridge/proof/pg"
	"drawbridge/store"
)

// together starts n callers at the same moment and returns how many of them passed. Each other one must get an error of the
// kind.
func together(t *testing.T, n int, kind bridge.ErrorKind, call func(i int) error) (passed int) {
	t.Helper()
	start, errs := make(chan struct{}), make([]error, n)
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	callers.Wait()
	for _, err := range errs {
		switch {
		case err == nil:
			passed++
		case bridge.KindOf(err) != kind:
			t.Errorf("refused with %v, want an error of kind %s", err, kind)
		}
	}
	return passed
}

// testCountedBounds: callers who come at the same moment to what one of them may still have do not all get it. The bounds are
// of files, their bytes, threads that an agent made, threads that it is in, messages in a minute and reactions. The callers use
// two post offices over one engine, as two doors do.
func testCountedBounds(t *testing.T, begin beginner) {
	o := mail.Options{Files: t.TempDir(), MaxFile: 100, FilesPer: 5, FileBytes: 350, PerPair: -1, ThreadsPer: 4, ThreadsOf: 6}
	w := begin(t, o)
	w.team("ann", "bob", "cy", "dee")
	o.Steps = w.engine
	second, err := mail.New(o)
	if err != nil {
		t.Fatal(err)
	}
	offices := []*mail.Service{w.mail, second}
	ann, bob, cy, dee := w.id("ann"), w.id("bob"), w.id("cy"), w.id("dee")
	give := func(from bridge.AgentID, size int) func(int) error {
		return func(i int) error {
			_, _, err := offices[i%2].Transfer(w.ctx, from, mail.FileDraft{To: "cy", Name: fmt.Sprint("f", i), Content: strings.NewReader(strings.Repeat("x", size))})
			return err
		}
	}
	equal(t, "files of one agent", together(t, 16, bridge.Conflict, give(ann, 1)), 5)
	equal(t, "files that have room together", together(t, 16, bridge.Conflict, give(bob, 100)), 3)
	equal(t, "threads that one agent made", together(t, 16, bridge.Conflict, func(i int) error {
		_, _, err := offices[i%2].CreateThread(w.ctx, ann, mail.ThreadDraft{Title: fmt.Sprint("t", i)})
		return err
	}), 4)
	var open []bridge.ConversationID
	for _, from := range []bridge.AgentID{bob, cy} {
		for range 4 {
			v, _, err := w.mail.CreateThread(w.ctx, from, mail.ThreadDraft{Title: "open"})
			wantKind(t, "a thread", err, "")
			open = append(open, v.ID)
		}
	}
	equal(t, "threads that one agent is in", together(t, 8, bridge.Conflict, func(i int) error {
		_, _, err := offices[i%2].Join(w.ctx, dee, open[i])
		return err
	}), 6)
}

// testCountedMessages: the bound of messages from one agent to another holds for those who write at the same moment.
func testCountedMessages(t *testing.T, begin beginner) {
	w := begin(t, mail.Options{PerPair: 5})
	w.team("ann", "bob")
	ann := w.id("ann")
	equal(t, "messages within a minute", together(t, 16, bridge.RateLimited, func(i int) error {
		_, err := w.mail.Send(w.ctx, ann, mail.Draft{To: "bob", Text: fmt.Sprint("message ", i)})
		return err
	}), 5)
}

// TestCountedBoundsOverReplicas: the bounds hold for callers at two replicas of one bridge, too.
func TestCountedBoundsOverReplicas(t *testing.T) {
	t.Parallel()
	address := pg.Database(t)
	var replicas []*world
	for range 2 {
		s, err := store.Open(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		replicas = append(replicas, newWorldOn(t, s, mail.Options{PerPair: 5, ThreadsPer: 4}))
	}
	w := replicas[0]
	w.team("ann", "bob")
	replicas[1].now = w.clock() // the clocks of replicas agree
	ann := w.id("ann")
	equal(t, "threads that one agent made", together(t, 16, bridge.Conflict, func(i int) error {
		_, _, err := replicas[i%2].mail.CreateThread(w.ctx, ann, mail.ThreadDraft{Title: fmt.Sprint("t", i)})
		return err
	}), 4)
	equal(t, "messages within a minute", together(t, 16, bridge.RateLimited, func(i int) error {
		_, err := replicas[i%2].mail.Send(w.ctx, ann, mail.Draft{To: "bob", Text: fmt.Sprint("message ", i)})
		return err
	}), 5)
}

// TestCountedUploads: uploads that begin at the same moment do not all get the places that are left.
func TestCountedUploads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := slowWorld(t)
		ann, let := w.id("ann"), make(chan struct{})
		go func() {
			synctest.Wait() // until all were refused or wait for their bytes
			close(let)
		}()
		equal(t, "uploads under way", together(t, 16, bridge.RateLimited, func(int) error {
			_, _, err := w.mail.Transfer(w.ctx, ann, mail.FileDraft{To: "bob", Name: "f", Content: waitingBody{let}, Arriving: true})
			return err
		}), 4)
	})
}

// waitingBody is empty, and ends when it may.
type waitingBody struct{ let chan struct{} }

// Read implements io.Reader.
func (b waitingBody) Read([]byte) (int, error) {
	<-b.let
	return 0, io.EOF
}
