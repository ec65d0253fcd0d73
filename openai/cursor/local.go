package cursor

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"drawbridge/openai/cursor/wire"
	"drawbridge/openai/upstream"
)

// Local runs the service's own tools on this machine, for one conversation. Its methods are safe for concurrent use.
type Local interface {
	// Env says to the service where its tools run.
	Env() *wire.RequestContextEnv
	// Exec returns what does a request; nil refuses it. The work begins when the caller of the turn has taken every event before it. It hands each message of
	// its answer to say, in their order, and returns early when ctx ends: the service withdrew the request, or the run is over.
	Exec(m *wire.ExecServerMessage) func(ctx context.Context, say func(*wire.ExecClientMessage))
}

// StartLocal is Start, with the service's own tools on this machine. They are offered beside the caller's tools.
func (c *Client) StartLocal(ctx context.Context, q upstream.Request, l Local) (upstream.Turn, error) {
	return c.start(ctx, q, l)
}

// ownTools are the names, in the tables of the vendor's client, of the service's own tools that Local may run.
const ownTools = "shell_tool_call,read_tool_call,edit_tool_call,delete_tool_call,ls_tool_call,grep_tool_call,glob_tool_call,read_lints_tool_call,fetch_tool_call"

// work queues a request for this machine. The caller holds the lock.
func (t *turn) work(s *stream, id uint32, do func(context.Context, func(*wire.ExecClientMessage))) {
	ctx, stop := context.WithCancel(s.ctx)
	c := &call{id: id, stop: stop}
	t.open[id] = c
	t.queued = append(t.queued, func() {
		defer t.working.Done()
		defer stop()
		do(ctx, func(m *wire.ExecClientMessage) {
			t.mu.Lock()
			t.shown, t.owed = true, true
			t.mu.Unlock()
			valid(m.ProtoReflect())
			s.post(execMessage(id, m))
		})
		t.mu.Lock()
		if s.ctx.Err() == nil { // otherwise the run broke off meanwhile, and must not do this again
			delete(t.open, id)
		}
		t.answered, t.lastDone = true, time.Now()
		t.mu.Unlock()
		s.post(closed(id))
	})
	t.shows()
	t.wake()
}

// maxWork bounds the requests that run on this machine at once.
const maxWork = 64

// busy reports whether no more work may begin. The caller holds the lock.
func (t *turn) busy() bool {
	n := 0
	for _, c := range t.open {
		if c.stop != nil {
			n++
		}
	}
	return n >= maxWork
}

// valid makes all text of a message valid UTF-8, which the encoding demands: names of files need not be.
func valid(m protoreflect.Message) {
	fix := func(v protoreflect.Value, set func(protoreflect.Value)) {
		switch text := v.Interface().(type) {
		case protoreflect.Message:
			valid(text)
		case string:
			if !utf8.ValidString(text) {
				set(protoreflect.ValueOfString(strings.ToValidUTF8(text, "\ufffd")))
			}
		}
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			for i := range v.List().Len() {
				fix(v.List().Get(i), func(now protoreflect.Value) { v.List().Set(i, now) })
			}
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, each protoreflect.Value) bool {
				fix(each, func(now protoreflect.Value) { v.Map().Set(k, now) })
				return true
			})
		default:
			fix(v, func(now protoreflect.Value) { m.Set(f, now) })
		}
		return true
	})
}

// begin starts what is queued for this machine. The caller holds the lock.
func (t *turn) begin() {
	for _, do := range t.queued {
		t.working.Add(1)
		go do()
	}
	t.queued = nil
}

// rest waits for the end of the work of a try that is over, and drops what has not begun.
func (t *turn) rest() {
	t.mu.Lock()
	t.queued = nil
	t.mu.Unlock()
	t.working.Wait()
}
