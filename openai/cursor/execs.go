package cursor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"

	"drawbridge/openai/cursor/wire"
	"drawbridge/openai/upstream"
)

func newID() string { return uuid.NewString() }

// call is a tool of the caller that the service waits for.
type call struct {
	id   uint32
	name string
	args json.RawMessage
	// answer is the result in the form that the service expects.
	answer func(upstream.Result) []*wire.ExecClientMessage
	// stop ends the work of a request that runs on this machine; nil for a call of the caller's.
	stop func()
}

// result is what goes to the service: the result, and then the close without which it would wait for ever.
func (c *call) result(r upstream.Result) (out []*wire.AgentClientMessage) {
	for _, m := range c.answer(r) {
		out = append(out, execMessage(c.id, m))
	}
	return append(out, closed(c.id))
}

func execMessage(id uint32, m *wire.ExecClientMessage) *wire.AgentClientMessage {
	m.Id = id
	return &wire.AgentClientMessage{Message: &wire.AgentClientMessage_ExecClientMessage{ExecClientMessage: m}}
}

func control(m *wire.ExecClientControlMessage) *wire.AgentClientMessage {
	return &wire.AgentClientMessage{Message: &wire.AgentClientMessage_ExecClientControlMessage{ExecClientControlMessage: m}}
}

func closed(id uint32) *wire.AgentClientMessage {
	return control(&wire.ExecClientControlMessage{Message: &wire.ExecClientControlMessage_StreamClose{StreamClose: &wire.ExecID{Id: id}}})
}

func thrown(id uint32, why string) *wire.AgentClientMessage {
	return control(&wire.ExecClientControlMessage{Message: &wire.ExecClientControlMessage_Throw{Throw: &wire.ExecClientThrow{Id: id, Error: why}}})
}

// exec does what the service asks this client to run: a tool of the caller goes to the caller, and all else is answered at once.
func (t *turn) exec(s *stream, m *wire.ExecServerMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := m.GetId()
	if t.execs[id] {
		if t.open[id] == nil {
			s.post(thrown(id, "this request has its answer already"), closed(id))
		}
		return // the caller is asked once
	}
	t.execs[id] = true
	if ask := m.GetMcpArgs(); ask != nil {
		name, offered := t.tool(ask)
		if !offered {
			s.post(execMessage(id, &wire.ExecClientMessage{Message: &wire.ExecClientMessage_McpResult{McpResult: &wire.McpResult{Result: &wire.McpResult_ToolNotFound{
				ToolNotFound: &wire.McpToolNotFound{Name: ask.GetName(), AvailableTools: t.offered()}}}}}), closed(id))
			t.answered, t.lastDone = true, time.Now()
			return
		}
		t.show(&call{id: id, name: name, args: object(ask.GetArgs()), answer: mcpAnswer})
		return
	}
	if t.local != nil {
		if do := t.local.Exec(m); do != nil && !t.busy() {
			t.work(s, id, do)
			return
		}
	} else if c := t.native(m); c != nil {
		t.show(c)
		return
	}
	s.post(t.refusal(m)...)
	t.answered, t.lastDone = true, time.Now()
}

// tool is the caller's name of a tool that the service asks for.
func (t *turn) tool(ask *wire.McpArgs) (name string, offered bool) {
	_, behind, _ := strings.Cut(ask.GetName(), "___")
	for _, have := range t.plan.tools {
		if n := have.GetToolName(); n == ask.GetToolName() || have.GetName() == ask.GetName() || n == behind || n == ask.GetName() {
			return n, true
		}
	}
	return "", false
}

func (t *turn) offered() (names []string) {
	for _, have := range t.plan.tools {
		names = append(names, have.GetName())
	}
	return names
}

// object is the arguments of a call as a JSON object.
func object(args map[string]*structpb.Value) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode((&structpb.Struct{Fields: args}).AsMap()); err != nil {
		return json.RawMessage("{}") // a number that JSON has no word for
	}
	return bytes.TrimSpace(b.Bytes())
}

// show gives a call to the caller, or keeps it while the turn is parked. The caller holds the lock.
func (t *turn) show(c *call) {
	t.open[c.id] = c
	if t.parked {
		t.behind = append(t.behind, c)
		return
	}
	t.emit(upstream.Event{Kind: upstream.CallPiece, Index: t.calls, ID: fmt.Sprint(c.id), Name: c.name, Arguments: string(c.args)})
	t.calls++
	if t.timer != nil {
		t.timer.Stop()
	}
	switch wait := together; {
	case t.listed > 0 && t.calls >= t.listed:
		t.park()
	default:
		if t.calls < t.listed {
			wait = listedFor
		}
		t.timer = time.AfterFunc(wait, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if !t.over && t.calls > 0 {
				t.park()
			}
		})
	}
}

// park has the turn wait for the results of its calls. The caller holds the lock.
func (t *turn) park() {
	if t.parked {
		return
	}
	t.parked = true
	t.emit(upstream.Event{Kind: upstream.Parked})
}

// abort withdraws a request of the service. What the caller brings for it later counts for nothing.
func (t *turn) abort(s *stream, id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.open[id]; c != nil && c.stop != nil {
		c.stop()
	} else if c != nil {
		delete(t.open, id)
		t.behind = slices.DeleteFunc(t.behind, func(b *call) bool { return b == c })
		s.post(c.result(upstream.Result{Text: "the call was aborted", Failed: true})...)
	}
}

// mcpAnswer is the result of a tool of the caller.
func mcpAnswer(r upstream.Result) []*wire.ExecClientMessage {
	done := &wire.McpSuccess{IsError: r.Failed}
	if r.Text != "" || len(r.Images) == 0 {
		done.Content = append(done.Content, &wire.McpContent{Content: &wire.McpContent_Text{Text: &wire.McpText{Text: strings.ToValidUTF8(r.Text, "\ufffd")}}})
	}
	for _, i := range r.Images {
		if len(i.Data) == 0 {
			done.Content = append(done.Content, &wire.McpContent{Content: &wire.McpContent_Text{Text: &wire.McpText{Text: "(an image at " + i.URL + ")"}}})
			continue
		}
		done.Content = append(done.Content, &wire.McpContent{Content: &wire.McpContent_Image{Image: &wire.McpImage{Data: i.Data, MimeType: i.MIME}}})
	}
	return []*wire.ExecClientMessage{{Message: &wire.ExecClientMessage_McpResult{McpResult: &wire.McpResult{Result: &wire.McpResult_Success{Success: done}}}}}
}

// answerQuery answers a question of the service that only a person could: no, with the reason. A plan is taken, as nothing runs by it.
func answerQuery(q *wire.InteractionQuery) *wire.AgentClientMessage {
	no := &wire.Verdict{Result: &wire.Verdict_Rejected{Rejected: &wire.Reason{Reason: "this client does not allow it; use the tools that are offered"}}}
	a := &wire.InteractionResponse{Id: q.GetId()}
	switch q.Query.(type) {
	case *wire.InteractionQuery_WebSearchRequestQuery:
		a.Result = &wire.InteractionResponse_WebSearchRequestResponse{WebSearchRequestResponse: no}
	case *wire.InteractionQuery_WebFetchRequestQuery:
		a.Result = &wire.InteractionResponse_WebFetchRequestResponse{WebFetchRequestResponse: no}
	case *wire.InteractionQuery_SwitchModeRequestQuery:
		a.Result = &wire.InteractionResponse_SwitchModeRequestResponse{SwitchModeRequestResponse: no}
	case *wire.InteractionQuery_McpAuthRequestQuery:
		a.Result = &wire.InteractionResponse_McpAuthRequestResponse{McpAuthRequestResponse: no}
	case *wire.InteractionQuery_GenerateImageRequestQuery:
		a.Result = &wire.InteractionResponse_GenerateImageRequestResponse{GenerateImageRequestResponse: no}
	case *wire.InteractionQuery_AskQuestionInteractionQuery:
		a.Result = &wire.InteractionResponse_AskQuestionInteractionResponse{AskQuestionInteractionResponse: &wire.QuestionAnswer{
			Result: &wire.QuestionResult{Rejected: &wire.Reason{Reason: "this client cannot ask a person; write the question in your answer"}}}}
	case *wire.InteractionQuery_CreatePlanRequestQuery:
		a.Result = &wire.InteractionResponse_CreatePlanRequestResponse{CreatePlanRequestResponse: &wire.PlanAnswer{
			Result: &wire.PlanResult{Result: &wire.PlanResult_Success{Success: &wire.Empty{}}}}}
	}
	return &wire.AgentClientMessage{Message: &wire.AgentClientMessage_InteractionResponse{InteractionResponse: a}}
}
