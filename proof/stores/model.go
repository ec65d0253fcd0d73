package stores

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"drawbridge/bridge"
)

// model is the lanes as one would write them without a database: a list a
// lane, of which only the first may be handed out.
type model struct {
	t     *testing.T
	now   time.Time
	lanes map[string][]*bridge.Work
	// tickets are all works ever handed out, as they were then; most are stale.
	tickets []bridge.Work
	count   int
}

// step is one thing that happens to the lanes.
type step struct {
	Do     string
	Lane   string
	Ticket int
	Wait   time.Duration
	Limit  int
}

var verbs = []string{"enqueue", "enqueue", "claim", "claim", "claim", "finish", "put back", "put back", "extend", "wake", "wake", "advance", "release"}

var steps = rapid.Custom(func(t *rapid.T) step {
	return step{
		Do:     verbs[dice.Draw(t, "do")%len(verbs)],
		Lane:   []string{"x", "y", "z"}[dice.Draw(t, "lane")%3],
		Ticket: dice.Draw(t, "ticket") % 5,
		Wait:   time.Duration(dice.Draw(t, "wait")%8-1) * time.Second,
		Limit:  1 + dice.Draw(t, "limit")%4,
	}
})

// testLaneModel plays random steps on the store and on the model. Each play has
// lanes of its own and begins and ends when they are empty.
func testLaneModel(t *testing.T, open Open) {
	s := open(t)
	rapid.Check(t, func(rt *rapid.T) {
		plan := make([]step, 1+dice.Draw(rt, "steps")%100)
		for i := range plan {
			plan[i] = steps.Draw(rt, "step")
		}
		m := &model{t: t, now: epoch, lanes: map[string][]*bridge.Work{}}
		if err := m.clear(s); err != nil {
			rt.Fatal(err)
		}
		for i, p := range plan {
			if err := m.play(s, p); err != nil {
				rt.Fatalf("step %d, %s: %v", i, p.Do, err)
			}
			if err := m.checkNextDue(s); err != nil {
				rt.Fatalf("after step %d, %s: %v", i, p.Do, err)
			}
		}
		if err := m.drain(s); err != nil {
			rt.Fatal(err)
		}
	})
}

func (m *model) play(s bridge.Store, p step) error {
	switch p.Do {
	case "enqueue":
		return m.enqueue(s, p)
	case "claim":
		return m.claim(s, bridge.Claim{Now: m.now, Lease: max(p.Wait, time.Second), Limit: p.Limit})
	case "wake":
		return m.wake(s, p.Lane)
	case "advance":
		m.now = m.now.Add(max(p.Wait, 0))
		return nil
	case "release":
		return m.release(s, p)
	}
	if len(m.tickets) == 0 {
		return nil
	}
	// Young tickets are more likely to hold something.
	w := m.tickets[len(m.tickets)-1-p.Ticket%len(m.tickets)]
	return m.speak(s, p, w)
}

func (m *model) enqueue(s bridge.Store, p step) error {
	m.count++
	w := bridge.Work{Lane: p.Lane, Kind: bridge.WorkAction, Ref: fmt.Sprint(m.count), Due: m.now.Add(p.Wait)}
	m.lanes[p.Lane] = append(m.lanes[p.Lane], &w)
	return s.Update(m.t.Context(), func(tx *bridge.Scene) error { return tx.Enqueue(w) })
}

// ready is when the head of a lane may be handed out.
func ready(w *bridge.Work) time.Time {
	if w.Lease.After(w.Due) {
		return w.Lease
	}
	return w.Due
}

func (m *model) claim(s bridge.Store, c bridge.Claim) error {
	var free []string
	for lane, works := range m.lanes {
		if len(works) > 0 && !ready(works[0]).After(c.Now) {
			free = append(free, lane)
		}
	}
	got, err := s.Claim(m.t.Context(), c)
	if err != nil {
		return err
	}
	if len(got) != min(len(free), c.Limit) {
		return fmt.Errorf("claimed %d, want %d", len(got), min(len(free), c.Limit))
	}
	for _, w := range got {
		i := slices.Index(free, w.Lane)
		if i < 0 {
			return fmt.Errorf("claimed %q of lane %q, which is not free", w.Ref, w.Lane)
		}
		free = slices.Delete(free, i, i+1)
		if err := m.take(c, w); err != nil {
			return err
		}
	}
	return nil
}

// take compares what was handed out with the model's head of that lane.
func (m *model) take(c bridge.Claim, got bridge.Work) error {
	head := m.lanes[got.Lane][0]
	if !head.Lease.IsZero() {
		head.Lost++
	}
	head.Lease = c.Now.Add(c.Lease)
	head.Fence++
	head.Attempts++
	want := *head
	want.ID, want.Seq = got.ID, got.Seq // the store's own
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("claimed work (-want +got):\n%s", diff)
	}
	m.tickets = append(m.tickets, got)
	return nil
}

// holds returns the head that a ticket still speaks for, or nil.
func (m *model) holds(ticket bridge.Work) *bridge.Work {
	works := m.lanes[ticket.Lane]
	if len(works) == 0 || works[0].Ref != ticket.Ref || works[0].Fence != ticket.Fence || works[0].Lease.IsZero() {
		return nil
	}
	return works[0]
}

func (m *model) speak(s bridge.Store, p step, ticket bridge.Work) error {
	head, until := m.holds(ticket), m.now.Add(max(p.Wait, time.Second))
	var err error
	switch p.Do {
	case "finish":
		err = s.Update(m.t.Context(), func(tx *bridge.Scene) error { return tx.FinishWork(ticket) })
	case "put back":
		err = s.Update(m.t.Context(), func(tx *bridge.Scene) error { return tx.PutBack(ticket, until) })
	case "extend":
		err = s.Extend(m.t.Context(), ticket, until)
	}
	if head == nil {
		if !errors.Is(err, bridge.ErrLeaseLost) {
			return fmt.Errorf("by who holds nothing: %v, want ErrLeaseLost", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	switch p.Do {
	case "finish":
		m.lanes[ticket.Lane] = m.lanes[ticket.Lane][1:]
	case "put back":
		head.Lease, head.Lost = time.Time{}, 0
		if head.Woken == ticket.Woken {
			head.Due = until
		}
	case "extend":
		head.Lease = until
	}
	return nil
}

func (m *model) wake(s bridge.Store, lane string) error {
	if works := m.lanes[lane]; len(works) > 0 {
		works[0].Due = m.now
		works[0].Woken++
	}
	return s.Update(m.t.Context(), func(tx *bridge.Scene) error { return tx.WakeLane(lane, m.now) })
}

// release is rare: a store's own restart.
func (m *model) release(s bridge.Store, p step) error {
	if p.Limit != 1 {
		return nil
	}
	for _, works := range m.lanes {
		for _, w := range works {
			if !w.Lease.IsZero() {
				w.Lost++
			}
			w.Lease = time.Time{}
		}
	}
	releaseAll(m.t, s)
	return nil
}

func (m *model) checkNextDue(s bridge.Store) error {
	var want time.Time
	for _, works := range m.lanes {
		if len(works) > 0 && (want.IsZero() || ready(works[0]).Before(want)) {
			want = ready(works[0])
		}
	}
	got, err := s.NextFor(m.t.Context(), bridge.Claim{Now: m.now})
	if err == nil && !got.Equal(want) {
		return fmt.Errorf("next due %s, want %s", got, want)
	}
	return err
}

// clear ends what a play that failed left behind. Else the shorter plays that are tried after it fail for that reason,
// and the first reason is lost.
func (m *model) clear(s bridge.Store) error {
	for now := epoch.AddDate(1, 0, 0); ; now = now.Add(time.Hour) {
		left, err := s.Claim(m.t.Context(), bridge.Claim{Now: now, Lease: time.Second, Limit: 100})
		if err != nil || len(left) == 0 {
			return err
		}
		for _, w := range left {
			if err := s.Update(m.t.Context(), func(tx *bridge.Scene) error { return tx.FinishWork(w) }); err != nil {
				return fmt.Errorf("clear: %w", err)
			}
		}
	}
}

// drain finishes all that is left: nothing was lost and nothing is there twice.
func (m *model) drain(s bridge.Store) error {
	for range m.count + 1 {
		m.now = m.now.Add(time.Hour)
		before := len(m.tickets)
		if err := m.claim(s, bridge.Claim{Now: m.now, Lease: time.Second, Limit: 100}); err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		for _, w := range m.tickets[before:] {
			if err := m.speak(s, step{Do: "finish"}, w); err != nil {
				return fmt.Errorf("drain: %w", err)
			}
		}
	}
	for lane, works := range m.lanes {
		if len(works) > 0 {
			return fmt.Errorf("drain: %d left in lane %q", len(works), lane)
		}
	}
	return nil
}
