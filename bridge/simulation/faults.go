package simulation

import (
	"time"

	"drawbridge/bridge/simulation/fault"
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

// fate is which faults a seed has, and how often they strike.
type fate struct {
	enabled map[fault.Kind]bool
	// rate is the chance of a fault at each place where one may strike, more or
	// less: at commits, which a play passes most often, times commits; at calls
	// with an effect, and at the look-ups behind them, times calls.
	rate, commits, calls float64
	// length is how long things go wrong at most.
	length time.Duration
}

func (w *world) drawFate(calm bool) fate {
	f := fate{enabled: map[fault.Kind]bool{}, length: 20 * time.Minute}
	share := []float64{0.15, 0.5, 1}[w.rng.IntN(3)]
	rates := []float64{0, 0.02, 0.05, 0.1, 0.2, 0.35}
	f.rate = rates[w.rng.IntN(len(rates))]
	f.commits = []float64{1, 0.3, 0.05}[w.rng.IntN(3)]
	f.calls = []float64{1, 2.5, 2.5}[w.rng.IntN(3)]
	for _, kind := range fault.All {
		f.enabled[kind] = w.rng.Float64() < share
	}
	if w.rng.IntN(10) == 0 { // one line that loses every other answer, and nothing else
		f.enabled = map[fault.Kind]bool{fault.LostBefore: true, fault.LostAfter: true, fault.LateEffect: true, fault.Busy: true}
		f.rate, f.calls, f.commits, f.length = 0.3, 2.5, 0, time.Hour
	}
	if calm {
		f.rate = 0
	}
	return f
}

// pick returns the fault that strikes now, mostly none.
func (w *world) pick(kinds []fault.Kind, weight float64) fault.Kind {
	if w.calm || w.fate.rate == 0 || w.rng.Float64() >= w.fate.rate*weight {
		return ""
	}
	kind := kinds[w.rng.IntN(len(kinds))]
	if !w.fate.enabled[kind] {
		return ""
	}
	return kind
}

// strikes decides about one fault of the world outside, whose chance is given.
func (w *world) strikes(kind fault.Kind, chance float64) bool {
	if w.calm || w.fate.rate == 0 || !w.fate.enabled[kind] || w.rng.Float64() >= chance {
		return false
	}
	w.hit(kind)
	return true
}

func (w *world) hit(kind fault.Kind) {
	w.cover.Faults[kind]++
	w.note("fault", string(kind))
}
