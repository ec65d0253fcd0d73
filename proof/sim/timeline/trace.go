package timeline

import (
	"strings"
	"time"
)

// Trace is what happened: always as a hash, and as lines when they are wanted.
// Make one with NewTrace. Not for concurrent use.
type Trace struct {
	Hash uint64
	// Keep says that the lines are wanted.
	Keep  bool
	Lines []string
}

// NewTrace returns a trace of nothing.
func NewTrace(keep bool) Trace { return Trace{Hash: fnvOffset, Keep: keep} }

// FNV-1a, as in hash/fnv, without an allocation a line.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Add adds what happened at a time since the beginning.
func (t *Trace) Add(at time.Duration, words []string) {
	t.number(uint64(at))
	for _, word := range words {
		for i := range len(word) {
			t.Hash = (t.Hash ^ uint64(word[i])) * fnvPrime
		}
		t.number(uint64(len(word)))
	}
	if t.Keep {
		t.Lines = append(t.Lines, at.String()+" "+strings.Join(words, " "))
	}
}

func (t *Trace) number(n uint64) {
	for range 8 {
		t.Hash = (t.Hash ^ n&0xff) * fnvPrime
		n >>= 8
	}
}
