//go:build deep

package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
	"drawbridge/parser"
)

// TestEachCallIsMadeOnceOverACrash kills the process behind each of its writes, while an agent of this process calls a tool that changes
// something, and makes the call again. It is done once, and the answer is one of success. A new tool needs a line in crashCalls.
func TestEachCallIsMadeOnceOverACrash(t *testing.T) {
	t.Parallel()
	c := newCrashes(t)
	session := c.connect("main", newEra, "")
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.crashed("poke", crashCalls["poke"]) // first, because other tools wake those that it wakes
	changing := 0
	for _, tool := range listed.Tools {
		if tool.Annotations.ReadOnlyHint {
			continue
		}
		changing++
		call, listed := crashCalls[tool.Name]
		if !listed {
			t.Errorf("the tool %s changes something and has no line in crashCalls; add one", tool.Name)
			continue
		}
		if tool.Name != "poke" {
			c.crashed(tool.Name, call)
		}
	}
	if changing != len(crashCalls) {
		t.Errorf("%d tools change something, and crashCalls has %d", changing, len(crashCalls))
	}
}

// TestAFloodOfCommands: an agent that asks again and again for what it may not have is told to stop. It guards against the
// thousandth call of a turn, and every one after it, being an internal error.
func TestAFloodOfCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := w.launch("main")
	s := w.connect("main", newEra, "")
	for range 1000 {
		if _, err := w.engine.Ask(t.Context(), main.ID, bridge.Once{}, parser.Command{Verb: parser.LocalAction, Action: "format_disk"}); err != nil {
			t.Fatal(err)
		}
	}
	ask := args{"repo": "github.com/me/my-app", "prompt": "Work."}
	if r := w.call(s, "launch_agent", ask); !r.IsError || !strings.Contains(words(r), "rate_limited: you asked for 1000 commands in this turn") {
		t.Errorf("launch_agent: %s", words(r))
	}
	if _, err := w.engine.Say(t.Context(), main.ID, "Go on."); err != nil {
		t.Fatal(err)
	}
	w.until("the next turn is over", func(tx *bridge.Scene) bool {
		a, err := tx.Agent(main.ID)
		turns, more := tx.Turns(bridge.TurnFilter{Agent: main.ID})
		return err == nil && more == nil && len(turns) > 1 && a.State == bridge.AgentIdle
	})
	good[mcpserver.Asked](w, s, "launch_agent", ask)
}

func TestSixtyFourAgentsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 64 {
		w.launch(fmt.Sprintf("a%d", i))
	}
	fails := make(chan error, 64)
	for i := range 64 {
		go func() {
			name := fmt.Sprintf("a%d", i)
			s, err := w.dial(name, []string{oldEra, newEra}[i%2], "")
			if err != nil {
				fails <- err
				return
			}
			defer s.Close()
			for n := range 5 {
				r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "remind", Arguments: args{"when": "2h", "message": fmt.Sprint(name, " ", n)}})
				if err != nil || r.IsError {
					fails <- fmt.Errorf("%s: %v %v", name, err, r)
					return
				}
			}
			fails <- nil
		}()
	}
	for range 64 {
		if err := <-fails; err != nil {
			t.Error(err)
		}
	}
	if err := w.engine.View(t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Commands(bridge.CommandFilter{Limit: 1000})
		if len(all) != 320 {
			t.Errorf("%d reminders, want 320", len(all))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
