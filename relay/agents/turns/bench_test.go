package turns_test

import (
	"fmt"
	"sync"
	"testing"

	"drawbridge/relay/wire"
)

// BenchmarkWarmTurn is a turn of a session whose process lives, from the relay's side: with its record and its evidence.
func BenchmarkWarmTurn(b *testing.B) {
	w := newWorld(b, nil, nil)
	w.answers(turn("ada", "t0", "do: say here"), "here")
	for n := 0; b.Loop(); n++ {
		if end := w.run(turn("ada", fmt.Sprintf("b%d", n), "do: say here")); end.Cause != wire.TurnAnswered {
			b.Fatalf("%+v", end)
		}
	}
}

// BenchmarkManyAgents is a turn of each of 64 sessions at a time, each in a process of its own.
func BenchmarkManyAgents(b *testing.B) {
	w := newWorld(b, map[string]entry{"fake": {more: "slots: 64"}}, nil)
	each := func(n int) {
		var all sync.WaitGroup
		for s := range 64 {
			all.Go(func() {
				name := fmt.Sprintf("s%d", s)
				if end := w.run(turn(name, fmt.Sprintf("b%d-%d", n, s), "do: say here")); end.Cause != wire.TurnAnswered {
					b.Errorf("%+v", end)
				}
			})
		}
		all.Wait()
	}
	each(0)
	for n := 1; b.Loop(); n++ {
		each(n)
	}
}
