package sim

import (
	"time"

	"drawbridge/proof/memstore"
)

// pending reports whether an effect is still under way of which nobody knows.
func (w *world) pending() bool {
	return w.agenda.Late() || w.depth > 0
}

// chaos is what goes wrong by itself, every now and then until all is calm.
func (w *world) chaos() {
	if w.calm {
		return
	}
	w.after(w.span(15*time.Second, 90*time.Second), w.chaos)
	if w.strikes(faultRelayDown, 0.1) {
		w.relay.downUntil = w.now.Add(w.span(20*time.Second, 4*time.Minute))
	}
	if !w.narrow {
		w.relist(0.08)
	}
	w.cloud.meddle()
	for _, l := range w.laptops {
		l.strike()
	}
	if w.depth > 0 {
		return // a clock that jumps or a restore in the middle of a call is past the promises
	}
	w.jump()
	m := w.machines[w.rng.IntN(len(w.machines))]
	if m.proc != nil && w.strikes(faultCrashAtRest, 0.1) {
		m.proc.die()
	}
	w.restore()
}

// relist puts a shorter allowlist in force for a while, by chance, or the whole one again.
func (w *world) relist(chance float64) {
	switch {
	case w.narrow:
		w.narrow = false
	case w.strikes(faultNarrowed, chance):
		w.narrow = true
		w.after(w.span(10*time.Second, 3*time.Minute), func() { w.narrow = false })
	}
}

// jump sets the clocks wrong. Replicas stay within the skew of each other.
func (w *world) jump() {
	kind := []Fault{faultClockForward, faultClockBack}[w.rng.IntN(2)]
	if !w.strikes(kind, 0.08) {
		return
	}
	w.settleLate()
	w.cloud.jumped = w.now
	d := w.span(time.Second, []time.Duration{time.Minute, 3 * time.Hour}[w.rng.IntN(2)])
	if kind == faultClockBack {
		d = -d
	}
	base := w.machines[0].offset + d
	for _, m := range w.machines {
		m.offset = base + w.span(0, skew)
	}
}

// restore makes a copy of the database, and goes back to it some seconds later, or
// much later.
func (w *world) restore() {
	if w.user.roots == 0 || !w.strikes(faultRestored, 0.1) {
		return
	}
	backup, age := w.disk.Copy(), w.span(0, 8*time.Second)
	if w.chance(0.2) {
		age = w.span(0, 5*time.Minute)
	}
	w.after(age, func() { w.putBack(backup) })
}

// putBack puts a copy of the database in the place of the one in force.
func (w *world) putBack(backup *memstore.Disk) {
	if w.calm || w.depth > 0 {
		return // in the middle of a call it is past the promises
	}
	for _, m := range w.machines {
		if m.proc != nil {
			m.proc.die()
		}
	}
	w.settleLate()
	w.disk.Restore(backup)
	w.restored = true
	w.happened("a copy was put back")
	w.oracle.recall()
}
