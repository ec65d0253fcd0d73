package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/agents"
	"drawbridge/relay/runner/settings"
)

const (
	// maxText bounds the text of one turn, in bytes.
	maxText = 4 << 20
	// maxReplay bounds what is kept of a replay, in bytes; the oldest part goes first.
	maxReplay = 8 << 20
	// defaultUpdates bounds the updates of one turn and of one replay.
	defaultUpdates = 500_000
)

// MCPServer is a server that the agent starts, over standard input and output.
type MCPServer struct {
	Name, Command string
	Args          []string
	// Env are pairs NAME=value.
	Env map[string]string
	// Reads are paths that the server's program needs in the agent's sandbox, and Sockets folders in which it connects to a socket. The
	// agent does not hear of them.
	Reads, Sockets []string
}

// Start is how a session is opened.
type Start struct {
	// Dir is the absolute folder in which the agent works.
	Dir string
	MCP []MCPServer
	// Last are words of the last message that the session got, "" for none. Some agents stream what they have in a session only after
	// they have answered session/load; the driver waits for these words then, a few seconds at most.
	Last string
	// Mark begins what marks each message to the agent, "" for nothing. A message with a mark that comes back in the middle of
	// another turn is history.
	Mark string
	// Tell gets each step of the agent's turns while it happens, for people who watch; nil for nobody. It returns at once, and calls nothing of
	// the session.
	Tell func(agents.Step)
}

func (s Start) servers() []sdk.McpServer {
	list := []sdk.McpServer{}
	for _, m := range s.MCP {
		server := sdk.McpServerStdio{Name: m.Name, Command: m.Command, Args: append([]string{}, m.Args...), Env: []sdk.EnvVariable{}}
		for name, value := range m.Env {
			server.Env = append(server.Env, sdk.EnvVariable{Name: name, Value: value})
		}
		list = append(list, sdk.McpServer{Stdio: &server})
	}
	return list
}

// Said is one message of a replay, or a tool call in it.
type Said struct {
	// User is true for what was said to the agent, false for what it said itself.
	User bool
	Text string
	// Tool is true for tool calls, which stand where they began and have no text. Several in a row are one.
	Tool bool
}

// Session is one conversation with an agent. One turn runs at a time.
type Session struct {
	conn *Conn
	// ID is the agent's own.
	ID string

	mu      sync.Mutex // guards the fields below
	mode    string
	began   string
	modes   []string
	byModes bool
	turn    *turn
	replay  *replay
	late    text
	// words and asked join the pieces of what the agent says, and of the user's words in a replay.
	words, asked pieces
	// belated gets a signal for each piece of late.
	belated chan struct{}
	// spending is what the agent says of the session's cost and model.
	spending spending
	// marks is Start.Mark, and tell Start.Tell.
	marks string
	tell  func(agents.Step)
	// tools are the ids of tool calls that run.
	tools map[string]bool
	// count counts the turns, and owner has the one in which each message began, by its id; 0 is before the first.
	count int
	owner map[string]int
	// first is the first id of the latest turn with one, and alike counts turns in a row that began with it.
	first string
	alike int
}

// opened is the answer to a request that opens a session.
type opened struct {
	SessionID string `json:"sessionId"`
	Modes     *struct {
		CurrentModeID  string `json:"currentModeId"`
		AvailableModes []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	} `json:"modes"`
	ConfigOptions []configOption `json:"configOptions"` // decides the mode: another form ends the session
	// Models only informs.
	Models json.RawMessage `json:"models"`
}

// configOption is a setting of a session. Only those for the mode and the model are used.
type configOption struct {
	ID           string          `json:"id"`
	Category     string          `json:"category"`
	CurrentValue json.RawMessage `json:"currentValue"`
	Options      loosejson.Value[[]loosejson.Value[struct {
		Value loosejson.Value[string] `json:"value"`
	}]] `json:"options"`
}

// modeOption is the id of the option that holds the mode of a session, for agents that have no modes.
const modeOption = "mode"

func (o opened) mode() (current string, all []string, byModes bool) {
	if o.Modes != nil {
		for _, m := range o.Modes.AvailableModes {
			all = append(all, m.ID)
		}
		return o.Modes.CurrentModeID, all, true
	}
	for _, option := range o.ConfigOptions {
		if option.Category == modeOption && option.ID == modeOption && json.Unmarshal(option.CurrentValue, &current) == nil {
			for _, v := range option.Options.Is {
				all = append(all, v.Is.Value.Is)
			}
		}
	}
	return current, all, false
}

// Mode is the mode of the session, or "" for an agent without modes; began is the one in which the agent opened it.
func (s *Session) Mode() (current, began string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode, s.began
}

// Modes are the modes that the session can have.
func (s *Session) Modes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modes
}

// Late returns words that came after their turn had ended, and forgets them. They are in no reply.
func (s *Session) Late() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := s.late.String()
	s.late = text{}
	return said
}

// Belated gets a signal when there are words for Late. It never closes.
func (s *Session) Belated() <-chan struct{} { return s.belated }

// tooLate keeps words that belong to no reply.
func (s *Session) tooLate(c chunk) *agents.Error {
	select {
	case s.belated <- struct{}{}:
	default:
	}
	return s.late.add(c)
}

// Working reports whether the agent runs a tool, as it says itself. Its next word ends all of them, because some agents do not say how
// a tool ended.
func (s *Session) Working() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tools) > 0
}

// NewSession opens a session. An agent that wants its user to log in fails here with LoginMissing, if it notices it so early.
func (c *Conn) NewSession(ctx context.Context, o Start) (*Session, error) {
	var said opened
	err := c.rpc.call(ctx, sdk.AgentMethodSessionNew, sdk.NewSessionRequest{Meta: c.o.Meta, Cwd: o.Dir, McpServers: o.servers()}, &said)
	if err != nil {
		return nil, c.ended(err, "open a session")
	}
	if said.SessionID == "" {
		return nil, c.broke("the agent opened a session without an id")
	}
	s := c.session(said.SessionID, o.Tell)
	return s, s.adopt(ctx, said)
}

// session returns the session of an id, which is known from here on.
func (c *Conn) session(id string, tell func(agents.Step)) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[id]; s != nil {
		return s
	}
	s := &Session{conn: c, ID: id, owner: map[string]int{}, tell: tell, belated: make(chan struct{}, 1)}
	c.sessions[id] = s
	return s
}

// adopt takes over what the agent says of a session that it opened, and puts the session into the mode in which the agent asks. A session
// that cannot be brought to ask is an error, and is not to be used.
func (s *Session) adopt(ctx context.Context, o opened) error {
	current, all, byModes := o.mode()
	s.mu.Lock()
	s.mode, s.modes, s.byModes, s.began = current, all, byModes, current
	s.spending.opens(o)
	s.mu.Unlock()
	without := current == "" && len(all) == 0 && s.conn.o.ModeIfAny
	if wanted := s.conn.o.Mode; wanted != "" && wanted != current && !without {
		if err := s.SetMode(ctx, wanted); err != nil {
			return err
		}
		current = wanted
	}
	if why := s.bypasses(current); why != nil {
		return why
	}
	return nil
}

// bypasses is the error of a session in a mode that asks nothing, nil for any other.
func (s *Session) bypasses(mode string) *agents.Error {
	if !settings.Bypasses(mode) {
		return nil
	}
	return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the session is in mode %s, where the agent acts without asking; change the mode in the agent's own settings", s.conn.o.clean(mode))}
}

// resuming is a request to resume. The library's type leaves an empty list of servers out, and agents demand one in the other requests.
type resuming struct {
	Meta       map[string]any  `json:"_meta,omitempty"`
	Cwd        string          `json:"cwd"`
	McpServers []sdk.McpServer `json:"mcpServers"`
	SessionID  string          `json:"sessionId"`
}

// ErrCannotResume means that the agent has neither session/resume nor session/load.
var ErrCannotResume = errors.New("the agent cannot continue a session of an earlier process")

// Resume goes on with a session of an earlier process, by session/resume if the agent has it.
func (c *Conn) Resume(ctx context.Context, id string, o Start) (*Session, error) {
	if about := c.About(); !about.Resume {
		s, _, err := c.Load(ctx, id, o)
		return s, err
	}
	s := c.session(id, o.Tell)
	var said opened
	err := c.rpc.call(ctx, sdk.AgentMethodSessionResume, resuming{Meta: c.o.Meta, Cwd: o.Dir, SessionID: id, McpServers: o.servers()}, &said)
	if err != nil {
		return nil, c.gone(err, id)
	}
	return s, s.adopt(ctx, said)
}

// Load goes on with a session of an earlier process by session/load, and returns what the agent has in it, the oldest first. Some agents
// load a session that never was, with nothing in it; the caller knows whether that can be.
func (c *Conn) Load(ctx context.Context, id string, o Start) (*Session, []Said, error) {
	if about := c.About(); !about.Load {
		return nil, nil, ErrCannotResume
	}
	s, told := c.session(id, o.Tell), &replay{most: c.maxUpdates, news: make(chan struct{}, 1)}
	s.mu.Lock()
	s.replay, s.marks = told, o.Mark
	s.mu.Unlock()
	var said opened
	err := c.rpc.call(ctx, sdk.AgentMethodSessionLoad, sdk.LoadSessionRequest{Meta: c.o.Meta, Cwd: o.Dir, SessionId: sdk.SessionId(id), McpServers: o.servers()}, &said)
	if err == nil && o.Last != "" {
		s.history(ctx, told, o.Last)
	}
	s.mu.Lock()
	s.replay = nil
	s.mu.Unlock()
	if err != nil {
		return nil, nil, c.gone(err, id)
	}
	return s, told.said(), s.adopt(ctx, said)
}

// An agent that streams its history late (Gemini does) begins soon after its answer.
const (
	historyBegins = 2 * time.Second
	historyRests  = 300 * time.Millisecond
	historyEnds   = 20 * time.Second
)

// history waits, after the answer to session/load, for the last message that the session got and for what follows it. It does not
// wait where that came before the answer.
func (s *Session) history(ctx context.Context, told *replay, last string) {
	has := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return told.has(last)
	}
	if has() {
		return
	}
	s.rests(ctx, told.news, historyEnds, func() time.Duration {
		if has() {
			return historyRests
		}
		return historyBegins
	})
}

// rests waits until nothing has come for a while, which quiet says anew at each piece of news. It reports false when that took longer than most.
func (s *Session) rests(ctx context.Context, news <-chan struct{}, most time.Duration, quiet func() time.Duration) bool {
	ends, rest := time.NewTimer(most), time.NewTimer(quiet())
	defer ends.Stop()
	defer rest.Stop()
	for {
		select {
		case <-news:
			rest.Reset(quiet())
		case <-rest.C:
			return true
		case <-ends.C:
			return false
		case <-ctx.Done():
			return true
		case <-s.conn.Done():
			return true
		}
	}
}

// gone is the error of a session that cannot be gone on with. Agents say so in ways of their own, so that each refusal counts as one.
func (c *Conn) gone(err error, id string) error {
	c.mu.Lock()
	delete(c.sessions, id)
	c.mu.Unlock()
	var why *agents.Error
	if err = c.ended(err, "go on with the session"); errors.As(err, &why) && why.Cause == agents.Failed && c.rpc.end() == nil {
		return &agents.Error{Cause: agents.SessionGone, Reason: why.Reason}
	}
	return err
}

// About returns what the agent said of itself, the zero value before Initialize.
func (c *Conn) About() About {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.about
}

// SetMode changes the mode of the session.
func (s *Session) SetMode(ctx context.Context, mode string) error {
	s.mu.Lock()
	byModes := s.byModes
	s.mu.Unlock()
	var err error
	var none json.RawMessage
	if byModes {
		err = s.conn.rpc.call(ctx, sdk.AgentMethodSessionSetMode, sdk.SetSessionModeRequest{SessionId: sdk.SessionId(s.ID), ModeId: sdk.SessionModeId(mode)}, &none)
	} else {
		err = s.conn.rpc.call(ctx, sdk.AgentMethodSessionSetConfigOption, map[string]any{"sessionId": s.ID, "configId": modeOption, "value": mode}, &none)
	}
	if err != nil {
		return s.conn.ended(err, "change the mode of the session")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
	return nil
}

// notified handles a notification. Only updates concern us.
func (c *Conn) notified(method string, params json.RawMessage) {
	c.mu.Lock()
	c.heard = time.Now()
	c.mu.Unlock()
	if method != sdk.ClientMethodSessionUpdate {
		return
	}
	var head struct {
		SessionID string `json:"sessionId"`
		Update    struct {
			SessionUpdate string `json:"sessionUpdate"`
		} `json:"update"`
	}
	if json.Unmarshal(params, &head) != nil {
		return
	}
	c.mu.Lock()
	s := c.sessions[head.SessionID]
	c.mu.Unlock()
	if s == nil {
		// Some agents send updates before the answer that names the session. They concern what the session can do, and no turn.
		return
	}
	if err := s.update(head.Update.SessionUpdate, params); err != nil {
		c.rpc.fail(err)
	}
}

// Kinds of updates that the driver reads; each other one is skipped. It reads them by itself: the library (v0.13.0) refuses an update for
// any field of another type, and takes one that it does not know for another one.
const (
	userChunk  = "user_message_chunk"
	agentChunk = "agent_message_chunk"
	toolCall   = "tool_call"
	toolUpdate = "tool_call_update"
	modeUpdate = "current_mode_update"
)

// update handles one update of the session. An error ends the connection.
func (s *Session) update(kind string, params json.RawMessage) *agents.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		s.turn.updates++
		s.turn.stir()
		if most := s.conn.maxUpdates; s.turn.updates > most {
			return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf("the agent sent more than %d updates in one turn", most)}
		}
	}
	if s.turn != nil && (kind == toolCall || kind == toolUpdate) {
		s.noteTool(kind, params)
	}
	s.spending.hears(kind, params)
	switch {
	case kind == modeUpdate:
		var n struct {
			Update struct {
				Mode string `json:"currentModeId"`
			} `json:"update"`
		}
		if json.Unmarshal(params, &n) != nil || n.Update.Mode == "" {
			return nil
		}
		s.mode = n.Update.Mode
		return s.bypasses(s.mode)
	case kind == toolCall && s.replay != nil:
		s.words = pieces{}
		s.replay.tool()
	case kind == toolCall && s.turn != nil:
		s.words = pieces{}
		s.turn.text.cut()
	case kind == userChunk:
		c := chunkOf(params, &s.asked)
		if s.turn != nil && s.replay == nil && s.marks != "" {
			s.turn.old = s.turn.old || strings.Contains(c.text, s.marks) && !strings.Contains(s.turn.prompt, c.text) && !strings.Contains(c.text, s.turn.prompt)
		}
		return s.replay.add(true, c)
	case kind == agentChunk:
		return s.said(chunkOf(params, &s.words))
	}
	return nil
}

// maxTools bounds the tool calls that are counted as running at a time.
const maxTools = 1000

// noteTool notes which tools run. A tool that waits for a person's permission counts as one, too.
func (s *Session) noteTool(kind string, params json.RawMessage) {
	var said struct {
		Update called `json:"update"`
	}
	if json.Unmarshal(params, &said) != nil {
		return
	}
	call := said.Update
	in := inUpdate
	if kind == toolCall {
		in = inBegin
	}
	s.turn.steps.tool(call, in)
	id, ok := call.key()
	if !ok {
		return
	}
	switch status := call.Status.Is; {
	case status == "completed", status == "failed":
		delete(s.tools, id)
		return
	case kind == toolCall, status == "pending", status == "in_progress": // a call begins as pending, whatever word an agent has for it
	default:
		return
	}
	if s.tools == nil {
		s.tools = map[string]bool{}
	}
	if len(s.tools) < maxTools {
		s.tools[id] = true
	}
}

// maxIDs bounds the ids of messages that a session remembers.
const maxIDs = 10_000

// said puts a chunk of the agent's own words where they belong. A message belongs to the turn in which it began.
func (s *Session) said(c chunk) *agents.Error {
	began := s.beganIn(c.message)
	switch {
	case s.replay != nil:
		return s.replay.add(false, c)
	case c.text == "" || began == 0: // a greeting, or history that streams on
		return nil
	case s.turn == nil || began != s.count:
		return s.tooLate(c)
	}
	clear(s.tools)
	other := c.message != "" && s.turn.text.id != "" && c.message != s.turn.text.id
	if err := s.turn.text.add(c); err != nil {
		return err
	}
	s.turn.steps.words(c.text, other)
	return nil
}

// alikeFor is how many turns in a row begin with the same id before it is clear that the agent uses its ids again in each turn.
const alikeFor = 3

// beganIn returns the turn in which the message of an id began: this one for an unknown id, and for an agent whose ids say nothing.
func (s *Session) beganIn(id string) int {
	if id == "" {
		return s.count
	}
	if s.turn != nil && !s.turn.named {
		s.turn.named = true
		if id != s.first {
			s.first, s.alike = id, 0
		}
		s.alike++
	}
	began, known := s.owner[id]
	if !known && len(s.owner) < maxIDs {
		s.owner[id] = s.count
	}
	if !known || s.alike >= alikeFor {
		return s.count
	}
	return began
}
