package hub

import (
	"context"
	"net/http"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/relay/tunnel"
	"drawbridge/relay/wire"
)

// MCPDoor lets the agents of relays in.
type MCPDoor interface {
	// Agent returns the agent whose conversation a relay calls session. The error is a *bridge.Error: Denied unless this very relay
	// hosts that agent, Unavailable when that is not known yet. It is called for each call, concurrently.
	Agent(ctx context.Context, relay, session string) (bridge.AgentID, error)
	// Handler serves the door's path to that agent, without a token. The session of a token is that of relay and session here.
	Handler(agent bridge.AgentID, relay, session string) http.Handler
}

// takeMCP takes what an agent of the relay wants of the MCP door.
func (c *conn) takeMCP(ctx context.Context, f wire.Frame) error {
	s := c.mcp.Load()
	if s == nil {
		s = c.newMCP(ctx)
		c.mcp.Store(s) // this goroutine alone gets here
	}
	if f.MCPCancel != nil {
		s.Cancel(f.MCPCancel.ID)
		return nil
	}
	return s.Take(ctx, *f.MCPCall)
}

// mcpCalls are the calls of one connection.
type mcpCalls struct {
	*tunnel.Server
	// lose ends what is being sent, because the connection is over.
	lose context.CancelFunc
}

func (c *conn) newMCP(ctx context.Context) *mcpCalls {
	door := c.hub.o.MCP
	lost, lose := context.WithCancel(context.WithoutCancel(ctx))
	return &mcpCalls{lose: lose, Server: &tunnel.Server{
		Relay: c.relay,
		Send: func(ctx context.Context, f wire.Frame) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(lost, cancel)()
			return c.turnSender().Send(ctx, f)
		},
		Door: func(ctx context.Context, session string) (http.Handler, error) {
			if door == nil {
				return nil, bridge.Errorf(bridge.NotFound, "this bridge has no tools for agents of relays")
			}
			agent, err := door.Agent(ctx, c.relay, session)
			if err != nil {
				c.hub.o.Log.Warn().Err(err).Str("relay", c.relay).Str("agent_session", session).Msg("a call for the MCP door was refused")
				return nil, err
			}
			return door.Handler(agent, c.relay, session), nil
		},
		Refuse: refuseMCP,
	}}
}

// statuses are those of HTTP for the kinds of errors that [MCPDoor.Agent] returns.
var statuses = map[bridge.ErrorKind]int{bridge.Denied: http.StatusForbidden, bridge.NotFound: http.StatusNotFound, bridge.Unavailable: http.StatusServiceUnavailable}

func refuseMCP(w http.ResponseWriter, _ *http.Request, err error) {
	status, known := statuses[bridge.KindOf(err)]
	if !known {
		status = http.StatusInternalServerError
	}
	httpx.WriteError(w, status, string(bridge.KindOf(err)), bridge.SafeMessage(err)+"; this call had no effect")
}

// endMCP ends the calls of a connection that is over. wait returns when none of them runs.
func (c *conn) endMCP() (wait func()) {
	s := c.mcp.Load()
	if s == nil {
		return func() {}
	}
	s.Close()
	s.lose()
	return s.Wait
}
