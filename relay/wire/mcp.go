package wire

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Bounds of calls of the MCP door, in bytes unless they say otherwise.
const (
	// MaxMCPCall bounds one message of an agent, and MaxMCPPart one part of an answer. Whatever JSON makes of them fits MaxBody.
	MaxMCPCall = 2 << 20
	MaxMCPPart = 512 << 10
	// MaxMCPCalls is how many calls of one relay may be open at a time, and MaxMCPSession how many of one session.
	MaxMCPCalls   = 256
	MaxMCPSession = 40
	// maxMCPHead bounds each of the short fields.
	maxMCPHead = 256
)

// MCPCall is one request of an agent for the bridge's MCP door, as HTTP would carry it: one message of the protocol, or the opening or
// the end of a stream. No token is in it; the connection says which relay it is, and the bridge knows which agents that relay hosts.
type MCPCall struct {
	// ID names the call on its connection.
	ID string `json:"id"`
	// Session is the bridge's name of the agent's conversation, see [TurnAsk].
	Session string `json:"session"`
	// Method is POST for a message, GET for the stream of notifications, and DELETE for the end of a session of the protocol.
	Method string `json:"method"`
	// Door names the session of the protocol, Version its version, and Call and Name what the body holds: the headers Mcp-Session-Id,
	// Mcp-Protocol-Version, Mcp-Method and Mcp-Name.
	Door    string `json:"door,omitempty"`
	Version string `json:"version,omitempty"`
	Call    string `json:"call,omitempty"`
	Name    string `json:"name,omitempty"`
	Body    string `json:"body,omitempty"`
}

// MCPPart is a part of the answer to an [MCPCall], in the order of their sending. The first with a status begins the answer.
type MCPPart struct {
	ID string `json:"id"`
	// Status, Type and Door are of the first part: the status of HTTP, and the headers Content-Type and Mcp-Session-Id.
	Status int    `json:"status,omitempty"`
	Type   string `json:"type,omitempty"`
	Door   string `json:"door,omitempty"`
	Body   string `json:"body,omitempty"`
	// Alive says that the call is still under way.
	Alive bool `json:"alive,omitempty"`
	// End is true for the last part. Cut says that the answer is not whole.
	End bool `json:"end,omitempty"`
	Cut bool `json:"cut,omitempty"`
}

// MCPCancel ends a call that nobody waits for any more.
type MCPCancel struct {
	ID string `json:"id"`
}

// Check reports what no relay sends.
func (c MCPCall) Check() error {
	switch {
	case !ValidRequestID(c.ID) || !ValidRequestID(c.Session):
		return errors.New("an MCP call without an id, or without a session")
	case !slices.Contains([]string{http.MethodPost, http.MethodGet, http.MethodDelete}, c.Method):
		return errors.New("an MCP call with an unknown method")
	case c.Method != http.MethodPost && c.Body != "":
		return errors.New("an MCP call with a body, which its method must not have")
	case len(c.Body) > MaxMCPCall:
		return fmt.Errorf("an MCP call of %d bytes; send at most %d", len(c.Body), MaxMCPCall)
	}
	return heads(c.Door, c.Version, c.Call, c.Name)
}

func (p MCPPart) check() error {
	switch {
	case !ValidRequestID(p.ID):
		return errors.New("a part of an MCP answer without an id")
	case p.Status != 0 && (p.Status < 200 || p.Status > 599):
		return errors.New("an MCP answer has an invalid status")
	case len(p.Body) > MaxMCPPart:
		return fmt.Errorf("a part of an MCP answer has %d bytes; at most %d are allowed", len(p.Body), MaxMCPPart)
	case p.Cut && !p.End:
		return errors.New("an MCP answer is cut off, and yet continues")
	}
	return heads(p.Type, p.Door)
}

func (c MCPCancel) check() error {
	if !ValidRequestID(c.ID) {
		return errors.New("the end of an MCP call without an id")
	}
	return nil
}

// heads refuses a short field that could not be a header of HTTP.
func heads(fields ...string) error {
	for _, f := range fields {
		if len(f) > maxMCPHead {
			return fmt.Errorf("a field of an MCP call is longer than %d bytes", maxMCPHead)
		}
		for i := range len(f) {
			if f[i] < ' ' || f[i] > '~' {
				return errors.New("a field of an MCP call is not printable ASCII")
			}
		}
	}
	return nil
}
