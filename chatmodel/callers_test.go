package chatmodel_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"drawbridge/openai/agents"
	"drawbridge/openai/upstream"
	"drawbridge/proof/chatsim"
)

// session is what a session of the OpenAI-compatible door keeps, in memory.
type session struct{ all sync.Map }

func (s *session) Get(_ context.Context, key string) ([]byte, error) {
	value, _ := s.all.Load(key)
	raw, _ := value.([]byte)
	return raw, nil
}

func (s *session) Put(_ context.Context, key string, value []byte) error {
	s.all.Store(key, value)
	return nil
}

// TestCallerOfAChatModel: a chat model behind the OpenAI-compatible door calls its caller's tool. The bridge is restarted while the call waits. The
// caller is asked once, the result reaches the model, and the answer is what the model gave to complete. Without complete the answer says so.
func TestCallerOfAChatModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatsim.Scripted([]chatsim.Turn{
		{Match: "| build it", Steps: []chatsim.Answer{calls("caller_bash", `{"command":"make"}`), calls("complete", `{"result":"It is built."}`), {Text: "to nobody"}}},
		{Match: "| only talk", Steps: []chatsim.Answer{{Text: "to nobody"}}},
		{Match: "Begin.", Steps: []chatsim.Answer{{Text: "Ready."}}},
	}))
	w.start()
	main := w.launch("main", "Begin.")
	w.over(main, 1)
	r := upstream.Request{Turn: "chatcmpl-1", Session: "s1", Token: "web", Model: "main", Body: json.RawMessage("{}"), State: &session{},
		Messages: []upstream.Message{{Role: "user", Text: "build it"}}, Tools: []upstream.Tool{{Name: "bash", Parameters: json.RawMessage(`{"type":"object"}`)}}}
	first := w.backend()
	turn, err := first.Start(w.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	events := w.events(turn)
	call := events[len(events)-2]
	if events[len(events)-1].Kind != upstream.Parked || call.Name != "bash" || call.Arguments != `{"command":"make"}` {
		t.Fatalf("%+v", events)
	}
	ref := turn.Ref()
	w.restart()
	if turn, err = w.backend().Resume(w.Context(), upstream.Request{Turn: r.Turn, Session: r.Session, Token: r.Token, Model: r.Model, State: r.State}, ref); err != nil {
		t.Fatal(err)
	}
	if err := turn.Deliver(w.Context(), []upstream.Result{{CallID: call.ID, Text: "all green"}}); err != nil {
		t.Fatal(err)
	}
	events = w.events(turn)
	if text := events[len(events)-2]; text.Kind != upstream.Text || text.Text != "It is built." {
		t.Errorf("the answer is %+v", events)
	}
	for _, e := range events {
		if e.Kind == upstream.CallPiece {
			t.Errorf("the caller is asked again: %+v", e)
		}
	}
	asked := w.model.Log()
	results := ""
	for _, m := range asked[len(asked)-1].Messages {
		if m.Role == "tool" {
			results += *m.Content
		}
	}
	contains(t, results, "all green", `"status":"completed"`)

	r.Turn, r.Messages = "chatcmpl-2", []upstream.Message{{Role: "user", Text: "only talk"}}
	if turn, err = w.backend().Start(w.Context(), r); err != nil {
		t.Fatal(err)
	}
	events = w.events(turn)
	if text := events[len(events)-2]; text.Text != agents.NoResult {
		t.Errorf("the answer is %+v", events)
	}
	w.over(main, 3)
}

// backend is the backend of this process.
func (w *world) backend() *agents.Agents {
	w.Helper()
	b, err := agents.New(agents.Options{Engine: w.engine, Tools: w.callers})
	if err != nil {
		w.Fatal(err)
	}
	return b
}

// events reads an answer up to its end or its park.
func (w *world) events(turn upstream.Turn) (all []upstream.Event) {
	w.Helper()
	for {
		e, err := turn.Next(w.Context())
		if err != nil {
			w.Fatalf("after %+v: %v", all, err)
		}
		all = append(all, e)
		if e.Kind == upstream.Ended || e.Kind == upstream.Parked {
			return all
		}
	}
}
