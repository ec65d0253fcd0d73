package bridge

import (
	"errors"
	"time"
)

// LaneVerb says what a step does with work.
type LaneVerb string

// The verbs. Given back work keeps its place in its lane.
const (
	LaneEnqueue LaneVerb = "enqueue"
	LaneFinish  LaneVerb = "finish"
	LaneBack    LaneVerb = "back"
	LaneWake    LaneVerb = "wake"
)

// LaneChange is one thing that a step does with work. A store applies it when the
// step is applied: it needs rows of lanes that no scene has.
type LaneChange struct {
	Verb LaneVerb
	// Work is what is enqueued, finished or given back, with the counts that it has from then on.
	Work Work
	// Due is when work that is given back is due, unless it was woken meanwhile.
	Due time.Time
	// Lanes are those whose first work is due at Due.
	Lanes []string
}

func (s *Scene) changeLane(c LaneChange) error {
	if s.readOnly {
		return ErrReadOnly
	}
	c.Due, c.Work.Due, c.Work.AwaySince = stamp(c.Due), stamp(c.Work.Due), stamp(c.Work.AwaySince)
	s.Lanes = append(s.Lanes, c)
	return nil
}

// Enqueue adds work at the end of its lane.
func (s *Scene) Enqueue(w Work) error { return s.changeLane(LaneChange{Verb: LaneEnqueue, Work: w}) }

// FinishWork removes work; ErrLeaseLost when the fence is old.
func (s *Scene) FinishWork(w Work) error { return s.giveUp(LaneChange{Verb: LaneFinish, Work: w}) }

// PutBack makes work due again at a time, or at once if it was woken meanwhile. Failures are
// counted from 0 again.
func (s *Scene) PutBack(w Work, due time.Time) error {
	w.Failures = 0
	return s.giveUp(LaneChange{Verb: LaneBack, Work: w, Due: due})
}

// PutOff is PutBack for work that got nowhere: it counts one try more.
func (s *Scene) PutOff(w Work, due time.Time) error {
	w.Tries, w.Failures = w.Tries+1, 0
	return s.giveUp(LaneChange{Verb: LaneBack, Work: w, Due: due})
}

// FailWork is PutBack for work whose handler failed: it counts one failure more than w has, and the
// claims that were lost as failures too.
func (s *Scene) FailWork(w Work, due time.Time) error {
	w.Failures += w.Lost + 1
	return s.giveUp(LaneChange{Verb: LaneBack, Work: w, Due: due})
}

// giveUp fails with ErrLeaseLost when somebody else has the work by now. Work whose
// lease is zero was given back already.
func (s *Scene) giveUp(c LaneChange) error {
	if s.readOnly {
		return ErrReadOnly
	}
	w, err := row(s, &s.Rows.Work, NeedWork{ID: c.Work.ID}, c.Work.ID)
	if errors.Is(err, ErrNoRow) || err == nil && (w.Fence != c.Work.Fence || w.Lease.IsZero() || s.given[c.Work.ID]) {
		return ErrLeaseLost
	}
	if err != nil {
		return err
	}
	if s.given == nil {
		s.given = map[int64]bool{}
	}
	s.given[c.Work.ID] = true
	return s.changeLane(c)
}

// WakeLane makes the head of a lane due now. Waking a lane that is empty is fine.
func (s *Scene) WakeLane(lane string, now time.Time) error { return s.WakeLanes([]string{lane}, now) }

// WakeLanes is WakeLane for each of many; nearly all of them may be empty.
func (s *Scene) WakeLanes(lanes []string, now time.Time) error {
	if len(lanes) == 0 {
		return nil
	}
	return s.changeLane(LaneChange{Verb: LaneWake, Lanes: lanes, Due: now})
}
