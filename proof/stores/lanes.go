package stores

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"drawbridge/bridge"
)

// lease is how long the lane tests hold work when they do not say otherwise.
const lease = time.Minute

func enqueue(t *testing.T, s bridge.Store, lane string, due time.Time, refs ...string) {
	t.Helper()
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for _, ref := range refs {
			if err := tx.Enqueue(bridge.Work{Lane: lane, Kind: bridge.WorkTurn, Ref: ref, Due: due}); err != nil {
				return err
			}
		}
		return nil
	})
}

// claim takes up to 100 pieces of work and returns them by reference.
func claim(t *testing.T, s bridge.Store, now time.Time) map[string]bridge.Work {
	t.Helper()
	byRef := map[string]bridge.Work{}
	for _, w := range claimSome(t, s, bridge.Claim{Now: now, Lease: lease, Limit: 100}) {
		byRef[w.Ref] = w
	}
	return byRef
}

func claimSome(t *testing.T, s bridge.Store, c bridge.Claim) []bridge.Work {
	t.Helper()
	works, err := s.Claim(t.Context(), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return works
}

// claimOne claims what must be the only work there is for now.
func claimOne(t *testing.T, s bridge.Store, now time.Time, ref string) bridge.Work {
	t.Helper()
	got := claim(t, s, now)
	if _, ok := got[ref]; !ok || len(got) != 1 {
		t.Fatalf("claimed %v, want only %q", refs(got), ref)
	}
	return got[ref]
}

func claimNone(t *testing.T, s bridge.Store, now time.Time) {
	t.Helper()
	if got := claim(t, s, now); len(got) > 0 {
		t.Fatalf("claimed %v, want nothing", refs(got))
	}
}

func refs(works map[string]bridge.Work) (out []string) {
	for ref := range works {
		out = append(out, ref)
	}
	slices.Sort(out)
	return out
}

func finish(t *testing.T, s bridge.Store, w bridge.Work) {
	t.Helper()
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.FinishWork(w) })
}

func putBack(t *testing.T, s bridge.Store, w bridge.Work, due time.Time) {
	t.Helper()
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutBack(w, due) })
}

func wake(t *testing.T, s bridge.Store, lane string, now time.Time) {
	t.Helper()
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.WakeLane(lane, now) })
}

// mustBeLost checks that none of the three ways to speak for w works any more.
func mustBeLost(t *testing.T, s bridge.Store, w bridge.Work) {
	t.Helper()
	for what, speak := range map[string]func() error{
		"FinishWork": func() error {
			return s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.FinishWork(w) })
		},
		"PutBack": func() error {
			return s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.PutBack(w, epoch) })
		},
		"Extend": func() error { return s.Extend(t.Context(), w, at(24*time.Hour)) },
	} {
		if err := speak(); !errors.Is(err, bridge.ErrLeaseLost) {
			t.Errorf("%s by who lost the lease: %v, want ErrLeaseLost", what, err)
		}
	}
}

func testLaneOrder(t *testing.T, open Open) {
	s := open(t)
	enqueue(t, s, "lane", epoch, "a", "b")
	enqueue(t, s, "lane", at(-time.Hour), "c") // due earlier, and still behind
	a := claimOne(t, s, epoch, "a")
	want := bridge.Work{ID: a.ID, Lane: "lane", Seq: a.Seq, Kind: bridge.WorkTurn, Ref: "a", Due: epoch, Lease: at(lease), Fence: 1, Attempts: 1}
	equal(t, "claimed work", a, want)
	claimNone(t, s, at(time.Second)) // one in flight
	putBack(t, s, a, at(time.Hour))
	claimNone(t, s, at(time.Minute)) // a waits, and nothing overtakes it
	a = claimOne(t, s, at(time.Hour), "a")
	equal(t, "attempts", a.Attempts, 2)
	finish(t, s, a)
	mustBeLost(t, s, a)
	b := claimOne(t, s, at(time.Hour), "b")
	finish(t, s, b)
	enqueue(t, s, "lane", epoch, "d")
	c := claimOne(t, s, at(time.Hour), "c")
	finish(t, s, c)
	d := claimOne(t, s, at(time.Hour), "d")
	finish(t, s, d)
	claimNone(t, s, at(time.Hour))
	if a.Seq >= b.Seq || b.Seq >= c.Seq || c.Seq >= d.Seq {
		t.Errorf("numbers in the lane do not grow: %d, %d, %d, %d", a.Seq, b.Seq, c.Seq, d.Seq)
	}
	enqueue(t, s, "lane", epoch, "e")
	mustBeLost(t, s, d) // nor do old holders ever speak for new work
	claimOne(t, s, at(time.Hour), "e")
}

func testLanesSideBySide(t *testing.T, open Open) {
	s := open(t)
	for _, lane := range []string{"x", "y", "z"} {
		enqueue(t, s, lane, epoch, lane+"1", lane+"2")
	}
	first := claim(t, s, epoch)
	equal(t, "heads", refs(first), []string{"x1", "y1", "z1"})
	finish(t, s, first["y1"])
	equal(t, "the lane that moved on", refs(claim(t, s, epoch)), []string{"y2"})
	claimNone(t, s, epoch)
}

func testLaneDue(t *testing.T, open Open) {
	s := open(t)
	enqueue(t, s, "later", at(time.Hour), "later")
	enqueue(t, s, "now", epoch, "now")
	claimNone(t, s, at(-time.Microsecond))
	now := claimOne(t, s, epoch, "now")
	finish(t, s, now)
	claimNone(t, s, at(time.Hour-time.Microsecond))
	claimOne(t, s, at(time.Hour), "later")
}

// testAwaySince: the holder that gives work back says since when it waits for somebody who is away, and the next holder reads it.
func testAwaySince(t *testing.T, open Open) {
	s := open(t)
	enqueue(t, s, "lane", epoch, "w")
	w := claimOne(t, s, epoch, "w")
	equal(t, "at first", w.AwaySince, time.Time{})
	w.AwaySince = at(time.Minute)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutOff(w, epoch) })
	w = claimOne(t, s, epoch, "w")
	equal(t, "put off", w.AwaySince, at(time.Minute))
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutBack(w, epoch) })
	w = claimOne(t, s, epoch, "w")
	equal(t, "put back", w.AwaySince, at(time.Minute))
	w.AwaySince = time.Time{}
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.FailWork(w, epoch) })
	equal(t, "back", claimOne(t, s, epoch, "w").AwaySince, time.Time{})
}

// testClaimLimit: a claim takes no more than it asked for, and the longest due first,
// so that nothing starves behind newer work.
func testClaimLimit(t *testing.T, open Open) {
	s := open(t)
	for n := range 10 {
		enqueue(t, s, fmt.Sprint("lane", n), at(-time.Duration(n)*time.Second), fmt.Sprint("w", n))
	}
	for _, want := range [][]string{{"w7", "w8", "w9"}, {"w4", "w5", "w6"}, {"w1", "w2", "w3"}, {"w0"}} {
		var got []string
		for _, w := range claimSome(t, s, bridge.Claim{Now: epoch, Lease: lease, Limit: 3}) {
			got = append(got, w.Ref)
		}
		slices.Sort(got)
		equal(t, "claimed", got, want)
	}
	equal(t, "claimed with limit 0", len(claimSome(t, s, bridge.Claim{Now: at(time.Hour), Lease: lease})), 0)
}

func testLeaseExpiry(t *testing.T, open Open) {
	s := open(t)
	enqueue(t, s, "lane", epoch, "a", "b")
	old := claimOne(t, s, epoch, "a")
	claimNone(t, s, at(lease-time.Microsecond))
	taken := claimOne(t, s, at(lease), "a")
	if taken.Fence <= old.Fence {
		t.Errorf("fence %d after %d, want a higher one", taken.Fence, old.Fence)
	}
	equal(t, "attempts", taken.Attempts, 2)
	equal(t, "lost claims", []int{old.Lost, taken.Lost}, []int{0, 1})
	mustBeLost(t, s, old)
	claimNone(t, s, at(2*lease-time.Microsecond)) // the old holder's Extend and PutBack did nothing
	finish(t, s, taken)
	claimOne(t, s, at(2*lease), "b")
}

// testLeaseEnds: a holder may extend its lease, may speak after the lease ran
// out as long as nobody took the work, and may not after it gave the work back.
func testLeaseEnds(t *testing.T, open Open) {
	s := open(t)
	enqueue(t, s, "lane", epoch, "a")
	a := claimOne(t, s, epoch, "a")
	if err := s.Extend(t.Context(), a, at(time.Hour)); err != nil {
		t.Fatal(err)
	}
	claimNone(t, s, at(time.Hour-time.Microsecond))
	putBack(t, s, a, at(2*time.Hour)) // late, and nobody minds
	mustBeLost(t, s, a)
	claimNone(t, s, at(2*time.Hour-time.Microsecond))
	a = claimOne(t, s, at(2*time.Hour), "a") // a heartbeat after PutBack would hold it until a day later
	finish(t, s, a)
	claimNone(t, s, at(48*time.Hour))
}

func testWakeLane(t *testing.T, open Open) {
	s := open(t)
	wake(t, s, "empty", epoch)
	enqueue(t, s, "lane", at(time.Hour), "a", "b")
	enqueue(t, s, "other", at(2*time.Hour), "other")
	wake(t, s, "lane", epoch)
	a := claimOne(t, s, epoch, "a") // only the head, only of that lane
	putBack(t, s, a, at(time.Hour))
	claimNone(t, s, epoch) // a wake counts once

	wake(t, s, "lane", at(time.Minute))
	a = claimOne(t, s, at(time.Minute), "a")
	wake(t, s, "lane", at(2*time.Minute)) // while it is held
	claimNone(t, s, at(90*time.Second))   // and held it stays
	putBack(t, s, a, at(time.Hour))
	a = claimOne(t, s, at(2*time.Minute), "a") // the wake was not lost
	putBack(t, s, a, at(time.Hour))
	claimNone(t, s, at(59*time.Minute))

	a = claimOne(t, s, at(time.Hour), "a")
	wake(t, s, "lane", at(time.Hour))
	finish(t, s, a) // a wake for what then ends wakes nobody else
	b := claim(t, s, at(2*time.Hour))
	equal(t, "due by themselves", refs(b), []string{"b", "other"})
	equal(t, "wakes of b", b["b"].Woken, 0)
}

func testWakeLanes(t *testing.T, open Open) {
	s := open(t)
	lanes := make([]string, 300)
	for i := range lanes {
		lanes[i] = fmt.Sprintf("lane/%d", i)
	}
	for _, n := range []int{0, 127, 128, 299} {
		enqueue(t, s, lanes[n], at(time.Hour), fmt.Sprint(n), "behind")
	}
	enqueue(t, s, "other", at(time.Hour), "other")
	for _, some := range [][]string{nil, {"none"}, {"lane/%", "lane/*"}} {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.WakeLanes(some, epoch) })
		claimNone(t, s, epoch)
	}
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.WakeLanes(lanes, epoch) })
	woken := claim(t, s, epoch)
	equal(t, "woken", refs(woken), []string{"0", "127", "128", "299"})
	equal(t, "wakes of one", woken["299"].Woken, 1)
}

// testFailures: failures in a row are counted, survive, and end with a PutBack.
func testFailures(t *testing.T, open Open) {
	s := open(t)
	enqueue(t, s, "lane", epoch, "a")
	fail := func(w bridge.Work, due time.Time) {
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.FailWork(w, due) })
	}
	for n := range 3 {
		w := claimOne(t, s, at(time.Duration(n)*time.Minute), "a")
		equal(t, "failures in a row", w.Failures, n)
		fail(w, at(time.Duration(n+1)*time.Minute))
		claimNone(t, s, at(time.Duration(n+1)*time.Minute-time.Microsecond))
	}
	s = reopen(t, s, open)
	w := claimOne(t, s, at(3*time.Minute), "a")
	equal(t, "failures after opening again", w.Failures, 3)
	putBack(t, s, w, at(4*time.Minute))
	w = claimOne(t, s, at(4*time.Minute), "a")
	equal(t, "failures after a PutBack", w.Failures, 0)
	wake(t, s, "lane", at(5*time.Minute))
	fail(w, at(time.Hour))
	w = claimOne(t, s, at(5*time.Minute), "a") // a wake counts for what fails, too
	putBack(t, s, w, at(time.Hour))
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.FailWork(w, epoch) }); !errors.Is(err, bridge.ErrLeaseLost) {
		t.Errorf("work that was given back failed again: %v, want ErrLeaseLost", err)
	}
}

// testTries: what was tried and put off is counted, whatever else happens to the work.
func testTries(t *testing.T, open Open) {
	s := open(t)
	enqueue(t, s, "lane", epoch, "a")
	w := claimOne(t, s, epoch, "a")
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutOff(w, at(time.Hour)) })
	claimNone(t, s, at(time.Hour-time.Microsecond))
	mustBeLost(t, s, w)
	putBack(t, s, claimOne(t, s, at(time.Hour), "a"), at(2*time.Hour))
	claimOne(t, s, at(2*time.Hour), "a") // and its holder dies
	s = reopen(t, s, open)
	w = claimOne(t, s, at(3*time.Hour), "a")
	equal(t, "tries and lost claims", []int{w.Tries, w.Lost}, []int{1, 1})
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutOff(w, at(4*time.Hour)) })
	w = claimOne(t, s, at(4*time.Hour), "a")
	equal(t, "tries, lost claims and failures", []int{w.Tries, w.Lost, w.Failures}, []int{2, 0, 0})
}

// testLost: claims that ended without an answer are counted in a row, as
// failures once the work fails, and forgotten when it is given back.
func testLost(t *testing.T, open Open) {
	s := open(t)
	enqueue(t, s, "lane", epoch, "a")
	var w bridge.Work
	now := time.Duration(0)
	for n := range 4 {
		w = claimOne(t, s, at(now), "a")
		equal(t, "lost claims in a row", w.Lost, n)
		now += lease
	}
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.FailWork(w, at(now)) })
	w = claimOne(t, s, at(now), "a")
	equal(t, "failures and lost claims", []int{w.Failures, w.Lost}, []int{4, 0})
	w = claimOne(t, s, at(now+lease), "a")
	equal(t, "failures and lost claims", []int{w.Failures, w.Lost}, []int{4, 1})
	putBack(t, s, w, at(now))
	w = claimOne(t, s, at(now), "a")
	equal(t, "failures and lost claims after an answer", []int{w.Failures, w.Lost}, []int{0, 0})
}

func testNextDue(t *testing.T, open Open) {
	s := open(t)
	next := func(want time.Time, why string) {
		t.Helper()
		equal(t, "next due "+why, nextDue(t, s, bridge.Claim{Now: epoch}), want)
	}
	next(time.Time{}, "of nothing")
	enqueue(t, s, "lane", at(time.Hour), "a")
	next(at(time.Hour), "of one")
	enqueue(t, s, "lane", epoch, "b")
	next(at(time.Hour), "of what waits behind a head")
	enqueue(t, s, "other", at(2*time.Hour), "c")
	next(at(time.Hour), "of the earliest lane")
	wake(t, s, "other", at(time.Minute))
	next(at(time.Minute), "after a wake")
	finish(t, s, claimOne(t, s, at(time.Minute), "c"))
	a := claimOne(t, s, at(time.Hour), "a")
	next(at(time.Hour+lease), "of what is held: when the lease ends")
	finish(t, s, a)
	next(epoch, "of the new head")
	finish(t, s, claimOne(t, s, epoch, "b"))
	next(time.Time{}, "when all is done")
	enqueue(t, s, "lane", time.Time{}, "d")
	next(epoch, "of what has been due without end: now")
	claimOne(t, s, epoch, "d")
	t.Run("shares", func(t *testing.T) { testShares(t, open) })
}

// testShares: a claim leaves out kinds and shares, also those that have waited for longest, and so does the next due time.
func testShares(t *testing.T, open Open) {
	s := open(t)
	for i, w := range []bridge.Work{
		{Kind: bridge.WorkTurn, Share: "turn/agt_1"}, {Kind: bridge.WorkTurn, Share: "turn/agt_10"}, {Kind: bridge.WorkAction, Share: "action/"},
		{Kind: bridge.WorkAction, Share: "action/laptop"}, {Kind: bridge.WorkMail},
	} {
		w.Lane, w.Ref, w.Due = fmt.Sprint("lane", i), fmt.Sprint(i), at(time.Duration(i)*time.Second)
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.Enqueue(w) })
	}
	for _, c := range []struct {
		without []bridge.WorkKind
		spent   []string
		want    string
		next    time.Time
	}{
		{nil, nil, "[0 1 2 3 4]", epoch},
		{[]bridge.WorkKind{bridge.WorkTurn}, nil, "[2 3 4]", at(2 * time.Second)},
		{nil, []string{"turn/agt_1"}, "[1 2 3 4]", at(time.Second)},
		{nil, []string{"action/", "turn/agt_10"}, "[0 3 4]", epoch},
		{[]bridge.WorkKind{bridge.WorkTurn, bridge.WorkMail}, []string{"action/"}, "[3]", at(3 * time.Second)},
		{[]bridge.WorkKind{bridge.WorkTurn, bridge.WorkMail, bridge.WorkAction}, []string{"action/"}, "[]", time.Time{}},
	} {
		var found []string
		claim := bridge.Claim{Now: at(time.Minute), Lease: lease, Limit: 10, Without: c.without, Spent: c.spent}
		equal(t, fmt.Sprintf("next without %v, spent %v", c.without, c.spent), nextDue(t, s, claim), c.next)
		for _, w := range claimSome(t, s, claim) {
			found = append(found, w.Ref)
			putBack(t, s, w, w.Due)
		}
		slices.Sort(found)
		equal(t, fmt.Sprintf("claimed without %v, spent %v", c.without, c.spent), fmt.Sprint(found), c.want)
	}
	equal(t, "the share comes back", claim(t, s, at(time.Minute))["3"].Share, "action/laptop")
}

func nextDue(t *testing.T, s bridge.Store, c bridge.Claim) time.Time {
	t.Helper()
	next, err := s.NextFor(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// releaser is a store that frees the leases of whoever had it before.
type releaser interface {
	ReleaseAll(ctx context.Context) error
}

func releaseAll(t *testing.T, s bridge.Store) {
	t.Helper()
	r, ok := s.(releaser)
	if !ok {
		t.Fatalf("%T frees no leases", s)
	}
	if err := r.ReleaseAll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func testReleaseAll(t *testing.T, open Open) {
	s := open(t)
	enqueue(t, s, "x", epoch, "x1", "x2")
	enqueue(t, s, "y", at(time.Hour), "y1")
	old := claimOne(t, s, epoch, "x1")
	releaseAll(t, s)
	mustBeLost(t, s, old)
	again := claimOne(t, s, epoch, "x1")
	equal(t, "lost claims", again.Lost, 1)
	if again.Fence <= old.Fence {
		t.Errorf("fence %d after %d, want a higher one", again.Fence, old.Fence)
	}
	finish(t, s, again)
}

// testLaneWorkers lets 8 workers fight over 6 lanes: each lane's work is done
// once, in order, and never two at a time, while every third piece is put back first.
func testLaneWorkers(t *testing.T, open Open) {
	const lanes, each, workers = 6, 12, 8
	s := open(t)
	b := &board{busy: map[string]bool{}, done: map[string][]string{}, left: lanes * each}
	var all errgroup.Group
	for lane := range lanes {
		all.Go(func() error {
			for n := range each {
				w := bridge.Work{Lane: fmt.Sprint("lane", lane), Kind: bridge.WorkTurn, Ref: fmt.Sprintf("%02d", n), Due: epoch}
				if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.Enqueue(w) }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range workers {
		all.Go(func() error { return b.work(t, s) })
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	for lane, done := range b.done {
		if !slices.IsSorted(done) || len(slices.Compact(done)) != each {
			t.Errorf("%s was done in the order %v", lane, done)
		}
	}
}

// board is what the workers did, seen from outside the store.
type board struct {
	mu   sync.Mutex // guards what follows
	busy map[string]bool
	done map[string][]string
	left int
}

func (b *board) work(t *testing.T, s bridge.Store) error {
	for b.open() {
		works, err := s.Claim(t.Context(), bridge.Claim{Now: epoch, Lease: lease, Limit: 2})
		if err != nil {
			return err
		}
		for _, w := range works {
			if err := b.handle(t, s, w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *board) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left > 0
}

func (b *board) handle(t *testing.T, s bridge.Store, w bridge.Work) error {
	if err := b.begin(w.Lane); err != nil {
		return err
	}
	again := w.Attempts == 1 && w.Seq%3 == 0
	b.end(w, again) // before the store lets the next one go
	return s.Update(t.Context(), func(tx *bridge.Scene) error {
		if again {
			return tx.PutBack(w, epoch)
		}
		return tx.FinishWork(w)
	})
}

func (b *board) begin(lane string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy[lane] {
		return fmt.Errorf("two at a time in %s", lane)
	}
	b.busy[lane] = true
	return nil
}

func (b *board) end(w bridge.Work, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy[w.Lane] = false
	if !again {
		b.done[w.Lane] = append(b.done[w.Lane], w.Ref)
		b.left--
	}
}
