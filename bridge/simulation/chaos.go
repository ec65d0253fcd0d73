package simulation

import (
	"time"

	"drawbridge/bridge/simulation/fault"
	"drawbridge/store/memory"
)

// pending reports whether an effect is still under way of which nobody knows.
func (w *world) pending() bool {
	return w.Agenda.Late() || w.depth > 0
}

// chaos is what goes wrong by itself, every now and then until all is calm.
func (w *world) chaos() {
	if w.Calm {
		return
	}
	w.After(w.Span(15*time.Second, 90*time.Second), w.chaos)
	if w.Strikes(fault.RelayDown, 0.1) {
		w.relay.downUntil = w.Now.Add(w.Span(20*time.Second, 4*time.Minute))
	}
	if !w.narrow {
		w.relist(0.08)
	}
	w.cloud.meddle()
	if w.depth > 0 {
		return // a clock that jumps or a restore in the middle of a call is past the promises
	}
	w.jump()
	m := w.machines[w.Rng.IntN(len(w.machines))]
	if m.proc != nil && w.Strikes(fault.CrashAtRest, 0.1) {
		m.proc.die()
	}
	w.restore()
}

// relist puts a shorter allowlist in force for a while, by chance, or the whole one again.
func (w *world) relist(chance float64) {
	switch {
	case w.narrow:
		w.narrow = false
	case w.Strikes(fault.Narrowed, chance):
		w.narrow = true
		w.After(w.Span(10*time.Second, 3*time.Minute), func() { w.narrow = false })
	}
}

// jump sets the clocks wrong. Replicas stay within the skew of each other.
func (w *world) jump() {
	kind := []fault.Kind{fault.ClockForward, fault.ClockBack}[w.Rng.IntN(2)]
	if !w.Strikes(kind, 0.08) {
		return
	}
	w.SettleLate()
	w.cloud.jumped = w.Now
	d := w.Span(time.Second, []time.Duration{time.Minute, 3 * time.Hour}[w.Rng.IntN(2)])
	if kind == fault.ClockBack {
		d = -d
	}
	base := w.machines[0].offset + d
	for _, m := range w.machines {
		m.offset = base + w.Span(0, skew)
	}
}

// restore makes a copy of the database, and goes back to it some seconds later, or
// much later.
func (w *world) restore() {
	if w.user.roots == 0 || !w.Strikes(fault.Restored, 0.1) {
		return
	}
	backup, age := w.Disk.Copy(), w.Span(0, 8*time.Second)
	if w.Chance(0.2) {
		age = w.Span(0, 5*time.Minute)
	}
	w.After(age, func() { w.putBack(backup) })
}

// putBack puts a copy of the database in the place of the one in force.
func (w *world) putBack(backup *memory.Disk) {
	if w.Calm || w.depth > 0 {
		return // in the middle of a call it is past the promises
	}
	for _, m := range w.machines {
		if m.proc != nil {
			m.proc.die()
		}
	}
	w.SettleLate()
	w.Disk.Restore(backup)
	w.Restored = true
	w.Happened("a copy was put back")
	w.oracle.Recall()
}
