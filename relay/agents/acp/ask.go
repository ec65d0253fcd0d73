package acp

import (
	"context"
	"encoding/json"

	sdk "github.com/coder/acp-go-sdk"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/runner/settings"
)

// maxOptions bounds the options of a question.
const maxOptions = 32

// Question is what an agent wants to do and asks about. It is the agent's own claim.
type Question struct {
	// Session is the agent's id of the session.
	Session string
	// Call is the agent's id of the tool call, Title its words for it.
	Call, Title string
	// Kind is the agent's word for what the call does, such as read, edit, execute or fetch.
	Kind string
	// Arguments are the exact arguments as the agent wrote them, nil when it gave none.
	Arguments json.RawMessage
	// Paths are the files that the agent says the call is about.
	Paths []string
	// Refusable and Allowable say which answers the agent offers for this one call.
	Allowable, Refusable bool
}

// Reply is the answer to a Question. The zero Reply says that nobody answers.
type Reply int

// The replies.
const (
	Unanswered Reply = iota
	Allow
	Refuse
)

// permission is a request for permission. The library's type would lose the spelling of the arguments.
type permission struct {
	SessionID string `json:"sessionId"`
	ToolCall  struct {
		ToolCallID loosejson.Value[string] `json:"toolCallId"`
		Title      json.RawMessage         `json:"title"`
		Kind       string                  `json:"kind"`
		RawInput   json.RawMessage         `json:"rawInput"`
		Locations  []struct {
			Path string `json:"path"`
		} `json:"locations"`
	} `json:"toolCall"`
	Options []struct {
		Kind     sdk.PermissionOptionKind `json:"kind"`
		OptionID sdk.PermissionOptionId   `json:"optionId"`
	} `json:"options"`
}

// title is what the agent calls the tool call: it is a part of what a person approves, in whatever form it comes.
func (p permission) title() (title string) {
	if json.Unmarshal(p.ToolCall.Title, &title) != nil {
		title = string(p.ToolCall.Title)
	}
	return title
}

// option returns the option of a kind: never by its id, which each agent chooses, and never one that changes the mode to a bypass.
func (p permission) option(kind sdk.PermissionOptionKind) (sdk.PermissionOptionId, bool) {
	for _, o := range p.Options {
		if o.Kind == kind && !settings.Bypasses(string(o.OptionID)) {
			return o.OptionID, true
		}
	}
	return "", false
}

// asked answers a request of the agent's. Files and terminals are not served, as initialize says.
func (c *Conn) asked(ctx context.Context, method string, params json.RawMessage) (any, *rpcError) {
	if method != sdk.ClientMethodSessionRequestPermission {
		return nil, &rpcError{Code: codeNoMethod, Message: "this client does not have the method " + c.o.clean(method)}
	}
	var p permission
	if err := json.Unmarshal(params, &p); err != nil || len(p.Options) > maxOptions {
		return nil, &rpcError{Code: codeBadParams, Message: "the request for permission cannot be read"}
	}
	c.mu.Lock()
	s := c.sessions[p.SessionID]
	c.mu.Unlock()
	if s == nil {
		return nil, &rpcError{Code: codeBadParams, Message: "the session is not known"}
	}
	s.asks(params)
	return sdk.RequestPermissionResponse{Outcome: p.outcome(c.ask(ctx, p))}, nil
}

// asks notes the tool call of a question.
func (s *Session) asks(params json.RawMessage) {
	var said struct {
		Call called `json:"toolCall"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && json.Unmarshal(params, &said) == nil {
		s.turn.steps.tool(said.Call, inQuestion)
	}
}

// ask passes a question on, unless nobody can be asked.
func (c *Conn) ask(ctx context.Context, p permission) Reply {
	if c.o.Ask == nil {
		return Refuse
	}
	q := Question{Session: p.SessionID, Call: p.ToolCall.ToolCallID.Is, Title: p.title(), Kind: p.ToolCall.Kind, Arguments: p.ToolCall.RawInput}
	for _, l := range p.ToolCall.Locations {
		q.Paths = append(q.Paths, l.Path)
	}
	_, q.Allowable = p.option(sdk.PermissionOptionKindAllowOnce)
	_, q.Refusable = p.option(sdk.PermissionOptionKindRejectOnce)
	ctx, done := c.open(ctx, p.SessionID)
	defer done()
	reply := c.o.Ask(ctx, q)
	if ctx.Err() != nil {
		return Unanswered
	}
	return reply
}

// outcome chooses the option of a reply. A yes is for this call alone: where the agent offers only a yes for all later calls, it gets none.
func (p permission) outcome(reply Reply) sdk.RequestPermissionOutcome {
	kind, answered := map[Reply]sdk.PermissionOptionKind{Allow: sdk.PermissionOptionKindAllowOnce, Refuse: sdk.PermissionOptionKindRejectOnce}[reply]
	if id, offered := p.option(kind); answered && offered {
		return sdk.NewRequestPermissionOutcomeSelected(id)
	}
	return sdk.NewRequestPermissionOutcomeCancelled()
}

// open makes the context of a question of a session, which ends when the turn is cancelled.
func (c *Conn) open(ctx context.Context, session string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.questions == nil {
		c.questions = map[*context.CancelFunc]string{}
	}
	key := &cancel
	c.questions[key] = session
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.questions, key)
		cancel()
	}
}

// withdraw ends the open questions of a session: a cancelled turn's are answered with cancelled, as the protocol wants it.
func (c *Conn) withdraw(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel, of := range c.questions {
		if of == session {
			(*cancel)()
		}
	}
}
