package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"drawbridge/parser"
)

// What look-ups of agents, turns and commands need.
type (
	// NeedAgent is the agent of an id.
	NeedAgent struct {
		needs
		ID AgentID
	}
	// NeedNamed is the agents of a name in a tree.
	NeedNamed struct {
		needs
		Root AgentID
		Name string
	}
	// NeedRootNamed is the root of a name.
	NeedRootNamed struct {
		needs
		Name string
	}
	// NeedAnyNamed is up to ten agents of a name, by id.
	NeedAnyNamed struct {
		needs
		Name string
	}
	// NeedAgentBy is the agent with an external id or chat user.
	NeedAgentBy struct {
		needs
		By    AgentBy
		Value string
	}
	// NeedAgents is the agents that a filter selects, newest first.
	NeedAgents struct {
		needs
		AgentFilter
	}
	// NeedOpenSubagents is the number of CountOpenSubagents.
	NeedOpenSubagents struct {
		needs
		Root AgentID
	}
	// NeedTurn is the turn of an id.
	NeedTurn struct {
		needs
		ID TurnID
	}
	// NeedTurns is the turns that a filter selects, newest first.
	NeedTurns struct {
		needs
		TurnFilter
	}
	// NeedOpenTurns is the first turns of an agent that are not over.
	NeedOpenTurns struct {
		needs
		Agent AgentID
		Limit int
	}
	// NeedOpenTurnCount is how many turns of an agent are not over.
	NeedOpenTurnCount struct {
		needs
		Agent AgentID
	}
	// NeedInFlight is the turns of an agent that are neither queued nor over.
	NeedInFlight struct {
		needs
		Agent AgentID
	}
	// NeedTurnHead is the turn of CurrentTurn without its texts. The store answers with a *TurnHead, nil for none.
	NeedTurnHead struct {
		needs
		Agent AgentID
	}
	// NeedLastOver is the newest turn of an agent that is over.
	NeedLastOver struct {
		needs
		Agent AgentID
	}
	// NeedCommand is the command of an id.
	NeedCommand struct {
		needs
		ID CommandID
	}
	// NeedCommands is the commands that a filter selects, in its order.
	NeedCommands struct {
		needs
		CommandFilter
	}
	// NeedLaunches is the number of CountLaunches.
	NeedLaunches struct {
		needs
		Since time.Time
	}
	// NeedOpenCommands is the number of CountOpenCommands.
	NeedOpenCommands struct {
		needs
		Agent AgentID
		Verb  parser.Verb
	}
)

func (n NeedAgents) limit() int    { return n.Limit }
func (n NeedTurns) limit() int     { return n.Limit }
func (n NeedOpenTurns) limit() int { return n.Limit }
func (n NeedCommands) limit() int  { return n.Limit }

// InsertAgent fails with a Conflict error when another agent of the tree has the name or, for a
// root, another root has it.
func (s *Scene) InsertAgent(a Agent) error {
	if err := s.uniqueAgent(a); err != nil {
		return err
	}
	return s.setAgent(a, 0)
}

func (s *Scene) setAgent(a Agent, lastTurn int64) error {
	a.CreatedAt, a.UpdatedAt = stamp(a.CreatedAt), stamp(a.UpdatedAt)
	return set(s, &s.Rows.Agents, a.ID, &AgentRow{Agent: a, LastTurn: lastTurn})
}

// uniqueAgent returns a Conflict when one of the agent's unique fields belongs to another.
func (s *Scene) uniqueAgent(a Agent) error {
	if s.Rows.Agents.Row(a.ID) != nil {
		return Errorf(Conflict, "an agent with this id exists already")
	}
	named, err := where(s, &s.Rows.Agents, NeedNamed{Root: a.Root, Name: a.Name}, func(o *AgentRow) bool { return o.Name == a.Name && o.Root == a.Root })
	if err == nil && len(named) == 0 && a.Parent == "" {
		named, err = where(s, &s.Rows.Agents, NeedRootNamed{Name: a.Name}, func(o *AgentRow) bool { return o.Name == a.Name && o.Parent == "" })
	}
	switch {
	case err != nil:
		return err
	case len(named) > 0:
		return Errorf(Conflict, "an agent named %q exists already; choose another name", a.Name)
	}
	for by, value := range map[AgentBy]string{ByExternal: a.External, ByChatUser: a.ChatUser} {
		switch _, err := s.findBy(by, value); {
		case err == nil:
			return Errorf(Conflict, "an agent with this external id or chat user exists already")
		case !errors.Is(err, ErrNoRow):
			return err
		}
	}
	return nil
}

// UpdateAgent replaces the row of an agent that is there.
func (s *Scene) UpdateAgent(a Agent) error {
	was, err := row(s, &s.Rows.Agents, NeedAgent{ID: a.ID}, a.ID)
	if err != nil {
		return err
	}
	if a.External != was.External && a.External != "" {
		switch other, err := s.findBy(ByExternal, a.External); {
		case errors.Is(err, ErrNoRow):
		case err != nil:
			return err
		case other.ID != a.ID:
			return fmt.Errorf("agent %q has this external id already", other.ID)
		}
	}
	return s.setAgent(a, was.LastTurn)
}

// Agent returns an agent by its id, ErrNoRow when there is none.
func (s *Scene) Agent(id AgentID) (Agent, error) {
	a, err := row(s, &s.Rows.Agents, NeedAgent{ID: id}, id)
	if err != nil {
		return Agent{}, err
	}
	return a.Agent, nil
}

// FindAgent looks an agent up by exactly one field. By name it returns the root of that name, or
// else the only agent of it; see OnlyAgent. Agents ask FindInTree.
func (s *Scene) FindAgent(by AgentBy, value string) (Agent, error) {
	switch by {
	case ByName:
		return s.findByName(value)
	case ByExternal, ByChatUser:
		return s.findBy(by, value)
	}
	return Agent{}, fmt.Errorf("find agent by %q", by)
}

func (s *Scene) findBy(by AgentBy, value string) (Agent, error) {
	if value == "" {
		return Agent{}, ErrNoRow
	}
	a, err := one(s, &s.Rows.Agents, NeedAgentBy{By: by, Value: value}, func(a *AgentRow) bool {
		return by == ByExternal && a.External == value || by == ByChatUser && a.ChatUser == value
	})
	if err != nil {
		return Agent{}, err
	}
	return a.Agent, nil
}

// findByName prefers the root of that name, and refuses to choose between trees.
func (s *Scene) findByName(name string) (Agent, error) {
	if name == "" {
		return Agent{}, ErrNoRow
	}
	root, err := one(s, &s.Rows.Agents, NeedRootNamed{Name: name}, func(a *AgentRow) bool { return a.Name == name && a.Parent == "" })
	if err == nil {
		return root.Agent, nil
	}
	if !errors.Is(err, ErrNoRow) {
		return Agent{}, err
	}
	found, err := where(s, &s.Rows.Agents, NeedAnyNamed{Name: name}, func(a *AgentRow) bool { return a.Name == name })
	if err != nil {
		return Agent{}, err
	}
	return OnlyAgent(name, agentsOf(found[:min(len(found), 10)]))
}

func agentsOf(rows []*AgentRow) []Agent {
	out := make([]Agent, len(rows))
	for i, r := range rows {
		out[i] = r.Agent
	}
	return out
}

// Agents lists agents by the filter, in the order that it asks for.
func (s *Scene) Agents(f AgentFilter) ([]Agent, error) {
	if f.Name != "" && f.Root == "" {
		return nil, errors.New("agents by name need a root")
	}
	f.Limit = limitOr(f.Limit)
	found, err := first(s, &s.Rows.Agents, look[AgentRow]{
		need:  func(limit int) Need { f.Limit = limit; return NeedAgents{AgentFilter: f} },
		limit: f.Limit,
		match: func(a *AgentRow) bool {
			return is(f.Name, a.Name) && is(f.Root, a.Root) && is(f.Parent, a.Parent) && is(f.State, a.State) && (!f.Roots || a.Parent == "") && (!f.Known || !a.Forgotten()) && (f.Before == "" || a.ID < f.Before)
		},
		order: func(a, b *AgentRow) int { return cmp.Compare(b.ID, a.ID) },
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return agentsOf(found), nil
}

// CountOpenSubagents counts agents with a parent that are busy or waiting; under a root, or
// everywhere when root is empty.
func (s *Scene) CountOpenSubagents(root AgentID) (int, error) {
	return count(s, &s.Rows.Agents, NeedOpenSubagents{Root: root}, func(a *AgentRow) bool {
		return is(root, a.Root) && a.Parent != "" && (a.State == AgentBusy || a.State == AgentWaiting)
	})
}

// InsertTurn gives the turn the agent's next Seq and returns it.
func (s *Scene) InsertTurn(t Turn) (int64, error) {
	a, err := row(s, &s.Rows.Agents, NeedAgent{ID: t.Agent}, t.Agent)
	if err != nil {
		return 0, err
	}
	if s.Rows.Turns.Row(t.ID) != nil {
		return 0, fmt.Errorf("turn %q exists already", t.ID)
	}
	t.Seq = a.LastTurn + 1
	if err := s.setAgent(a.Agent, t.Seq); err != nil {
		return 0, err
	}
	return t.Seq, s.setTurn(t)
}

func (s *Scene) setTurn(t Turn) error {
	t.DoubtSince, t.CreatedAt, t.SentAt, t.EndedAt = stamp(t.DoubtSince), stamp(t.CreatedAt), stamp(t.SentAt), stamp(t.EndedAt)
	return set(s, &s.Rows.Turns, t.ID, &t)
}

// UpdateTurn replaces the row of a turn that is there.
func (s *Scene) UpdateTurn(t Turn) error {
	if _, err := row(s, &s.Rows.Turns, NeedTurn{ID: t.ID}, t.ID); err != nil {
		return err
	}
	return s.setTurn(t)
}

// Turn returns a turn by its id, ErrNoRow when there is none.
func (s *Scene) Turn(id TurnID) (Turn, error) {
	return valueOf(row(s, &s.Rows.Turns, NeedTurn{ID: id}, id))
}

// valueOf is the row that a look-up found.
func valueOf[V any](row *V, err error) (V, error) {
	if err != nil {
		var zero V
		return zero, err
	}
	return *row, nil
}

// valuesOf are the rows that a look-up found; none is nil.
func valuesOf[V any](rows []*V, err error) ([]V, error) {
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	out := make([]V, len(rows))
	for i, r := range rows {
		out[i] = *r
	}
	return out, nil
}

// Turns lists turns by the filter.
func (s *Scene) Turns(f TurnFilter) ([]Turn, error) {
	f.Limit = limitOr(f.Limit)
	order := func(a, b *Turn) int { return cmp.Compare(a.ID, b.ID) }
	if f.Agent != "" {
		order = bySeq
	}
	if oldest := order; !f.Oldest {
		order = func(a, b *Turn) int { return oldest(b, a) }
	}
	return valuesOf(first(s, &s.Rows.Turns, look[Turn]{
		need:  func(limit int) Need { f.Limit = limit; return NeedTurns{TurnFilter: f} },
		limit: f.Limit,
		match: func(t *Turn) bool {
			return is(f.Agent, t.Agent) && is(f.State, t.State) && (f.Before == 0 || t.Seq < f.Before) && t.Seq > f.After
		},
		order: order,
	}))
}

func bySeq(a, b *Turn) int { return cmp.Compare(a.Seq, b.Seq) }

// OpenTurn returns the agent's first turn that is not over.
func (s *Scene) OpenTurn(agent AgentID) (Turn, error) {
	found, err := first(s, &s.Rows.Turns, look[Turn]{
		need:  func(limit int) Need { return NeedOpenTurns{Agent: agent, Limit: limit} },
		limit: 1,
		match: func(t *Turn) bool { return t.Agent == agent && !t.State.Over() },
		order: bySeq,
	})
	if err != nil || len(found) == 0 {
		return Turn{}, cmp.Or(err, ErrNoRow)
	}
	return *found[0], nil
}

// HasOpenTurn reports whether OpenTurn finds one, without reading its texts.
func (s *Scene) HasOpenTurn(agent AgentID) (bool, error) {
	n, err := count(s, &s.Rows.Turns, NeedOpenTurnCount{Agent: agent}, func(t *Turn) bool { return t.Agent == agent && !t.State.Over() })
	return n > 0, err
}

// CurrentTurn returns the turn that the agent is in, or else the newest that it was in. One that is
// queued does not count, because nobody has heard of it yet. ErrNoRow for an agent that was in
// none.
func (s *Scene) CurrentTurn(agent AgentID) (TurnHead, error) {
	if s.whole || s.HasLoaded(NeedInFlight{Agent: agent}) || s.Rows.Turns.changed() {
		return s.currentOfRows(agent)
	}
	n := NeedTurnHead{Agent: agent}
	if guessed, err := s.guess(n); guessed || err != nil {
		return TurnHead{}, cmp.Or(err, ErrNoRow)
	}
	head, _ := s.known[n].answer.(*TurnHead)
	if head == nil {
		return TurnHead{}, ErrNoRow
	}
	return *head, nil
}

// currentOfRows is CurrentTurn by whole turns.
func (s *Scene) currentOfRows(agent AgentID) (TurnHead, error) {
	open, err := where(s, &s.Rows.Turns, NeedInFlight{Agent: agent}, func(t *Turn) bool { return t.Agent == agent && t.State != TurnQueued && !t.State.Over() })
	if err != nil {
		return TurnHead{}, err
	}
	if len(open) > 0 {
		return headOf(slices.MinFunc(open, bySeq)), nil
	}
	over, err := where(s, &s.Rows.Turns, NeedLastOver{Agent: agent}, func(t *Turn) bool { return t.Agent == agent && t.State.Over() })
	if err != nil || len(over) == 0 {
		return TurnHead{}, cmp.Or(err, ErrNoRow)
	}
	return headOf(slices.MaxFunc(over, bySeq)), nil
}

func headOf(t *Turn) TurnHead { return TurnHead{ID: t.ID, State: t.State, Depth: t.Depth} }

// InsertCommand records a new command.
func (s *Scene) InsertCommand(c Command) error {
	if s.Rows.Commands.Row(c.ID) != nil {
		return fmt.Errorf("command %q exists already", c.ID)
	}
	for other := range s.Rows.Commands.All() {
		if other.OpKey == c.OpKey || (other.Turn == c.Turn && other.Ordinal == c.Ordinal) {
			return fmt.Errorf("command %q has this operation key or place already", other.ID)
		}
	}
	return s.setCommand(c, time.Time{})
}

// setCommand notes when a SUBAGENT was granted first: a command that a person
// lets pass an hour later counts as a launch of that later time.
func (s *Scene) setCommand(c Command, launched time.Time) error {
	c.CreatedAt, c.UpdatedAt, c.Due = stamp(c.CreatedAt), stamp(c.UpdatedAt), stamp(c.Due)
	c.Outcome = outcomeCopy(c.Outcome)
	if c.Child != "" && launched.IsZero() {
		launched = c.UpdatedAt
	}
	return set(s, &s.Rows.Commands, c.ID, &CommandRow{Command: c, Launched: launched})
}

func outcomeCopy(o *CommandOutcome) *CommandOutcome {
	if o == nil || *o == (CommandOutcome{}) {
		return nil
	}
	same := *o
	return &same
}

// UpdateCommand replaces the row of a command that is there.
func (s *Scene) UpdateCommand(c Command) error {
	was, err := row(s, &s.Rows.Commands, NeedCommand{ID: c.ID}, c.ID)
	if err != nil {
		return err
	}
	return s.setCommand(c, was.Launched)
}

// Command returns a command by its id, ErrNoRow when there is none.
func (s *Scene) Command(id CommandID) (Command, error) {
	c, err := row(s, &s.Rows.Commands, NeedCommand{ID: id}, id)
	if err != nil {
		return Command{}, err
	}
	return c.own(), nil
}

// own returns the command for a caller to keep.
func (r *CommandRow) own() Command {
	c := r.Command
	c.Outcome = outcomeCopy(c.Outcome)
	return c
}

// Commands lists commands by the filter.
func (s *Scene) Commands(f CommandFilter) (out []Command, err error) {
	f.Limit = limitOr(f.Limit)
	order := func(a, b *CommandRow) int { return cmp.Compare(b.ID, a.ID) }
	if f.Turn != "" {
		order = func(a, b *CommandRow) int { return cmp.Compare(a.Ordinal, b.Ordinal) }
	}
	found, err := first(s, &s.Rows.Commands, look[CommandRow]{
		need:  func(limit int) Need { f.Limit = limit; return NeedCommands{CommandFilter: f} },
		limit: f.Limit,
		match: func(c *CommandRow) bool {
			return is(f.Agent, c.Agent) && is(f.Turn, c.Turn) && is(f.State, c.State) && is(f.Verb, c.Parsed.Verb) && (f.Before == "" || c.ID < f.Before)
		},
		order: order,
	})
	for _, c := range found {
		out = append(out, c.own())
	}
	return out, err
}

// CountLaunches counts SUBAGENT commands since a time that were granted or went further.
func (s *Scene) CountLaunches(since time.Time) (int, error) {
	since = stamp(since)
	return count(s, &s.Rows.Commands, NeedLaunches{Since: since}, func(c *CommandRow) bool { return c.Child != "" && !c.Launched.Before(since) })
}

// CountOpenCommands counts an agent's commands that may still bring something; of one verb, or of
// all when verb is empty.
func (s *Scene) CountOpenCommands(agent AgentID, verb parser.Verb) (int, error) {
	return count(s, &s.Rows.Commands, NeedOpenCommands{Agent: agent, Verb: verb}, func(c *CommandRow) bool {
		return c.Agent == agent && is(verb, c.Parsed.Verb) && c.State.Open()
	})
}
