package turns

import (
	"context"
	"errors"
	"sync"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/host"
)

// ACP is the [Driver] of agents that speak the Agent Client Protocol.
type ACP struct {
	Host *host.Host
}

// Open implements Driver.
func (d ACP) Open(ctx context.Context, o Opening) (Conversation, error) {
	// The process lives longer than the turn that starts it.
	p, err := d.Host.Start(context.WithoutCancel(ctx), o.Agent, host.At{Dir: o.Dir, ReadOnly: o.ReadOnly, MCP: o.MCP}, o.Ask)
	if err != nil {
		return nil, crashed(err)
	}
	opening, cancel := context.WithTimeout(ctx, d.Host.Config.Agents[o.Agent].StartTimeout)
	defer cancel()
	c := &conversation{process: p, known: true}
	if err = crashed(c.open(opening, o)); err == nil {
		err = o.Named(c.session.ID)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return c, nil
}

// crashed makes any error one with a cause.
func crashed(err error) error {
	var why *agents.Error
	if err == nil || errors.As(err, &why) {
		return err
	}
	return &agents.Error{Cause: agents.Crashed, Reason: err.Error()}
}

// conversation is a session in a process of its own.
type conversation struct {
	process *host.Process
	session *acp.Session
	said    []acp.Said
	known   bool
	once    sync.Once
}

func (c *conversation) open(ctx context.Context, o Opening) error {
	about, err := c.process.Initialize(ctx)
	if err != nil {
		return err
	}
	start := acp.Start{Dir: o.Dir, MCP: o.MCP, Last: o.Last, Mark: "[bridge ", Tell: o.Tell}
	switch {
	case o.Resume == "":
		c.session, err = c.process.NewSession(ctx, start)
	case about.Load && (o.Replay || !about.Resume):
		c.session, c.said, err = c.process.Load(ctx, o.Resume, start)
	default:
		c.known = false
		c.session, err = c.process.Resume(ctx, o.Resume, start)
	}
	if errors.Is(err, acp.ErrCannotResume) {
		return &agents.Error{Cause: agents.SessionGone, Reason: err.Error()}
	}
	return err
}

// Replay implements Conversation.
func (c *conversation) Replay() ([]acp.Said, bool) { return c.said, c.known }

// Prompt implements Conversation.
func (c *conversation) Prompt(ctx context.Context, text string) (acp.Answer, error) {
	c.said = nil // it may be large, and was looked at
	return c.session.Prompt(ctx, text)
}

var _ Belated = (*conversation)(nil)

// Late implements Belated.
func (c *conversation) Late() string { return c.session.Late() }

// Belated implements Belated.
func (c *conversation) Belated() <-chan struct{} { return c.session.Belated() }

// Heard implements Conversation.
func (c *conversation) Heard() (time.Time, bool) { return c.process.Heard(), c.session.Working() }

// Done implements Conversation.
func (c *conversation) Done() <-chan struct{} { return c.process.Done() }

// Close implements Conversation.
func (c *conversation) Close() { c.once.Do(c.process.Close) }
