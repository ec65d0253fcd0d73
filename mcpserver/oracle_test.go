package mcpserver_test

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
)

// TestOtherTreesCannotBeLearned: an agent of one tree asks for names and ids of another by every tool that takes one. The
// answer must be the same as for a name or an id that nobody has.
func TestOtherTreesCannotBeLearned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetBridge, mcpserver.SetTeam, mcpserver.SetThreads, mcpserver.SetChannels, mcpserver.SetMemory}
	other, mine := w.launch("secret-tree"), w.launch("main")
	theirs, ours := w.connect("secret-tree", newEra, ""), w.connect("main", newEra, "")
	spawn := func(name string) args {
		return args{"name": name, "instructions": "Work.", "repo": "github.com/me/my-app"}
	}
	hidden := good[mcpserver.Spawned](w, theirs, "spawn_agent", spawn("falcon"))
	room, err := w.mail.CreateChannel(t.Context(), "silo", "secret-tree")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.mail.CreateChannel(t.Context(), "bunker", "secret-tree"); err != nil {
		t.Fatal(err)
	}

	// The same names can be given here, and mean our own agents.
	for _, name := range []string{"falcon", "secret-tree", "bunker"} {
		got := good[mcpserver.Spawned](w, ours, "spawn_agent", spawn(name))
		if got.Name != name || got.Status != "created" || got.AgentID == hidden.AgentID || got.AgentID == string(other.ID) {
			t.Errorf("spawn_agent %s: %+v", name, got)
		}
	}
	w.until("both trees have a falcon of their own", func(tx *bridge.Scene) bool {
		a, err := bridge.FindInTree(tx, mine.ID, "falcon")
		b, err2 := bridge.FindInTree(tx, other.ID, "falcon")
		return err == nil && err2 == nil && a.ID != b.ID
	})

	// Names and ids that are there, beside some that are not.
	hawk := good[mcpserver.Spawned](w, theirs, "spawn_agent", spawn("hawk"))
	told := good[mcpserver.MessageSent](w, theirs, "send_message", args{"recipient": "hawk", "text": "psst"})
	for tool, ask := range map[string]func(string) args{
		"inspect_agent":        func(who string) args { return args{"name": who} },
		"poke":                 func(who string) args { return args{"agent": who} },
		"subscribe":            func(who string) args { return args{"agent": who} },
		"send_message":         func(who string) args { return args{"recipient": who, "text": "x"} },
		"send_dm":              func(who string) args { return args{"targetAgentId": who, "text": "x"} },
		"send_channel_message": func(who string) args { return args{"channelId": who, "text": "x"} },
		"create_thread": func(who string) args {
			return args{"creator_id": string(mine.ID), "title": "t", "participants": []string{who}}
		},
		"broadcast_message": func(who string) args {
			return args{"sender_id": string(mine.ID), "recipient_ids": []string{who}, "content": "x"}
		},
		"join_thread":        func(who string) args { return args{"thread_id": who, "agent_id": string(mine.ID)} },
		"get_thread_details": func(who string) args { return args{"thread_id": who} },
		"react_to_message":   func(who string) args { return args{"messageId": who, "emoji": "👍"} },
		"message_status":     func(who string) args { return args{"message_id": who} },
	} {
		for real, made := range map[string]string{"hawk": "kite", hawk.AgentID: "agt_00000000000000000000000000", told.MessageID: "msg_00000000000000000000000000", "silo": "barn", string(room.ID): "chn_00000000000000000000000000"} {
			yes, no := w.call(ours, tool, ask(real)), w.call(ours, tool, ask(made))
			if a, b := strings.ReplaceAll(words(yes), real, "X"), strings.ReplaceAll(words(no), made, "X"); a != b || !yes.IsError {
				t.Errorf("%s tells %s from a name that nobody has:\n%s\n%s", tool, real, a, b)
			}
		}
	}
}
