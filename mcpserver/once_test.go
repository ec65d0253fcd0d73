package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
)

// TestMadeOnceUnderAKey: an agent that was cut off makes its call again under the same key, at either door of two, and gets the
// first answer. It guards against a recipient that is told twice.
func TestMadeOnceUnderAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam, mcpserver.SetThreads, mcpserver.SetChannels}
	w.launch("main")
	boss := w.connect("main", newEra, "")
	for _, name := range []string{"ann", "bob"} {
		child := good[mcpserver.Spawned](w, boss, "spawn_agent", args{"name": name, "instructions": "Work as " + name, "repo": "github.com/me/my-app"})
		w.mint(bridge.Agent{ID: bridge.AgentID(child.AgentID), Name: name})
	}
	if _, err := w.mail.CreateChannel(t.Context(), "general", "ann", "bob"); err != nil {
		t.Fatal(err)
	}
	ann, bob := w.connect("ann", newEra, ""), w.connect("bob", newEra, "")
	w.serve(func(*mcpserver.Options) {})
	elsewhere := w.connect("ann", oldEra, "")
	calls := map[string]args{
		"send_message":         {"recipient": "bob", "text": "one"},
		"broadcast":            {"text": "two"},
		"complete":             {"result": "three"},
		"send_channel_message": {"channelId": "general", "text": "four"},
		"send_dm":              {"targetAgentId": "bob", "text": "five"},
		"threads_send_message": {"sender_id": "ann", "recipient_id": "bob", "content": "six"},
		"broadcast_message":    {"sender_id": "ann", "recipient_ids": []string{"bob"}, "content": "seven"},
		"create_thread":        {"creator_id": "ann", "title": "eight", "participants": []string{"bob"}},
	}
	answer := func(tool string, r any) string {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return tool + " " + string(data)
	}
	for tool, with := range calls {
		with["idempotency_key"] = "key of " + tool
		first, again := w.call(ann, tool, with), w.call(elsewhere, tool, with)
		if first.IsError || answer(tool, first.Content) != answer(tool, again.Content) {
			t.Errorf("%s: first %s, then %s", tool, words(first), words(again))
		}
	}
	if got := written(w); got != len(calls) {
		t.Errorf("%d messages are there, want %d", got, len(calls))
	}

	send := args{"recipient": "bob", "text": "one", "sync": true, "idempotency_key": "key of send_message"}
	good[any](w, ann, "send_message", send) // what is left out and has a default is the same
	send["text"] = "another"
	if r := w.call(ann, "send_message", send); !r.IsError || !strings.Contains(words(r), `conflict: you gave the idempotency_key "key of send_message" with other arguments before, and that was done: it made msg_`) {
		t.Errorf("another message under the same key: %s", words(r))
	}
	send["recipient"] = "nobody"
	send["idempotency_key"] = "unused"
	if r := w.call(ann, "send_message", send); !r.IsError {
		t.Errorf("a message to nobody: %s", words(r))
	}
	send["recipient"] = "bob" // what was refused was not done
	good[any](w, ann, "send_message", send)
	good[any](w, bob, "send_message", args{"recipient": "ann", "text": "mine", "idempotency_key": "unused"})
	if got := written(w); got != len(calls)+2 {
		t.Errorf("%d messages are there, want %d", got, len(calls)+2)
	}
	for _, key := range []string{"", "two\nlines"} {
		send["idempotency_key"] = key
		if r := w.call(ann, "send_message", send); !r.IsError || !strings.Contains(words(r), "invalid: idempotency_key ") {
			t.Errorf("key %q: %s", key, words(r))
		}
	}
	send["idempotency_key"] = nil
	good[any](w, ann, "send_message", send)
}

// written counts the messages that there are.
func written(w *world) (n int) {
	w.Helper()
	err := w.engine.View(w.Context(), func(tx bridge.Tx) error {
		events, err := tx.Events(0, 1000)
		for _, e := range events {
			if e.Kind == bridge.EventMessageCreated {
				n++
			}
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return n
}
