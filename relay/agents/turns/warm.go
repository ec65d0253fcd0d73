package turns

import (
	"sync"
	"time"
)

// warm is a conversation whose process lives, with everything that belongs to it. Whoever takes it from the idle ones, or runs its turn,
// owns it.
type warm struct {
	Conversation
	lane *lane
	// slots are those of the entry. The process has one.
	slots *slots
	// release are what ends with the process, in this order.
	release []func()
	// gone is closed when nothing of it is left.
	gone chan struct{}
	once sync.Once
	// parked is closed at the next turn, so that the watch over an idle process ends; nil while a turn runs.
	parked chan struct{}
	// torn is true when the process before did not end in order, so that the agent may have lost its last answer.
	torn bool
	// resumed is true when the conversation goes on with a session of an earlier process.
	resumed bool
}

// alive reports whether the conversation can take another turn.
func (w *warm) alive() bool {
	select {
	case <-w.Done():
		return false
	default:
		return true
	}
}

// end ends the process and gives its slot back. When it could still take turns, or says that it ended in order, it had time to save its
// session, and the record says so.
func (w *warm) end() {
	w.once.Do(func() {
		orderly := w.alive()
		w.Close()
		w.lane.hearLate(w.Conversation)
		if once, ends := w.Conversation.(Orderly); ends {
			orderly = once.Orderly()
		}
		for _, each := range w.release {
			each()
		}
		w.lane.ended(w, orderly)
		close(w.gone)
		w.lane.host.living(-1)
		w.slots.give()
		w.lane.leave()
	})
	<-w.gone
}

// rest keeps the process for the next turn, for as long as the entry says, unless its slot is wanted or it has ended.
func (w *warm) rest() {
	if !w.alive() {
		w.end()
		return
	}
	parked := make(chan struct{})
	w.parked = parked
	// The next turn of the lane may read its entry again while this one waits.
	idleFor := w.lane.entry.Idle
	if !w.slots.park(w) {
		w.end()
		return
	}
	if w.lane.closed() && w.slots.claim(w) {
		w.end()
		return
	}
	w.lane.host.help(func(halt <-chan struct{}) {
		if w.rests(idleFor, parked, halt) && w.slots.claim(w) {
			w.end()
		}
	})
}

// recordAfter is how long the words may take that an agent writes after the end of its turn, until they are recorded together.
const recordAfter = time.Second

// rests waits while the process rests, and records what it says meanwhile. It reports whether the rest is over without a next turn.
func (w *warm) rests(idleFor time.Duration, parked, halt <-chan struct{}) bool {
	idle, record := time.NewTimer(idleFor), time.NewTimer(recordAfter)
	defer idle.Stop()
	defer record.Stop()
	record.Stop()
	var belated <-chan struct{}
	if b, may := w.Conversation.(Belated); may {
		belated = b.Belated()
	}
	heard := belated
	for {
		select {
		case <-heard:
			heard = nil
			record.Reset(recordAfter)
		case <-record.C:
			w.lane.hearLate(w.Conversation)
			heard = belated
		case <-idle.C:
			return true
		case <-w.Done():
			return true
		case <-halt:
			return true
		case <-parked:
			return false
		case <-w.gone:
			return false
		}
	}
}

// wake takes a process that rests for a turn. It reports false when somebody ends it at this moment.
func (w *warm) wake() bool {
	if !w.slots.claim(w) {
		return false
	}
	close(w.parked)
	w.parked = nil
	return true
}
