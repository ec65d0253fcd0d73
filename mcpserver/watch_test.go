package mcpserver_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/mail"
	"drawbridge/mcpserver"
)

// TestASubscriptionTellsOfALaterTurn: a later turn of a child, which mail caused, reaches its parent only by a subscription,
// and by each subscription once.
func TestASubscriptionTellsOfALaterTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetTeam}
	main := w.launch("main")
	boss := w.connect("main", newEra, "")
	one, two := w.child(boss, "worker-1"), w.child(boss, "worker-2")
	w.until("main knows both results", func(tx *bridge.Scene) bool {
		return told(tx, main.ID, "worker-1") > 0 && told(tx, main.ID, "worker-2") > 0 && rests(tx, main.ID)
	})
	later := func(from, to bridge.AgentID, name string) {
		t.Helper()
		sent, err := w.mail.Send(t.Context(), from, mail.Draft{To: name, Text: "Look again."})
		if err != nil {
			t.Fatal(err)
		}
		w.until(name+" read it", func(tx *bridge.Scene) bool { return told(tx, to, string(sent.Message.ID)) == 1 && rests(tx, to) })
	}

	before := w.turns(main.ID)
	later(two, one, "worker-1")
	good[any](w, boss, "subscribe", args{"agent": "worker-2"})
	later(one, two, "worker-2")
	w.until("main knows of worker-2", func(tx *bridge.Scene) bool {
		return told(tx, main.ID, "worker-2 is not busy any more") == 1 && rests(tx, main.ID)
	})
	if got := w.turns(main.ID) - before; got != 1 {
		t.Errorf("main got %d turns for one subscription and two later turns of its children", got)
	}

	// The subscription is used up; another one, on the other child, is answered alone.
	later(one, two, "worker-2")
	good[any](w, boss, "subscribe", args{"agent": "worker-1"})
	later(two, one, "worker-1")
	w.until("main knows of worker-1", func(tx *bridge.Scene) bool {
		return told(tx, main.ID, "worker-1 is not busy any more") == 1 && rests(tx, main.ID)
	})
	if err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		if n := told(tx, main.ID, "worker-2 is not busy any more"); n != 1 {
			t.Errorf("main was told %d times of worker-2", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := w.turns(main.ID) - before; got != 2 {
		t.Errorf("main got %d turns for two subscriptions and four later turns of its children", got)
	}
}

// child spawns a subagent.
func (w *world) child(parent *mcp.ClientSession, name string) bridge.AgentID {
	w.Helper()
	return bridge.AgentID(good[mcpserver.Spawned](w, parent, "spawn_agent", args{"name": name, "instructions": "Work.", "repo": "github.com/me/my-app"}).AgentID)
}

// told counts the turns of an agent whose text holds words.
func told(tx *bridge.Scene, id bridge.AgentID, words string) (n int) {
	turns, err := tx.Turns(bridge.TurnFilter{Agent: id, Limit: 100})
	if err != nil {
		return -1
	}
	for _, turn := range turns {
		if strings.Contains(turn.Sent, words) {
			n++
		}
	}
	return n
}

// rests reports whether an agent's latest turn is over.
func rests(tx *bridge.Scene, id bridge.AgentID) bool {
	turns, err := tx.Turns(bridge.TurnFilter{Agent: id, Limit: 1})
	return err == nil && len(turns) == 1 && turns[0].State.Over()
}

// turns counts the turns of an agent.
func (w *world) turns(id bridge.AgentID) (n int) {
	w.Helper()
	w.until("its turns can be read", func(tx *bridge.Scene) bool {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: id, Limit: 100})
		n = len(turns)
		return err == nil
	})
	return n
}
