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
	if r := w.call(ann, "send_message", send); !r.IsError || !strings.Contains(words(r), `conflict: you already used the idempotency_key "key of send_message" with other arguments, and that call made msg_`) {
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
	err := w.engine.View(w.Context(), func(tx *bridge.Scene) error {
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

// TestAskedOnceUnderAKey: a command that was asked for under a key is asked for once, in whatever turn it is asked again. It guards
// against a second agent for an agent that was cut off, and whose next turn says the same.
func TestAskedOnceUnderAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetBridge, mcpserver.SetTeam}
	main := w.launch("main")
	w.slow.Store(true) // what ends would begin another turn
	boss := w.connect("main", newEra, "")
	launch := args{"repo": "github.com/me/my-app", "prompt": "Work.", "idempotency_key": "the work"}
	held := args{"repo": "github.com/me/careful", "prompt": "Work.", "idempotency_key": "careful work"}
	spawn := args{"name": "ann", "instructions": "Work.", "repo": "github.com/me/my-app", "idempotency_key": "ann"}
	action := args{"action": "backup_script", "idempotency_key": "backup"}
	remind := args{"when": "2h", "message": "Tea.", "idempotency_key": "tea"}
	launched, waits := good[mcpserver.Asked](w, boss, "launch_agent", launch), good[mcpserver.Asked](w, boss, "launch_agent", held)
	spawned := good[mcpserver.Spawned](w, boss, "spawn_agent", spawn)
	ran, set := good[mcpserver.Asked](w, boss, "run_local_action", action), good[mcpserver.Asked](w, boss, "remind", remind)
	if r := w.call(boss, "launch_agent", args{"repo": "github.com/evil/x", "prompt": "Work.", "idempotency_key": "refused"}); !r.IsError {
		t.Errorf("not refused: %s", words(r))
	}
	if _, err := w.engine.Say(t.Context(), main.ID, "Go on."); err != nil {
		t.Fatal(err)
	}
	w.until("the next turn is over", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: main.ID})
		return err == nil && len(turns) > 1 && turns[0].State == bridge.TurnReplied
	})
	if again := good[mcpserver.Asked](w, boss, "launch_agent", launch); again != launched {
		t.Errorf("launched again: %+v, the first was %+v", again, launched)
	}
	if again := good[mcpserver.Asked](w, boss, "launch_agent", held); again != waits || again.Status != "held" {
		t.Errorf("held again: %+v, the first was %+v", again, waits)
	}
	if again := good[mcpserver.Spawned](w, boss, "spawn_agent", spawn); again != spawned || again.Status != "created" {
		t.Errorf("spawned again: %+v, the first was %+v", again, spawned)
	}
	if again := good[mcpserver.Asked](w, boss, "run_local_action", action); again.CommandID != ran.CommandID {
		t.Errorf("ran again: %+v, the first was %+v", again, ran)
	}
	if again := good[mcpserver.Asked](w, boss, "remind", remind); again.CommandID != set.CommandID || !again.Due.Equal(set.Due) {
		t.Errorf("set again: %+v, the first was %+v", again, set)
	}
	launch["prompt"] = "Other work."
	if r := w.call(boss, "launch_agent", launch); !r.IsError || !strings.Contains(words(r), "that call made "+launched.CommandID) {
		t.Errorf("something else under the key: %s", words(r))
	}
	// What was refused was not done.
	good[mcpserver.Asked](w, boss, "launch_agent", args{"repo": "github.com/me/my-app", "prompt": "Other work.", "idempotency_key": "refused"})
}

// TestKeysOfOthersAreNotSeen: a key is its agent's own. Another tree, and a relative, use the same word without hearing of it and
// without disturbing what it stands for.
func TestKeysOfOthersAreNotSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam, mcpserver.SetBridge}
	w.slow.Store(true)
	w.launch("main")
	w.launch("other")
	spawn := args{"name": "ann", "instructions": "Work.", "repo": "github.com/me/my-app", "idempotency_key": "the key"}
	first := good[mcpserver.Spawned](w, w.connect("main", newEra, ""), "spawn_agent", spawn)
	w.mint(bridge.Agent{ID: bridge.AgentID(first.AgentID), Name: "ann"})
	second := good[mcpserver.Spawned](w, w.connect("other", newEra, ""), "spawn_agent", spawn)
	if second.AgentID == first.AgentID || second.CommandID == first.CommandID || second.Name != "ann" {
		t.Errorf("another tree got %+v for its own call, after %+v", second, first)
	}
	remind := args{"when": "2h", "message": "Tea.", "idempotency_key": "the key"}
	child := good[mcpserver.Asked](w, w.connect("ann", newEra, ""), "remind", remind)
	if child.CommandID == first.CommandID {
		t.Errorf("a child got its parent's: %+v", child)
	}
	for name, want := range map[string]mcpserver.Spawned{"main": first, "other": second} {
		if again := good[mcpserver.Spawned](w, w.connect(name, oldEra, ""), "spawn_agent", spawn); again.AgentID != want.AgentID || again.CommandID != want.CommandID {
			t.Errorf("%s makes its call again and gets %+v, not %+v", name, again, want)
		}
		r := w.call(w.connect(name, newEra, ""), "remind", remind)
		if text := words(r); !r.IsError || !strings.Contains(text, want.CommandID) {
			t.Errorf("%s: another call under its key: %s", name, text)
		}
	}
}
