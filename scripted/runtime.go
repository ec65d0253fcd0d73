package scripted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/internal/linelog"
)

var (
	_ bridge.Runtime   = (*Runtime)(nil)
	_ bridge.Follower  = (*Runtime)(nil)
	_ bridge.Inspector = (*Runtime)(nil)
)

// JournalFile is the journal's name in the folder of a Runtime.
const JournalFile = "journal.jsonl"

// Options configures a Runtime. Script and Dir are required.
type Options struct {
	Script *Script
	// Dir keeps the journal, which holds the agents' door tokens; it is made for its owner alone.
	Dir string
	Log zerolog.Logger
}

// Runtime is the stand-in. Its methods are safe for concurrent use; Run is
// called once, Close after it. Agents work only while Run does.
type Runtime struct {
	o Options

	mu      sync.Mutex // guards the fields below
	journal *linelog.Log
	lines   [][]byte
	agents  map[string]*agent
	// ctx is that of Run while it runs.
	ctx  context.Context
	work sync.WaitGroup
}

// Open reads what earlier processes left; it starts nothing. Conflict when
// another process has the folder.
func Open(o Options) (*Runtime, error) {
	if o.Script == nil || o.Dir == "" {
		return nil, errors.New("scripted agents need a script and a folder")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the scripted agents: %w", err)
	}
	r := &Runtime{o: o, agents: map[string]*agent{}}
	return r, r.open(filepath.Join(o.Dir, JournalFile))
}

// Close ends the journal; what Run left unfinished goes on at the next Open.
func (r *Runtime) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.journal.Close()
}

// Run lets the agents work until ctx ends, those first that were cut off.
func (r *Runtime) Run(ctx context.Context) error {
	r.mu.Lock()
	r.ctx = ctx
	for _, a := range r.agents {
		if now := a.last(); !now.state.Terminal() {
			r.begin(a, now)
		}
	}
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.ctx = nil
	r.mu.Unlock()
	r.work.Wait()
	return nil
}

// begin lets an agent work on a run, if Run does. The caller holds the lock.
func (r *Runtime) begin(a *agent, now *run) {
	if r.ctx == nil {
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	now.stop = cancel
	r.work.Go(func() {
		defer cancel()
		r.perform(ctx, a, now)
	})
}

// Launch implements bridge.Launcher. A second call under one AgentID returns the
// agent that is there.
func (r *Runtime) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	g := l.Grant
	if !g.Valid() || g.Repo() == "" || g.Prompt() == "" {
		return bridge.Started{}, bridge.Errorf(bridge.Denied, "launch agent: the policy has not allowed this launch")
	}
	if l.AgentID == "" {
		return bridge.Started{}, bridge.Errorf(bridge.Invalid, "launch agent: it has no id")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := over(ctx); err != nil {
		return bridge.Started{}, err
	}
	if a, ok := r.agents[l.AgentID]; ok {
		return started(a, a.runs[0]), nil
	}
	if err := r.write(Line{Kind: Launched, Agent: l.AgentID, Run: 1, Name: l.Name, Repo: string(g.Repo()), Prompt: g.Prompt(), Door: l.Door}); err != nil {
		return bridge.Started{}, err
	}
	a := r.agents[l.AgentID]
	r.begin(a, a.last())
	return started(a, a.last()), nil
}

// over says that a call's context ended before it had any effect.
func over(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &bridge.Error{Kind: bridge.Unavailable, Message: "the caller stopped waiting, so the scripted runtime did nothing", Cause: err}
	}
	return nil
}

func started(a *agent, now *run) bridge.Started {
	return bridge.Started{Agent: a.id, Run: now.id(), Repo: a.repo}
}

// FindLaunch implements bridge.Launcher; what it does not find did not happen.
func (r *Runtime) FindLaunch(_ context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.agents[l.AgentID]
	if !ok {
		return bridge.Started{}, bridge.FoundAbsent, nil
	}
	return started(a, a.runs[0]), bridge.FoundThere, nil
}

// Send implements bridge.Sender.
func (r *Runtime) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	if strings.ContainsAny(f.Marker, "\r\n") || f.Marker == "" || f.Text == "" {
		return bridge.Started{}, bridge.Errorf(bridge.Invalid, "send follow-up: it needs a text, and a marker of one line")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a, err := r.agent(f.Agent)
	if err == nil {
		err = over(ctx)
	}
	if err != nil {
		return bridge.Started{}, err
	}
	if !a.last().state.Terminal() {
		return bridge.Started{}, bridge.Errorf(bridge.Busy, "send follow-up: the agent is busy with a turn")
	}
	if err := r.write(Line{Kind: Told, Agent: a.id, Run: len(a.runs) + 1, Marker: f.Marker, Prompt: f.Marker + "\n" + f.Text, Door: f.Door}); err != nil {
		return bridge.Started{}, err
	}
	r.begin(a, a.last())
	return started(a, a.last()), nil
}

// SettleTime implements runtimes.Settler: what a call did is in the journal before
// it returns, and nothing of it comes later.
func (r *Runtime) SettleTime() time.Duration { return 0 }

// FindSend implements bridge.Sender, by the marker; what it does not find did not happen.
func (r *Runtime) FindSend(_ context.Context, f bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, err := r.agent(f.Agent)
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	for _, now := range a.runs {
		if now.marker == f.Marker && f.Marker != "" {
			return started(a, now), bridge.FoundThere, nil
		}
	}
	return bridge.Started{}, bridge.FoundAbsent, nil
}

// agent finds one. The caller holds the lock.
func (r *Runtime) agent(id string) (*agent, error) {
	if a, ok := r.agents[id]; ok {
		return a, nil
	}
	return nil, bridge.Errorf(bridge.NotFound, "no scripted agent has the id %+.60q", id)
}

// find finds a run, the latest without an id. The caller holds the lock.
func (r *Runtime) find(ref bridge.RunRef) (*agent, *run, error) {
	a, err := r.agent(ref.Agent)
	if err != nil {
		return nil, nil, err
	}
	if ref.Run == "" {
		return a, a.last(), nil
	}
	for _, now := range a.runs {
		if now.id() == ref.Run {
			return a, now, nil
		}
	}
	return nil, nil, bridge.Errorf(bridge.NotFound, "agent %s has no run %+.60q", a.id, ref.Run)
}

// Observe implements bridge.Observer.
func (r *Runtime) Observe(ctx context.Context, ref bridge.RunRef) (bridge.Observation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, now, err := r.find(ref)
	if err == nil {
		err = over(ctx)
	}
	if err != nil {
		return bridge.Observation{}, err
	}
	return bridge.Observation{State: now.state, Reply: now.reply, Detail: now.why, Repo: a.repo}, nil
}

// Cancel implements bridge.Observer.
func (r *Runtime) Cancel(_ context.Context, ref bridge.RunRef) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, now, err := r.find(ref)
	if err != nil || now.state.Terminal() {
		return err
	}
	if err := r.write(Line{Kind: Ended, Agent: a.id, Run: now.n, State: bridge.RunCancelled}); err != nil {
		return err
	}
	if now.stop != nil {
		now.stop()
	}
	return nil
}

// Follow implements bridge.Follower.
func (r *Runtime) Follow(ctx context.Context, ref bridge.RunRef) error {
	r.mu.Lock()
	_, now, err := r.find(ref)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-now.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Inspect implements bridge.Inspector: a script leaves no files and uses nothing.
func (r *Runtime) Inspect(_ context.Context, ref bridge.RunRef) (bridge.Evidence, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.agent(ref.Agent); err != nil {
		return bridge.Evidence{}, err
	}
	return bridge.Evidence{Usage: &bridge.Usage{CostKnown: true}}, nil
}

// note writes a line of a run, and reports whether the agent goes on: not when
// the run was cancelled, and not when the journal cannot be written; then the
// next process finds the run as it stands.
func (r *Runtime) note(l Line) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, now, err := r.find(bridge.RunRef{Agent: l.Agent})
	if err != nil || now.n != l.Run || now.state.Terminal() {
		return false
	}
	if err := r.write(l); err != nil {
		r.o.Log.Error().Err(err).Str("agent", a.id).Msg("a scripted agent stands still")
		return false
	}
	return true
}
