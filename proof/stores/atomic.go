package stores

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"drawbridge/bridge"
)

// everything writes a row of each kind.
func everything(tx *bridge.Scene) error {
	if err := insert(fullAgent())(tx); err != nil {
		return err
	}
	r := fullTurn("agt_full")
	if _, err := tx.InsertTurn(r); err != nil {
		return err
	}
	if _, err := tx.InsertCompletion(completion(1)); err != nil {
		return err
	}
	if _, err := tx.InsertDelivery(delivery(1)); err != nil {
		return err
	}
	if err := tx.AppendEvent(bridge.Event{At: epoch, Kind: bridge.EventTurn}); err != nil {
		return err
	}
	return errors.Join(tx.InsertCommand(fullCommand(1)), tx.InsertNotice(notice("agt_full", 1)), tx.PutEcho(bridge.Echo{Agent: "agt_full", Key: "key", At: epoch}),
		tx.PutTree(fullTree()), tx.PutApproval("agt_full", "key", at(time.Hour)), tx.PutYes(fullYes()), tx.Enqueue(bridge.Work{Lane: "lane", Kind: bridge.WorkTurn, Ref: "trn_full", Due: epoch}),
		everythingKept(tx))
}

// allRows is the census with the place for work.
func allRows(t *testing.T, s bridge.Store) [13]int {
	t.Helper()
	n := read(t, s, census)
	next, err := s.NextFor(t.Context(), bridge.Claim{Now: epoch})
	if err != nil {
		t.Fatal(err)
	}
	if !next.IsZero() {
		n[8] = 1
	}
	return n
}

// census counts what everything writes, one place a kind of row, but for work.
func census(tx *bridge.Scene) (n [13]int, err error) {
	agents, e1 := tx.Agents(bridge.AgentFilter{})
	turns, e2 := tx.Turns(bridge.TurnFilter{})
	commands, e3 := tx.Commands(bridge.CommandFilter{})
	notices, e4 := tx.CarriedNotices("trn_other")
	completions, e5 := tx.Completions("agt_1")
	deliveries, e6 := tx.Deliveries("", 0)
	events, e7 := tx.Events(0, 0)
	echoes, e9 := tx.Echoes("agt_full", bridge.EchoAge{}, 1)
	approved, e10 := tx.Approved("agt_full", "key", epoch)
	tree, e11 := tx.Tree("agt_root")
	kept, e12 := keptCensus(tx)
	_, e13 := tx.LastYes("agt_full", "target")
	yes := e13 == nil
	if errors.Is(e13, bridge.ErrNoRow) {
		e13 = nil
	}
	n = [13]int{len(agents), len(turns), len(commands), len(notices), len(completions), len(deliveries), len(events), kept}
	for i, there := range []bool{false, len(echoes) > 0, approved, tree.Stopped(), yes} {
		if there {
			n[8+i] = 1
		}
	}
	return n, errors.Join(e1, e2, e3, e4, e5, e6, e7, e9, e10, e11, e12, e13)
}

func testFailedUpdate(t *testing.T, open Open) {
	s := open(t)
	none := [13]int{}
	err := s.Update(t.Context(), func(tx *bridge.Scene) error { return errors.Join(everything(tx), errUndo) })
	if !errors.Is(err, errUndo) {
		t.Fatalf("update: %v, want the function's own error", err)
	}
	equal(t, "rows of an update that failed", allRows(t, s), none)
	if err := recovered(func() error {
		return s.Update(t.Context(), func(tx *bridge.Scene) error {
			if err := everything(tx); err != nil {
				return err
			}
			panic("on purpose")
		})
	}); err == nil {
		t.Error("an update that panicked returned nil")
	}
	equal(t, "rows of an update that panicked", allRows(t, s), none)
	mustUpdate(t, s, everything)
	equal(t, "rows of the same update when it ends well", allRows(t, s), [13]int{1, 1, 1, 1, 1, 1, 1, keptKinds, 1, 1, 1, 1, 1})
}

// recovered lets a store choose whether a panic reaches the caller as a panic or as an error.
func recovered(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}

// testFailuresAmongOthers: those who share a commit share no fate. Errors,
// panics and a violated constraint among 64 leave the others' work whole.
func testFailuresAmongOthers(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, insert(agent(1000)))
	var all errgroup.Group
	for n := range 64 {
		all.Go(func() error {
			err := recovered(func() error { return s.Update(t.Context(), mixed(n)) })
			if (err == nil) != (n%4 == 0) {
				return fmt.Errorf("update %d: %v", n, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	equal(t, "agents", len(read(t, s, func(tx *bridge.Scene) ([]bridge.Agent, error) { return tx.Agents(bridge.AgentFilter{}) })), 17)
}

// mixed succeeds for every fourth n and fails in one of three ways for the others.
func mixed(n int) func(*bridge.Scene) error {
	return func(tx *bridge.Scene) error {
		if err := tx.InsertAgent(agent(n)); err != nil {
			return err
		}
		switch n % 4 {
		case 1:
			return errUndo
		case 2:
			panic("on purpose")
		case 3:
			clash := agent(n + 100)
			clash.Name = agent(1000).Name
			return tx.InsertAgent(clash)
		}
		return nil
	}
}

func testCancelled(t *testing.T, open Open) {
	t.Run("Update", func(t *testing.T) { testCancelledUpdate(t, open) })
	t.Run("View", func(t *testing.T) { testCancelledView(t, open) })
}

func testCancelledUpdate(t *testing.T, open Open) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ran := false
	err := s.Update(ctx, func(tx *bridge.Scene) error {
		ran = true
		return tx.InsertAgent(agent(1))
	})
	if !errors.Is(err, context.Canceled) || ran {
		t.Errorf("update with a cancelled context: %v, ran: %v", err, ran)
	}
	if err := s.View(ctx, func(*bridge.Scene) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("view with a cancelled context: %v", err)
	}
	mustUpdate(t, s, insert(agent(1))) // the store is none the worse for it
}

// testCancelledView: a caller that gives up in the middle of a look-up gets its own error, and no driver's word for it,
// which doors would take for a fault of the store.
func testCancelledView(t *testing.T, open Open) {
	s := open(t)
	for n := range 50 {
		mustUpdate(t, s, insert(agent(n)))
	}
	for n := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		begun := make(chan struct{})
		go func() {
			<-begun
			for range n * 20 {
				runtime.Gosched()
			}
			cancel()
		}()
		err := s.View(ctx, func(tx *bridge.Scene) error {
			close(begun)
			for ctx.Err() == nil {
				if _, err := tx.Agents(bridge.AgentFilter{}); err != nil {
					return err
				}
			}
			_, err := tx.Agents(bridge.AgentFilter{})
			return err
		})
		if err != nil && (!errors.Is(err, context.Canceled) || bridge.KindOf(err) != "") {
			t.Fatalf("view %d: %q, %v", n, bridge.KindOf(err), err)
		}
	}
	missing := errors.New("the caller's own")
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.View(ctx, func(*bridge.Scene) error { cancel(); return missing }); !errors.Is(err, missing) || errors.Is(err, context.Canceled) {
		t.Errorf("an error of the caller's own: %v", err)
	}
}

// testViewIsASnapshot: what commits while a view runs is not in it.
func testViewIsASnapshot(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, insert(agent(1)))
	count := func(tx *bridge.Scene) (int, error) {
		all, err := tx.Agents(bridge.AgentFilter{})
		return len(all), err
	}
	mustView(t, s, func(tx *bridge.Scene) error {
		before, err := count(tx)
		if err != nil {
			return err
		}
		if err := s.Update(t.Context(), insert(agent(2))); err != nil {
			return err
		}
		after, err := count(tx)
		if before != 1 || after != 1 {
			t.Errorf("the view saw %d agents and then %d, want 1 twice", before, after)
		}
		return err
	})
	equal(t, "agents in the next view", read(t, s, count), 2)
	if err := s.View(t.Context(), func(*bridge.Scene) error { return errUndo }); !errors.Is(err, errUndo) {
		t.Errorf("view: %v, want the function's own error", err)
	}
}

func testViewWritesNothing(t *testing.T, open Open) {
	s := open(t)
	err := s.View(t.Context(), everything)
	if err == nil {
		t.Error("a view that writes returned nil")
	}
	equal(t, "rows written in a view", allRows(t, s), [13]int{})
}

// testConcurrentUpdates moves counts between two agents in 64 goroutines while
// views look: nobody ever sees a sum that is not kept, and no update is lost.
func testConcurrentUpdates(t *testing.T, open Open) {
	const total = 1000
	s := open(t)
	from, to := agent(1), agent(2)
	from.Depth = total
	mustUpdate(t, s, insert(from, to))
	var all errgroup.Group
	for n := range 64 {
		all.Go(func() error {
			if n%4 == 0 {
				return s.View(t.Context(), func(tx *bridge.Scene) error { return checkSum(tx, from.ID, to.ID, total) })
			}
			return s.Update(t.Context(), func(tx *bridge.Scene) error { return move(tx, from.ID, to.ID) })
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	equal(t, "moved", read(t, s, func(tx *bridge.Scene) (bridge.Agent, error) { return tx.Agent(to.ID) }).Depth, 48)
}

func move(tx *bridge.Scene, from, to bridge.AgentID) error {
	a, err := tx.Agent(from)
	if err != nil {
		return err
	}
	b, err := tx.Agent(to)
	if err != nil {
		return err
	}
	a.Depth--
	b.Depth++
	return errors.Join(tx.UpdateAgent(a), tx.UpdateAgent(b))
}

func checkSum(tx *bridge.Scene, from, to bridge.AgentID, want int) error {
	for range 20 {
		a, err := tx.Agent(from)
		if err != nil {
			return err
		}
		b, err := tx.Agent(to)
		if err != nil {
			return err
		}
		if got := a.Depth + b.Depth; got != want {
			return fmt.Errorf("a view sees %d and %d, want a sum of %d", a.Depth, b.Depth, want)
		}
	}
	return nil
}

// testDurable: what was acknowledged is there after the store was closed and
// opened again, and the counters go on where they were.
func testDurable(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, everything)
	w := claimOne(t, s, epoch, "trn_full")
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		return tx.PutBack(w, at(time.Hour))
	})
	before := allRows(t, s)
	s = reopen(t, s, open)
	equal(t, "rows after opening again", allRows(t, s), before)
	equal(t, "agent", read(t, s, func(tx *bridge.Scene) (bridge.Agent, error) { return tx.Agent("agt_full") }), fullAgent())
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		seq, err := tx.InsertTurn(turn("agt_full", 2))
		if err != nil || seq != 2 {
			return fmt.Errorf("number of the next turn: %d, want 2: %w", seq, err)
		}
		return nil
	})
	if w := claimOne(t, s, at(time.Hour), "trn_full"); w.Fence != 2 || w.Attempts != 2 {
		t.Errorf("work after opening again: fence %d, attempts %d, want 2 and 2", w.Fence, w.Attempts)
	}
}
