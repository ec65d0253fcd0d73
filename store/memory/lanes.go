package memory

import (
	"cmp"
	"slices"
	"time"

	"drawbridge/bridge"
)

// Enqueue implements bridge.LaneTx.
func (t *tx) Enqueue(w bridge.Work) error {
	if t.readOnly {
		return errReadOnly
	}
	s := t.state
	last := s.lastWork
	s.lastWork++
	t.undo = append(t.undo, func() { s.lastWork = last })
	l := s.lanes[w.Lane]
	l.seq++
	l.works = append(slices.Clone(l.works), s.lastWork)
	if err := t.setLane(w.Lane, l); err != nil {
		return err
	}
	return t.setWork(bridge.Work{ID: s.lastWork, Lane: w.Lane, Seq: l.seq, Kind: w.Kind, Ref: w.Ref, Due: stamp(w.Due), Share: w.Share})
}

func (t *tx) setWork(w bridge.Work) error { return set(t, &t.state.work, w.ID, &w) }

// setLane stores a lane and keeps the heads of all lanes.
func (t *tx) setLane(name string, l lane) error {
	s := t.state
	before, heads := s.heads, slices.Clone(s.heads)
	if was := s.lanes[name].works; len(was) > 0 {
		heads = slices.DeleteFunc(heads, func(id int64) bool { return id == was[0] })
	}
	if len(l.works) > 0 {
		heads = append(heads, l.works[0])
	}
	s.heads = heads
	t.undo = append(t.undo, func() { s.heads = before })
	return setMap(t, s.lanes, name, l)
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

// ClaimWork implements bridge.LaneTx. It takes the heads that have been ready for longest.
func (t *tx) ClaimWork(c bridge.Claim) ([]bridge.Work, error) {
	now := stamp(c.Now)
	var due []*bridge.Work
	for _, id := range t.state.heads {
		if w := t.state.work.get(id); !ready(w).After(now) && !leavesOut(c, w) {
			due = append(due, w)
		}
	}
	slices.SortFunc(due, func(a, b *bridge.Work) int {
		return cmp.Or(ready(a).Compare(ready(b)), cmp.Compare(a.ID, b.ID))
	})
	var out []bridge.Work
	for _, row := range due[:min(len(due), c.Limit)] {
		w := *row
		if !w.Lease.IsZero() { // it was never given back
			w.Lost++
		}
		w.Lease = stamp(c.Now.Add(c.Lease))
		w.Fence++
		w.Attempts++
		if err := t.setWork(w); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// held returns the work that a holder still speaks for. Work whose lease is
// zero was given back already.
func (t *tx) held(w bridge.Work) (bridge.Work, error) {
	row := t.state.work.get(w.ID)
	if row == nil || row.Fence != w.Fence || row.Lease.IsZero() {
		return bridge.Work{}, bridge.ErrLeaseLost
	}
	return *row, nil
}

// FinishWork implements bridge.LaneTx.
func (t *tx) FinishWork(w bridge.Work) error {
	if _, err := t.held(w); err != nil {
		return err
	}
	l := t.state.lanes[w.Lane]
	l.works = slices.Clone(l.works[1:])
	if err := t.setLane(w.Lane, l); err != nil {
		return err
	}
	return set(t, &t.state.work, w.ID, nil)
}

// PutBack implements bridge.LaneTx.
func (t *tx) PutBack(w bridge.Work, due time.Time) error {
	w.Failures = 0
	return t.giveBack(w, due)
}

// PutOff implements bridge.LaneTx.
func (t *tx) PutOff(w bridge.Work, due time.Time) error {
	w.Tries, w.Failures = w.Tries+1, 0
	return t.giveBack(w, due)
}

// FailWork implements bridge.LaneTx.
func (t *tx) FailWork(w bridge.Work, due time.Time) error {
	w.Failures += w.Lost + 1
	return t.giveBack(w, due)
}

func (t *tx) giveBack(w bridge.Work, due time.Time) error {
	row, err := t.held(w)
	if err != nil {
		return err
	}
	row.Lease, row.Lost, row.Failures, row.Tries = time.Time{}, 0, w.Failures, w.Tries
	row.AwaySince = stamp(w.AwaySince)
	if row.Woken == w.Woken {
		row.Due = stamp(due)
	}
	return t.setWork(row)
}

// ExtendLease implements bridge.LaneTx.
func (t *tx) ExtendLease(w bridge.Work, until time.Time) error {
	row, err := t.held(w)
	if err != nil {
		return err
	}
	row.Lease = stamp(until)
	return t.setWork(row)
}

// WakeLane implements bridge.LaneTx. Waking a lane that is empty is fine.
func (t *tx) WakeLane(name string, now time.Time) error {
	works := t.state.lanes[name].works
	if len(works) == 0 {
		return nil
	}
	w := *t.state.work.get(works[0])
	w.Due = stamp(now)
	w.Woken++
	return t.setWork(w)
}

// WakeLanes implements bridge.LaneTx.
func (t *tx) WakeLanes(lanes []string, now time.Time) error {
	for _, name := range lanes {
		if err := t.WakeLane(name, now); err != nil {
			return err
		}
	}
	return nil
}

// NextDue implements bridge.LaneTx. Work that someone holds counts as due when
// the lease ends, because its holder may have died.
func (t *tx) NextDue(now time.Time) (time.Time, error) { return t.NextFor(bridge.Claim{Now: now}) }

// NextFor implements bridge.LaneTx.
func (t *tx) NextFor(c bridge.Claim) (next time.Time, err error) {
	for _, id := range t.state.heads {
		w := t.state.work.get(id)
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

// ReleaseAll implements bridge.LaneTx.
func (t *tx) ReleaseAll() error {
	for _, id := range t.state.heads {
		w := *t.state.work.get(id)
		if w.Lease.IsZero() {
			continue
		}
		w.Lease = time.Time{}
		w.Lost++
		if err := t.setWork(w); err != nil {
			return err
		}
	}
	return nil
}
