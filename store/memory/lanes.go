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
	id, seq := s.lastWork, s.lanes[w.Lane]+1
	s.lastWork++
	t.undo = append(t.undo, func() { s.lastWork = id })
	if err := setMap(t, s.lanes, w.Lane, seq); err != nil {
		return err
	}
	return t.setWork(bridge.Work{ID: id + 1, Lane: w.Lane, Seq: seq, Kind: w.Kind, Ref: w.Ref, Due: stamp(w.Due)})
}

func (t *tx) setWork(w bridge.Work) error { return set(t, &t.state.work, w.ID, &w) }

// heads returns the first work of each lane. Ids grow within a lane.
func (s *state) heads() (out []bridge.Work) {
	s.work.oldest(func(w *bridge.Work) bool {
		if !slices.ContainsFunc(out, func(h bridge.Work) bool { return h.Lane == w.Lane }) {
			out = append(out, *w)
		}
		return true
	})
	return out
}

// ready is when a head may be handed out: it is due and nobody holds it.
func ready(w bridge.Work) time.Time {
	if w.Lease.After(w.Due) {
		return w.Lease
	}
	return w.Due
}

// ClaimWork implements bridge.LaneTx. It takes the heads that have been ready for longest.
func (t *tx) ClaimWork(c bridge.Claim) ([]bridge.Work, error) {
	now := stamp(c.Now)
	due := slices.DeleteFunc(t.state.heads(), func(w bridge.Work) bool { return ready(w).After(now) })
	slices.SortFunc(due, func(a, b bridge.Work) int {
		return cmp.Or(ready(a).Compare(ready(b)), cmp.Compare(a.ID, b.ID))
	})
	due = due[:min(len(due), c.Limit)]
	for i := range due {
		due[i].Lease = stamp(c.Now.Add(c.Lease))
		due[i].Fence++
		due[i].Attempts++
		if err := t.setWork(due[i]); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// held returns the work that a holder still speaks for. Work whose lease is
// zero was given back already.
func (t *tx) held(w bridge.Work) (bridge.Work, error) {
	row := t.state.work.rows[w.ID]
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
	return set(t, &t.state.work, w.ID, nil)
}

// PutBack implements bridge.LaneTx.
func (t *tx) PutBack(w bridge.Work, due time.Time) error {
	row, err := t.held(w)
	if err != nil {
		return err
	}
	row.Lease = time.Time{}
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
func (t *tx) WakeLane(lane string, now time.Time) error {
	for _, w := range t.state.heads() {
		if w.Lane == lane {
			w.Due = stamp(now)
			w.Woken++
			return t.setWork(w)
		}
	}
	return nil
}

// NextDue implements bridge.LaneTx. Work that someone holds counts as due when
// the lease ends, because its holder may have died.
func (t *tx) NextDue(now time.Time) (next time.Time, err error) {
	for _, w := range t.state.heads() {
		at := ready(w)
		if at.IsZero() {
			return now, nil // due since ever; the zero time would say that there is nothing
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next, nil
}

// ReleaseAll implements bridge.LaneTx.
func (t *tx) ReleaseAll() error {
	for _, w := range t.state.heads() {
		if w.Lease.IsZero() {
			continue
		}
		w.Lease = time.Time{}
		if err := t.setWork(w); err != nil {
			return err
		}
	}
	return nil
}
