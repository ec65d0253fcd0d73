package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"drawbridge/bridge"
)

// lanes is the order of work. The rows are in bridge.Rows.
type lanes struct {
	all   map[string]lane
	heads []int64 // the first work of each lane that has any
	last  int64   // ids are never given twice
}

// lane is the last number that was given in it, and its works in order. The
// list is replaced and never changed.
type lane struct {
	seq   int64
	works []int64
}

func (l lanes) copy() lanes {
	return lanes{all: maps.Clone(l.all), heads: slices.Clone(l.heads), last: l.last}
}

// change applies what a step did with work.
func (s *state) change(c bridge.LaneChange) {
	switch c.Verb {
	case bridge.LaneEnqueue:
		s.enqueue(c.Work)
	case bridge.LaneFinish:
		l := s.lanes.all[c.Work.Lane]
		l.works = slices.Clone(l.works[1:])
		s.setLane(c.Work.Lane, l)
		s.put(c.Work.ID, nil)
	case bridge.LaneBack:
		w := *s.rows.Work.Row(c.Work.ID)
		w.Lease, w.Lost, w.Failures, w.Tries, w.AwaySince = time.Time{}, 0, c.Work.Failures, c.Work.Tries, c.Work.AwaySince
		if w.Woken == c.Work.Woken {
			w.Due = c.Due
		}
		s.put(w.ID, &w)
	case bridge.LaneWake:
		for _, name := range c.Lanes {
			s.wake(name, c.Due)
		}
	}
}

func (s *state) put(id int64, w *bridge.Work) { s.rows.Work.Put(id, w) }

func (s *state) enqueue(w bridge.Work) {
	s.lanes.last++
	l := s.lanes.all[w.Lane]
	l.seq++
	l.works = append(slices.Clone(l.works), s.lanes.last)
	s.setLane(w.Lane, l)
	s.put(s.lanes.last, &bridge.Work{ID: s.lanes.last, Lane: w.Lane, Seq: l.seq, Kind: w.Kind, Ref: w.Ref, Due: w.Due, Share: w.Share})
}

// setLane stores a lane and keeps the heads of all lanes.
func (s *state) setLane(name string, l lane) {
	if was := s.lanes.all[name].works; len(was) > 0 {
		s.lanes.heads = slices.DeleteFunc(s.lanes.heads, func(id int64) bool { return id == was[0] })
	}
	if len(l.works) > 0 {
		s.lanes.heads = append(s.lanes.heads, l.works[0])
	}
	s.lanes.all[name] = l
}

func (s *state) wake(name string, now time.Time) {
	works := s.lanes.all[name].works
	if len(works) == 0 {
		return
	}
	w := *s.rows.Work.Row(works[0])
	w.Due = now
	w.Woken++
	s.put(w.ID, &w)
}

// ready is when a head may be handed out: it is due and nobody holds it.
func ready(w *bridge.Work) time.Time {
	if w.Lease.After(w.Due) {
		return w.Lease
	}
	return w.Due
}

// leavesOut reports whether a claim does not want the work.
func leavesOut(c bridge.Claim, w *bridge.Work) bool {
	return slices.Contains(c.Without, w.Kind) || slices.Contains(c.Spent, w.Share)
}

// stamp keeps of a time what a database keeps.
func stamp(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// locked runs fn on the state that it may write.
func (s *Store) locked(ctx context.Context, fn func(*state) error) error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	return fn(s.disk.own())
}

// Claim implements bridge.Store. It takes the heads that have been ready for longest.
func (s *Store) Claim(ctx context.Context, c bridge.Claim) (out []bridge.Work, err error) {
	err = s.locked(ctx, func(s *state) error {
		now := stamp(c.Now)
		var due []*bridge.Work
		for _, id := range s.lanes.heads {
			if w := s.rows.Work.Row(id); !ready(w).After(now) && !leavesOut(c, w) {
				due = append(due, w)
			}
		}
		slices.SortFunc(due, func(a, b *bridge.Work) int {
			return cmp.Or(ready(a).Compare(ready(b)), cmp.Compare(a.ID, b.ID))
		})
		for _, row := range due[:min(len(due), c.Limit)] {
			w := *row
			if !w.Lease.IsZero() { // it was never given back
				w.Lost++
			}
			w.Lease = stamp(c.Now.Add(c.Lease))
			w.Fence++
			w.Attempts++
			s.put(w.ID, &w)
			out = append(out, w)
		}
		return nil
	})
	return out, err
}

// Extend implements bridge.Store.
func (s *Store) Extend(ctx context.Context, w bridge.Work, until time.Time) error {
	return s.locked(ctx, func(s *state) error {
		row := s.rows.Work.Row(w.ID)
		if row == nil || row.Fence != w.Fence || row.Lease.IsZero() {
			return bridge.ErrLeaseLost
		}
		held := *row
		held.Lease = stamp(until)
		s.put(w.ID, &held)
		return nil
	})
}

// NextFor implements bridge.Store.
func (s *Store) NextFor(ctx context.Context, c bridge.Claim) (next time.Time, err error) {
	seen, err := s.look(ctx)
	if err != nil {
		return next, err
	}
	defer s.leave(seen)
	for _, id := range seen.lanes.heads {
		w := seen.rows.Work.Row(id)
		if leavesOut(c, w) {
			continue
		}
		at := ready(w)
		if at.IsZero() {
			return c.Now, nil // due since ever; the zero time would say that there is nothing
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next, nil
}

// ReleaseAll frees every lease, which counts as a lost claim: what a database that one process owns alone does at its start.
func (s *Store) ReleaseAll(ctx context.Context) error {
	return s.locked(ctx, func(s *state) error {
		for _, id := range s.lanes.heads {
			w := *s.rows.Work.Row(id)
			if w.Lease.IsZero() {
				continue
			}
			w.Lease = time.Time{}
			w.Lost++
			s.put(id, &w)
		}
		return nil
	})
}
