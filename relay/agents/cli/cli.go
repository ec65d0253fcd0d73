// Package cli runs the turns of agents that are started once for each turn, from the template of their entry in relay.yaml.
//
// It reads what such a program writes, in one of four formats, and gives each end its cause. Package host starts the program, and package
// turns keeps the record. Rule of thumb: the answer is what the program itself calls its final answer. Output of tools, thinking and
// quoted words never become an answer.
package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
)

// lingerFor is how long a program may live after its final event. Some never end (claude-code issue 25629).
const lingerFor = 2 * time.Second

// Driver opens conversations with the entries of kind cli. It is a turns.Driver, safe for concurrent use.
type Driver struct {
	Host *host.Host
}

// Open prepares one turn and starts nothing yet. It writes the files from which the agent reads its MCP servers and its rules into the
// agent's folder, by o.Put.
func (d *Driver) Open(ctx context.Context, o turns.Opening) (turns.Conversation, error) {
	entry, listed := d.Host.Config.Agents[o.Agent]
	if !listed || entry.Template == nil {
		return nil, crashed("agent %q is not an entry of kind cli in %s", o.Agent, d.Host.Config.File)
	}
	if o.Resume != "" && !validSession(o.Resume) {
		return nil, &agents.Error{Cause: agents.SessionGone, Reason: "the session id in the relay's record is malformed, so the relay cannot continue the session"}
	}
	if entry.Template.Resume == nil {
		// Each turn of such an agent begins with an empty session.
		o.Resume = ""
	}
	if err := putFiles(ctx, entry.Template, o); err != nil {
		return nil, err
	}
	c := &conversation{driver: d, entry: entry, opening: o, heard: time.Now(), done: make(chan struct{})}
	if o.Replay && o.Resume != "" {
		c.said, c.known = replay(d.Host.Config.AgentHome(o.Agent), entry, o.Resume)
	}
	return c, nil
}

func crashed(format string, args ...any) *agents.Error {
	return &agents.Error{Cause: agents.Crashed, Reason: fmt.Sprintf(format, args...)}
}

// conversation is one turn of one session.
type conversation struct {
	driver  *Driver
	entry   settings.Agent
	opening turns.Opening
	done    chan struct{}
	// said is what the program has in the session, if known.
	said  []acp.Said
	known bool

	mu      sync.Mutex // guards the fields below
	begun   bool
	kill    context.CancelFunc
	heard   time.Time
	working bool
	// torn is true when the program was ended in the middle of its turn.
	torn bool
}

// Orderly is false for a program that was ended in the middle of its turn, or by a signal.
func (c *conversation) Orderly() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.torn
}

// Replay is what Claude Code and Codex keep of the session in a file of their home. It is not known for any other program.
func (c *conversation) Replay() ([]acp.Said, bool) { return c.said, c.known }

// Heard is when the program wrote its last event. One that writes plain text says nothing before its end, so that it counts as working.
func (c *conversation) Heard() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard, c.working || c.entry.Template.Format == settings.FormatText
}

func (c *conversation) stir(working bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard, c.working = time.Now(), working
}

// Done is closed after the turn.
func (c *conversation) Done() <-chan struct{} { return c.done }

// Close ends the program, if it runs, and returns when nothing of it is left.
func (c *conversation) Close() {
	c.mu.Lock()
	begun, kill := c.begun, c.kill
	c.begun = true
	c.mu.Unlock()
	switch {
	case kill != nil:
		kill()
		<-c.done
	case !begun:
		close(c.done)
	default:
		<-c.done
	}
}

// begin claims the one turn of the conversation.
func (c *conversation) begin(kill context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun {
		return false
	}
	c.begun, c.kill, c.heard = true, kill, time.Now()
	return true
}

// Prompt runs the program once. When it returns, nothing of the program is left.
func (c *conversation) Prompt(ctx context.Context, text string) (acp.Answer, error) {
	running, kill := context.WithCancel(ctx)
	defer kill()
	if !c.begin(kill) {
		return acp.Answer{}, crashed("the relay gave a running program a second turn, but each turn needs a new process")
	}
	defer close(c.done)
	t, o := c.entry.Template, c.opening
	session := newSession(t, o.Resume)
	start, why := command(t, places{prompt: text, session: session, resume: o.Resume != "", servers: servers(t, o.MCP)})
	if why != nil {
		return acp.Answer{}, why
	}
	secret := c.driver.Host.Config.Redactor()
	r := newReader(t.Format, readerOptions{
		session: session, hide: secret.Hide, stir: c.stir, kill: kill, named: func(id string) error { return c.name(id) }, tell: o.Tell,
	})
	if session != "" && o.Resume == "" {
		if err := c.name(session); err != nil {
			return acp.Answer{}, crashed("the relay could not record the session: %v", err)
		}
	}
	end := c.driver.Host.RunOnce(running, o.Agent, o.Dir, host.Once{Args: start.args, Input: start.input, Output: r, MCP: o.MCP, ReadOnly: o.ReadOnly})
	r.close()
	c.mu.Lock()
	// One that was ended after its final event had lingerFor to save its session.
	c.torn = end.Ran && end.Cut && !(r.ended() && ctx.Err() == nil)
	c.mu.Unlock()
	return c.judge(ctx, r, end)
}

// name records the agent's own id of the session, unless it is the one that the turn goes on with.
func (c *conversation) name(id string) error {
	if id == c.opening.Resume || c.opening.Named == nil {
		return nil
	}
	return c.opening.Named(id)
}

// judge says what came of the turn. An answer that was read counts, however the program ended.
func (c *conversation) judge(ctx context.Context, r *reader, end host.OnceEnd) (acp.Answer, error) {
	out := r.outcome(end)
	answer := acp.Answer{Updates: out.events, Spent: out.spent.Known(), Total: out.total.Known(), Noise: out.noise}
	if out.text != "" {
		answer.Messages = []string{out.text}
	}
	pace := c.driver.Host.Pace(c.opening.Agent)
	switch {
	case out.broke != nil:
		return answer, out.broke
	case out.answered:
		pace.Answered()
		return answer, nil
	case ctx.Err() != nil && (out.failed == nil || out.failed.beside):
		return answer, stopped(ctx)
	case end.Lost != nil && out.failed == nil && !end.Ran:
		return answer, end.Lost
	}
	return answer, out.why(why{end: end, resumed: c.opening.Resume != "", pace: pace, hide: c.clean, local: zoneOf(c.entry.Env)})
}

// clean makes words of the program's fit for one line.
func (c *conversation) clean(text string) string {
	const most = 300
	text = c.driver.Host.Config.Redactor().Hide(text)
	if len(text) > most {
		text = text[:most] + "..."
	}
	return output.Line(text)
}

// stopped is the end of a turn whose ctx is done.
func stopped(ctx context.Context) *agents.Error {
	cause := context.Cause(ctx)
	var why *agents.Error
	switch {
	case errors.As(cause, &why):
		return why
	case errors.Is(cause, context.DeadlineExceeded):
		return &agents.Error{Cause: agents.Hung, Reason: "the turn took longer than allowed"}
	default:
		return &agents.Error{Cause: agents.Stopped, Reason: "the turn was stopped"}
	}
}

// zoneOf is the time zone in which the program writes times: that of its variable TZ, nil for the machine's.
func zoneOf(env []settings.EnvVar) *time.Location {
	for _, v := range env {
		if v.Name == "TZ" && v.Value != "" {
			if loc, err := time.LoadLocation(v.Value); err == nil {
				return loc
			}
		}
	}
	return nil
}

// servers are the MCP servers that the template can give to the program.
func servers(t *settings.Template, list []acp.MCPServer) []acp.MCPServer {
	if t.MCP == "" {
		return nil
	}
	out := make([]acp.MCPServer, len(list))
	for i, s := range list {
		s.Env = maps.Clone(s.Env)
		out[i] = s
	}
	return out
}
