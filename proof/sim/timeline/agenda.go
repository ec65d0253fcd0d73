// Package timeline keeps what will happen in a play, and what happened. It knows nothing of bridges. Rule of thumb: the same calls in the same
// order make the same play.
package timeline

import (
	"container/heap"
	"time"
)

// event is something that happens by itself at a time.
type event struct {
	at  time.Time
	seq int
	// late marks an effect whose answer was lost long ago.
	late bool
	do   func()
}

// Agenda is what will happen by itself, the next thing first; of what happens at
// one time, the first that was added. The zero Agenda is empty. Not for concurrent use.
type Agenda struct {
	queue eventHeap
	seq   int
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || (h[i].at.Equal(h[j].at) && h[i].seq < h[j].seq)
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *eventHeap) Push(x any) { *h = append(*h, x.(event)) } //nolint:forcetypeassert // only Add pushes events

// Pop implements heap.Interface.
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// Add lets something happen at a time. late says that it is the effect of a
// request whose sender hears nothing.
func (a *Agenda) Add(at time.Time, late bool, do func()) {
	a.seq++
	heap.Push(&a.queue, event{at: at, seq: a.seq, late: late, do: do})
}

// Next returns when the next thing happens; ok is false when nothing will.
func (a *Agenda) Next() (at time.Time, ok bool) {
	if len(a.queue) == 0 {
		return time.Time{}, false
	}
	return a.queue[0].at, true
}

// Take removes the next thing and returns it. There must be one.
func (a *Agenda) Take() func() {
	return heap.Pop(&a.queue).(event).do //nolint:forcetypeassert // see Push
}

// Late reports whether a late effect is still to come.
func (a *Agenda) Late() bool {
	for _, e := range a.queue {
		if e.late {
			return true
		}
	}
	return false
}

// TakeLate removes all late effects and returns them in their order.
func (a *Agenda) TakeLate() (late []func()) {
	kept := a.queue[:0:0]
	for len(a.queue) > 0 {
		e := heap.Pop(&a.queue).(event) //nolint:forcetypeassert // see Push
		if e.late {
			late = append(late, e.do)
			continue
		}
		kept = append(kept, e)
	}
	a.queue = kept // in order, so it is a heap
	return late
}
