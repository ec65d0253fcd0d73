package turns

import (
	"context"
	"sync"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// lane is one session: its record, its process and the turns that are in hand.
type lane struct {
	host          *Host
	session, path string
	// users counts callers and the process; the host's mu guards it.
	users int
	// entry and slots are those of the agent, set by the first turn that runs.
	entry settings.Agent
	slots *slots
	// free holds one value while a turn has the session.
	free chan struct{}

	mu     sync.Mutex // guards the fields below
	record *record
	runs   map[string]*run
	// warm is the process, nil where there is none. The turn that has the session changes it.
	warm *warm
	// current is the turn that is said now.
	current *run
	// over is true when the session gets no more turns.
	over bool
}

// run is a turn in hand.
type run struct {
	id string
	// body is the digest of what the turn was sent with, "" for one that is only looked for.
	body string
	done chan struct{}
	// end and again are set before done is closed. again is true when the turn turned out not to be said, and the caller may say it.
	end    wire.TurnEnded
	again  bool
	ctx    context.Context
	cancel context.CancelCauseFunc

	// The lane's mu guards the fields below.
	state wire.TurnState
	since time.Time
	// note is what happened to the turn, "" for nothing.
	note string
	// asking are the questions that are open, and asked when the last one was closed.
	asking []time.Time
	asked  time.Time
}

// open opens the record where it is not open.
func (l *lane) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record != nil {
		return nil
	}
	r, err := openRecord(l.path, l.host.o.Now)
	if err != nil {
		return err
	}
	if r.session != "" && r.session != l.session {
		_ = r.close()
		return &agents.Error{Cause: agents.Crashed, Reason: l.path + " is the record of another session; move the file away"}
	}
	l.record = r
	return nil
}

// leave is the end of one use. The last one closes the record and forgets the lane.
func (l *lane) leave() {
	h := l.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(h.lanes, l.session)
	if l.record == nil {
		return
	}
	if err := l.record.close(); err != nil {
		h.o.Log.Warn().Err(err).Str("session", l.session).Msg("close the record of a session")
	}
}

// keep counts one more use.
func (l *lane) keep() {
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	l.users++
}

// join returns the turn in hand, or begins it, or returns what the record or a refusal says.
func (l *lane) join(ctx context.Context, t wire.Turn) (r *run, mine bool, end *wire.TurnEnded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, r := l.record.turns[t.ID], l.runs[t.ID]
	if t.Text != "" && (p != nil && p.body != "" && p.body != t.BodyHash || r != nil && r.body != "" && r.body != t.BodyHash) {
		return nil, false, &wire.TurnEnded{Refusal: wire.RefusedConflict, Error: "the turn's id was used for another text; send the turn with a new id"}
	}
	if r != nil {
		return r, false, nil
	}
	if p.over() {
		return nil, false, l.recorded(t.ID)
	}
	if l.record.session == "" && t.Home == (wire.Home{}) {
		return nil, false, &wire.TurnEnded{Cause: wire.TurnSessionGone, Error: "the relay has no record of this session; begin a new one"}
	}
	if err := l.record.fits(t); err != nil {
		return nil, false, &wire.TurnEnded{Refusal: wire.RefusedConflict, Error: clipped(err.Error())}
	}
	if t.Text != "" {
		// The turn may wait for a slot. Should the relay end meanwhile, its session is known, and the turn is said then.
		if err := l.record.begin(t); err != nil {
			end := l.unwritten(t.ID, err)
			return nil, false, &end
		}
	}
	r = &run{id: t.ID, done: make(chan struct{}), state: wire.TurnQueued, since: l.host.o.Now()}
	if t.Text != "" {
		r.body = t.BodyHash
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	l.runs[t.ID] = r
	return r, true, nil
}

// unwritten is the refusal of a turn that was not said, because the disk takes nothing.
func (l *lane) unwritten(turn string, err error) wire.TurnEnded {
	l.host.o.Log.Error().Err(err).Str("session", l.session).Str("turn", turn).Msg("an agent did not get a turn, because the record of its session cannot be written")
	return wire.TurnEnded{Refusal: wire.RefusedBusy, RetryMS: 5000, Error: "the relay cannot write its record of the session; look at its log"}
}

// recorded is the end of a turn as the record has it. The caller holds the mutex.
func (l *lane) recorded(id string) *wire.TurnEnded {
	end, err := l.record.end(id)
	if err != nil {
		return &wire.TurnEnded{Refusal: wire.RefusedUnsafe, Error: clipped(err.Error())}
	}
	end.Replayed = true
	return end
}

// finish gives a turn in hand its end. Nobody joins it any more.
func (l *lane) finish(r *run, end wire.TurnEnded, again bool) {
	l.mu.Lock()
	r.end, r.again = end, again
	delete(l.runs, r.id)
	l.mu.Unlock()
	r.cancel(nil)
	close(r.done)
}

// look says what is known of a turn. An open turn without a state is in nobody's hand.
func (l *lane) look(id string) wire.TurnFound {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[id]; r != nil {
		state, since := l.stateOf(r)
		return wire.TurnFound{Known: wire.TurnKnownOpen, State: state, SinceMS: max(0, l.host.o.Now().Sub(since).Milliseconds()), Note: r.note}
	}
	p := l.record.turns[id]
	switch {
	case l.record.session == "":
		return wire.TurnFound{Known: wire.TurnKnownNot}
	case p == nil || p.last == stepWithdrawn:
		return wire.TurnFound{Known: wire.TurnKnownAbsent}
	case !p.over():
		return wire.TurnFound{Known: wire.TurnKnownOpen}
	}
	if end := l.recorded(id); end.Refusal == "" {
		return wire.TurnFound{Known: wire.TurnKnownEnded, Ended: end}
	}
	return wire.TurnFound{Known: wire.TurnKnownNot}
}

// stateOf is what a turn in hand does, and since when. The caller holds the mutex.
func (l *lane) stateOf(r *run) (wire.TurnState, time.Time) {
	if len(r.asking) > 0 {
		return wire.TurnAskingNow, r.asking[0]
	}
	if r.state != wire.TurnWorking || l.warm == nil || l.current != r {
		return r.state, r.since
	}
	heard, working := l.warm.Heard()
	last := latest(heard, r.since, r.asked)
	if !working && l.host.o.Now().Sub(last) > silentAfter(l.entry) {
		return wire.TurnSilent, last
	}
	return wire.TurnWorking, r.since
}

// silentAfter is after which time without a word a turn shows as silent. It ends at silent_after itself.
func silentAfter(a settings.Agent) time.Duration { return min(a.SilentAfter/2, time.Minute) }

func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// stop ends a turn in hand, and says what was known of it.
func (l *lane) stop(id string) wire.TurnFound {
	found := l.look(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[id]; r != nil {
		r.cancel(errStopped)
	}
	return found
}

// close ends the process of a session that gets no more turns, now or when its turn has ended.
func (l *lane) close() {
	l.mu.Lock()
	l.over = true
	w := l.warm
	l.mu.Unlock()
	if w != nil && w.slots.claim(w) {
		w.end()
	}
}

func (l *lane) closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// write adds a line to the record.
func (l *lane) write(add line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.add(add)
}

// ended notes that the process of the session has ended.
func (l *lane) ended(w *warm, orderly bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.warm == w {
		l.warm = nil
	}
	if !orderly || l.record.session == "" {
		return
	}
	if err := l.record.add(line{Step: stepClosed}); err != nil {
		l.host.o.Log.Warn().Err(err).Str("session", l.session).Msg("record that an agent's process ended")
	}
}

// ask passes a question of the agent's on, and stops the clock of the turn meanwhile.
func (l *lane) ask(ctx context.Context, w Work, q acp.Question) acp.Reply {
	l.mu.Lock()
	r := l.current
	if r == nil {
		l.mu.Unlock()
		return acp.Refuse // a question without a turn
	}
	w.Turn = r.id
	began := l.host.o.Now()
	r.asking = append(r.asking, began)
	l.mu.Unlock()
	reply := l.host.o.Asker.Ask(ctx, w, q)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range r.asking {
		if t.Equal(began) {
			r.asking = append(r.asking[:i], r.asking[i+1:]...)
			break
		}
	}
	r.asked = l.host.o.Now()
	return reply
}
