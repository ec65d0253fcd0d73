// Package desk is one write transaction as everything that moves agents sees
// it: states that follow their tables, notices that become turns, results that are
// joined. The engine works on it, and services beside the engine (mail, doors) get it as a
// bridge.Change. It calls nobody outside. Rule of thumb: what is told to an
// agent, and whether that makes a turn, is decided here and nowhere else.
package desk

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/kin"
	"drawbridge/bridge/words"
	"drawbridge/policy"
)

// Change is one transaction with the events that it records. It implements
// bridge.Change and ends with the function that got it.
type Change struct {
	*bridge.Scene
	// At is the transaction's time.
	At time.Time
	// Keys derive the ids of what agents are told.
	Keys bridge.Keys
	// IDs makes an id with a prefix; Policy returns the policy in force.
	IDs    func(prefix string) string
	Policy func() *policy.Policy
	// Doors says of an API whether its agents get a door; see bridge.Doorless.
	Doors func(api string) bool
	// Told are the events that were recorded, for telling after the commit.
	Told []bridge.Event
}

var _ bridge.Teller = (*Change)(nil)

// Now implements bridge.Change.
func (c *Change) Now() time.Time { return c.At }

// NewID implements bridge.Change.
func (c *Change) NewID(prefix string) string { return c.IDs(prefix) }

// Notify implements bridge.Change.
func (c *Change) Notify(n bridge.Notice) (bridge.NoticeID, error) {
	n.ID = bridge.NoticeID(c.NewID("ntc_"))
	if err := c.Tell(n); err != nil {
		return "", fmt.Errorf("notify agent %q: %w", n.Agent, err)
	}
	return n.ID, nil
}

// Rouse implements bridge.Change.
func (c *Change) Rouse(n bridge.Notice) error {
	if err := c.RouseNotice(n.ID); err != nil {
		return fmt.Errorf("rouse notice %q: %w", n.ID, err)
	}
	a, err := c.Agent(n.Agent)
	if err != nil {
		return err
	}
	return c.Pump(&a)
}

// Record implements bridge.Change.
func (c *Change) Record(kind string, a bridge.Agent, ev bridge.Event) error {
	return c.Event(kind, a, ev)
}

// SetAgent takes an agent to a state, if its table allows the change.
func (c *Change) SetAgent(a *bridge.Agent, next bridge.AgentState) error {
	if !a.State.CanBecome(next) {
		return fmt.Errorf("agent %q cannot go from %s to %s", a.ID, a.State, next)
	}
	a.State, a.UpdatedAt = next, c.At
	if err := c.UpdateAgent(*a); err != nil || (next != bridge.AgentFailed && next != bridge.AgentGated) {
		return err
	}
	if err := bridge.LookAtAwaited(c.Scene, a.ID, c.At); err != nil || next == bridge.AgentFailed {
		return err
	}
	return c.Waits(a, a.Trouble)
}

// SetTurn takes a turn to a state, if its table allows the change.
func (c *Change) SetTurn(t *bridge.Turn, next bridge.TurnState) error {
	if !t.State.CanBecome(next) {
		return fmt.Errorf("turn %q cannot go from %s to %s", t.ID, t.State, next)
	}
	t.State = next
	if next.Over() {
		t.EndedAt = c.At
	}
	return c.UpdateTurn(*t)
}

// SetCommand takes a command to a state, if its table allows the change.
func (c *Change) SetCommand(m *bridge.Command, next bridge.CommandState) error {
	if !m.State.CanBecome(next) {
		return fmt.Errorf("command %q cannot go from %s to %s", m.ID, m.State, next)
	}
	m.State, m.UpdatedAt = next, c.At
	return c.UpdateCommand(*m)
}

// Event records one line of the timeline. Its text is for people: never a secret, never a whole body.
func (c *Change) Event(kind string, a bridge.Agent, ev bridge.Event) error {
	ev.Kind, ev.At, ev.Agent, ev.Name = kind, c.At, a.ID, a.Name
	if err := c.AppendEvent(ev); err != nil {
		return err
	}
	c.Told = append(c.Told, ev)
	return nil
}

// Tell records a notice and gives the agent a turn when it is free.
func (c *Change) Tell(n bridge.Notice) error {
	if err := c.Keep(n); err != nil {
		return err
	}
	if open, err := c.HasOpenTurn(n.Agent); err != nil || open {
		return err // the turn that is open is joined, or followed by one that tells it
	}
	a, err := c.Agent(n.Agent)
	if err != nil {
		return err
	}
	if a.Forgotten() {
		return nil
	}
	if a.State == bridge.AgentFailed && !n.Quiet { // nobody else would hear of it
		return c.Parked(a, "")
	}
	return c.Pump(&a)
}

// Keep records a notice. What stands in it is heard when a turn tells it.
func (c *Change) Keep(n bridge.Notice) error {
	if n.Message == "" { // the operator's own words stay as they are
		n.Text = words.ForAgent(n.Text)
	}
	n.ID, n.CreatedAt = cmp.Or(n.ID, bridge.NoticeID(c.NewID("ntc_"))), c.At
	if err := c.name(&n); err != nil {
		return err
	}
	told, err := c.toldBefore(&n)
	if err != nil {
		return err
	}
	if err := c.InsertNotice(n); err != nil {
		return err
	}
	if told.State != bridge.TurnReplied {
		return nil
	}
	return c.Delivered(told.ID, []bridge.Notice{n})
}

// Pump gives a free agent a turn when something waits for it that is worth
// one, and sets its state to what it is doing now.
func (c *Change) Pump(a *bridge.Agent) error {
	if open, err := c.HasOpenTurn(a.ID); err != nil || open {
		return err // it is joined when that turn ends
	}
	if a.Forgotten() || a.State == bridge.AgentGated || a.State == bridge.AgentFailed {
		return nil // a person speaks first; the notices keep
	}
	if tree, err := c.Tree(a.Root); err != nil || tree.Stopped() {
		return errors.Join(err, c.Shut(a, words.Stopped(tree)))
	}
	waiting, err := c.WaitingNotices(a.ID, MaxJoined)
	if err != nil {
		return err
	}
	cause, depth, streak := bridge.Urgency(waiting)
	switch {
	case cause == "":
		return c.Settle(a)
	case depth >= c.Policy().Limits().TurnsPerChain:
		return c.Gate(a, depth)
	}
	return c.AddTurn(a, bridge.Turn{Cause: cause, Depth: depth, Streak: streak})
}

// Gate stops a chain that goes on without a person.
func (c *Change) Gate(a *bridge.Agent, depth int) error {
	a.Trouble = fmt.Sprintf("gated: %d turns in a row without a person; say something to it to go on", depth)
	if err := c.SetAgent(a, bridge.AgentGated); err != nil {
		return err
	}
	return c.Event(bridge.EventGated, *a, bridge.Event{Text: a.Trouble})
}

// NotStopped returns a Conflict when the tree under root was stopped.
func (c *Change) NotStopped(root bridge.AgentID) error {
	tree, err := c.Tree(root)
	if err != nil || !tree.Stopped() {
		return err
	}
	return bridge.Errorf(bridge.Conflict, "%s; `drawbridge resume %s` lets it go on", words.Stopped(tree), root)
}

// Settle sets the state of an agent without an open turn, and ends its task when
// nothing of it is open.
func (c *Change) Settle(a *bridge.Agent) error {
	if err := c.EndTask(a, nil); err != nil {
		return err
	}
	open, err := c.CountOpenCommands(a.ID, "")
	if err != nil {
		return err
	}
	awaited, err := c.AwaitedBy(a.ID, 1)
	if err != nil {
		return err
	}
	next := bridge.AgentIdle
	switch {
	case open > 0 || len(awaited) > 0:
		next = bridge.AgentWaiting
	case a.Parent != "":
		next = bridge.AgentDone
	}
	if a.State == next || !a.State.CanBecome(next) {
		return nil
	}
	return c.SetAgent(a, next)
}

// AddTurn queues a turn and the work that will deliver it.
func (c *Change) AddTurn(a *bridge.Agent, t bridge.Turn) error {
	return c.AddTurnAt(a, t, c.At)
}

// AddTurnAt is AddTurn for a turn that is due at a time.
func (c *Change) AddTurnAt(a *bridge.Agent, t bridge.Turn, due time.Time) error {
	t.ID, t.Agent, t.State, t.CreatedAt = cmp.Or(t.ID, bridge.TurnID(c.NewID("trn_"))), a.ID, bridge.TurnQueued, c.At
	if _, err := c.InsertTurn(t); err != nil {
		return err
	}
	if err := c.Enqueue(bridge.Work{Lane: AgentLane(a.ID), Kind: bridge.WorkTurn, Ref: string(t.ID), Due: due, Share: bridge.TreeShare(bridge.WorkTurn, a.Root)}); err != nil {
		return err
	}
	return c.SetAgent(a, bridge.AgentBusy)
}

// Shut closes an agent that does nothing now until a person lets it go on.
func (c *Change) Shut(a *bridge.Agent, why string) error {
	if a.State == bridge.AgentGated || !a.State.CanBecome(bridge.AgentGated) {
		return nil
	}
	a.Trouble = why
	return c.SetAgent(a, bridge.AgentGated)
}

// FailCommand ends a command in words, from whatever open state it is in.
func (c *Change) FailCommand(m *bridge.Command, reason string) error {
	m.Reason = reason
	next := bridge.CommandFailed
	if !m.State.CanBecome(next) {
		next = bridge.CommandRefused
	}
	return c.SetCommand(m, next)
}

// Uncarry lets the notices of a turn that did not run wait again.
func (c *Change) Uncarry(turn bridge.TurnID) error {
	carried, err := c.CarriedNotices(turn)
	if err != nil {
		return err
	}
	ids := make([]bridge.NoticeID, len(carried))
	for i, n := range carried {
		ids[i] = n.ID
	}
	if err := c.CarryNotices(ids, ""); err != nil {
		return err
	}
	return c.Withdraw(carried)
}

// Parked says what waits for an agent whose turn failed, and how to take it along.
func (c *Change) Parked(a bridge.Agent, turn bridge.TurnID) error {
	waiting, err := c.WaitingNotices(a.ID, MaxJoined)
	if err != nil || len(waiting) == 0 {
		return err
	}
	return c.Event(bridge.EventParked, a, bridge.Event{Turn: turn, Text: words.Parked(a, len(waiting), turn)})
}

// TellLater leaves a quiet notice about a command's end.
func (c *Change) TellLater(a bridge.Agent, m bridge.Command, text bridge.Words) error {
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return err
	}
	return c.Tell(bridge.Notice{Agent: a.ID, Cause: bridge.CauseReport, Depth: turn.Depth, Quiet: true, Commands: []bridge.CommandID{m.ID}, Text: text, Item: c.Item(a, "dropped", m.OpKey)})
}

// BeginJoin makes a turn that launched several subagents wait for them, if its
// agent's policy says so. A held launch counts: a person may let it pass.
func (c *Change) BeginJoin(a bridge.Agent, t *bridge.Turn) error {
	need, _ := a.Join.Need()
	if need == 0 {
		return nil
	}
	f, err := kin.FamilyOf(c.Scene, t.ID)
	if err != nil || len(f.Launched)+f.Held < 2 {
		return err
	}
	t.Joining = need
	if err := c.UpdateTurn(*t); err != nil {
		return err
	}
	return c.Enqueue(bridge.Work{Lane: "join/" + string(t.ID), Kind: bridge.WorkJoin, Ref: string(t.ID), Due: c.At.Add(a.JoinWithin), Share: bridge.TreeShare(bridge.WorkJoin, a.Root)})
}

// Gather tells the agent of joined results once enough subagents have ended.
func (c *Change) Gather(t bridge.Turn) error {
	f, err := kin.FamilyOf(c.Scene, t.ID)
	if err != nil {
		return err
	}
	ended := len(f.Launched) - len(f.Open)
	if len(f.Open) > 0 && (t.Joining < 0 || ended < t.Joining) {
		return nil
	}
	return c.Release(t, f, "")
}

// Release lets go of what is there and says what is missing. What ends later
// comes by itself.
func (c *Change) Release(t bridge.Turn, f kin.Family, why string) error {
	t.Joining = 0
	if err := c.UpdateTurn(t); err != nil {
		return err
	}
	if _, err := c.ReleaseNotices(t.ID); err != nil || len(f.Launched) == 0 {
		return err // of nothing but held launches there is no news
	}
	a, err := c.Agent(t.Agent)
	if err != nil {
		return err
	}
	text := words.Joined(words.Results{Seq: t.Seq, Launched: len(f.Launched), Open: f.Open, Held: f.Held, Why: why})
	if err := c.Event(bridge.EventJoined, a, bridge.Event{Turn: t.ID, Text: strings.SplitN(string(text), "\n", 2)[0]}); err != nil {
		return err
	}
	return c.Tell(bridge.Notice{Agent: a.ID, Cause: bridge.CauseCompletion, Depth: t.Depth, Text: text, Item: c.Item(a, "joined", t.Name())})
}

// AgentLane is where an agent's turns wait for one another.
func AgentLane(id bridge.AgentID) string { return "agent/" + string(id) }

// MaxJoined bounds how many notices one turn carries; the rest wait for the
// next. The results of as many subagents as may be joined fit into one.
const MaxJoined = 110

// Fitting returns those of the notices that wait, in their order, for which a turn has
// room that carries some already. Their texts are at most bridge.MaxText bytes
// together, but a turn without any takes the first whatever its size.
func Fitting(carried, waiting []bridge.Notice) []bridge.Notice {
	room := bridge.MaxText
	for _, n := range carried {
		room -= size(n)
	}
	for i, n := range waiting {
		room -= size(n)
		if before := len(carried) + i; before >= MaxJoined || (before > 0 && room < 0) {
			return waiting[:i]
		}
	}
	return waiting
}

func size(n bridge.Notice) int { return len(n.Text) + len(words.Untrusted(n)) }

// ChildName is what a launched agent will be called: the name that a tool call
// chose or, when that was taken meanwhile or none was chosen, one made of the
// repository. See bridge.NameTaken.
func (c *Change) ChildName(m bridge.Command, id, root bridge.AgentID) (string, error) {
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

// TellName tells an agent what the subagent is called that a person approved for
// it, when that is not the name that it chose: it would write to another.
func (c *Change) TellName(m bridge.Command, name string) error {
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
	return c.Tell(bridge.Notice{Agent: m.Agent, Cause: bridge.CauseReport, Depth: turn.Depth, Item: c.Item(a, "name", m.OpKey),
		Text: words.Say("a person approved %s, but the name %s was taken meanwhile: your subagent is called %s", m.ID, m.Parsed.Name, name)})
}
