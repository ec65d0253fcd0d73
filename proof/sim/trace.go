package sim

import (
	"strings"
	"time"
)

// trace is what happened: always as a hash, and as lines when they are wanted.
// Make one with newTrace. Not for concurrent use.
type trace struct {
	hash uint64
	// keep says that the lines are wanted.
	keep  bool
	lines []string
}

// newTrace returns a trace of nothing.
func newTrace(keep bool) trace { return trace{hash: fnvOffset, keep: keep} }

// FNV-1a, as in hash/fnv, without an allocation a line.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// add adds what happened at a time since the beginning.
func (t *trace) add(at time.Duration, words []string) {
	t.number(uint64(at))
	for _, word := range words {
		for i := range len(word) {
			t.hash = (t.hash ^ uint64(word[i])) * fnvPrime
		}
		t.number(uint64(len(word)))
	}
	if t.keep {
		t.lines = append(t.lines, at.String()+" "+strings.Join(words, " "))
	}
}

func (t *trace) number(n uint64) {
	for range 8 {
		t.hash = (t.hash ^ n&0xff) * fnvPrime
		n >>= 8
	}
}
