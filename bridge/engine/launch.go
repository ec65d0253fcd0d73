package engine

import (
	"context"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/bridge/lanes"
	"drawbridge/bridge/moving"
	"drawbridge/bridge/words"
	"drawbridge/policy"
)

// launch is what a turn that makes its external agent has beyond a follow-up.
type launch struct {
	// asking are the names of the agent whose command asks for the launch, root first; none when a person asks.
	asking []string
	// grant is made by the policy at the moment of sending, and nowhere recorded.
	grant policy.Grant
	// moved is true for a turn that begins the session of an agent that was moved.
	moved bool
	// home is where the agent works on a person's machine.
	home bridge.Home
}

// loadLaunch returns the launch that a turn is, nil when it is a follow-up.
func (e *Engine) loadLaunch(tx *bridge.Scene, a bridge.Agent, t bridge.Turn) (*launch, error) {
	if a.External != "" || !t.IsLaunch() && !moving.Is(a) {
		return nil, nil
	}
	if a.Parent == "" {
		return &launch{moved: moving.Is(a)}, nil
	}
	parent, err := tx.Agent(a.Parent)
	if err != nil {
		return nil, fmt.Errorf("load parent: %w", err)
	}
	asking, err := tx.Lineage(parent)
	if err != nil {
		return nil, err
	}
	l := &launch{asking: asking, moved: moving.Is(a)}
	if e.o.Homes != nil {
		l.home, err = e.o.Homes.Home(tx, a)
	}
	return l, err
}

// keepGrant takes over the grant of the same launch as it was loaded before.
func (l *launch) keepGrant(before *launch) {
	if l != nil && before != nil {
		l.grant = before.grant
	}
}

// asked reports whether an agent's command asked for the launch. A person asked for every other one.
func (j job) asked() bool { return j.launch != nil && !j.launch.moved && j.command.ID != "" }

// setLaunch takes the command that asked for a launch to a state. A follow-up has none, nor has a launch by a person.
func (c *change) setLaunch(j *job, next bridge.CommandState) error {
	if !j.asked() {
		return nil
	}
	return c.setCommand(&j.command, next)
}

// spawn makes the agent of a SUBAGENT command; its first turn is the launch.
func (c *change) spawn(parent bridge.Agent, m *bridge.Command) error {
	id := bridge.AgentID(c.NewID("agt_"))
	m.Child = id
	name, err := c.childName(*m, id, parent.Root)
	if err != nil {
		return err
	}
	child := bridge.Agent{
		ID: id, Name: name, Parent: parent.ID, Command: m.ID, Root: parent.Root, Depth: parent.Depth + 1,
		OpKey: m.OpKey, Repo: m.Canonical, State: bridge.AgentIdle, Prompt: words.OneLine(m.Parsed.Prompt, maxPrompt), CreatedAt: c.now, UpdatedAt: c.now,
	}
	child.Runtime, child.API = c.homeOf(parent, m.Runtime, m.API)
	m.Runtime, m.API = child.Runtime, child.API
	if err := c.reserve(parent.Root); err != nil {
		return err
	}
	if err := c.InsertAgent(child); err != nil {
		return err
	}
	if m.Parsed.Role != "" {
		if err := c.event(bridge.EventAgent, child, bridge.Event{Command: m.ID, Text: fmt.Sprintf("agent %s, a %s", name, m.Parsed.Role),
			Fields: map[string]string{"role": m.Parsed.Role, "workspace_subdir": m.Parsed.Subdir}}); err != nil {
			return err
		}
	}
	shared, err := c.e.shares(parent, *m)
	if err != nil {
		return err
	}
	text := words.Introduced(m.Parsed, name, parent.Name, shared)
	if err := c.tellName(*m, name); err != nil {
		return err
	}
	return c.addTurn(&child, bridge.Turn{Cause: bridge.CauseLaunch, Text: text})
}

// reserve counts one launch of the tree before it is sent.
func (c *change) reserve(root bridge.AgentID) error {
	tree, err := c.Tree(root)
	if err != nil {
		return err
	}
	tree.Launches++
	return c.PutTree(tree)
}

// launchUnlessThere launches at v0, which has no ids of ours: an agent that a
// restored database has forgotten is found by its branch alone. While nobody can
// look, nothing is sent.
func (e *Engine) launchUnlessThere(ctx context.Context, j job) error {
	call, cancel := lanes.Repeatable(ctx)
	defer cancel()
	s, found, err := e.find(call, j)
	switch {
	case found == bridge.FoundThere:
		return e.started(ctx, j, s)
	case call.Err() != nil:
		return e.requeue(ctx, j, bridge.Errorf(bridge.Unavailable, "the bridge was stopped before this was sent"))
	case err != nil && bridge.Passing(err):
		return e.requeue(ctx, j, err)
	}
	return e.send(ctx, j)
}

// regrant asks the policy again and fails the launch when it says no.
func (c *change) regrant(j *job) (bool, error) {
	v := c.e.grantOf(*j)
	if v.Decision == policy.Granted && v.Grant.Valid() {
		j.launch.grant = v.Grant
		return true, nil
	}
	j.fault = "refused"
	return false, c.failTurn(j, words.RefusedNow(v))
}

// grantOf makes the Grant of a launch, by its command or by a person's word.
// Whether a person approved is on the command: a rule that asks for approval
// only now does not let through what nobody approved.
func (e *Engine) grantOf(j job) policy.Verdict {
	p := e.o.Policy()
	if j.launch.moved {
		return p.OperatorGrant(j.agent.Repo, or(j.turn.Sent, moving.NoWords)) // what the turn says is built later
	}
	if j.command.ID == "" {
		return p.OperatorGrant(j.agent.Repo, j.turn.Text)
	}
	cmd := j.command.Parsed
	if cmd.Role != "" {
		cmd.Prompt = j.turn.Text // with the words that introduce the agent by the name that it got
	}
	return p.Grant(j.launch.asking, cmd, j.command.Approved)
}

// callContext lets a stop of the bridge cut off a launch that can be sent again
// under the same id. Everything else gets the time to be answered: a follow-up in
// doubt waits for the whole settle time, and a v0 launch waits for a person.
func (e *Engine) callContext(ctx context.Context, j job) (context.Context, context.CancelFunc) {
	if j.launch != nil && bridge.Repeatable(j.agent.API) {
		return lanes.Repeatable(ctx)
	}
	return context.WithCancel(ctx)
}

func (e *Engine) launchOf(j job) bridge.Launch {
	l := bridge.Launch{Grant: j.launch.grant, Runtime: j.agent.Runtime, API: j.agent.API, AgentID: moving.SessionID(j.agent), Owner: j.agent.ID, Op: operation(j.agent), Name: j.agent.Name, Ref: j.agent.Ref, Home: j.launch.home}
	if e.o.PublicURL != "" && j.agent.API == bridge.APIv0 {
		key := e.o.Keys.Current
		l.Webhook = &bridge.Webhook{URL: e.o.PublicURL + "/hooks/cursor/" + key.ID + "/" + string(j.agent.ID), Secret: key.WebhookSecret(j.agent.ID)}
	}
	return l
}

// operation names a launch in the v0 branch. It is derived as the v1 agentId
// is, so that a restored database looks for the same branch.
func operation(a bridge.Agent) string { return a.OpKey[:min(len(a.OpKey), 24)] }

func sameRepo(reported, granted string) bool {
	canonical, err := policy.CanonicalRepo(reported)
	return err == nil && string(canonical) == granted
}

// wrongRepo stops an agent that runs somewhere else than was granted, and says so loudly.
func (e *Engine) wrongRepo(ctx context.Context, j job, s bridge.Started) error {
	text := fmt.Sprintf("the API reports repository %q instead of the allowed %q; the bridge cancelled the agent", words.OneLine(s.Repo, 200), j.agent.Repo)
	if err := e.o.Runtime.Cancel(ctx, bridge.RunRef{Runtime: j.agent.Runtime, API: j.agent.API, Agent: s.Agent, Run: s.Run}); err != nil {
		text = fmt.Sprintf("the API reports repository %q instead of the allowed %q, and the bridge could not cancel the agent; stop agent %s by hand", words.OneLine(s.Repo, 200), j.agent.Repo, s.Agent)
		e.o.Log.Error().Err(err).Str("agent", string(j.agent.ID)).Msg("cancel an agent on a wrong repository")
	}
	return e.step(ctx, j, func(c *change, j *job) error {
		j.agent.External, j.agent.URL, j.agent.Quarantined = s.Agent, s.URL, true
		return c.alarm(j, text)
	})
}

// alarm fails a turn over something that must not be, and says so loudly.
func (c *change) alarm(j *job, text string) error {
	if err := c.event(bridge.EventAlarm, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.command.ID, Text: text}); err != nil {
		return err
	}
	return c.failTurn(j, text)
}

// childName is what a launched agent will be called: the name that a tool call
// chose or, when that was taken meanwhile or none was chosen, one made of the
// repository. See bridge.NameTaken.
func (c *change) childName(m bridge.Command, id, root bridge.AgentID) (string, error) {
	made := words.SubagentName(m.Canonical, id)
	if m.Parsed.Name == "" {
		return made, nil
	}
	taken, err := bridge.NameTaken(c.Scene, root, m.Parsed.Name)
	switch {
	case err != nil:
		return "", fmt.Errorf("look for the name %q: %w", m.Parsed.Name, err)
	case taken:
		return made, nil
	}
	return m.Parsed.Name, nil
}

// tellName tells an agent what the subagent is called that a person approved for
// it, when that is not the name that it chose: it would write to another.
func (c *change) tellName(m bridge.Command, name string) error {
	if !m.Approved || m.Parsed.Name == "" || m.Parsed.Name == name {
		return nil
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return err
	}
	a, err := c.Agent(m.Agent)
	if err != nil {
		return err
	}
	return c.tell(bridge.Notice{Agent: m.Agent, Cause: bridge.CauseReport, Depth: turn.Depth, Item: c.item(a, "name", m.OpKey),
		Text: words.Say("a person approved %s, but the name %s was taken meanwhile: your subagent is called %s", m.ID, m.Parsed.Name, name)})
}
