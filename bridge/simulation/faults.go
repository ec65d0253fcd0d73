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

// pick returns the fault that strikes now, mostly none.
func (w *world) pick(kinds []fault.Kind, weight float64) fault.Kind {
	if w.calm || w.fate.Rate == 0 || w.rng.Float64() >= w.fate.Rate*weight {
		return ""
	}
	kind := kinds[w.rng.IntN(len(kinds))]
	if !w.fate.Enabled[kind] {
		return ""
	}
	return kind
}

// strikes decides about one fault of the world outside, whose chance is given.
func (w *world) strikes(kind fault.Kind, chance float64) bool {
	if w.calm || w.fate.Rate == 0 || !w.fate.Enabled[kind] || w.rng.Float64() >= chance {
		return false
	}
	w.hit(kind)
	return true
}

func (w *world) hit(kind fault.Kind) {
	w.cover.Faults[kind]++
	w.note("fault", string(kind))
}
