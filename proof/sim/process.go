package sim

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
	"drawbridge/parser"
	"drawbridge/proof/memstore"
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

func (m *machine) now() time.Time { return m.w.now.Add(m.offset) }

// usable reports whether the machine has a process that takes new work.
func (m *machine) usable() bool { return m.proc != nil && m.proc.ctx.Err() == nil }

var keys = bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte("0123456789abcdef0123456789abcdef")}}

// boot starts a process on what the last one left.
func (m *machine) boot() {
	w := m.w
	p := &process{w: w, m: m, store: w.disk.Open()}
	p.ctx, p.cancel = context.WithCancel(w.ctx)
	e, err := engine.New(engine.Options{
		Store: p, Runtime: p, Actions: p, Keys: keys, Policy: w.policy, PublicURL: "https://bridge.example",
		Settle: settleOf, Hosts: hosts, Streams: -1, Parser: parser.Options{Remind: true, WebhookResult: true},
		Now: m.now, NewID: p.newID, Rand: w.rng.Float64, Log: w.log(m),
	})
	if err != nil {
		w.fail("start engine: %v", err)
		return
	}
	p.engine, m.proc = e, p
	w.note(m.name, "starts")
	if len(w.machines) == 1 {
		// As the embedded store does for the one process that owns it.
		if err := p.store.ReleaseAll(p.ctx); err != nil {
			w.fail("release leases: %v", err)
		}
	}
}

// log is the engine's log, which is in the trace when that is kept.
func (w *world) log(m *machine) zerolog.Logger {
	if !w.trace.Keep {
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
	l.w.trace.Lines = append(l.w.trace.Lines, l.w.now.Sub(l.w.start).String()+" "+l.m.name+" logs "+strings.TrimSpace(string(line)))
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
		m.w.note(m.name, "step:", err.Error())
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
	store  *memstore.Store
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
	p.w.note(p.m.name, "dies")
	if p.m.proc == p {
		p.m.proc = nil
	}
	wait := p.w.span(0, 40*time.Second)
	p.w.after(wait, func() {
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

// Update implements bridge.Store.
func (p *process) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	return p.fated(func() error { return p.commit(ctx, fn, hints) })
}

// Claim implements bridge.Store.
func (p *process) Claim(ctx context.Context, c bridge.Claim) (works []bridge.Work, err error) {
	err = p.fated(func() error {
		works, err = p.store.Claim(ctx, c)
		if err == nil {
			p.committed(&witness{claimed: works})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return works, nil
}

// Extend implements bridge.Store.
func (p *process) Extend(ctx context.Context, w bridge.Work, until time.Time) error {
	return p.fated(func() error { return p.store.Extend(ctx, w, until) })
}

// NextFor implements bridge.Store.
func (p *process) NextFor(ctx context.Context, c bridge.Claim) (time.Time, error) {
	if p.dead {
		return time.Time{}, errDead
	}
	return p.store.NextFor(ctx, c)
}

// fated runs a commit. It is where a process can die on either side of one.
func (p *process) fated(commit func() error) error {
	kind := p.w.pick(inCommit, p.w.fate.commits)
	if kind == faultOverlap || kind == faultPause {
		p.interrupt(kind)
		kind = ""
	}
	if p.dead {
		return errDead
	}
	switch kind {
	case faultCrashBeforeCommit:
		p.w.hit(kind)
		p.die()
		return errDead
	case faultStoreFails:
		p.w.hit(kind)
		return errStore
	}
	if err := commit(); err != nil {
		return err
	}
	switch kind {
	case faultCrashAfterCommit:
		p.w.hit(kind)
		p.die()
		return errDead
	case faultCommitUnknown:
		p.w.hit(kind)
		return errStore
	case faultStalled:
		if !p.w.stepping {
			break // whoever gives orders waits for the answer
		}
		if p.interrupt(kind); p.dead {
			return errDead
		}
	}
	return nil
}

// commit runs a step under observation.
func (p *process) commit(ctx context.Context, fn func(*bridge.Scene) error, hints []bridge.Need) error {
	var t *witness
	err := p.store.Update(ctx, func(tx *bridge.Scene) error {
		t = &witness{}
		tx.Seen = t.see
		err := fn(tx)
		t.handed(tx.Lanes)
		return err
	}, hints...)
	if err == nil {
		p.committed(t)
	}
	return err
}

// committed tells the oracle what a commit changed.
func (p *process) committed(t *witness) {
	for _, e := range t.edges {
		p.w.cover.Edges[e]++
		p.w.note(p.m.name, e.Noun, e.From, e.To)
	}
	for _, e := range t.illegal {
		p.w.fail("a commit went %s, which the state machine does not know", e)
	}
	p.w.commits++
	p.frame.commit = p.w.commits
	p.w.oracle.committed(t, p.frame.told)
}

// View implements bridge.Store.
func (p *process) View(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	if p.dead {
		return errDead
	}
	return p.store.View(ctx, fn, hints...)
}

// interrupt lets others act while this process is in the middle of something;
// with a pause, after so long that its lease may have run out.
func (p *process) interrupt(kind Fault) {
	w := p.w
	if w.depth >= maxDepth {
		return
	}
	w.hit(kind)
	w.depth++
	inner, busy := p.frame, w.stepping
	w.stepping = false
	defer func() { w.depth--; p.frame, w.stepping = inner, busy }()
	switch kind {
	case faultPause:
		w.now = w.now.Add(w.span(20*time.Second, 75*time.Second))
	case faultStalled:
		w.until(w.now.Add(w.span(time.Minute, 12*time.Minute)))
	}
	switch w.rng.IntN(6) {
	case 0:
		w.user.stop()
	case 1, 2:
		w.user.govern()
	case 3:
		w.relist(0.4)
	}
	for range 1 + w.rng.IntN(6) {
		if !w.turn() {
			return
		}
	}
}
