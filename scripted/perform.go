package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/bridge"
	"drawbridge/internal/pause"
)

// How long an agent tries to reach its door, and how long one call may take.
const (
	doorPatience = time.Minute
	firstRetry   = 20 * time.Millisecond
	lastRetry    = time.Second
	callPatience = 30 * time.Second
)

// errStopped ends an agent's work without an end of its run: the process stops, or somebody cancelled it.
var errStopped = errors.New("the agent was stopped")

// performance is an agent at work on one run.
type performance struct {
	*Runtime
	ctx   context.Context
	agent string
	run   int
	door  *bridge.Door
	// seen are the returns of an earlier process, in order.
	seen    []returned
	session *mcp.ClientSession
}

// perform plays a run to its end, or until ctx ends.
func (r *Runtime) perform(ctx context.Context, a *agent, now *run) {
	r.mu.Lock()
	p := &performance{Runtime: r, ctx: ctx, agent: a.id, run: now.n, door: a.door, seen: now.calls}
	role, vars, prompt := a.role, a.vars, now.prompt
	r.mu.Unlock()
	defer p.hangUp()
	if role == nil {
		r.note(Line{Kind: Ended, Agent: p.agent, Run: p.run, State: bridge.RunError, Detail: "the script has no agent for this prompt"})
		return
	}
	end, err := role.play(prompt, vars, p.call)
	switch {
	case errors.Is(err, errStopped):
		return
	case err != nil:
		r.note(Line{Kind: Ended, Agent: p.agent, Run: p.run, State: bridge.RunError, Detail: err.Error()})
		return
	}
	if end.after > 0 && pause.For(ctx, end.after) != nil {
		return
	}
	if end.state != bridge.RunFinished {
		end.reply = ""
	}
	delete(end.vars, promptVar)
	r.note(Line{Kind: Ended, Agent: p.agent, Run: p.run, State: end.state, Reply: end.reply, Vars: end.vars})
}

// call makes a tool call at the door, again and again while the door cannot be
// reached: whether a try whose answer was lost had its effect nobody can tell an
// agent. What the tool refuses is an answer like any other.
func (p *performance) call(tool string, args json.RawMessage) (returned, error) {
	if len(p.seen) > 0 {
		got := p.seen[0]
		p.seen = p.seen[1:]
		return got, nil
	}
	if p.door == nil {
		return returned{}, errors.New("the agent has no MCP address at which to call " + tool)
	}
	wait, until := firstRetry, time.Now().Add(doorPatience)
	for {
		if p.ctx.Err() != nil || !p.note(Line{Kind: Calling, Agent: p.agent, Run: p.run, Tool: tool, Args: args}) {
			return returned{}, errStopped
		}
		got, err := p.try(tool, args)
		if p.ctx.Err() != nil && err != nil {
			return returned{}, errStopped
		}
		if err == nil {
			if !p.note(Line{Kind: Returned, Agent: p.agent, Run: p.run, Tool: tool, Result: got.Result, Refused: got.Refused}) {
				return returned{}, errStopped
			}
			return got, nil
		}
		p.hangUp()
		p.o.Log.Debug().Err(err).Str("agent", p.agent).Str("tool", tool).Msg("a scripted agent does not reach its door")
		if time.Now().After(until) {
			return returned{}, errors.New("the bridge does not answer tool calls")
		}
		if pause.For(p.ctx, wait) != nil {
			return returned{}, errStopped
		}
		wait = min(2*wait, lastRetry)
	}
}

// try makes one call. A call that is under way when the process is told to stop
// may still get its answer.
func (p *performance) try(tool string, args json.RawMessage) (returned, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), callPatience)
	defer cancel()
	if p.session == nil {
		client := &http.Client{Transport: bearer(p.door.Token), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		transport := &mcp.StreamableClientTransport{Endpoint: p.door.URL, MaxRetries: -1, HTTPClient: client}
		session, err := mcp.NewClient(&mcp.Implementation{Name: "drawbridge-scripted", Version: "1"}, nil).Connect(ctx, transport, nil)
		if err != nil {
			return returned{}, err
		}
		p.session = session
	}
	result, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused):
		return returned{Refused: refused.Message}, nil
	case err != nil:
		return returned{}, err
	}
	return read(result)
}

func read(result *mcp.CallToolResult) (returned, error) {
	data, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return returned{}, err
	}
	got := returned{Result: data}
	if !result.IsError {
		return got, nil
	}
	got.Refused = "refused"
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			got.Refused = text.Text
		}
	}
	return got, nil
}

// hangUp ends the session; the next call opens another.
func (p *performance) hangUp() {
	if p.session != nil {
		_ = p.session.Close() // what it cannot say any more the door's own timeout does
		p.session = nil
	}
}

// bearer sends an agent's token.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
