// Package acp speaks version 1 of the Agent Client Protocol with one process of an agent, over its standard input and output.
//
// The messages are those of github.com/coder/acp-go-sdk; the connection is ours, because that of the library loses an answer that comes
// just before the process ends, and has no bound for requests, updates and writes (ADR 24). The package starts no process and decides
// nothing: package host starts the agent, and the caller answers its questions. Rule of thumb: an agent is hostile. What it sends is
// bounded, text of the answer is taken from the agent's own message chunks alone, and each way in which it can fail has a cause.
package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/limits"
	"drawbridge/relay/runner/output"
)

const (
	// cancelFor is how long an agent may take to end a turn that was cancelled.
	cancelFor = 10 * time.Second
	// settleFor is the default of Options.SettleFor.
	settleFor = 300 * time.Millisecond
	// settleMost bounds the wait for silence: an agent may report on work in the background without end.
	settleMost = 3 * time.Second
)

// Input is the agent's standard input. An *os.File that does not block is one.
type Input interface {
	io.WriteCloser
	SetWriteDeadline(t time.Time) error
}

// Options is what a [Conn] is made of.
type Options struct {
	Input Input
	// Unread returns how many bytes that were written to Input no process has read. It is called after [Conn.Over]. Without it, every byte
	// counts as read.
	Unread func() (int, error)
	// Name and Version say to the agent who we are.
	Name, Version string
	// Ask answers a question of the agent; it is called on a goroutine of its own, may take as long as a person, and returns when ctx is
	// done, which is when nobody waits for the answer any more. Without Ask every question is refused.
	Ask func(ctx context.Context, q Question) Reply
	// SettleFor is how long an agent has to be silent after the end of a turn until its reply is closed; 300 ms unless set. Some agents
	// send their last words late (OpenCode issue 17505).
	SettleFor time.Duration
	// Mode is the mode that each session gets, or "". A session in a mode that asks nothing is refused in any case.
	Mode string
	// ModeIfAny bears an agent whose sessions have no modes. Without it such a session is refused where Mode is set.
	ModeIfAny bool
	// Meta is what each session is opened with beside the protocol: an agent's own options. It is nil for none.
	Meta map[string]any
	// Pace turns limits of the agent's account that state no time into times. Nil is one of the connection's own.
	Pace *limits.Pace
	// Hide takes secrets out of a text of the agent's that goes into a reason; nil takes out nothing.
	Hide func(string) string
}

// clean makes a text of the agent's fit to be shown on one line.
func (o Options) clean(text string) string {
	if o.Hide != nil {
		text = o.Hide(text)
	}
	if len(text) > sample {
		text = text[:sample] + "..."
	}
	return output.Line(text)
}

// Conn is the connection to one process of an agent. It is safe for concurrent use, but for Write, which one goroutine calls.
type Conn struct {
	*rpc
	o Options
	// maxUpdates bounds the updates of one turn and of one replay.
	maxUpdates int

	mu       sync.Mutex // guards the fields below
	about    About
	heard    time.Time
	sessions map[string]*Session
	// questions are the open ones, with their session.
	questions map[*context.CancelFunc]string
}

// New returns the connection to a process whose output is going to be written to the Conn. ctx is the parent of the contexts of questions.
// The caller calls Over when the process has ended, and Close in the end.
func New(ctx context.Context, o Options) *Conn {
	if o.Pace == nil {
		o.Pace = new(limits.Pace)
	}
	c := &Conn{o: o, sessions: map[string]*Session{}, maxUpdates: defaultUpdates}
	c.rpc = newRPC(ctx, o, handlers{notified: c.notified, asked: c.asked})
	return c
}

// Done is closed when the connection is over: the process ended, or broke the protocol and has to be ended.
func (c *Conn) Done() <-chan struct{} { return c.rpc.done }

// Over says how the process ended, after the last of its output was written. Calls that wait return it, but for those whose answer is here.
func (c *Conn) Over(why *agents.Error) {
	c.rpc.gone.Store(true)
	c.rpc.fail(why)
}

// Hangup closes the agent's input, which asks it to end. Calls that wait go on until it has.
func (c *Conn) Hangup() error { return c.o.Input.Close() }

// Close closes the agent's input, which asks it to end, ends the connection if it still goes on, and returns when nothing of it is left.
func (c *Conn) Close() error {
	err := c.o.Input.Close()
	c.rpc.fail(&agents.Error{Cause: agents.Stopped, Reason: "the connection to the agent was closed"})
	c.rpc.asks.Wait()
	return err
}

// Heard returns when the agent said something last, zero when it has said nothing.
func (c *Conn) Heard() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// About is what an agent says of itself.
type About struct {
	// Name and Version are the agent's own, or "".
	Name, Version string
	// Protocol is the version of the Agent Client Protocol that it chose.
	Protocol int
	// Load and Resume are the ways in which it goes on with a session; List and Close what else it does with sessions.
	Load, Resume, List, Close bool
	// HTTP and SSE are kinds of MCP servers that it takes beside those over standard input and output.
	HTTP, SSE bool
	// Logins are the ways to log in that it offers, for people.
	Logins []string
}

// initialized is the answer to initialize, as far as it concerns us. The library's type refuses all of it for one method to log in of a newer kind.
type initialized struct {
	ProtocolVersion   json.RawMessage `json:"protocolVersion"`
	AgentCapabilities loosejson.Value[struct {
		LoadSession     loosejson.Value[bool] `json:"loadSession"`
		McpCapabilities loosejson.Value[struct {
			HTTP loosejson.Value[bool] `json:"http"`
			SSE  loosejson.Value[bool] `json:"sse"`
		}] `json:"mcpCapabilities"`
		Session loosejson.Value[map[string]any] `json:"sessionCapabilities"`
	}] `json:"agentCapabilities"`
	AuthMethods loosejson.Value[[]loosejson.Value[struct {
		Name loosejson.Value[string] `json:"name"`
	}]] `json:"authMethods"`
	AgentInfo loosejson.Value[struct {
		Name    loosejson.Value[string] `json:"name"`
		Version loosejson.Value[string] `json:"version"`
	}] `json:"agentInfo"`
}

// Initialize begins the conversation. It fails for an agent that does not speak version 1.
func (c *Conn) Initialize(ctx context.Context) (About, error) {
	var said initialized
	err := c.rpc.call(ctx, sdk.AgentMethodInitialize, sdk.InitializeRequest{
		ProtocolVersion: sdk.ProtocolVersionNumber,
		ClientInfo:      &sdk.Implementation{Name: c.o.Name, Version: c.o.Version},
		// Files and terminals of ours are not served: the agent uses its own, within its sandbox.
		ClientCapabilities: sdk.ClientCapabilities{},
	}, &said)
	if err != nil {
		return About{}, c.ended(err, "start")
	}
	var version int
	if json.Unmarshal(said.ProtocolVersion, &version) != nil || version != sdk.ProtocolVersionNumber {
		return About{}, c.broke(fmt.Sprintf("the agent speaks version %s of the protocol; this relay speaks version %d", c.o.clean(string(said.ProtocolVersion)), sdk.ProtocolVersionNumber))
	}
	info, abilities := said.AgentInfo.Is, said.AgentCapabilities.Is
	a := About{
		Name: c.o.clean(info.Name.Is), Version: c.o.clean(info.Version.Is), Protocol: version,
		Load: abilities.LoadSession.Is, HTTP: abilities.McpCapabilities.Is.HTTP.Is, SSE: abilities.McpCapabilities.Is.SSE.Is,
	}
	can := func(name string) bool { return abilities.Session.Is[name] != nil }
	a.Resume, a.List, a.Close = can("resume"), can("list"), can("close")
	for _, m := range said.AuthMethods.Is[:min(len(said.AuthMethods.Is), 8)] {
		a.Logins = append(a.Logins, c.o.clean(m.Is.Name.Is))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.about = a
	return a, nil
}

// Noise returns what was left out of the agent's output so far.
func (c *Conn) Noise() agents.Noise { return c.rpc.dropped() }

// broke ends a connection on which the agent does not keep to the protocol.
func (c *Conn) broke(reason string) *agents.Error {
	why := &agents.Error{Cause: agents.Crashed, Reason: reason}
	c.rpc.fail(why)
	return why
}

// ended makes the error of a call one with a cause. doing says what the agent was asked to do.
func (c *Conn) ended(err error, doing string) error {
	var why *agents.Error
	var said *rpcError
	switch {
	case errors.As(err, &why):
		return why
	case errors.As(err, &said):
		return c.declined(said, doing)
	case errors.Is(err, context.DeadlineExceeded):
		reason := "the agent did not " + doing + " in time"
		if noise := c.Noise(); noise.First != "" {
			reason += fmt.Sprintf("; it wrote %q", noise.First)
		}
		return &agents.Error{Cause: agents.Hung, Reason: reason}
	default:
		return &agents.Error{Cause: agents.Stopped, Reason: "the relay stopped waiting for the agent"}
	}
}

// declined gives an error of the agent's its cause.
func (c *Conn) declined(said *rpcError, doing string) *agents.Error {
	text := c.o.clean(said.Message + detail(said.Data))
	switch {
	case said.Code == codeAuth:
		return &agents.Error{Cause: agents.LoginMissing, Reason: "the agent wants its user to log in: " + text}
	}
	now := time.Now()
	if read, limited := said.limit(now); limited {
		return &agents.Error{Cause: agents.Limited, Reason: "the agent's account is limited: " + text, Until: c.o.Pace.Until(read, now)}
	}
	switch {
	case said.Code == codeNotFound:
		return &agents.Error{Cause: agents.SessionGone, Reason: "the agent does not know the session: " + text}
	}
	return &agents.Error{Cause: agents.Failed, Reason: fmt.Sprintf("the agent could not %s: %s (error %d)", doing, text, said.Code)}
}

// limit reads a limit from an error. The words of its message and of the known fields say whether it is one, and then its data may say until when.
func (e *rpcError) limit(now time.Time) (limits.Reading, bool) {
	words := e.Message + detail(e.Data)
	read, limited := limits.Read(words, now, nil)
	if limited && read.Until.IsZero() {
		more, _ := limits.Read(words+" "+string(e.Data), now, nil)
		read.Until = more.Until
	}
	return read, limited
}

// detail is what the data of an error adds to its message.
func detail(data json.RawMessage) string {
	var text string
	var object map[string]any
	if json.Unmarshal(data, &text) != nil && json.Unmarshal(data, &object) == nil {
		for _, name := range []string{"details", "message", "error", "errorKind"} {
			if word, isText := object[name].(string); isText {
				text += word + " "
			}
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + text
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
