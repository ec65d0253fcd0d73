package agentsim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"drawbridge/internal/pause"
	"drawbridge/openai/cursor/wire"
)

func anyOf(raw []byte) *anypb.Any {
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + wire.DetailsType, Value: raw}
}

// scene is a turn while it is played.
type scene struct {
	s    *Sim
	run  *run
	line *line
	talk *conversation
	// said are the newest words, and result the texts of the newest results.
	said, result string
	// done are the calls whose results came since the last step.
	done      []string
	answer    strings.Builder
	nextExec  uint32
	nextBlob  uint32
	nextQuery uint32
}

// play plays a run: what the service asks before the model speaks, the steps of the script, and the end of the turn.
func (s *Sim) play(ctx context.Context, r *run, l *line) error {
	if err := r.await(ctx, func() bool { return r.request != nil }); err != nil {
		return err
	}
	m := r.request
	s.mu.Lock()
	s.requests = append(s.requests, m)
	talk := s.conversations[m.GetConversationId()]
	fresh := talk == nil
	if fresh {
		talk = &conversation{blobs: map[string][]byte{}}
		s.conversations[m.GetConversationId()] = talk
	}
	s.mu.Unlock()
	c := &scene{s: s, run: r, line: l, talk: talk, said: words(m)}
	if err := c.admit(m); err != nil {
		return err
	}
	rule := s.rule(m, c.said, talk.turns+1)
	if err := c.before(ctx, m); err != nil {
		return err
	}
	for _, step := range rule.Steps {
		if err := c.step(ctx, step); err != nil {
			return err
		}
	}
	return c.end(ctx)
}

// admit refuses what the service refuses.
func (c *scene) admit(m *wire.AgentRunRequest) error {
	if m.ConversationState == nil {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("conversation state is required"))
	}
	name := m.GetRequestedModel().GetModelId()
	if !slices.ContainsFunc(c.s.list(), func(m Model) bool { return m.ID == name || slices.Contains(m.Aliases, name) }) {
		return (&Fault{Code: "invalid_argument", Kind: 5, Title: "Model not found", Detail: name}).asError()
	}
	if m.GetAction().GetAction() == nil {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("an action is required"))
	}
	if bytes.Equal(m.ConversationState, c.talk.state) {
		return nil
	}
	if err := c.s.report(c.run.id, "the state that came back is not the one that was handed out"); err != nil {
		return err
	}
	if len(c.talk.state) == 0 {
		return (&Fault{Code: "internal"}).asError() // its blobs are not known here
	}
	return nil
}

// before asks what the service asks before the model speaks: the context, and the blobs of earlier turns.
func (c *scene) before(ctx context.Context, m *wire.AgentRunRequest) error {
	e, err := c.exec(ctx, &wire.ExecServerMessage{Message: &wire.ExecServerMessage_RequestContextArgs{RequestContextArgs: &wire.Empty{}}})
	if err != nil {
		return err
	}
	if e.thrown != "" {
		return connect.NewError(connect.CodeInternal, errors.New("the client gave no context: "+e.thrown))
	}
	have := e.results[0].GetRequestContextResult().GetSuccess().GetRequestContext().GetTools()
	if !slices.EqualFunc(have, m.GetMcpTools().GetMcpTools(), func(a, b *wire.McpToolDefinition) bool { return proto.Equal(a, b) }) {
		if err := c.s.report(c.run.id, "the context offers other tools than the run request"); err != nil {
			return err
		}
	}
	for _, id := range c.talk.order {
		if err := c.readBlob(ctx, id); err != nil {
			return err
		}
	}
	if m.GetAction().GetUserMessageAction() != nil {
		_, err = c.keep(ctx, "user", c.said)
	}
	return err
}

// keep has the client keep a message of the conversation.
func (c *scene) keep(ctx context.Context, role, text string) (string, error) {
	data, err := json.Marshal(map[string]any{"role": role, "content": []map[string]string{{"type": "text", "text": text}}})
	if err != nil {
		return "", err
	}
	id, err := c.setBlob(ctx, data)
	if err == nil {
		c.talk.order = append(c.talk.order, id)
	}
	return id, err
}

func (c *scene) setBlob(ctx context.Context, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	c.nextBlob++
	ask := &wire.KvServerMessage{Id: c.nextBlob, Message: &wire.KvServerMessage_SetBlobArgs{SetBlobArgs: &wire.SetBlobArgs{BlobId: sum[:], BlobData: data}}}
	got, err := c.askBlob(ctx, ask)
	if err != nil {
		return "", err
	}
	if e := got.GetSetBlobResult().GetError(); got.GetSetBlobResult() == nil || e != nil {
		return "", connect.NewError(connect.CodeInternal, fmt.Errorf("a blob was not kept: %s", e.GetMessage()))
	}
	c.talk.blobs[hex.EncodeToString(sum[:])] = data
	return hex.EncodeToString(sum[:]), nil
}

func (c *scene) readBlob(ctx context.Context, id string) error {
	raw, err := hex.DecodeString(id)
	if err != nil {
		return err
	}
	c.nextBlob++
	got, err := c.askBlob(ctx, &wire.KvServerMessage{Id: c.nextBlob, Message: &wire.KvServerMessage_GetBlobArgs{GetBlobArgs: &wire.GetBlobArgs{BlobId: raw}}})
	if err != nil {
		return err
	}
	if !bytes.Equal(got.GetGetBlobResult().GetBlobData(), c.talk.blobs[id]) || got.GetGetBlobResult().GetBlobData() == nil {
		if err := c.s.report(c.run.id, "blob %s did not come back as it was", id); err != nil {
			return err
		}
		return connect.NewError(connect.CodeInternal, errors.New("blob not found"))
	}
	return nil
}

// askBlob sends a message about a blob, and waits for the answer, as the service does before it goes on.
func (c *scene) askBlob(ctx context.Context, m *wire.KvServerMessage) (got *wire.KvClientMessage, err error) {
	if err := c.line.send(&wire.AgentServerMessage{Message: &wire.AgentServerMessage_KvServerMessage{KvServerMessage: m}}); err != nil {
		return nil, err
	}
	err = c.run.await(ctx, func() bool { got = c.run.blobs[m.GetId()]; return got != nil })
	return got, err
}

// ask makes a request, without waiting for its result.
func (c *scene) ask(m *wire.ExecServerMessage) (*exec, error) {
	m.Id = c.nextExec // the first is 0, which stands nowhere in the bytes
	m.ExecId = fmt.Sprintf("exec-%d", m.Id)
	c.nextExec++
	e := &exec{}
	if f := m.ProtoReflect().WhichOneof(m.ProtoReflect().Descriptor().Oneofs().ByName("message")); f != nil {
		e.wants, e.stream = f.Number(), m.GetShellStreamArgs() != nil
	}
	c.run.mu.Lock()
	c.run.execs[m.Id] = e
	c.run.mu.Unlock()
	return e, c.line.send(&wire.AgentServerMessage{Message: &wire.AgentServerMessage_ExecServerMessage{ExecServerMessage: m}})
}

// exec makes a request and waits until it has a result and its close.
func (c *scene) exec(ctx context.Context, m *wire.ExecServerMessage) (*exec, error) {
	e, err := c.ask(m)
	if err == nil {
		err = c.run.await(ctx, func() bool { return e.closed })
	}
	return e, err
}

// withdraw takes a request back.
func (c *scene) withdraw(id uint32) error {
	back := &wire.ExecServerControlMessage{Abort: &wire.ExecID{Id: id}}
	return c.line.send(&wire.AgentServerMessage{Message: &wire.AgentServerMessage_ExecServerControlMessage{ExecServerControlMessage: back}})
}

// step does one thing of the script.
func (c *scene) step(ctx context.Context, s Step) error {
	if !s.Stall {
		if err := c.completed(); err != nil {
			return err
		}
	}
	switch {
	case s.Text != "", s.Thinking != "":
		return c.say(s)
	case s.Calls != nil:
		return c.calls(ctx, s)
	case s.Exec != nil:
		m := &wire.ExecServerMessage{}
		if err := asMessage(s.Exec, m); err != nil {
			return err
		}
		e, err := c.ask(m)
		if err == nil && s.Withdraw != "" {
			err = c.run.await(ctx, func() bool { return e.closed || strings.Contains(e.text(), s.Withdraw) })
			if err == nil {
				err = c.withdraw(m.Id)
			}
		}
		if err == nil {
			err = c.run.await(ctx, func() bool { return e.closed })
			c.result = e.text()
		}
		c.done = append(c.done, "")
		return err
	case s.Send != nil:
		m := &wire.AgentServerMessage{}
		if err := asMessage(s.Send, m); err != nil {
			return err
		}
		return c.line.send(m)
	case s.Raw != "":
		m := &wire.AgentServerMessage{}
		raw, err := hex.DecodeString(s.Raw)
		if err == nil {
			err = proto.Unmarshal(raw, m)
		}
		if err != nil {
			return err
		}
		return c.raw(ctx, m)
	case s.Bytes != "":
		return c.line.write(s.Bytes)
	case s.Query != "":
		return c.query(ctx, s.Query)
	case s.Blob > 0:
		id, err := c.setBlob(ctx, bytes.Repeat([]byte{7}, s.Blob))
		if err != nil {
			return err
		}
		return c.readBlob(ctx, id)
	case s.Checkpoint:
		return c.checkpoint()
	}
	return c.fault(ctx, s)
}

// raw sends a message as it is. A request that it makes is waited for, too.
func (c *scene) raw(ctx context.Context, m *wire.AgentServerMessage) error {
	ask := m.GetExecServerMessage()
	if ask == nil {
		return c.line.send(m)
	}
	e := &exec{}
	c.run.mu.Lock()
	c.run.execs[ask.GetId()] = e
	c.run.mu.Unlock()
	if err := c.line.send(m); err != nil {
		return err
	}
	err := c.run.await(ctx, func() bool { return e.closed })
	c.result = e.text()
	return err
}

// fault does what no service should.
func (c *scene) fault(ctx context.Context, s Step) error {
	switch {
	case s.Wait > 0:
		return pause.For(ctx, s.Wait)
	case s.Silence > 0:
		c.line.hush(true)
		defer c.line.hush(false)
		return pause.For(ctx, s.Silence)
	case s.Stall:
		<-ctx.Done()
		return ctx.Err()
	case s.Error != nil:
		return s.Error.asError()
	case s.End == "cut":
		return errCut
	}
	return errEnd
}

// errEnd ends the stream in order, without the end of the turn.
var errEnd = errors.New("end")

func (c *scene) say(s Step) error {
	for range max(1, s.Times) {
		u := &wire.InteractionUpdate{}
		if s.Text != "" {
			text := filled(s.Text, c.said, c.result)
			c.answer.WriteString(text)
			u.Message = &wire.InteractionUpdate_TextDelta{TextDelta: &wire.TextDelta{Text: text}}
		} else {
			u.Message = &wire.InteractionUpdate_ThinkingDelta{ThinkingDelta: &wire.ThinkingDelta{Text: s.Thinking}}
		}
		if err := c.line.send(update(u)); err != nil {
			return err
		}
	}
	if s.Text == "" {
		return nil
	}
	return c.line.send(update(&wire.InteractionUpdate{Message: &wire.InteractionUpdate_TokenDelta{TokenDelta: &wire.TokenDelta{Tokens: 1}}}))
}

// calls asks for tools of the caller at once, and waits for all results.
func (c *scene) calls(ctx context.Context, s Step) error {
	if s.Listed {
		listed := &wire.ToolRequestsListed{CallCount: uint32(len(s.Calls))}
		if err := c.line.send(update(&wire.InteractionUpdate{Message: &wire.InteractionUpdate_ToolRequestsListed{ToolRequestsListed: listed}})); err != nil {
			return err
		}
	}
	var open []*exec
	for i, call := range s.Calls {
		if call.After > 0 {
			if err := pause.For(ctx, call.After); err != nil {
				return err
			}
		}
		args, err := structpb.NewStruct(call.Args)
		if err != nil {
			return err
		}
		ask := &wire.McpArgs{Name: call.Name, Args: args.GetFields(), ToolCallId: fmt.Sprintf("toolu_%d_%d", c.nextExec, i)}
		for _, t := range c.run.request.GetMcpTools().GetMcpTools() {
			if t.GetToolName() == call.Name { // the service echoes what it was given
				ask.Name, ask.ToolName, ask.ProviderIdentifier = t.GetName(), t.GetToolName(), t.GetProviderIdentifier()
			}
		}
		shown := &wire.ToolCallUpdate{CallId: ask.ToolCallId, ToolCall: &wire.ToolCall{McpToolCall: &wire.McpToolCall{Args: ask}}}
		if err := c.line.send(update(&wire.InteractionUpdate{Message: &wire.InteractionUpdate_ToolCallStarted{ToolCallStarted: shown}})); err != nil {
			return err
		}
		m := &wire.ExecServerMessage{Message: &wire.ExecServerMessage_McpArgs{McpArgs: ask}}
		e, err := c.ask(m)
		e.call = ask.ToolCallId
		if err == nil && call.Twice {
			err = c.line.send(&wire.AgentServerMessage{Message: &wire.AgentServerMessage_ExecServerMessage{ExecServerMessage: m}})
		}
		if err == nil && call.Abort {
			err = c.withdraw(m.Id)
		}
		if err != nil {
			return err
		}
		open = append(open, e)
	}
	if s.Saved {
		if err := errors.Join(pause.For(ctx, time.Second), c.checkpoint()); err != nil {
			return err
		}
	}
	var texts []string
	for _, e := range open {
		if err := c.run.await(ctx, func() bool { return e.closed }); err != nil {
			return err
		}
		texts = append(texts, e.text())
		c.done = append(c.done, e.call)
	}
	c.result = strings.Join(texts, "\n")
	return nil
}

// completed shows that the service goes on with the results that it has. A service that stalls does not.
func (c *scene) completed() error {
	for _, call := range c.done {
		done := &wire.ToolCallUpdate{CallId: call}
		if err := c.line.send(update(&wire.InteractionUpdate{Message: &wire.InteractionUpdate_ToolCallCompleted{ToolCallCompleted: done}})); err != nil {
			return err
		}
	}
	c.done = nil
	return nil
}

// text is what a result says: its text, or the JSON of one of the service's own tools.
func (e *exec) text() string {
	if e.thrown != "" {
		return "failed: " + e.thrown
	}
	var out []string
	for _, r := range e.results {
		mcp := r.GetMcpResult()
		switch {
		case mcp == nil:
			out = append(out, plain(r.ProtoReflect()))
		case mcp.GetToolNotFound() != nil:
			out = append(out, "not found: "+mcp.GetToolNotFound().GetName())
		case mcp.GetSuccess() == nil:
			out = append(out, "failed: "+mcp.GetError().GetError()+mcp.GetRejected().GetReason())
		default:
			if mcp.GetSuccess().GetIsError() {
				out = append(out, "error:")
			}
			for _, part := range mcp.GetSuccess().GetContent() {
				if part.GetImage() != nil {
					out = append(out, fmt.Sprintf("(%s, %d bytes)", part.GetImage().GetMimeType(), len(part.GetImage().GetData())))
					continue
				}
				out = append(out, part.GetText().GetText())
			}
		}
	}
	return strings.Join(out, " ")
}

// plain writes the result of one of the service's own tools in one line: the names of its messages, and the values in their order.
func plain(m protoreflect.Message) string {
	var parts []string
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) || f.Name() == "id" {
			continue
		}
		v := m.Get(f)
		switch {
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				parts = append(parts, k.String()+"{"+plain(v.Message())+"}")
				return true
			})
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			for n := range v.List().Len() {
				parts = append(parts, string(f.Name())+"{"+plain(v.List().Get(n).Message())+"}")
			}
		case f.IsList():
			for n := range v.List().Len() {
				parts = append(parts, v.List().Get(n).String())
			}
		case f.Kind() == protoreflect.MessageKind:
			parts = append(parts, string(f.Name())+"{"+plain(v.Message())+"}")
		default:
			parts = append(parts, string(f.Name())+"="+v.String())
		}
	}
	return strings.Join(parts, " ")
}

func (c *scene) query(ctx context.Context, name string) error {
	c.nextQuery++
	q := &wire.InteractionQuery{}
	if err := asMessage(map[string]any{name: map[string]any{}}, q); err != nil {
		return err
	}
	q.Id = c.nextQuery
	if err := c.line.send(&wire.AgentServerMessage{Message: &wire.AgentServerMessage_InteractionQuery{InteractionQuery: q}}); err != nil {
		return err
	}
	var got *wire.InteractionResponse
	if err := c.run.await(ctx, func() bool { got = c.run.answers[q.Id]; return got != nil }); err != nil {
		return err
	}
	c.result = plain(got.ProtoReflect())
	return nil
}

// unknownField is one that no schema has: the client has to bring it back all the same.
const unknownField = 4008

// checkpoint hands the state over.
func (c *scene) checkpoint() error {
	var state []byte
	for _, id := range c.talk.order {
		raw, err := hex.DecodeString(id)
		if err != nil {
			return err
		}
		state = protowire.AppendTag(state, 1, protowire.BytesType)
		state = protowire.AppendBytes(state, raw)
	}
	state = protowire.AppendTag(state, unknownField, protowire.VarintType)
	state = protowire.AppendVarint(state, uint64(len(c.talk.state)+c.answer.Len()+1))
	if err := c.line.send(&wire.AgentServerMessage{Message: &wire.AgentServerMessage_ConversationCheckpointUpdate{ConversationCheckpointUpdate: state}}); err != nil {
		return err
	}
	c.talk.state = state
	return nil
}

// end ends the turn: the answer is kept, then come the end and the state of the next turn.
func (c *scene) end(ctx context.Context) error {
	if _, err := c.keep(ctx, "assistant", c.answer.String()); err != nil {
		return err
	}
	in, out, read, wrote, thought := int64(120), int64(34), int64(100), int64(5), int64(7)
	ended := &wire.TurnEnded{InputTokens: &in, OutputTokens: &out, CacheReadTokens: &read, CacheWriteTokens: &wrote, ReasoningTokens: &thought}
	if err := c.line.send(update(&wire.InteractionUpdate{Message: &wire.InteractionUpdate_TurnEnded{TurnEnded: ended}})); err != nil {
		return err
	}
	c.talk.turns++
	return c.checkpoint()
}
