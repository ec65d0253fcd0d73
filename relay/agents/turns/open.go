package turns

import (
	"cmp"
	"context"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/wire"
)

// openConversation takes the session's process, or starts one. A process that lives cannot say what the agent has on the disk, so it
// is ended first where that matters. used is true for a process that lived before.
func (j *job) openConversation() (used bool, err error) {
	l := j.lane
	search := j.searched() != ""
	l.mu.Lock()
	if own := j.host.slots[j.t.Agent]; l.slots != own { // it changes before the first process alone
		l.entry, l.slots = j.host.o.Config.Agents[j.t.Agent], own
	}
	w := l.warm
	l.mu.Unlock()
	if err := j.limited(); err != nil {
		return false, err
	}
	switch {
	case w == nil:
	case !w.wake():
		<-w.gone
	case search || !w.alive():
		w.end()
	default:
		w.torn = false // the process that gave the last answer is this one
		j.w = w
		return true, nil
	}
	j.turns(wire.TurnQueued)
	if err := l.slots.take(j.r.ctx); err != nil {
		return false, err
	}
	j.turns(wire.TurnStarting)
	if err = j.limited(); err == nil { // the limit may have come while the turn waited for its slot
		w, err = j.start(search)
		j.meets(err)
	}
	if err != nil {
		l.slots.give()
		return false, err
	}
	l.keep()
	j.host.living(1)
	l.mu.Lock()
	l.warm, j.w = w, w
	remembers := l.record.lastAnswered() != nil
	l.mu.Unlock()
	// Some agents load a session that never was, with nothing in it.
	if said, known := w.Replay(); w.resumed && remembers && known && len(said) == 0 {
		w.end()
		return false, &agents.Error{Cause: agents.SessionGone, Reason: "the agent loaded its session, but the session is empty"}
	}
	return false, nil
}

// start opens a conversation in a process of its own. The caller has the slot.
func (j *job) start(search bool) (*warm, error) {
	l := j.lane
	w := &warm{lane: l, slots: l.slots, gone: make(chan struct{})}
	abandon := func() {
		for _, each := range w.release {
			each()
		}
	}
	l.mu.Lock()
	torn := l.record.torn
	l.mu.Unlock()
	if torn {
		select {
		case <-j.host.before:
		case <-j.r.ctx.Done():
			return nil, context.Cause(j.r.ctx)
		}
	}
	work := Work{Agent: j.t.Agent, Session: l.session, Dir: j.place.dir, ReadOnly: j.place.readOnly}
	hold, err := j.place.space.Hold()
	if err != nil {
		return nil, &agents.Error{Cause: agents.Crashed, Reason: err.Error()}
	}
	w.release = append(w.release, hold)
	var servers []acp.MCPServer
	if door := j.host.o.Door; door != nil {
		var shut func()
		if servers, shut, err = door.Open(j.r.ctx, work); err != nil {
			abandon()
			return nil, err
		}
		w.release = append(w.release, shut)
	}
	l.mu.Lock()
	err = l.record.begin(j.t)
	name, last := l.record.name, cmp.Or(j.searched(), l.record.lastSaid())
	w.torn, w.resumed = l.record.torn && name != "", name != ""
	l.mu.Unlock()
	if err == nil {
		err = j.setUp()
	}
	if err == nil {
		err = j.place.same()
	}
	if err == nil {
		w.Conversation, err = j.host.o.Drivers[l.entry.Kind].Open(j.r.ctx, Opening{
			Work: work, Resume: name, Replay: search || w.torn, Last: last, MCP: servers, Named: l.named, Put: j.place.put,
			Ask:  func(ctx context.Context, q acp.Question) acp.Reply { return l.ask(ctx, work, q) },
			Tell: j.host.steps.teller(l.session, work.Dir),
		})
	}
	if err != nil {
		abandon()
		return nil, err
	}
	if err := l.write(line{Step: stepOpened}); err != nil {
		w.Close()
		abandon()
		return nil, err
	}
	return w, nil
}

// setUp runs the setup of the workspace, unless the same command line has set it up. What failed runs again in the next turn.
func (j *job) setUp() error {
	p := j.place
	if p.setup == nil || p.space.SetUp(p.setup) {
		return nil
	}
	select {
	case <-j.host.before: // a setup of an earlier relay may still run
	case <-j.r.ctx.Done():
		return context.Cause(j.r.ctx)
	}
	j.says("the setup of the workspace runs: " + j.host.o.SetUp.Named(p.setup))
	defer j.says("")
	if err := j.host.o.SetUp.SetUp(j.r.ctx, j.t.Agent, p.space.Dir(), p.setup); err != nil {
		return err
	}
	if err := p.space.NoteSetUp(j.r.ctx, p.setup); err != nil {
		return &agents.Error{Cause: agents.Crashed, Reason: err.Error()}
	}
	return nil
}

// searched is the marker of the turn that is looked for in the agent's history, "" when none is. An agent may send its history late.
func (j *job) searched() string {
	switch {
	case j.before != nil && j.before.said:
		return j.before.marker
	case j.earlier != nil && j.earlier.said:
		return j.earlier.marker
	}
	return ""
}

// named keeps the agent's own id of the session.
func (l *lane) named(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == "" || id == l.record.name {
		return nil
	}
	return l.record.add(line{Step: stepNamed, Name: id})
}

// watch returns the context of a turn, which ends when the turn has taken too long, is silent for too long, or has a question open for too
// long. The time in which a person is asked does not count.
func (j *job) watch() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(j.r.ctx)
	e := j.entry
	every := min(time.Second, max(5*time.Millisecond, min(e.TurnTimeout, e.SilentAfter, e.AskHold)/20))
	over := make(chan struct{})
	began := j.host.o.Now()
	go func() {
		defer close(over)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		c := clock{last: began, quiet: began}
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if why := j.tick(&c); why != nil {
				cancel(why)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-over
	}
}

// clock is what the watch over a turn counts.
type clock struct {
	last time.Time
	// spent is the time of the turn without that in which a person was asked.
	spent time.Duration
	// quiet is since when the agent has said nothing.
	quiet time.Time
}

// tick looks at a turn, and returns why it is to end.
func (j *job) tick(c *clock) *agents.Error {
	now := j.host.o.Now()
	step := now.Sub(c.last)
	c.last = now
	j.mu.Lock()
	open := len(j.r.asking) > 0
	var since time.Time
	if open {
		since = j.r.asking[0]
	}
	j.mu.Unlock()
	if open {
		c.quiet = now
		if now.Sub(since) > j.entry.AskHold {
			return &agents.Error{Cause: agents.Asking, Reason: "a question of the agent was open for longer than ask_hold (" + j.entry.AskHold.String() + "); the relay ended the agent's process, and the question stays open"}
		}
		return nil
	}
	c.spent += step
	heard, working := j.w.Heard()
	if working {
		c.quiet = now
	}
	c.quiet = latest(c.quiet, heard)
	switch {
	case c.spent > j.entry.TurnTimeout:
		return &agents.Error{Cause: agents.Hung, Reason: "the turn took longer than turn_timeout (" + j.entry.TurnTimeout.String() + ")"}
	case now.Sub(c.quiet) > j.entry.SilentAfter:
		return &agents.Error{Cause: agents.Hung, Reason: "the agent said nothing for longer than silent_after (" + j.entry.SilentAfter.String() + ")"}
	}
	return nil
}
