package bridge

import (
	"maps"
	"slices"
	"time"
)

// Day is what a day in UTC saw, by when turns were asked for and agents launched others.
type Day struct {
	// Start is its first moment.
	Start           time.Time
	Turns, Launches int
	// Tokens and CostMicros are what agents and APIs told of these turns; CostMicros is in millionths of a US dollar.
	Tokens, CostMicros int64
	// Untold counts the turns that ended and of which nobody told the tokens.
	Untold int
}

// DaySums adds up days. The zero value is ready. It is not for concurrent use.
type DaySums struct{ days map[time.Time]*Day }

func (d *DaySums) of(at time.Time) *Day {
	start := at.UTC().Truncate(24 * time.Hour)
	if d.days[start] == nil {
		if d.days == nil {
			d.days = map[time.Time]*Day{}
		}
		d.days[start] = &Day{Start: start}
	}
	return d.days[start]
}

// Turn adds a turn that was asked for at a time, and what it took, if that is known. over says that it has ended.
func (d *DaySums) Turn(at time.Time, over bool, spent *Spent) {
	day := d.of(at)
	day.Turns++
	if over && (spent == nil || spent.Tokens == nil) {
		day.Untold++
	}
	if spent != nil && spent.Tokens != nil {
		day.Tokens += spent.Tokens.All()
	}
	if spent != nil && spent.CostMicros != nil {
		day.CostMicros += *spent.CostMicros
	}
}

// Launch adds a launch.
func (d *DaySums) Launch(at time.Time) { d.of(at).Launches++ }

// All returns the days that saw anything, in order.
func (d *DaySums) All() []Day {
	var all []Day
	for _, start := range slices.SortedFunc(maps.Keys(d.days), time.Time.Compare) {
		all = append(all, *d.days[start])
	}
	return all
}

// NeedDays is the days since a time that saw anything. The store answers with a []Day, in order.
type NeedDays struct {
	needs
	Since time.Time
}

// Days lists the days since a time that saw a turn or a launch, in order. What the step itself does is not among them.
func (s *Scene) Days(since time.Time) ([]Day, error) {
	n := NeedDays{Since: stamp(since)}
	if guessed, err := s.guess(n); guessed || err != nil {
		return nil, err
	}
	if !s.whole {
		all, _ := s.known[n].answer.([]Day)
		return all, nil
	}
	var sums DaySums
	for t := range s.Rows.Turns.All() {
		if !t.CreatedAt.Before(n.Since) {
			sums.Turn(t.CreatedAt, !t.EndedAt.IsZero(), t.Spent)
		}
	}
	for c := range s.Rows.Commands.All() {
		if c.Child != "" && !c.Launched.Before(n.Since) {
			sums.Launch(c.Launched)
		}
	}
	return sums.All(), nil
}
