package mcpserver_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
	"drawbridge/proof/runtimes"
)

// TestWordsOfOthersAtTheDoor: what a child writes, whatever it is made of, stands behind a bar in its parent's turns, and a tool's
// answer shows all of it. Refusals that quote what a caller sent do so on one line.
func TestWordsOfOthersAtTheDoor(t *testing.T) {
	t.Parallel()
	for name, evil := range runtimes.Poisons() {
		if !utf8.ValidString(evil) || strings.ContainsRune(evil, 0) {
			continue // no such message is taken
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.sets = []string{mcpserver.SetTeam, mcpserver.SetBridge}
			main := w.launch("main")
			boss := w.connect("main", newEra, "")
			spawned := good[mcpserver.Spawned](w, boss, "spawn_agent", args{"name": "zoe", "instructions": "Work.", "repo": "github.com/me/my-app"})
			w.mint(bridge.Agent{ID: bridge.AgentID(spawned.AgentID), Name: "zoe"})
			zoe := w.connect("zoe", newEra, "")
			good[any](w, zoe, "send_message", args{"recipient": "main", "text": evil, "sync": false})
			var sent string
			w.until("the message was told", func(tx *bridge.Scene) bool {
				turns, err := tx.Turns(bridge.TurnFilter{Agent: main.ID})
				sent = ""
				for _, turn := range turns {
					sent += turn.Sent + "\n"
				}
				return err == nil && strings.Contains(sent, "from zoe (message ") && strings.Contains(sent, runtimes.Marker)
			})
			for _, fault := range runtimes.Unbarred(sent) {
				t.Error(fault)
			}
			for _, call := range []struct {
				tool string
				in   args
			}{{"launch_agent", args{"repo": evil, "prompt": "x"}}, {"run_local_action", args{"action": evil}}, {"send_message", args{"recipient": evil, "text": "x"}}, {"inspect_agent", args{"name": "zoe"}}} {
				result, err := boss.CallTool(w.Context(), &mcp.CallToolParams{Name: call.tool, Arguments: call.in})
				if err != nil {
					t.Fatal(err)
				}
				for _, fault := range runtimes.Unbarred(result.Content[0].(*mcp.TextContent).Text) {
					if !strings.HasPrefix(fault, "a line without a bar") { // it is one line of JSON
						t.Errorf("%s: %s", call.tool, fault)
					}
				}
			}
		})
	}
}
