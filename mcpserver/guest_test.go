package mcpserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
)

// guest connects without a token as an agent that the process has proved.
func (w *world) guest(door http.Handler, g mcpserver.Guest, era string) (*mcp.ClientSession, error) {
	server := httptest.NewServer(g.Admit(door))
	w.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(w.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL + "/mcp", MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err == nil {
		w.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// TestGuest: an agent that the process has proved calls tools without a token, in both eras, under the bounds and checks of any other;
// one that is gone does not. The door ends no session of a guest for want of a token.
func TestGuest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sets = []string{mcpserver.SetChannels, mcpserver.SetTeam}
	door := w.serve(func(o *mcpserver.Options) { o.PerMinute = 5 })
	main := w.launch("main")
	old, err := w.guest(door, mcpserver.Guest{Agent: main.ID, Way: "relay laptop 1"}, oldEra)
	if err != nil {
		t.Fatal(err)
	}
	if got := old.InitializeResult().Instructions; !strings.Contains(got, string(main.ID)) {
		t.Errorf("the door does not know who calls: %s", got)
	}
	fresh, err := w.guest(door, mcpserver.Guest{Agent: main.ID, Way: "relay laptop 1"}, newEra)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		good[any](w, old, "do_nothing", nil)
		good[any](w, fresh, "do_nothing", nil)
	}
	mcpserver.EndRevoked(door, t.Context())
	good[any](w, old, "do_nothing", nil)
	if r := w.call(w.connect("main", newEra, ""), "do_nothing", nil); !r.IsError || !strings.HasPrefix(words(r), "rate_limited") {
		t.Errorf("a token's calls and a guest's are not counted together: %s", words(r))
	}
	if _, err := w.guest(door, mcpserver.Guest{Agent: bridge.AgentID("agt_gone"), Way: "relay laptop 1"}, newEra); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("an agent that is gone: %v", err)
	}
	if _, err := w.dial("guest "+string(main.ID)+" relay laptop 1", newEra, ""); err == nil {
		t.Error("the mark of a guest is a token")
	}
}
