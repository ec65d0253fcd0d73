package cursor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"drawbridge/internal/pause"
	"drawbridge/openai/cursor/wire"
	"drawbridge/openai/upstream"
)

// turn is one answer under way: a run on the service, and its tries.
type turn struct {
	c    *Client
	q    upstream.Request
	plan plan
	// local runs the service's own tools on this machine; nil for none.
	local Local
	// working counts what runs on this machine.
	working sync.WaitGroup

	ctx   context.Context //nolint:containedctx // the turn's own; it outlives the request
	stop  context.CancelCauseFunc
	heard chan struct{} // closed when the model said something
	done  chan struct{} // closed when nothing comes any more

	mu      sync.Mutex // guards what follows
	queue   []upstream.Event
	changed chan struct{} // closed at each change, and replaced
	failed  *upstream.Error
	over    bool
	s       *stream
	// state is the service's newest state in this turn, nil before there is one.
	state []byte
	// shown is set when something left since that state, and ever when anything left at all. owed is set from results that left until the service says
	// something else than a heartbeat: a state before that may not know of them.
	shown, ever, owed bool
	ended             *wire.TurnEnded
	// whole is set when the state holds the end of the turn.
	whole bool
	// execs are the requests of this try by their id, the caller's in open among them.
	execs map[uint32]bool
	open  map[uint32]*call
	// calls counts what the caller was asked for since the turn was parked last. listed is how many calls the service announced.
	calls, listed int
	parked        bool
	// behind are calls that came while the turn was parked.
	behind []*call
	// queued is work for this machine that begins when all events are taken.
	queued []func()
	// timer parks the turn when no further call comes.
	timer *time.Timer
	// lastSaid is when the service said anything, and lastDone when it said more than a heartbeat. answered is set when a result went out after that.
	lastSaid, lastDone time.Time
	answered           bool
}

func (c *Client) newTurn(ctx context.Context, q upstream.Request, l Local) (*turn, error) {
	p, err := c.plan(ctx, q)
	if err != nil {
		return nil, err
	}
	if l != nil {
		p.mode, p.env = wire.AgentMode_AGENT_MODE_AGENT, l.Env()
	}
	t := &turn{c: c, q: q, plan: p, local: l, heard: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{})}
	t.ctx, t.stop = context.WithCancelCause(c.base)
	return t, nil
}

// Ref implements [upstream.Turn]: a run does not outlive the process.
func (t *turn) Ref() string { return "" }

// Cancel implements [upstream.Turn]: the service stops when the stream closes.
func (t *turn) Cancel(context.Context) error {
	t.stop(io.EOF)
	return nil
}

// Next implements [upstream.Turn].
func (t *turn) Next(ctx context.Context) (upstream.Event, error) {
	for {
		t.mu.Lock()
		if len(t.queue) > 0 {
			e := t.queue[0]
			t.queue = t.queue[1:]
			t.mu.Unlock()
			return e, nil
		}
		t.begin()
		failed, over, changed := t.failed, t.over, t.changed
		t.mu.Unlock()
		switch {
		case failed != nil:
			return upstream.Event{}, failed
		case over:
			return upstream.Event{}, io.EOF
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.stop(context.Cause(ctx))
			return upstream.Event{}, ctx.Err()
		}
	}
}

// emit puts an event behind the others. The caller holds the lock.
func (t *turn) emit(e upstream.Event) {
	t.queue = append(t.queue, e)
	t.shows()
	t.wake()
}

// shows notes that something of the turn left. The caller holds the lock.
func (t *turn) shows() {
	if !t.ever {
		close(t.heard)
	}
	t.shown, t.ever = true, true
}

func (t *turn) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// live runs a turn to its end.
func (t *turn) live() {
	defer close(t.done)
	var failed *upstream.Error
	goOn := false
	for try := 1; ; try++ {
		err := t.try(goOn)
		if err == nil {
			break
		}
		v := t.c.judge(err)
		if v.stale {
			t.c.account.forget()
		}
		var again bool
		if goOn, again = t.mayTryAgain(v, try); !again {
			failed = v.told
			break
		}
		t.c.o.Log.Info().Str("turn", t.q.Turn).Int("try", try).Str("why", v.told.Message).Str("said", v.told.Said).Msg("a run of the agent protocol broke off, and nothing of it was shown since its last state; it is tried again")
		if pause.For(t.ctx, retryAfterTry[try-1]) != nil {
			failed = v.told
			break
		}
	}
	t.finish(failed)
}

// mayTryAgain reports whether another try does nothing twice, and whether it goes on from the service's own state.
func (t *turn) mayTryAgain(v verdict, try int) (goOn, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil || try >= maxTries || t.shown || len(t.open) > 0 {
		return false, false
	}
	return t.state != nil, v.again || v.stale && try == 1
}

// finish ends the turn: with its answer, or with what went wrong.
func (t *turn) finish(failed *upstream.Error) {
	cause := context.Cause(t.ctx)
	t.stop(nil)
	t.mu.Lock()
	ended, state, whole := t.ended, t.state, t.whole
	t.mu.Unlock()
	if failed == nil && whole { // without it, the next turn tells the whole conversation
		t.plan.State = state
		raw, err := json.Marshal(t.plan.kept)
		if err == nil {
			err = t.q.State.Put(context.WithoutCancel(t.ctx), stateKey(t.q.Turn), raw)
		}
		if err != nil {
			t.c.o.Log.Warn().Err(err).Str("turn", t.q.Turn).Msg("the state of a conversation is not recorded")
		}
	}
	t.mu.Lock()
	lost := t.parked && failed != nil && t.q.Lost != nil && cause == nil
	t.over = true
	if t.timer != nil {
		t.timer.Stop()
	}
	switch {
	case failed == nil:
		if t.calls > 0 && !t.parked { // the service withdrew them, and the caller has them
			t.park()
		}
		t.queue = append(t.queue, upstream.Event{Kind: upstream.Ended, Finish: "stop", Usage: usage(ended)})
	case !errors.Is(cause, io.EOF):
		told := *failed
		told.NothingHappened = told.NothingHappened && !t.ever
		t.failed = &told
	}
	why := t.failed
	t.wake()
	t.mu.Unlock()
	if lost {
		t.q.Lost(why)
	}
}

// usage counts tokens as the API does: what was read from a cache or written to it belongs to the prompt.
func usage(e *wire.TurnEnded) *upstream.Usage {
	if e == nil || e.InputTokens == nil && e.OutputTokens == nil {
		return nil
	}
	prompt := e.GetInputTokens() + e.GetCacheReadTokens() + e.GetCacheWriteTokens()
	return &upstream.Usage{Prompt: &prompt, Completion: e.OutputTokens, Cached: e.CacheReadTokens, Reasoning: e.ReasoningTokens}
}

// try opens a run, and reads it to its end. It returns nil where the service said that the turn is over.
func (t *turn) try(goOn bool) error {
	t.mu.Lock()
	state := t.plan.State
	if t.state != nil {
		state = t.state
	}
	t.execs, t.open, t.behind, t.ended = map[uint32]bool{}, map[uint32]*call{}, nil, nil
	t.mu.Unlock()
	s, err := t.c.open(t.ctx, newID(), t.local != nil)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.s, t.lastSaid, t.lastDone, t.answered = s, time.Now(), time.Now(), false
	t.mu.Unlock()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t.watch(s)
	}()
	s.post(t.plan.request(state, goOn))
	err = t.read(s)
	s.close(err)
	<-watched
	t.rest()
	t.mu.Lock()
	ended := t.ended != nil
	t.mu.Unlock()
	if ended && t.ctx.Err() == nil {
		return nil // what breaks behind the end changes nothing
	}
	return err
}

// read takes what the service says until the turn is over, and the state that follows its end is there.
func (t *turn) read(s *stream) error {
	for {
		m, err := s.receive()
		if err != nil {
			return err
		}
		if e := t.c.o.Log.Debug(); e.Enabled() {
			e.Str("turn", t.q.Turn).Str("fields", fieldsOf(m.ProtoReflect())).Msg("server message")
		}
		if over, err := t.take(s, m); over || err != nil {
			return err
		}
	}
}

// take does what a message of the service asks for; over is set behind the state that follows the end.
func (t *turn) take(s *stream, m *wire.AgentServerMessage) (over bool, err error) {
	t.mu.Lock()
	t.lastSaid = time.Now()
	if m.GetInteractionUpdate().GetHeartbeat() == nil {
		t.lastDone, t.answered = t.lastSaid, false
		t.owed = t.owed && m.GetInteractionUpdate() == nil && m.GetExecServerMessage() == nil && m.GetInteractionQuery() == nil
	}
	t.mu.Unlock()
	switch said := m.Message.(type) {
	case *wire.AgentServerMessage_InteractionUpdate:
		t.update(said.InteractionUpdate)
	case *wire.AgentServerMessage_ExecServerMessage:
		t.exec(s, said.ExecServerMessage)
	case *wire.AgentServerMessage_ConversationCheckpointUpdate:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.state, t.shown, t.whole = slices.Clone(said.ConversationCheckpointUpdate), t.shown && t.owed, t.ended != nil
		return t.whole, nil
	case *wire.AgentServerMessage_KvServerMessage:
		return false, t.blob(s, said.KvServerMessage)
	case *wire.AgentServerMessage_ExecServerControlMessage:
		if abort := said.ExecServerControlMessage.GetAbort(); abort != nil {
			t.abort(s, abort.GetId())
		}
	case *wire.AgentServerMessage_InteractionQuery:
		s.post(answerQuery(said.InteractionQuery))
	}
	return false, nil
}

// update shows what the model says. Updates that only display something else are left out.
func (t *turn) update(u *wire.InteractionUpdate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch said := u.Message.(type) {
	case *wire.InteractionUpdate_TextDelta:
		kind := upstream.Text
		if said.TextDelta.GetIsServerNotice() { // not the model's words
			kind = upstream.Reasoning
		}
		if text := said.TextDelta.GetText(); text != "" {
			t.emit(upstream.Event{Kind: kind, Text: text})
		}
	case *wire.InteractionUpdate_ThinkingDelta:
		if text := said.ThinkingDelta.GetText(); text != "" {
			t.emit(upstream.Event{Kind: upstream.Reasoning, Text: text})
		}
	case *wire.InteractionUpdate_ToolRequestsListed:
		t.listed = int(said.ToolRequestsListed.GetCallCount())
	case *wire.InteractionUpdate_TurnEnded:
		t.ended = said.TurnEnded
		s := t.s
		time.AfterFunc(stateFor, func() { s.cancel(errOver) })
	}
}

// maxBlob bounds what the service may keep under one id.
const maxBlob = 8 << 20

// blob keeps a blob for the service, or gives it back. The service waits for the answer.
func (t *turn) blob(s *stream, m *wire.KvServerMessage) error {
	answer := &wire.KvClientMessage{Id: m.GetId()}
	switch ask := m.Message.(type) {
	case *wire.KvServerMessage_SetBlobArgs:
		done := &wire.SetBlobResult{}
		if data := ask.SetBlobArgs.GetBlobData(); len(data) > maxBlob {
			done.Error = &wire.KvError{Message: fmt.Sprintf("a blob has at most %d bytes here", maxBlob)}
		} else if err := t.q.State.Put(t.ctx, blobKey(ask.SetBlobArgs.GetBlobId()), append([]byte{}, data...)); err != nil { // an empty one is one, too
			return t.notKept(err)
		}
		answer.Message = &wire.KvClientMessage_SetBlobResult{SetBlobResult: done}
	case *wire.KvServerMessage_GetBlobArgs:
		data, err := t.q.State.Get(t.ctx, blobKey(ask.GetBlobArgs.GetBlobId()))
		if err != nil {
			return t.notKept(err)
		}
		answer.Message = &wire.KvClientMessage_GetBlobResult{GetBlobResult: &wire.GetBlobResult{BlobData: data}} // nil is "not found"
	}
	s.post(&wire.AgentClientMessage{Message: &wire.AgentClientMessage_KvClientMessage{KvClientMessage: answer}})
	return nil
}

// notKept ends a turn whose conversation the bridge cannot keep.
func (t *turn) notKept(err error) error {
	t.c.o.Log.Error().Err(err).Str("turn", t.q.Turn).Msg("what the service hands over cannot be kept")
	return upstream.MayHaveBegun("state_not_kept", "the bridge could not save this conversation; see the bridge's log")
}

// watch sends heartbeats, and ends a try of which nothing comes any more.
func (t *turn) watch(s *stream) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		t.mu.Lock()
		now := time.Now()
		silent, idle, answered, waits := now.Sub(t.lastSaid), now.Sub(t.lastDone), t.answered, len(t.open) > 0
		var beats []*wire.AgentClientMessage
		if n%int(beatEach/time.Second) == 0 {
			beats = append(beats, &wire.AgentClientMessage{Message: &wire.AgentClientMessage_ClientHeartbeat{ClientHeartbeat: &wire.Empty{}}})
		}
		if n%int(execBeatEach/time.Second) == 0 {
			for id := range t.open {
				beats = append(beats, control(&wire.ExecClientControlMessage{Message: &wire.ExecClientControlMessage_Heartbeat{Heartbeat: &wire.ExecID{Id: id}}}))
			}
		}
		t.mu.Unlock()
		switch {
		case silent >= silentFor:
			s.cancel(upstream.MayHaveBegun("upstream_silent", fmt.Sprintf("the service said nothing at all for %s; send the request again as a new one", silentFor)))
			return
		case !waits && answered && idle >= stalledFor:
			s.cancel(upstream.MayHaveBegun("upstream_stalled", fmt.Sprintf("the service took the results and then sent only heartbeats for %s, so the bridge ended the turn; send the request again as a new one", stalledFor)))
			return
		case !waits && idle >= idleFor:
			s.cancel(upstream.MayHaveBegun("upstream_stalled", fmt.Sprintf("the service sent only heartbeats for %s, so the bridge ended the turn; send the request again as a new one", idleFor)))
			return
		}
		if len(beats) > 0 {
			s.post(beats...)
		}
	}
}

// Deliver implements [upstream.Turn]. A result counts for nothing whose call the service withdrew; the turn goes on all the same.
func (t *turn) Deliver(_ context.Context, results []upstream.Result) error {
	t.mu.Lock()
	if t.failed != nil || t.over && !t.parked {
		t.mu.Unlock()
		return &upstream.Error{Status: http.StatusUnprocessableEntity, Type: "invalid_request_error", Code: "turn_gone", Message: "the run that waited for these results is over; send the whole conversation again", NothingHappened: true}
	}
	s := t.s
	var out []*wire.AgentClientMessage
	for _, r := range results {
		id, err := strconv.ParseUint(r.CallID, 10, 32)
		c := t.open[uint32(id)]
		if err != nil || c == nil {
			continue
		}
		delete(t.open, c.id)
		out = append(out, c.result(r)...)
	}
	// The service may go on before this client hears that it has the results. From here on a new try could ask for the same calls again.
	t.calls, t.listed, t.answered, t.lastDone, t.shown, t.owed = 0, 0, true, time.Now(), true, true
	over := t.over
	t.mu.Unlock()
	if len(out) > 0 && !over {
		if err := s.send(out...); err != nil && !t.tookAll() {
			return t.c.judge(err).told
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parked = false
	behind := t.behind
	t.behind = nil
	for _, c := range behind {
		t.show(c)
	}
	return nil
}

// tookAll reports whether the service has ended its turn, so that it has the results of its calls. Its end closes the stream, also for the
// service's answers to what was sent on it.
func (t *turn) tookAll() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended != nil
}

// blobKey is where a blob stands in the session. Ids are 32 bytes where the vendor's clients make them.
func blobKey(id []byte) string {
	if len(id) > 64 {
		sum := sha256.Sum256(id)
		id = sum[:]
	}
	return "cursor blob " + hex.EncodeToString(id)
}
