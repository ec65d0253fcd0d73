package bridge_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
)

// state is what the three state types share.
type state[S any] interface {
	~string
	CanBecome(next S) bool
}

// checkMachine checks one table: every edge ends in a listed state, no state
// names itself or names another twice, every state is reached from the first,
// and CanBecome says what the table says.
func checkMachine[S state[S]](t *testing.T, edges map[S][]S, first S, terminal []S) {
	t.Helper()
	reached := map[S]bool{first: true}
	for todo := []S{first}; len(todo) > 0; todo = todo[1:] {
		for _, next := range edges[todo[0]] {
			if !reached[next] {
				reached[next] = true
				todo = append(todo, next)
			}
		}
	}
	for from, ends := range edges {
		if !reached[from] {
			t.Errorf("nothing leads to %s", from)
		}
		if slices.Contains(terminal, from) != (len(ends) == 0) {
			t.Errorf("%s has %d edges out; terminal states have none and all others some", from, len(ends))
		}
		for i, to := range ends {
			if _, listed := edges[to]; !listed || to == from || slices.Contains(ends[:i], to) {
				t.Errorf("bad edge from %s to %q", from, to)
			}
		}
		for to := range edges {
			if from.CanBecome(to) != (from == to || slices.Contains(ends, to)) {
				t.Errorf("CanBecome from %s to %s is not what the table says", from, to)
			}
		}
		if from.CanBecome("nowhere") {
			t.Errorf("%s can become a state that does not exist", from)
		}
	}
}

func TestStateMachines(t *testing.T) {
	t.Parallel()
	t.Run("agent", func(t *testing.T) { checkMachine(t, bridge.AgentEdges, bridge.AgentIdle, nil) })
	t.Run("turn", func(t *testing.T) {
		checkMachine(t, bridge.TurnEdges, bridge.TurnQueued, []bridge.TurnState{bridge.TurnReplied})
	})
	t.Run("command", func(t *testing.T) {
		checkMachine(t, bridge.CommandEdges, bridge.CommandParsed, []bridge.CommandState{bridge.CommandReported})
	})
}

// TestStateWords ties Over, Open and Terminal to the tables.
func TestStateWords(t *testing.T) {
	t.Parallel()
	for s, ends := range bridge.TurnEdges {
		if byPerson := s == bridge.TurnFailed; s.Over() != (len(ends) == 0 || byPerson) {
			t.Errorf("turn state %s: over is %t", s, s.Over())
		}
	}
	var open []bridge.CommandState
	for s := range bridge.CommandEdges {
		if s.Open() {
			open = append(open, s)
		}
	}
	slices.Sort(open)
	want := []bridge.CommandState{"confirmed", "granted", "held", "sending", "uncertain"}
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("open command states (-want +got):\n%s", diff)
	}
	for s, want := range map[bridge.RunState]bool{bridge.RunCreating: false, bridge.RunRunning: false, bridge.RunFinished: true, bridge.RunError: true,
		bridge.RunCancelled: true, bridge.RunExpired: true, "": false, "finished": false} {
		if s.Terminal() != want {
			t.Errorf("run state %q: terminal is %t", s, !want)
		}
	}
}

// TestNoWayBack: what is refused never runs, and what ended never starts again.
func TestNoWayBack(t *testing.T) {
	t.Parallel()
	for _, from := range []bridge.CommandState{bridge.CommandRefused, bridge.CommandFailed, bridge.CommandFinished, bridge.CommandReported} {
		for _, to := range []bridge.CommandState{bridge.CommandGranted, bridge.CommandSending, bridge.CommandConfirmed, bridge.CommandHeld} {
			if from.CanBecome(to) {
				t.Errorf("a command can go from %s to %s", from, to)
			}
		}
	}
	if bridge.CommandParsed.CanBecome(bridge.CommandSending) || bridge.CommandHeld.CanBecome(bridge.CommandSending) {
		t.Error("a command is sent without having been granted")
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("token=secret")
	full := &bridge.Error{Kind: bridge.RateLimited, Message: "slow down", Cause: cause, RetryAfter: time.Minute, Unclear: true}
	tests := []struct {
		name    string
		err     error
		kind    bridge.ErrorKind
		message string
		unclear bool
		wait    time.Duration
	}{
		{"none", nil, "", "internal error", false, 0},
		{"foreign", cause, "", "internal error", false, 0},
		{"plain", bridge.Errorf(bridge.Denied, "no %s", "way"), bridge.Denied, "no way", false, 0},
		{"full", full, bridge.RateLimited, "slow down", true, time.Minute},
		{"wrapped", fmt.Errorf("send: %w", full), bridge.RateLimited, "slow down", true, time.Minute},
		{"joined", errors.Join(cause, full), bridge.RateLimited, "slow down", true, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := bridge.KindOf(tt.err); got != tt.kind {
				t.Errorf("kind %q, want %q", got, tt.kind)
			}
			if got := bridge.SafeMessage(tt.err); got != tt.message || strings.Contains(got, "secret") {
				t.Errorf("safe message %q, want %q", got, tt.message)
			}
			if bridge.IsUnclear(tt.err) != tt.unclear || bridge.RetryAfter(tt.err) != tt.wait {
				t.Errorf("unclear %t, retry after %s", bridge.IsUnclear(tt.err), bridge.RetryAfter(tt.err))
			}
		})
	}
	if !errors.Is(full, cause) || full.Error() != "slow down: token=secret" {
		t.Errorf("the log's text is %q", full)
	}
}
