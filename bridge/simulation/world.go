package simulation

import (
	"context"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/fault"
	"drawbridge/bridge/simulation/oracle"
	"drawbridge/bridge/simulation/rules"
	"drawbridge/bridge/simulation/stage"
	"drawbridge/policy"
)

// Bounds of a play. Whoever does not come to rest within them has failed.
const (
	maxSteps = 6000
	maxDepth = 2
	maxRest  = 30
)

// The bounds of the promises: what is later than these is the documented hole
// of an API without idempotency keys (facts: Effects over an unreliable API).
const (
	settle = 5 * time.Minute
	// latest is how long after a request left, or was about to, it may take effect.
	latest = 3 * time.Minute
	// lag is how long an effect may stay hidden from look-ups.
	lag = 30 * time.Second
	// skew is how far two replicas' clocks may be apart.
	skew = 20 * time.Second
)

// world is one play. Everything in it runs on one goroutine.
type world struct {
	*stage.Stage

	machines []*machine
	cloud    *cloud
	relay    *relay
	user     *user
	oracle   *oracle.Oracle
	// narrow is true while the allowlist is a shorter one.
	narrow bool
	// chain is how many turns may follow from one another without a person.
	chain int

	// depth is how many calls are open around what happens now.
	depth int
	steps int
	// stepping is true while a handler of the bridge works, and not a person.
	stepping bool
	due      time.Time // of the next work, when it was last looked for
	ids      uint64
}

func newWorld(ctx context.Context, seed uint64, c Config) *world {
	w := &world{Stage: stage.New(ctx, seed, c.Trace, c.Calm)}
	w.chain = []int{40, 40, 40, 40, 4, 1}[w.Rng.IntN(6)]
	if w.Strikes(fault.SmallBudget, 0.6) {
		w.Purse = 1 + w.Rng.IntN(len(rules.Budgets)-1)
	}
	w.cloud, w.relay, w.user = newCloud(w), newRelay(w), newUser(w)
	w.oracle = oracle.New(w.Stage, &w.cloud.Truth, &w.user.Deeds)
	for i := range 1 + w.Rng.IntN(2) {
		w.machines = append(w.machines, &machine{w: w, name: fmt.Sprintf("bridge%d", i+1)})
	}
	return w
}

// policy is the allowlist in force.
func (w *world) policy() *policy.Policy {
	return rules.Policies()[rules.Book{Chain: w.chain, Narrow: w.narrow, Purse: w.Purse}]
}

// move is one thing that can happen now.
type move struct {
	m *machine // nil for the next event
}

// moves returns what can happen now.
func (w *world) moves() []move {
	var all []move
	if at, ok := w.Agenda.Next(); ok && !at.After(w.Now) {
		all = append(all, move{})
	}
	w.due = w.nextDue()
	if w.due.IsZero() {
		return all
	}
	for _, m := range w.machines {
		if m.usable() && !w.due.After(m.now()) {
			all = append(all, move{m})
		}
	}
	return all
}

func (w *world) nextDue() (next time.Time) {
	err := w.Disk.Open().View(w.Ctx, func(tx bridge.Tx) (err error) {
		next, err = tx.NextDue(w.Start)
		return err
	})
	if err != nil {
		w.Fail("next due: %v", err)
	}
	return next
}

// turn lets one thing happen and reports whether there was one.
func (w *world) turn() bool {
	if w.depth == 0 {
		w.reap()
	}
	all := w.moves()
	if len(all) == 0 {
		return false
	}
	next := all[w.Rng.IntN(len(all))]
	if next.m != nil {
		next.m.step()
		return true
	}
	w.Agenda.Take()()
	return true
}

// advance moves time to the next thing that happens, at most to a limit, and
// reports whether there was one before it. It is called when moves found none.
func (w *world) advance(limit time.Time) bool {
	var next time.Time
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if at, ok := w.Agenda.Next(); ok {
		sooner(at)
	}
	for _, m := range w.machines {
		if m.usable() && !w.due.IsZero() {
			sooner(w.due.Add(-m.offset))
		}
	}
	if next.IsZero() || next.After(limit) {
		w.Now = stage.Later(w.Now, limit)
		return false
	}
	w.Now = stage.Later(w.Now, next)
	return true
}

// until plays on to a time, or until nothing is left to happen.
func (w *world) until(limit time.Time) {
	for len(w.Failures) == 0 && w.Ctx.Err() == nil {
		if w.turn() {
			if w.steps > maxSteps {
				w.Fail("no rest after %d works", w.steps)
			}
			continue
		}
		if !w.advance(limit) {
			return
		}
	}
}

// play is the whole play: faults for a while, then calm until nothing moves,
// then a person settles what only a person can, and then the oracle speaks.
func (w *world) play() {
	for _, m := range w.machines {
		m.boot()
	}
	w.user.begin()
	w.After(w.Span(0, time.Minute), w.chaos)
	w.until(w.Now.Add(w.Span(4*time.Minute, w.Fate.Length)))
	w.becalm()
	for range maxRest {
		w.rest()
		if len(w.Failures) > 0 || !w.user.settle() {
			break
		}
	}
	if w.Ctx.Err() != nil {
		w.Fail("cut off: %v", w.Ctx.Err())
		return
	}
	if len(w.Failures) == 0 {
		w.oracle.Judge()
	}
}

// becalm ends all faults: clocks are right again and every machine runs.
func (w *world) becalm() {
	w.SettleLate()
	w.Calm, w.Calmed, w.narrow = true, w.Now, false
	w.relay.downUntil = time.Time{}
	w.Note("calm")
	for _, m := range w.machines {
		m.offset = 0
	}
}

// rest plays until nothing moves but looks for what cannot be found.
func (w *world) rest() {
	limit := w.Now.Add(12 * time.Hour)
	for w.Now.Before(limit) && len(w.Failures) == 0 && w.Ctx.Err() == nil {
		w.until(w.Now.Add(10 * time.Minute))
		if _, more := w.Agenda.Next(); !more && w.oracle.AtRest() {
			return
		}
	}
}
