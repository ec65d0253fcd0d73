package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
)

// cutOff is an engine that records nothing more from some call on, as a killed process does.
type cutOff struct {
	mcpserver.Engine
	// left is how many records go well, negative for all.
	left atomic.Int64
}

var errCut = errors.New("the process was killed")

func (c *cutOff) Change(ctx context.Context, fn func(bridge.Change) error, hints ...bridge.Need) error {
	if left := c.left.Load(); left == 0 {
		return errCut
	} else if left > 0 {
		c.left.Add(-1)
	}
	return c.Engine.Change(ctx, fn, hints...)
}

// insider is a world with a door for an agent in this process, and the turn that it is in.
func insider(t *testing.T, sets ...string) (w *world, a bridge.Agent, turn bridge.TurnID, cut *cutOff) {
	w = newWorld(t)
	w.sets = sets
	a = w.launch("main")
	cut = &cutOff{Engine: w.engine}
	cut.left.Store(-1)
	w.door = w.serve(func(o *mcpserver.Options) { o.Engine = cut })
	err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		head, err := tx.CurrentTurn(a.ID)
		turn = head.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, a, turn, cut
}

func (w *world) inside(a bridge.Agent, k bridge.ToolCall) bridge.ToolReturn {
	w.Helper()
	r, err := w.door.Call(w.Context(), a.ID, k)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) record(turn bridge.TurnID) (all []bridge.RunMessage) {
	w.Helper()
	err := w.engine.View(w.Context(), func(tx *bridge.Scene) (err error) {
		all, err = tx.RunMessages(turn, 0, 1000)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// TestInsideOffersTheSame: an agent in this process has the tools of the door, but gives no idempotency key.
func TestInsideOffersTheSame(t *testing.T) {
	t.Parallel()
	w, a, _, _ := insider(t, mcpserver.SetNames()...)
	about, offered, err := w.door.Offered(t.Context(), a.ID)
	if err != nil || !strings.Contains(about, "You are the agent main; your agent id is "+string(a.ID)) {
		t.Fatalf("%q %v", about, err)
	}
	session := w.connect("main", newEra, "")
	outside, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range outside.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	var inside []string
	for _, o := range offered {
		inside = append(inside, o.Name)
		var schema struct {
			Type       string         `json:"type"`
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
		}
		if err := json.Unmarshal(o.Schema, &schema); err != nil || schema.Type != "object" || schema.Properties["idempotency_key"] != nil || o.About == "" {
			t.Errorf("%s: %s %v", o.Name, o.Schema, err)
		}
	}
	if !slices.Equal(names, inside) {
		t.Errorf("inside %q, outside %q", inside, names)
	}
	if _, _, err := w.door.Offered(t.Context(), "agt_none"); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("an agent that never was: %v", err)
	}
}

// TestInsideRecordsFirst: a call is on record before it runs, whatever its arguments are, and twice under one id is once.
func TestInsideRecordsFirst(t *testing.T) {
	t.Parallel()
	w, a, turn, _ := insider(t, "team", "memory", "channels")
	sent := w.inside(a, bridge.ToolCall{Turn: turn, ID: "c1", Name: "send_message", Args: json.RawMessage(`{"recipient":"USER","text":"Hi"}`)})
	again := w.inside(a, bridge.ToolCall{Turn: turn, ID: "c1", Name: "send_message", Args: json.RawMessage(`{"recipient":"USER","text":"Hi"}`)})
	if sent.Failed || sent != again {
		t.Errorf("%+v, then %+v", sent, again)
	}
	for name, k := range map[string]bridge.ToolCall{
		"must be a JSON object":    {Name: "send_message", Args: json.RawMessage(`[1]`)},
		"unexpected end of JSON":   {Name: "send_message", Args: json.RawMessage(`{"recipient":"US`)},
		"does not exist; call one": {Name: "delete_everything", Args: json.RawMessage(`{}`)},
		"recipient":                {Name: "send_message"},
	} {
		k.Turn, k.ID = turn, "bad "+name
		if r := w.inside(a, k); !r.Failed || !strings.Contains(r.Payload, name) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := w.inside(a, bridge.ToolCall{Turn: turn, ID: "c2", Name: "do_nothing"}); r.Failed || r.Payload != `{"action":"none"}` {
		t.Errorf("do_nothing: %+v", r)
	}
	kinds := map[string]string{}
	for _, m := range w.record(turn) {
		kinds[m.CallID] += string(m.Kind) + " "
	}
	for id, got := range kinds {
		if got != "tool_call_message tool_return_message " {
			t.Errorf("%s: %s", id, got)
		}
	}
	if len(kinds) != 6 {
		t.Errorf("%d calls are on record: %v", len(kinds), kinds)
	}
	letters := w.mailOf(a)
	if len(letters) != 1 {
		t.Errorf("%d messages were sent", len(letters))
	}
}

// TestInsideGuard: a call whose guard fails is not on record and does not run, and others beside it do.
func TestInsideGuard(t *testing.T) {
	t.Parallel()
	w, a, turn, _ := insider(t, "team")
	k := bridge.ToolCall{Turn: turn, ID: "c1", Name: "send_message", Args: json.RawMessage(`{"recipient":"USER","text":"Hi"}`), Guard: func(*bridge.Scene) error { return bridge.ErrLeaseLost }}
	if _, err := w.door.Call(t.Context(), a.ID, k); !errors.Is(err, bridge.ErrLeaseLost) {
		t.Errorf("%v", err)
	}
	if len(w.record(turn)) != 0 || len(w.mailOf(a)) != 0 {
		t.Error("it ran")
	}
}

// mailOf is what an agent wrote to the operator.
func (w *world) mailOf(a bridge.Agent) (from []bridge.Message) {
	w.Helper()
	err := w.engine.View(w.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Messages(bridge.MessageFilter{To: bridge.User})
		for _, m := range all {
			if m.From == a.ID {
				from = append(from, m)
			}
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return from
}
