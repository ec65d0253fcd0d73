package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"drawbridge/bridge"
)

// TestFollowersOfTurnsThatAnotherReplicaEnds: runs that are over and whose turns are not asked about here keep no other run from being
// followed, and the last ones are still known.
func TestFollowersOfTurnsThatAnotherReplicaEnds(t *testing.T) {
	t.Parallel()
	var s followers
	s.open(t.Context())
	defer s.close()
	const limit = 4
	id := func(n int) bridge.TurnID { return bridge.TurnID(fmt.Sprint("trn_", n)) }
	for n := range 10 * limit {
		over := make(chan struct{})
		s.follow(id(n), limit, follower{
			Wait: func(context.Context) error { return nil },
			Over: func(context.Context) { close(over) },
			Lost: func(error) {},
		})
		select {
		case <-over:
		default:
			s.mu.Lock()
			followed := s.runs[id(n)] != nil
			s.mu.Unlock()
			if !followed {
				t.Fatalf("run %d is not followed", n)
			}
			<-over
		}
	}
	s.mu.Lock()
	if len(s.runs) > limit {
		t.Errorf("%d runs are noted, and %d as over; want %d at most", len(s.runs), len(s.over), limit)
	}
	s.mu.Unlock()
	if s.ended(id(0)) || !s.ended(id(10*limit-1)) {
		t.Error("the last runs are not those that are noted")
	}
	block := make(chan struct{})
	for n := range limit + 1 {
		s.follow(id(1000+n), limit, follower{
			Wait: func(ctx context.Context) error { <-block; return errors.New("lost") },
			Over: func(context.Context) {},
			Lost: func(error) {},
		})
	}
	s.mu.Lock()
	followed, more := s.runs[id(1000+limit-1)] != nil, s.runs[id(1000+limit)] != nil
	s.mu.Unlock()
	if !followed || more {
		t.Errorf("the last of %d is followed: %t, one more: %t", limit, followed, more)
	}
	close(block)
}
