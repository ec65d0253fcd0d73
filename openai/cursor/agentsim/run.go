package agentsim

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"drawbridge/openai/cursor/wire"
)

// run is one run as the service keeps it: the client's messages in their order, and what was asked of the client.
type run struct {
	s  *Sim
	id string

	mu      sync.Mutex // guards what follows
	next    int64
	early   map[int64]*wire.AgentClientMessage
	line    *line // nil before the stream is open
	cut     func()
	request *wire.AgentRunRequest
	blobs   map[uint32]*wire.KvClientMessage
	execs   map[uint32]*exec
	answers map[uint32]*wire.InteractionResponse
	beats   int
	changed chan struct{} // closed at each change, and replaced
}

// exec is something that the client was asked to run.
type exec struct {
	// wants is the field that its result has; a stream has many of them.
	wants   protoreflect.FieldNumber
	stream  bool
	results []*wire.ExecClientMessage
	thrown  string
	closed  bool
	// call is the id of the call of a tool of the caller.
	call string
}

func newRun(s *Sim, id string) *run {
	return &run{s: s, id: id, early: map[int64]*wire.AgentClientMessage{}, blobs: map[uint32]*wire.KvClientMessage{}, execs: map[uint32]*exec{},
		answers: map[uint32]*wire.InteractionResponse{}, changed: make(chan struct{})}
}

// take puts a message of the client into its order. One whose number came before is dropped in silence, as the service does.
func (r *run) take(number int64, m *wire.AgentClientMessage) error {
	r.mu.Lock()
	if _, waits := r.early[number]; number < r.next || waits {
		r.mu.Unlock()
		return r.s.report(r.id, "append_seqno %d came twice", number)
	}
	r.early[number] = m
	var wrong []string
	for {
		m := r.early[r.next]
		if m == nil {
			break
		}
		delete(r.early, r.next)
		if r.next == 0 && m.GetRunRequest() == nil {
			wrong = append(wrong, "the first message is not a run request")
		}
		r.next++
		if w := r.heed(m); w != "" {
			wrong = append(wrong, w)
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	var failed error
	for _, w := range wrong {
		failed = errors.Join(failed, r.s.report(r.id, "%s", w))
	}
	if failed != nil {
		r.s.mu.Lock()
		end := r.cut
		r.s.mu.Unlock()
		if end != nil {
			end()
		}
	}
	return failed
}

// heed notes what a message says, and returns what is wrong with it. The caller holds the lock.
func (r *run) heed(m *wire.AgentClientMessage) string {
	switch said := m.Message.(type) {
	case *wire.AgentClientMessage_RunRequest:
		if r.request != nil {
			return "a second run request"
		}
		r.request = said.RunRequest
	case *wire.AgentClientMessage_KvClientMessage:
		r.blobs[said.KvClientMessage.GetId()] = said.KvClientMessage
	case *wire.AgentClientMessage_InteractionResponse:
		r.answers[said.InteractionResponse.GetId()] = said.InteractionResponse
		if said.InteractionResponse.Result == nil {
			return fmt.Sprintf("the answer to query %d is empty", said.InteractionResponse.GetId())
		}
	case *wire.AgentClientMessage_ClientHeartbeat:
		r.beats++
	case *wire.AgentClientMessage_ExecClientMessage:
		return r.result(said.ExecClientMessage)
	case *wire.AgentClientMessage_ExecClientControlMessage:
		return r.control(said.ExecClientControlMessage)
	default:
		return "a message of an unknown kind"
	}
	return ""
}

func (r *run) result(m *wire.ExecClientMessage) string {
	id := m.GetId()
	e := r.execs[id]
	switch {
	case e == nil:
		return fmt.Sprintf("a result of request %d, which the service did not make", id)
	case e.closed:
		return fmt.Sprintf("a result of request %d behind its close", id)
	}
	got := protoreflect.FieldNumber(0)
	if f := m.ProtoReflect().WhichOneof(m.ProtoReflect().Descriptor().Oneofs().ByName("message")); f != nil {
		got = f.Number()
	}
	switch {
	case got != e.wants: // the service goes on waiting
		return fmt.Sprintf("request %d wants a result in field %d, and got field %d", id, e.wants, got)
	case !e.stream && len(e.results) > 0:
		return fmt.Sprintf("a second result of request %d", id)
	}
	e.results = append(e.results, m)
	return ""
}

func (r *run) control(m *wire.ExecClientControlMessage) string {
	switch said := m.Message.(type) {
	case *wire.ExecClientControlMessage_Throw:
		e := r.execs[said.Throw.GetId()]
		if e == nil {
			return fmt.Sprintf("a failure of request %d, which the service did not make", said.Throw.GetId())
		}
		e.thrown = said.Throw.GetError()
	case *wire.ExecClientControlMessage_StreamClose:
		id := said.StreamClose.GetId()
		e := r.execs[id]
		switch {
		case e == nil:
			return fmt.Sprintf("a close of request %d, which the service did not make", id)
		case e.closed:
			return fmt.Sprintf("request %d is closed twice", id)
		case len(e.results) == 0 && e.thrown == "":
			return fmt.Sprintf("request %d is closed without a result", id)
		}
		e.closed = true
	case *wire.ExecClientControlMessage_Heartbeat:
		if e := r.execs[said.Heartbeat.GetId()]; e == nil || e.closed {
			return fmt.Sprintf("a heartbeat of request %d, which does not run", said.Heartbeat.GetId())
		}
	default:
		return "a control message of an unknown kind"
	}
	return ""
}

// await waits until the client did something, without a limit: that strictness is the point.
func (r *run) await(ctx context.Context, is func() bool) error {
	for {
		r.mu.Lock()
		done, changed := is(), r.changed
		r.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// line is the stream to the client.
type line struct {
	run *run
	to  interface {
		Send(m *wire.AgentServerMessage) error
	}
	// under carries the frames of to.
	under http.ResponseWriter
	mu    sync.Mutex // one message at a time; guards quiet
	// quiet keeps heartbeats back.
	quiet bool
}

func (l *line) send(m *wire.AgentServerMessage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run.s.log(event{Run: l.run.id, From: "server"}, m)
	return l.to.Send(m)
}

// write writes bytes beside the frames.
func (l *line) write(text string) error {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.under.Write(raw); err != nil {
		return err
	}
	return http.NewResponseController(l.under).Flush()
}

func (l *line) hush(quiet bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet = quiet
}

func update(u *wire.InteractionUpdate) *wire.AgentServerMessage {
	return &wire.AgentServerMessage{Message: &wire.AgentServerMessage_InteractionUpdate{InteractionUpdate: u}}
}

// beatEach is how often a stream says that it lives.
const beatEach = 5 * time.Second

// beat says that the run lives until ctx ends.
func (l *line) beat(ctx context.Context) {
	tick := time.NewTicker(beatEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		if !l.quiet && ctx.Err() == nil {
			_ = l.to.Send(update(&wire.InteractionUpdate{Message: &wire.InteractionUpdate_Heartbeat{Heartbeat: &wire.Empty{}}})) // the next message fails, too
		}
		l.mu.Unlock()
	}
}

// errCut breaks the connection off.
var errCut = errors.New("cut")

// runSSE plays a run to its end whose messages come one by one.
func (s *Sim) runSSE(ctx context.Context, req *connect.Request[wire.BidiRequestId], to *connect.ServerStream[wire.AgentServerMessage]) error {
	r := s.of(req.Msg.GetRequestId())
	if got := req.Header().Get("X-Request-Id"); got != r.id {
		if err := s.report(r.id, "the header x-request-id of the stream is %q", got); err != nil {
			return err
		}
	}
	return s.stage(ctx, r, &line{run: r, to: to})
}

// runBoth plays a run to its end on a stream in both directions.
func (s *Sim) runBoth(ctx context.Context, both *connect.BidiStream[wire.AgentClientMessage, wire.AgentServerMessage]) error {
	r := s.of(both.RequestHeader().Get("X-Request-Id"))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for n := int64(0); ; n++ {
			m, err := both.Receive()
			if err == nil {
				s.log(event{Run: r.id, From: "client", Number: &n}, m)
				err = r.take(n, m)
			}
			if err != nil {
				cancel(err)
				return
			}
		}
	}()
	err := s.stage(ctx, r, &line{run: r, to: both})
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && cause != nil && !errors.Is(cause, io.EOF) {
		return cause
	}
	return err
}

// stage plays a run on the line to its client, and says that it lives.
func (s *Sim) stage(ctx context.Context, r *run, l *line) error {
	ctx, cancel := context.WithCancelCause(ctx)
	l.under, _ = ctx.Value(underKey{}).(http.ResponseWriter)
	s.mu.Lock()
	again := r.line != nil
	r.line, r.cut = l, func() { cancel(errCut) }
	s.mu.Unlock()
	if again {
		cancel(nil)
		return connect.NewError(connect.CodeAlreadyExists, errors.New("this request id has a stream already"))
	}
	var beating sync.WaitGroup
	beating.Go(func() { l.beat(ctx) })
	err := s.play(ctx, r, l)
	if errors.Is(context.Cause(ctx), errCut) {
		err = errCut
	}
	cancel(nil)
	beating.Wait()
	r.mu.Lock()
	early, beats := len(r.early), r.beats
	r.mu.Unlock()
	if err == nil && early > 0 {
		err = s.report(r.id, "%d messages wait behind a gap in append_seqno", early)
	}
	s.mu.Lock()
	delete(s.runs, r.id)
	s.mu.Unlock()
	s.log(event{Run: r.id, From: "end of the run", Hex: fmt.Sprintf("%d client heartbeats", beats)}, nil)
	switch {
	case errors.Is(err, errCut):
		panic(http.ErrAbortHandler)
	case errors.Is(err, errEnd):
		return nil
	}
	return err
}

// words are the newest words of the user in a run request.
func words(m *wire.AgentRunRequest) string {
	return m.GetAction().GetUserMessageAction().GetUserMessage().GetText()
}

// rule returns the turn that fits, and the number of this try of it.
func (s *Sim) rule(m *wire.AgentRunRequest, said string, number int) Turn {
	var offered []string
	for _, t := range m.GetMcpTools().GetMcpTools() {
		offered = append(offered, t.GetToolName())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprint(m.GetConversationId(), " ", number)
	s.tries[key]++
	for _, t := range s.s.Turns {
		has := !slices.ContainsFunc(t.Tools, func(name string) bool { return !slices.Contains(offered, name) })
		if has && strings.Contains(said, t.Match) && (t.Number == 0 || t.Number == number) && (t.Try == 0 || t.Try == s.tries[key]) {
			return t
		}
	}
	return Turn{Steps: []Step{{Text: "Done."}}}
}

// asError is the fault as the service sends it.
func (f *Fault) asError() error {
	code := connect.CodeInternal
	for c := connect.CodeCanceled; c <= connect.CodeUnauthenticated; c++ {
		if c.String() == f.Code {
			code = c
		}
	}
	e := connect.NewError(code, errors.New("the script fails the run"))
	if f.Kind == 0 {
		return e
	}
	details := &wire.ErrorDetails{Error: f.Kind, Details: &wire.ErrorText{Title: f.Title, Detail: f.Detail}}
	if d, err := detail(details); err == nil {
		e.AddDetail(d)
	}
	return e
}

// detail wraps details under the service's name for their type.
func detail(m proto.Message) (*connect.ErrorDetail, error) {
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return connect.NewErrorDetail(anyOf(raw))
}
