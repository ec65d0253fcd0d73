package mail

import (
	"context"
	"sync"
	"time"

	"drawbridge/bridge"
)

// How much an agent and its tree may do at a time, so that one that is slow holds up
// nobody else. The uploads of a tree and its copies on this machine are apart.
const (
	maxUploads     = 4
	maxTreeUploads = 16
	maxReads       = 16
	maxTreeCopies  = 2
	// maxCopies bounds the copies of all trees.
	maxCopies = 8
)

// shareRetry is when one who was refused may try again.
const shareRetry = 10 * time.Second

// shares counts what is under way for each agent and tree. Safe for concurrent use.
type shares struct {
	mu   sync.Mutex // guards the fields below
	busy map[string]int
	// lanes hold a token for each copy of a tree, and users who has or wants one.
	lanes map[bridge.AgentID]chan struct{}
	users map[bridge.AgentID]int
}

func newShares() *shares {
	return &shares{busy: map[string]int{}, lanes: map[bridge.AgentID]chan struct{}{}, users: map[bridge.AgentID]int{}}
}

// bounded is one count and its limit.
type bounded struct {
	key   string
	limit int
}

// take counts one more under each key, or under none when one is at its limit. The
// caller calls done once.
func (s *shares) take(all ...bounded) (done func(), full int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range all {
		if s.busy[b.key] >= b.limit {
			return nil, b.limit
		}
	}
	for _, b := range all {
		s.busy[b.key]++
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, b := range all {
			if s.busy[b.key]--; s.busy[b.key] == 0 {
				delete(s.busy, b.key)
			}
		}
	}, 0
}

// upload counts a body that arrives as fast as its sender likes. It waits for nobody
// and takes no place among the copies. RateLimited when the sender or its tree has
// too many.
func (s *shares) upload(a bridge.Agent) (done func(), err error) {
	done, full := s.take(bounded{"upload " + string(a.ID), maxUploads}, bounded{"upload tree " + string(a.Root), maxTreeUploads})
	switch full {
	case 0:
		return done, nil
	case maxUploads:
		return nil, crowded("%d uploads of yours are under way, which is the limit; send this file again when one has ended", full)
	}
	return nil, crowded("%d uploads of your tree of agents are under way, which is the limit; send this file again later", full)
}

// read counts a file that is read as fast as its reader likes.
func (s *shares) read(agent bridge.AgentID) (done func(), err error) {
	done, full := s.take(bounded{"read " + string(agent), maxReads})
	if full > 0 {
		return nil, crowded("you are reading %d files, which is the limit; ask again when one has ended", full)
	}
	return done, nil
}

func crowded(format string, n int) error {
	err := bridge.Errorf(bridge.RateLimited, format, n)
	return &bridge.Error{Kind: err.Kind, Message: err.Message, RetryAfter: shareRetry}
}

// lane waits for one of its tree's places. Each tree has its own.
func (s *shares) lane(ctx context.Context, root bridge.AgentID) (done func(), err error) {
	s.mu.Lock()
	if s.users[root]++; s.lanes[root] == nil {
		s.lanes[root] = make(chan struct{}, maxTreeCopies)
	}
	lane := s.lanes[root]
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.users[root]--; s.users[root] == 0 {
			delete(s.users, root)
			delete(s.lanes, root)
		}
	}
	select {
	case lane <- struct{}{}:
		return func() { <-lane; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// place admits a file that is handed over: one that arrives from a network at once or
// not at all, another one when its tree and the disk have room.
func (s *Service) place(ctx context.Context, sender bridge.Agent, d FileDraft) (done func(), err error) {
	if d.Arriving {
		return s.shares.upload(sender)
	}
	leave, err := s.shares.lane(ctx, sender.Root)
	if err != nil {
		return nil, err
	}
	select {
	case s.copies <- struct{}{}:
		return func() { <-s.copies; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
