package lanes

import (
	"sync"

	"drawbridge/bridge"
)

// smallestShare is the part of a kind's slots that a share always has, and largestSlow the part of its slow work that one may be.
const (
	smallestShare = 16
	largestSlow   = 4
)

// book counts what is handled. Each kind of work has slots of its own. The shares, trees or relays, that use slots of a kind divide
// them evenly, and one part is left for the next that comes, so that work which hangs holds up only its like. Work that goes on
// for longer than Options.Patience waits for another program: it leaves its slot, and counts as slow from then on. The
// bounds are soft by one claim.
type book struct {
	slots, slow int

	mu     sync.Mutex // guards the fields below
	kinds  map[bridge.WorkKind]count
	shares map[string]count
	// active counts the shares of a kind that use a slot, kindOf is the kind of a share.
	active map[bridge.WorkKind]int
	kindOf map[string]bridge.WorkKind
}

// count is how many pieces of work use a slot, and how many are slow.
type count struct{ slots, slow int }

func newBook(slots, slow int) *book {
	return &book{slots: slots, slow: slow, kinds: map[bridge.WorkKind]count{}, shares: map[string]count{},
		active: map[bridge.WorkKind]int{}, kindOf: map[string]bridge.WorkKind{}}
}

// add counts work that begins (1, 0), turns slow (-1, 1), or ends.
func (b *book) add(w bridge.Work, slots, slow int) {
	k := b.kinds[w.Kind]
	b.kinds[w.Kind] = count{k.slots + slots, k.slow + slow}
	if w.Share == "" {
		return
	}
	before := b.shares[w.Share]
	after := count{before.slots + slots, before.slow + slow}
	b.shares[w.Share], b.kindOf[w.Share] = after, w.Kind
	switch {
	case before.slots == 0 && after.slots > 0:
		b.active[w.Kind]++
	case before.slots > 0 && after.slots == 0:
		b.active[w.Kind]--
	}
	if after == (count{}) {
		delete(b.shares, w.Share)
		delete(b.kindOf, w.Share)
	}
}

func (b *book) begin(w bridge.Work) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(w, 1, 0)
}

// yield makes work slow, which frees its slot, and reports whether there was room.
func (b *book) yield(w bridge.Work) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kinds[w.Kind].slow >= b.slow || w.Share != "" && b.shares[w.Share].slow >= max(b.slow/largestSlow, 1) {
		return false
	}
	b.add(w, -1, 1)
	return true
}

func (b *book) end(w bridge.Work, slow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slow {
		b.add(w, 0, -1)
		return
	}
	b.add(w, -1, 0)
}

// spent returns which kinds and shares have no slot left.
func (b *book) spent() (kinds []bridge.WorkKind, shares []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind, c := range b.kinds {
		if c.slots >= b.slots {
			kinds = append(kinds, kind)
		}
	}
	for share, c := range b.shares {
		if c.slots >= max(b.slots/(b.active[b.kindOf[share]]+1), b.slots/smallestShare, 1) {
			shares = append(shares, share)
		}
	}
	return kinds, shares
}
