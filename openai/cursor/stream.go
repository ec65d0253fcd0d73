package cursor

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"drawbridge/openai/cursor/wire"
)

// stream is one try of a run: what the service says, and one counter for all that is said to it. Its methods are safe for concurrent
// use, but for receive.
type stream struct {
	c      *Client
	id     string
	ctx    context.Context //nolint:containedctx // the try's own
	cancel context.CancelCauseFunc
	// opened is closed when in or openErr is there.
	opened  chan struct{}
	in      *connect.ServerStreamForClient[wire.AgentServerMessage]
	openErr error
	// both is the stream in both directions, over HTTP/2; nil over HTTP/1.1, where in and the appends are it together.
	both *connect.BidiStreamForClient[wire.AgentClientMessage, wire.AgentServerMessage]

	mu   sync.Mutex // guards next and queue, and keeps new messages from a try that ends
	next int64
	// queue waits for both; more wakes its writer.
	queue []outgoing
	more  chan struct{}
	// room bounds the messages that are on their way at once.
	room chan struct{}
	// tools are the names of the tools that the model is offered.
	tools string
	sent  sync.WaitGroup
}

// onTheWay bounds the messages to the service that have no answer yet.
const onTheWay = 16

// callersTools are the names under which the service offers a client's own tools. The list leaves out its shell and its files.
const callersTools = "mcp_tool_call,get_mcp_tools_tool_call,list_mcp_resources_tool_call,read_mcp_resource_tool_call,mcp_auth_tool_call"

// open begins a try, with the service's own tools where local is set. Its first message has to be sent next.
func (c *Client) open(ctx context.Context, id string, local bool) (*stream, error) {
	token, err := c.account.bearer(ctx)
	if err != nil {
		return nil, err
	}
	s := &stream{c: c, id: id, opened: make(chan struct{}), room: make(chan struct{}, onTheWay), tools: callersTools}
	if local {
		s.tools += "," + ownTools
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if c.o.HTTP2 {
		s.both = c.duplex.CallBidiStream(s.ctx)
		s.headers(s.both.RequestHeader(), token)
		s.more = make(chan struct{}, 1)
		s.sent.Add(1)
		go s.write()
		context.AfterFunc(s.ctx, func() { _ = s.both.CloseRequest() }) // a request under way sees the end of its context only then
		return s, nil
	}
	req := connect.NewRequest(&wire.BidiRequestId{RequestId: id})
	s.headers(req.Header(), token)
	go func() { // it returns when the answer begins, and the answer may begin when the first message was read
		defer close(s.opened)
		s.in, s.openErr = c.run.CallServerStream(s.ctx, req)
	}()
	return s, nil
}

// headers are those of the run and of each message to it.
func (s *stream) headers(h http.Header, token string) {
	privacy := "false"
	if s.c.o.Privacy {
		privacy = "true"
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + token, "User-Agent": userAgent, "X-Request-Id": s.id, "X-Ghost-Mode": privacy,
		"X-Cursor-Agent-Allowed-Tools": s.tools,
	} {
		h.Set(name, value)
	}
	if s.both == nil {
		h.Set("X-Cursor-Streaming", "true")
	}
}

// receive returns the next message, and errOver behind the last one when the service ended the stream in order.
func (s *stream) receive() (*wire.AgentServerMessage, error) {
	if s.both != nil {
		m, err := s.both.Receive()
		switch cause := context.Cause(s.ctx); {
		case err == nil:
			return m, nil
		case cause != nil:
			return nil, cause
		case errors.Is(err, io.EOF):
			return nil, errOver
		}
		return nil, err
	}
	<-s.opened
	if s.openErr == nil && s.in.Receive() {
		return s.in.Msg(), nil
	}
	if err := context.Cause(s.ctx); err != nil {
		return nil, err
	}
	if s.openErr != nil {
		return nil, s.openErr
	}
	if err := s.in.Err(); err != nil {
		return nil, err
	}
	return nil, errOver
}

var errOver = errors.New("the service ended the stream")

// close ends the try, and waits for what is on its way.
func (s *stream) close(cause error) {
	s.mu.Lock()
	s.cancel(cause)
	s.mu.Unlock()
	if s.both != nil {
		_ = errors.Join(s.both.CloseRequest(), s.both.CloseResponse()) // nothing more is wanted of it
	} else if <-s.opened; s.openErr == nil {
		_ = s.in.Close()
	}
	s.sent.Wait()
}

// outgoing is a message that waits for its place on the stream in both directions.
type outgoing struct {
	m *wire.AgentClientMessage
	// sent gets what came of it; nil where nobody waits.
	sent chan error
}

// write sends what is queued in its order, so that nobody waits for a service that reads slowly.
func (s *stream) write() {
	defer s.sent.Done()
	for {
		s.mu.Lock()
		queue := s.queue
		s.queue = nil
		s.mu.Unlock()
		for _, o := range queue {
			err := context.Cause(s.ctx)
			if err == nil {
				err = s.both.Send(o.m)
			}
			if o.sent != nil {
				o.sent <- err
			}
			if err != nil && !errors.Is(err, io.EOF) { // at io.EOF, receive says why
				s.cancel(err)
			}
		}
		select {
		case <-s.more:
		case <-s.ctx.Done():
			return
		}
	}
}

// enqueue puts messages behind those that wait.
func (s *stream) enqueue(sent chan error, messages []*wire.AgentClientMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	for _, m := range messages {
		s.queue = append(s.queue, outgoing{m, sent})
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
	return nil
}

// number takes numbers for messages that follow each other, and counts them as under way.
func (s *stream) number(messages int) (first int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	first = s.next
	s.next += int64(messages)
	s.sent.Add(messages)
	return first, nil
}

// send sends messages and waits until the service has them.
func (s *stream) send(messages ...*wire.AgentClientMessage) error {
	if s.both != nil {
		sent := make(chan error, len(messages))
		if err := s.enqueue(sent, messages); err != nil {
			return err
		}
		var failed error
		for range messages {
			select {
			case err := <-sent:
				failed = errors.Join(failed, err)
			case <-s.ctx.Done():
				return context.Cause(s.ctx)
			}
		}
		return failed
	}
	first, err := s.number(len(messages))
	if err != nil {
		return err
	}
	errs := make(chan error, len(messages))
	for i, m := range messages {
		go func() {
			defer s.sent.Done()
			errs <- s.append(first+int64(i), m)
		}()
	}
	var failed error
	for range messages {
		failed = errors.Join(failed, <-errs)
	}
	return failed
}

// post sends messages without waiting. A failure ends the try.
func (s *stream) post(messages ...*wire.AgentClientMessage) {
	if s.both != nil {
		_ = s.enqueue(nil, messages) // a try that ends needs them no more
		return
	}
	first, err := s.number(len(messages))
	if err != nil {
		return
	}
	for i, m := range messages {
		go func() {
			defer s.sent.Done()
			if err := s.append(first+int64(i), m); err != nil {
				s.cancel(err)
			}
		}()
	}
}

// append sends one message under its number. The service puts them in order. A token that it does not take any more is exchanged once.
func (s *stream) append(number int64, m *wire.AgentClientMessage) error {
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	data := hex.EncodeToString(raw)
	ctx, cancel := context.WithTimeout(s.ctx, appendFor+time.Duration(len(data))*time.Second/131072)
	defer cancel()
	for try := 1; ; try++ {
		token, err := s.c.account.bearer(ctx)
		if err != nil {
			return err
		}
		req := connect.NewRequest(&wire.BidiAppendRequest{Data: data, RequestId: &wire.BidiRequestId{RequestId: s.id}, AppendSeqno: number})
		s.headers(req.Header(), token)
		_, err = s.c.appends.CallUnary(ctx, req)
		switch {
		case err == nil:
			return nil
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case !stale(err) || try > 1:
			return err
		}
		s.c.account.forget()
	}
}

// stale reports whether an error may come of a token that is too old.
func stale(err error) bool {
	var status *refused
	return errors.As(err, &status) && status.status == http.StatusUnauthorized || connect.CodeOf(err) == connect.CodeUnauthenticated
}

// appendFor is how long the service may take for a short message.
const appendFor = time.Minute

// fieldsOf names the numbers of the fields of a message of the service, for the log: it holds nothing of what they say.
func fieldsOf(m protoreflect.Message) (names string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		names += fmt.Sprintf("field%d", f.Number())
		if f.Kind() == protoreflect.MessageKind && f.ContainingOneof() != nil && !f.IsList() {
			if inner := fieldsOf(v.Message()); inner != "" {
				names += "." + inner
			}
		}
		return f.ContainingOneof() == nil
	})
	for rest := m.GetUnknown(); len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			break
		}
		names += fmt.Sprintf("field%d", number)
		rest = rest[n:]
	}
	return names
}
