package sim

import (
	"context"
	"strconv"
	"time"

	"drawbridge/bridge"
)

// request is one call of a process to the world outside.
type request struct {
	name string
	// tag says for whom, in the oracle's words.
	tag string
	// faults are those that may strike.
	faults []Fault
	// effect says that the call changes something.
	effect bool
	// again says that the other side knows a repeated request by its key.
	again bool
	// often says that a play is full of it, so that faults need not be dense.
	often bool
}

// ask makes one call of a process, with whatever goes wrong on the way.
func ask[T any](ctx context.Context, p *process, r request, do func() (T, error)) (T, error) {
	var none T
	w := p.w
	begun := w.now
	weight := 1.0
	if !r.often {
		weight = w.fate.calls
	}
	kind := w.pick(r.faults, weight)
	w.note(p.m.name, r.name, r.tag)
	if kind == faultOverlap || kind == faultPause {
		p.interrupt(kind)
		kind = ""
	}
	switch {
	case p.dead:
		return none, errDead
	case ctx.Err() != nil:
		return none, ctx.Err()
	case r.effect && w.now.Sub(begun) > latest/2:
		// The connection did not live that long.
		w.oracle.doubt(r.tag)
		return none, lost(r)
	case kind == "" || (kind == faultRepeated && !r.again):
		v, err := do()
		w.answered(r, err)
		return v, err
	}
	w.hit(kind)
	if err, plain := faultAnswers[kind]; plain {
		return none, &bridge.Error{Kind: err.Kind, Message: err.Message, RetryAfter: w.wait(err.Kind)}
	}
	if kind == faultStaleRead {
		w.cloud.stale = true
		defer func() { w.cloud.stale = false }()
		return do()
	}
	w.oracle.doubt(r.tag)
	return strike(p, r, kind, do)
}

func (w *world) answered(r request, err error) {
	if err != nil {
		w.note(r.name, "answers:", err.Error())
	}
}

// wait is what the other side asks for in Retry-After, sometimes.
func (w *world) wait(kind bridge.ErrorKind) time.Duration {
	if kind != bridge.RateLimited || w.chance(0.5) {
		return 0
	}
	return w.span(time.Second, 90*time.Second)
}

// lost is what a caller gets to whom no answer came.
func lost(r request) error {
	return &bridge.Error{Kind: bridge.Unavailable, Message: r.name + ": no answer", Unclear: r.effect}
}

// strike carries a request out with a fault that leaves doubt.
func strike[T any](p *process, r request, kind Fault, do func() (T, error)) (T, error) {
	var none T
	w := p.w
	run := func() { _, _ = do() } // whose answer nobody gets
	switch kind {
	case faultCrashBeforeCall:
		p.die()
		return none, errDead
	case faultCrashAfterCall:
		run()
		p.die()
		return none, errDead
	case faultStopInCall:
		p.cancel()
		if w.chance(0.5) {
			run()
		}
		return none, context.Canceled
	case faultPanic:
		if !w.stepping {
			break // the dispatcher recovers its handlers, and nobody a person's order
		}
		if w.chance(0.5) {
			run()
		}
		panic("simulated bug in " + r.name)
	case faultLostAfter:
		run()
	case faultLateEffect:
		d := w.span(time.Second, latest/2)
		w.note(r.name, "takes effect after", strconv.Itoa(int(d.Seconds())))
		w.afterAll(d, run)
	case faultHang:
		return none, hang(w, r, run)
	case faultRepeated:
		v, err := do()
		run()
		return v, err
	}
	return none, lost(r)
}

// hang is a call that has its effect at its start, at its end, or not at all.
func hang(w *world, r request, run func()) error {
	when := w.rng.IntN(3)
	if when == 0 {
		run()
	}
	w.now = w.now.Add(w.span(20*time.Second, time.Minute))
	if when == 1 {
		run()
	}
	return lost(r)
}

// Launch implements bridge.Launcher.
func (p *process) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	if host := p.w.hostOf(l.Runtime); host != nil {
		return p.launchHosted(ctx, host, l)
	}
	r := request{name: "launch", tag: l.Grant.Prompt(), faults: inLaunch, effect: true, again: l.API == bridge.APIv1}
	left := p.frame.commit
	return ask(ctx, p, r, func() (bridge.Started, error) { return p.w.cloud.launch(l, left) })
}

// found is what a look-up returns.
type found struct {
	started bridge.Started
	known   bridge.Found
}

// FindLaunch implements bridge.Launcher.
func (p *process) FindLaunch(ctx context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	f, err := ask(ctx, p, request{name: "find launch", tag: l.Op, faults: inRead}, func() (found, error) {
		if p.w.narrow && p.w.chance(0.3) {
			p.w.relist(0) // somebody writes the list while the answer is on its way
		}
		if host := p.w.hostOf(l.Runtime); host != nil {
			s, known, err := p.port(host, host).FindLaunch(ctx, l)
			return found{s, known}, err
		}
		return p.w.cloud.findLaunch(l), nil
	})
	return f.started, f.known, err
}

// Send implements bridge.Sender.
func (p *process) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	if host := p.w.hostOf(f.Runtime); host != nil {
		return p.sendHosted(ctx, host, f)
	}
	r := request{name: "send", tag: f.Marker, faults: inSend, effect: true, again: f.API == bridge.APIv1}
	left := p.frame.commit
	return ask(ctx, p, r, func() (bridge.Started, error) { return p.w.cloud.send(f, left) })
}

// FindSend implements bridge.Sender.
func (p *process) FindSend(ctx context.Context, f bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	if host := p.w.hostOf(f.Runtime); host != nil {
		got, err := ask(ctx, p, request{name: "find send", tag: f.Marker, faults: inRead}, func() (found, error) {
			s, known, err := p.port(host, host).FindSend(ctx, f)
			return found{s, known}, err
		})
		return got.started, got.known, err
	}
	got, err := ask(ctx, p, request{name: "find send", tag: f.Marker, faults: inFindSend}, func() (found, error) { return p.w.cloud.findSend(f) })
	if bridge.KindOf(err) == bridge.Conflict {
		err = &bridge.Error{Kind: bridge.Conflict, Message: bridge.SafeMessage(err), Unclear: true}
	}
	return got.started, got.known, err
}

// Observe implements bridge.Observer.
func (p *process) Observe(ctx context.Context, r bridge.RunRef) (bridge.Observation, error) {
	return ask(ctx, p, request{name: "observe", tag: r.Agent, faults: inRead, often: true}, func() (bridge.Observation, error) {
		if host := p.w.hostOf(r.Runtime); host != nil {
			return p.port(host, host).Observe(ctx, r)
		}
		return p.w.cloud.observe(r)
	})
}

// Inspect implements bridge.Inspector.
func (p *process) Inspect(ctx context.Context, r bridge.RunRef) (bridge.Evidence, error) {
	if p.w.hostOf(r.Runtime) != nil {
		return bridge.Evidence{}, nil
	}
	e, err := ask(ctx, p, request{name: "inspect", tag: r.Agent, faults: inRead, often: true}, func() (bridge.Evidence, error) { return p.w.cloud.inspect(r) })
	if err == nil && e.Usage != nil {
		if p.frame.told == nil {
			p.frame.told = map[string]*bridge.Usage{}
		}
		p.frame.told[r.Agent] = e.Usage
	}
	return e, err
}

// Cancel implements bridge.Observer.
func (p *process) Cancel(ctx context.Context, r bridge.RunRef) error {
	_, err := ask(ctx, p, request{name: "cancel", tag: r.Agent, faults: inCancel, effect: true, again: true}, func() (struct{}, error) {
		if host := p.w.hostOf(r.Runtime); host != nil {
			return struct{}{}, p.port(host, host).Cancel(ctx, r)
		}
		p.w.cloud.cancel(r)
		return struct{}{}, nil
	})
	return err
}

// RunAction implements bridge.ActionRunner.
func (p *process) RunAction(ctx context.Context, q bridge.ActionRequest) (bridge.ActionOutcome, error) {
	r := request{name: "action", tag: q.Request, faults: inAction, effect: true, again: true}
	left := p.frame.commit
	return ask(ctx, p, r, func() (bridge.ActionOutcome, error) { return p.w.relay.run(q, left) })
}

// LookUp implements bridge.ActionRunner.
func (p *process) LookUp(ctx context.Context, q bridge.ActionLookup) (bridge.ActionFinding, error) {
	return ask(ctx, p, request{name: "look up", tag: q.Request, faults: inLookup}, func() (bridge.ActionFinding, error) { return p.w.relay.look(q) })
}

// SentSince implements bridge.Transcriber.
func (p *process) SentSince(ctx context.Context, r bridge.RunRef) ([]bridge.SentRun, error) {
	if p.w.hostOf(r.Runtime) != nil {
		return nil, nil
	}
	return ask(ctx, p, request{name: "sent since", tag: r.Agent, faults: inRead, often: true}, func() ([]bridge.SentRun, error) { return p.w.cloud.sentSince(r) })
}
