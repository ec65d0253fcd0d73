package hosted_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	proof "drawbridge/proof/runtimes"
	"drawbridge/relay/hosted"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// machine is a relay's host of agents that keeps its record over processes, as a real one does. It is strict: a second turn of a
// session beside one that runs, or one of a session that it does not know, is refused.
type machine struct {
	epoch, processes atomic.Int64

	mu       sync.Mutex // guards the fields below
	sessions map[string]map[string]*said
	// said are the turns that agents got, in order.
	said []wire.Turn
	// first and later count the turns that began a session and those that went on with one.
	first, later int
	// refuse is what the next turn meets, "" for nothing.
	refuse wire.Refusal
	// before, when set, is called before a turn is said; the turn is lost when it returns false.
	before func(wire.Turn) bool
	// end, when set, makes the end of a turn.
	end func(wire.Turn) wire.TurnEnded
}

type said struct {
	over chan struct{}
	end  wire.TurnEnded
	stop func()
}

func newMachine() *machine { return &machine{sessions: map[string]map[string]*said{}} }

// Run implements wire.Handler.
func (m *machine) Run(context.Context, wire.Request, func(wire.Output)) (wire.Outcome, error) {
	return wire.Outcome{Answer: wire.Refused("", "no actions here"), Refusal: wire.RefusedUnlisted}, nil
}

// Offers implements wire.Handler.
func (m *machine) Offers() []wire.Offer { return nil }

// RunTurn implements wire.AgentHost.
func (m *machine) RunTurn(ctx context.Context, t wire.Turn) wire.TurnEnded {
	s, refused, again := m.begin(t)
	if refused != nil {
		return *refused
	}
	select {
	case <-s.over:
	case <-ctx.Done(): // the process of the relay ends, and nothing is written down
		return wire.TurnEnded{Cause: wire.TurnCrashed}
	}
	end := s.end
	end.Replayed = again
	return end
}

func (m *machine) begin(t wire.Turn) (s *said, refused *wire.TurnEnded, again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	session, known := m.sessions[t.Session]
	if s := session[t.ID]; s != nil {
		return s, nil, true
	}
	if m.refuse != "" {
		why := m.refuse
		m.refuse = ""
		return nil, &wire.TurnEnded{Refusal: why, Error: "not now", RetryMS: 1}, false
	}
	switch {
	case m.before != nil && !m.before(t):
		return nil, &wire.TurnEnded{Refusal: wire.RefusedBusy, RetryMS: 1}, false
	case !known && t.Home == wire.Home{}:
		return nil, &wire.TurnEnded{Cause: wire.TurnSessionGone, Error: "no such session"}, false
	case m.busy(t.Session):
		return nil, &wire.TurnEnded{Refusal: wire.RefusedBusy, Error: "the session is in a turn", RetryMS: 1}, false
	case !known:
		m.sessions[t.Session] = map[string]*said{}
		m.first++
	default:
		m.later++
	}
	m.said = append(m.said, t)
	s = &said{over: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.over) })
	m.sessions[t.Session][t.ID] = s
	m.answer(t, s)
	return s, nil, false
}

// answer ends a turn at once, unless its text says otherwise.
func (m *machine) answer(t wire.Turn, s *said) {
	switch {
	case m.end != nil:
		s.end = m.end(t)
		if s.end.Cause == "" {
			return // it goes on
		}
	case strings.Contains(t.Text, proof.NeverEnds):
		return
	case strings.Contains(t.Text, proof.Fails):
		s.end = wire.TurnEnded{Cause: wire.TurnCrashed, Error: "exit status 1"}
	default:
		s.end = wire.TurnEnded{Cause: wire.TurnAnswered, Text: "You said: " + t.Text, Evidence: "2 commits on drawbridge/ada"}
	}
	s.stop()
}

// busy reports whether a turn of a session runs. The caller holds the lock.
func (m *machine) busy(session string) bool {
	for _, s := range m.sessions[session] {
		select {
		case <-s.over:
		default:
			return true
		}
	}
	return false
}

// LookupTurn implements wire.AgentHost.
func (m *machine) LookupTurn(t wire.Turn) wire.TurnFound {
	m.mu.Lock()
	defer m.mu.Unlock()
	session, known := m.sessions[t.Session]
	s := session[t.ID]
	switch {
	case !known:
		return wire.TurnFound{ID: t.ID, Known: wire.TurnKnownNot}
	case s == nil:
		return wire.TurnFound{ID: t.ID, Known: wire.TurnKnownAbsent}
	}
	select {
	case <-s.over:
		end := s.end
		end.ID = t.ID
		return wire.TurnFound{ID: t.ID, Known: wire.TurnKnownEnded, Ended: &end}
	default:
		return wire.TurnFound{ID: t.ID, Known: wire.TurnKnownOpen}
	}
}

// StopTurn implements wire.AgentHost.
func (m *machine) StopTurn(t wire.Turn) wire.TurnFound {
	found := m.LookupTurn(t)
	if found.Known == wire.TurnKnownOpen {
		m.finish(t.Session, t.ID, wire.TurnEnded{Cause: wire.TurnStopped})
	}
	return found
}

// refuseLater refuses a turn that goes on, and forgets its session.
func (m *machine) refuseLater(session, id, why string) {
	m.mu.Lock()
	s := m.sessions[session][id]
	s.end = wire.TurnEnded{Refusal: wire.RefusedUnsafe, Error: why}
	delete(m.sessions, session)
	m.mu.Unlock()
	s.stop()
}

// finish ends a turn that goes on.
func (m *machine) finish(session, id string, end wire.TurnEnded) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[session][id]
	if s.end.Cause == "" {
		s.end = end
	}
	s.stop()
}

// forget loses the record of everything, as a relay does whose folder is gone.
func (m *machine) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, session := range m.sessions {
		for _, s := range session {
			s.stop()
		}
	}
	m.sessions = map[string]map[string]*said{}
}

func (m *machine) made() (first, later int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first, m.later
}

// process is one process of the relay: it has a name of its own, and its machine's record.
type process struct {
	*machine
	name string
}

// Process implements wire.Handler.
func (p process) Process() string { return p.name }

// Epoch implements wire.Handler.
func (p process) Epoch() int64 { return p.epoch.Load() }

// KeepEpoch implements wire.Handler.
func (p process) KeepEpoch(epoch int64) error {
	p.epoch.Store(max(p.epoch.Load(), epoch))
	return nil
}

// Lookup implements wire.Handler.
func (p process) Lookup(r wire.Request) wire.Found { return wire.Found{ID: r.ID, Known: wire.KnownNot} }

// site is one replica of a bridge with one relay runtime.
type site struct {
	*hosted.Runtime
	hub  *hub.Hub
	url  string
	stop func()
}

// newSite starts a replica over a disk. change may stand between the runtime and the hub.
func newSite(t *testing.T, disk *memstore.Disk, change func(*hosted.Options)) *site {
	t.Helper()
	h, err := hub.New(hub.Options{Store: disk.Open(), Keys: bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))}}, Shared: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	o := hosted.Options{Turns: h, Relay: "laptop", Agent: "opencode", Poll: time.Millisecond}
	if change != nil {
		change(&o)
	}
	s := &site{Runtime: hosted.New(o), hub: h}
	server := httptest.NewServer(h)
	s.url = server.URL
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = h.Run(ctx) })
	all.Go(func() { _ = s.Run(ctx) })
	all.Go(func() { // replicas are told of each other's changes
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-tick.C:
				h.Wake()
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
		server.Close()
	})
	t.Cleanup(s.stop)
	return s
}

// identity enrolls the relay.
func (s *site) identity(t *testing.T) string {
	t.Helper()
	token, err := s.hub.NewToken(t.Context(), "laptop", 0)
	if err != nil {
		t.Fatal(err)
	}
	in, err := link.NewInvitation(s.url, token.Text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), link.DefaultFile)
	if _, err := link.Join(t.Context(), path, in, time.Now); err != nil {
		t.Fatal(err)
	}
	return path
}

// connect runs a process of the relay until the test or the returned function ends it.
func (s *site) connect(t *testing.T, path string, m *machine) func() {
	t.Helper()
	l, err := link.New(link.Options{Identity: path, Handler: process{m, fmt.Sprintf("p%d", m.processes.Add(1))}, Rand: func() float64 { return 0 }, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = l.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	s.online(t)
	return stop
}

// online waits until this replica reaches the relay: until it can look up a launch that never was.
func (s *site) online(t *testing.T) {
	t.Helper()
	eventually(t, "the relay is connected", func() bool {
		_, _, err := s.FindLaunch(t.Context(), bridge.Launch{AgentID: "nobody"})
		return err == nil
	})
}

func eventually(t *testing.T, what string, fn func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !fn() {
		select {
		case <-ctx.Done():
			t.Fatalf("it never came to this: %s", what)
		case <-tick.C:
		}
	}
}
