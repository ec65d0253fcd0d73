package memory

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// InsertAgent implements bridge.AgentTx.
func (t *tx) InsertAgent(a bridge.Agent) error {
	if err := t.unique(a); err != nil {
		return err
	}
	return t.setAgent(a, 0)
}

func (t *tx) setAgent(a bridge.Agent, turns int64) error {
	a.CreatedAt, a.UpdatedAt = stamp(a.CreatedAt), stamp(a.UpdatedAt)
	return set(t, &t.state.agents, a.ID, &agentRow{Agent: a, turns: turns})
}

// unique returns a Conflict when one of the agent's unique fields belongs to another.
func (t *tx) unique(a bridge.Agent) (err error) {
	if t.state.agents.get(a.ID) != nil {
		return bridge.Errorf(bridge.Conflict, "an agent with this id exists already")
	}
	t.state.agents.oldest(func(other *agentRow) bool {
		switch {
		case other.Name == a.Name && (other.Root == a.Root || other.Parent == "" && a.Parent == ""):
			err = bridge.Errorf(bridge.Conflict, "an agent named %q exists already; choose another name", a.Name)
		case a.External != "" && other.External == a.External, a.ChatUser != "" && other.ChatUser == a.ChatUser:
			err = bridge.Errorf(bridge.Conflict, "an agent with this external id or chat user exists already")
		}
		return err == nil
	})
	return err
}

// UpdateAgent implements bridge.AgentTx.
func (t *tx) UpdateAgent(a bridge.Agent) error {
	row := t.state.agents.get(a.ID)
	if row == nil {
		return bridge.ErrNoRow
	}
	if a.External != row.External && a.External != "" {
		if other, err := t.FindAgent(bridge.ByExternal, a.External); err == nil && other.ID != a.ID {
			return fmt.Errorf("agent %q has this external id already", other.ID)
		}
	}
	return t.setAgent(a, row.turns)
}

// Agent implements bridge.AgentTx.
func (t *tx) Agent(id bridge.AgentID) (bridge.Agent, error) {
	row := t.state.agents.get(id)
	if row == nil {
		return bridge.Agent{}, bridge.ErrNoRow
	}
	return row.Agent, nil
}

// FindAgent implements bridge.AgentTx.
func (t *tx) FindAgent(by bridge.AgentBy, value string) (a bridge.Agent, err error) {
	fields := map[bridge.AgentBy]func(*agentRow) string{
		bridge.ByName:     func(a *agentRow) string { return a.Name },
		bridge.ByExternal: func(a *agentRow) string { return a.External },
		bridge.ByChatUser: func(a *agentRow) string { return a.ChatUser },
	}
	field, known := fields[by]
	if !known {
		return a, fmt.Errorf("find agent by %q", by)
	}
	if by == bridge.ByName {
		return t.findByName(value)
	}
	err = bridge.ErrNoRow
	t.state.agents.oldest(func(row *agentRow) bool {
		if value != "" && field(row) == value {
			a, err = row.Agent, nil
		}
		return err != nil
	})
	return a, err
}

// findByName prefers the root of that name, and refuses to choose between trees.
func (t *tx) findByName(name string) (bridge.Agent, error) {
	var root *bridge.Agent
	var all []bridge.Agent
	t.state.agents.oldest(func(row *agentRow) bool {
		if name != "" && row.Name == name {
			if row.Parent == "" {
				root = &row.Agent
			}
			all = append(all, row.Agent)
		}
		return root == nil
	})
	if root != nil {
		return *root, nil
	}
	return bridge.OnlyAgent(name, all[:min(len(all), 10)])
}

// Agents implements bridge.AgentTx.
func (t *tx) Agents(f bridge.AgentFilter) (out []bridge.Agent, err error) {
	if f.Name != "" && f.Root == "" {
		return nil, errors.New("agents by name need a root")
	}
	for _, row := range t.state.agents.newest(f.Limit, func(a *agentRow) bool {
		return is(f.Name, a.Name) && is(f.Root, a.Root) && is(f.Parent, a.Parent) && is(f.State, a.State) && (!f.Known || !a.Forgotten()) && (f.Before == "" || a.ID < f.Before)
	}) {
		out = append(out, row.Agent)
	}
	return out, nil
}

// is reports whether a filter's field lets a value pass; the zero field lets all.
func is[T comparable](want, got T) bool {
	var zero T
	return want == zero || want == got
}

// CountOpenSubagents implements bridge.AgentTx.
func (t *tx) CountOpenSubagents(root bridge.AgentID) (n int, err error) {
	t.state.agents.oldest(func(a *agentRow) bool {
		if is(root, a.Root) && a.Parent != "" && (a.State == bridge.AgentBusy || a.State == bridge.AgentWaiting) {
			n++
		}
		return true
	})
	return n, nil
}

// InsertTurn implements bridge.TurnTx.
func (t *tx) InsertTurn(r bridge.Turn) (int64, error) {
	row := t.state.agents.get(r.Agent)
	if row == nil {
		return 0, bridge.ErrNoRow
	}
	if t.state.turns.get(r.ID) != nil {
		return 0, fmt.Errorf("turn %q exists already", r.ID)
	}
	r.Seq = row.turns + 1
	if err := t.setAgent(row.Agent, r.Seq); err != nil {
		return 0, err
	}
	return r.Seq, t.setTurn(r)
}

func (t *tx) setTurn(r bridge.Turn) error {
	r.DoubtSince, r.CreatedAt, r.SentAt, r.EndedAt = stamp(r.DoubtSince), stamp(r.CreatedAt), stamp(r.SentAt), stamp(r.EndedAt)
	return set(t, &t.state.turns, r.ID, &r)
}

// UpdateTurn implements bridge.TurnTx.
func (t *tx) UpdateTurn(r bridge.Turn) error {
	if t.state.turns.get(r.ID) == nil {
		return bridge.ErrNoRow
	}
	return t.setTurn(r)
}

// Turn implements bridge.TurnTx.
func (t *tx) Turn(id bridge.TurnID) (bridge.Turn, error) {
	row := t.state.turns.get(id)
	if row == nil {
		return bridge.Turn{}, bridge.ErrNoRow
	}
	return *row, nil
}

// Turns implements bridge.TurnTx.
func (t *tx) Turns(f bridge.TurnFilter) (out []bridge.Turn, err error) {
	limit := f.Limit
	if f.Agent != "" || f.Oldest {
		limit = len(t.state.turns.keys) + 1 // sorted by another key, so cut later
	}
	for _, row := range t.state.turns.newest(limit, func(r *bridge.Turn) bool {
		return is(f.Agent, r.Agent) && is(f.State, r.State) && (f.Before == 0 || r.Seq < f.Before) && r.Seq > f.After
	}) {
		out = append(out, *row)
	}
	if f.Agent != "" {
		slices.SortFunc(out, func(a, b bridge.Turn) int { return int(b.Seq - a.Seq) })
	}
	if f.Oldest {
		slices.Reverse(out)
	}
	return cut(out, f.Limit), nil
}

// cut shortens a list to limit; 0 is 100.
func cut[T any](list []T, limit int) []T {
	if limit <= 0 {
		limit = 100
	}
	return list[:min(len(list), limit)]
}

// OpenTurn implements bridge.TurnTx.
func (t *tx) OpenTurn(agent bridge.AgentID) (bridge.Turn, error) {
	var first *bridge.Turn
	t.state.turns.oldest(func(r *bridge.Turn) bool {
		if r.Agent == agent && !r.State.Over() && (first == nil || r.Seq < first.Seq) {
			first = r
		}
		return true
	})
	if first == nil {
		return bridge.Turn{}, bridge.ErrNoRow
	}
	return *first, nil
}

// HasOpenTurn implements bridge.TurnTx.
func (t *tx) HasOpenTurn(agent bridge.AgentID) (bool, error) {
	_, err := t.OpenTurn(agent)
	if errors.Is(err, bridge.ErrNoRow) {
		return false, nil
	}
	return err == nil, err
}

// CurrentTurn implements bridge.TurnTx.
func (t *tx) CurrentTurn(agent bridge.AgentID) (bridge.TurnHead, error) {
	var current *bridge.Turn
	t.state.turns.oldest(func(r *bridge.Turn) bool {
		switch {
		case r.Agent != agent || r.State == bridge.TurnQueued:
		case current == nil, current.State.Over() && !r.State.Over():
			current = r
		case current.State.Over() == r.State.Over() && (r.Seq > current.Seq) == r.State.Over():
			current = r // of those that are over the newest, of the others the oldest
		}
		return true
	})
	if current == nil {
		return bridge.TurnHead{}, bridge.ErrNoRow
	}
	return bridge.TurnHead{ID: current.ID, State: current.State, Depth: current.Depth}, nil
}

// InsertCommand implements bridge.CommandTx.
func (t *tx) InsertCommand(c bridge.Command) (err error) {
	if t.state.commands.get(c.ID) != nil {
		return fmt.Errorf("command %q exists already", c.ID)
	}
	t.state.commands.oldest(func(other *commandRow) bool {
		if other.OpKey == c.OpKey || (other.Turn == c.Turn && other.Ordinal == c.Ordinal) {
			err = fmt.Errorf("command %q has this operation key or place already", other.ID)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return t.setCommand(c, time.Time{})
}

// setCommand notes when a SUBAGENT was granted first: a command that a person
// lets pass an hour later counts as a launch of that later time.
func (t *tx) setCommand(c bridge.Command, launched time.Time) error {
	c.CreatedAt, c.UpdatedAt = stamp(c.CreatedAt), stamp(c.UpdatedAt)
	c.Outcome = copied(c.Outcome)
	if c.Child != "" && launched.IsZero() {
		launched = c.UpdatedAt
	}
	return set(t, &t.state.commands, c.ID, &commandRow{Command: c, launched: launched})
}

func copied(o *bridge.CommandOutcome) *bridge.CommandOutcome {
	if o == nil || *o == (bridge.CommandOutcome{}) {
		return nil
	}
	same := *o
	return &same
}

// UpdateCommand implements bridge.CommandTx.
func (t *tx) UpdateCommand(c bridge.Command) error {
	row := t.state.commands.get(c.ID)
	if row == nil {
		return bridge.ErrNoRow
	}
	return t.setCommand(c, row.launched)
}

// Command implements bridge.CommandTx.
func (t *tx) Command(id bridge.CommandID) (bridge.Command, error) {
	row := t.state.commands.get(id)
	if row == nil {
		return bridge.Command{}, bridge.ErrNoRow
	}
	return row.own(), nil
}

// own returns the command for a caller to keep.
func (r *commandRow) own() bridge.Command {
	c := r.Command
	c.Outcome = copied(c.Outcome)
	return c
}

// Commands implements bridge.CommandTx.
func (t *tx) Commands(f bridge.CommandFilter) (out []bridge.Command, err error) {
	limit := f.Limit
	if f.Turn != "" {
		limit = len(t.state.commands.keys) + 1
	}
	for _, row := range t.state.commands.newest(limit, func(c *commandRow) bool {
		return is(f.Agent, c.Agent) && is(f.Turn, c.Turn) && is(f.State, c.State) && is(f.Verb, c.Parsed.Verb) && (f.Before == "" || c.ID < f.Before)
	}) {
		out = append(out, row.own())
	}
	if f.Turn != "" {
		slices.SortFunc(out, func(a, b bridge.Command) int { return a.Ordinal - b.Ordinal })
		out = cut(out, f.Limit)
	}
	return out, nil
}

// CountLaunches implements bridge.CommandTx.
func (t *tx) CountLaunches(since time.Time) (n int, err error) {
	since = stamp(since)
	t.state.commands.oldest(func(c *commandRow) bool {
		if c.Child != "" && !c.launched.Before(since) {
			n++
		}
		return true
	})
	return n, nil
}

// CountOpenCommands implements bridge.CommandTx.
func (t *tx) CountOpenCommands(agent bridge.AgentID, verb parser.Verb) (n int, err error) {
	t.state.commands.oldest(func(c *commandRow) bool {
		if c.Agent == agent && is(verb, c.Parsed.Verb) && c.State.Open() {
			n++
		}
		return true
	})
	return n, nil
}
