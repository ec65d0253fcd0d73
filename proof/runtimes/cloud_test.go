package runtimes_test

import (
	"strings"
	"sync"
	"testing"

	"drawbridge/bridge"
	"drawbridge/proof/runtimes"
)

// TestRuntime: the fake of the engine's tests keeps the contract of all Runtimes.
func TestRuntime(t *testing.T) {
	t.Parallel()
	runtimes.Run(t, runtimes.Suite{
		Abilities: runtimes.Abilities{Repeats: true, Cancelled: true, Inspects: true},
		New:       newWorld,
	})
}

func newWorld(*testing.T) runtimes.World {
	var failures faults
	c := &runtimes.Cloud{Answer: answer, Fail: failures.take}
	lost := &bridge.Error{Kind: bridge.Unavailable, Message: "lost", Unclear: true}
	return runtimes.World{
		Runtime: c, API: bridge.APIv1,
		Made:       func() (int, int) { return c.Effects("launch "), c.Effects("send ") },
		LoseLaunch: func() { failures.add("after launch", lost) },
		LoseSend:   func() { failures.add("after send", lost) },
		Refuse: map[bridge.ErrorKind]func(){
			bridge.RateLimited: func() { failures.add("before launch", bridge.Errorf(bridge.RateLimited, "later")) },
			bridge.Unavailable: func() { failures.add("before launch", bridge.Errorf(bridge.Unavailable, "down")) },
		},
	}
}

func answer(_, text string) bridge.Observation {
	switch {
	case strings.Contains(text, runtimes.NeverEnds):
		return bridge.Observation{State: bridge.RunRunning}
	case strings.Contains(text, runtimes.Fails):
		return bridge.Observation{State: bridge.RunError}
	}
	return bridge.Observation{Reply: "You said: " + text}
}

// faults are errors that happen once, each at its point. Safe for concurrent use.
type faults struct {
	mu sync.Mutex // guards at
	at map[string]error
}

func (f *faults) add(point string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[string]error{}
	}
	f.at[point] = err
}

func (f *faults) take(point, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.at[point]
	delete(f.at, point)
	return err
}
