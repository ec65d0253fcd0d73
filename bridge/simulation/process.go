package simulation

import (
	"bytes"
	"context"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/bridge/simulation/fault"
	"drawbridge/bridge/simulation/witness"
	"drawbridge/parser"
	"drawbridge/store/memory"
)

// errDead is what a process gets that was killed: nothing reaches it or leaves it.
var errDead = errors.New("this process is dead")

var errStore = errors.New("simulated store failure")

// machine is where one replica of the bridge runs, again and again.
type machine struct {
	w    *world
	name string
	// offset is how wrong its clock is.
	offset time.Duration
	proc   *process
}

func (m *machine) now() time.Time { return m.w.Now.Add(m.offset) }

// usable reports whether the machine has a process that takes new work.
func (m *machine) usable() bool { return m.proc != nil && m.proc.ctx.Err() == nil }

var keys = bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte("0123456789abcdef0123456789abcdef")}}

// boot starts a process on what the last one left.
func (m *machine) boot() {
	w := m.w
	p := &process{w: w, m: m, store: w.Disk.Open()}
	p.ctx, p.cancel = context.WithCancel(w.Ctx)
	e, err := engine.New(engine.Options{
		Store: p, Runtime: p, Actions: p, Keys: keys, Policy: w.policy, PublicURL: "https://bridge.example",
		Settle: func(string) time.Duration { return settle }, Streams: -1, Parser: parser.Options{Remind: true, WebhookResult: true},
		Now: m.now, NewID: p.newID, Rand: w.Rng.Float64, Log: w.log(m),
	})
	if err != nil {
		w.Fail("start engine: %v", err)
		return
	}
	p.engine, m.proc = e, p
	w.Note(m.name, "starts")
	if len(w.machines) == 1 {
		// As the embedded store does for the one process that owns it.
		if err := p.store.Update(p.ctx, func(tx bridge.Tx) error { return tx.ReleaseAll() }); err != nil {
			w.Fail("release leases: %v", err)
		}
	}
}

// log is the engine's log, which is in the trace when that is kept.
func (w *world) log(m *machine) zerolog.Logger {
	if !w.Trace.Keep {
		return zerolog.Nop()
	}
	return zerolog.New(logWriter{w, m})
}

type logWriter struct {
	w *world
	m *machine
}

// Write implements io.Writer. The lines are no part of the hash, and stacks,
// which hold addresses, are left out.
func (l logWriter) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`"stack":`)) {
		return len(line), nil
	}
	l.w.Trace.Lines = append(l.w.Trace.Lines, l.w.Now.Sub(l.w.Start).String()+" "+l.m.name+" logs "+strings.TrimSpace(string(line)))
	return len(line), nil
}

// step lets the machine's process handle one work.
func (m *machine) step() {
	p := m.proc
	m.w.steps++
	outer := p.frame
	busy := m.w.stepping
	p.frame, m.w.stepping = frame{}, true
	defer func() { p.frame, m.w.stepping = outer, busy }()
	if _, err := p.engine.Step(p.ctx); err != nil {
		m.w.Note(m.name, "step:", err.Error())
	}
}

// reap ends the processes that were told to stop and whose handlers are back.
func (w *world) reap() {
	for _, m := range w.machines {
		if p := m.proc; p != nil && p.ctx.Err() != nil {
			p.die()
		}
	}
}

// process is one life of a bridge: an engine, and everything that it can reach.
type process struct {
	w      *world
	m      *machine
	ctx    context.Context //nolint:containedctx // the process's own life
	cancel context.CancelFunc
	engine *engine.Engine
	store  *memory.Store
	dead   bool
	lastID uint64
	frame  frame
}

// frame is what the handler that runs now has done and was told.
type frame struct {
	// commit is the number of its last commit: what it sends was decided by then.
	commit int
	// told is what the cloud said that agents have used, by their ids there.
	told map[string]*bridge.Usage
}

// die ends the process at once; another starts in a while.
func (p *process) die() {
	if p.dead {
		return
	}
	p.dead = true
	p.cancel()
	p.w.Note(p.m.name, "dies")
	if p.m.proc == p {
		p.m.proc = nil
	}
	wait := p.w.Span(0, 40*time.Second)
	p.w.After(wait, func() {
		if p.m.proc == nil {
			p.m.boot()
		}
	})
}

var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newID makes ids as bridge.NewID does: by the process's clock, never backwards
// within one process. Time stands still in a play while a process works, so
// that a number instead of dice comes behind the clock.
func (p *process) newID(prefix string) string {
	p.lastID = max(uint64(p.m.now().UnixMicro()), p.lastID)
	p.w.ids++
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], p.lastID)
	binary.BigEndian.PutUint64(raw[8:], p.w.ids)
	return prefix + idText.EncodeToString(raw[:])
}

// Update implements bridge.Store. It is where a process can die on either side of a commit.
func (p *process) Update(ctx context.Context, fn func(bridge.Tx) error) error {
	kind := p.w.Pick(fault.InCommit, p.w.Fate.Commits)
	if kind == fault.Overlap || kind == fault.Pause {
		p.interrupt(kind)
		kind = ""
	}
	if p.dead {
		return errDead
	}
	switch kind {
	case fault.CrashBeforeCommit:
		p.w.Hit(kind)
		p.die()
		return errDead
	case fault.StoreFails:
		p.w.Hit(kind)
		return errStore
	}
	if err := p.commit(ctx, fn); err != nil {
		return err
	}
	switch kind {
	case fault.CrashAfterCommit:
		p.w.Hit(kind)
		p.die()
		return errDead
	case fault.CommitUnknown:
		p.w.Hit(kind)
		return errStore
	case fault.Stalled:
		if !p.w.stepping {
			break // whoever gives orders waits for the answer
		}
		if p.interrupt(kind); p.dead {
			return errDead
		}
	}
	return nil
}

// commit runs a transaction and tells the oracle what it changed.
func (p *process) commit(ctx context.Context, fn func(bridge.Tx) error) error {
	t := &witness.Tx{}
	err := p.store.Update(ctx, func(tx bridge.Tx) error {
		t.Tx = tx
		return fn(t)
	})
	if err != nil {
		return err
	}
	for _, e := range t.Edges {
		p.w.Cover.Edges[e]++
		p.w.Note(p.m.name, e.Noun, e.From, e.To)
	}
	for _, e := range t.Illegal {
		p.w.Fail("a commit went %s, which the state machine does not know", e)
	}
	p.w.Commits++
	p.frame.commit = p.w.Commits
	p.w.oracle.Committed(t, p.frame.told)
	return nil
}

// View implements bridge.Store.
func (p *process) View(ctx context.Context, fn func(bridge.Tx) error) error {
	if p.dead {
		return errDead
	}
	return p.store.View(ctx, fn)
}

// interrupt lets others act while this process is in the middle of something;
// with a pause, after so long that its lease may have run out.
func (p *process) interrupt(kind fault.Kind) {
	w := p.w
	if w.depth >= maxDepth {
		return
	}
	w.Hit(kind)
	w.depth++
	inner, busy := p.frame, w.stepping
	w.stepping = false
	defer func() { w.depth--; p.frame, w.stepping = inner, busy }()
	switch kind {
	case fault.Pause:
		w.Now = w.Now.Add(w.Span(20*time.Second, 75*time.Second))
	case fault.Stalled:
		w.until(w.Now.Add(w.Span(time.Minute, 12*time.Minute)))
	}
	switch w.Rng.IntN(6) {
	case 0:
		w.user.stop()
	case 1, 2:
		w.user.govern()
	case 3:
		w.relist(0.4)
	}
	for range 1 + w.Rng.IntN(6) {
		if !w.turn() {
			return
		}
	}
}
