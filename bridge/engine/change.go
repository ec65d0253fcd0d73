package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// change is one step of the engine: what it sees of the database, what it writes, and
// the events that it records. It implements bridge.Teller, calls nobody outside, and ends
// with the function that got it. What an agent hears, and whether that makes a turn, is
// decided in its methods and nowhere else.
type change struct {
	*bridge.Scene
	e *Engine
	// now is the step's time, ids makes its ids; both are the same each time the step runs.
	now time.Time
	ids func(prefix string) string
	// person asked for the step; the zero Person is nobody.
	person bridge.Person
	// told are the events that were recorded, for telling after the commit.
	told []bridge.Event
}

// policy returns the policy in force.
func (c *change) policy() *policy.Policy { return c.e.o.Policy() }

// recordTimeout bounds a recording that goes on although its caller has gone.
const recordTimeout = 30 * time.Second

// update runs fn in a transaction, then tells what happened and wakes the dispatcher.
// Recording what already happened must not stop because a caller went away.
func (e *Engine) update(ctx context.Context, fn func(*change) error, hints ...bridge.Need) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var c *change
	now, ids := e.o.Now(), sameIDs{next: e.o.NewID} // the same for each run of fn
	person, _ := bridge.PersonOf(ctx)
	err := e.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		ids.given = 0
		c = &change{Scene: tx, e: e, now: now, ids: ids.id, person: person}
		if err := fn(c); err != nil || len(c.told) > 0 || person.Request == "" || bridge.Recorded(ctx) {
			return err
		}
		return c.event(bridge.EventOperator, bridge.Agent{}, bridge.Event{Text: person.Name + " changed something by " + person.Request}) // no word of a person goes unrecorded
	}, hints...)
	if err != nil {
		return err
	}
	for _, ev := range c.told {
		e.o.OnEvent(ev)
	}
	if len(c.told) > 0 {
		bridge.NoteRecorded(ctx)
	}
	if !bridge.IsUnheard(ctx) {
		e.Wake()
	}
	return nil
}

// sameIDs makes the same ids for each run of a step.
type sameIDs struct {
	next  func(prefix string) string
	made  []string
	given int
}

func (s *sameIDs) id(prefix string) string {
	if s.given == len(s.made) || !strings.HasPrefix(s.made[s.given], prefix) {
		s.made = append(s.made[:s.given], s.next(prefix))
	}
	s.given++
	return s.made[s.given-1]
}

// onErrand is update for the work of a command.
func (e *Engine) onErrand(ctx context.Context, w bridge.Work, fn func(*change) error) error {
	return e.update(ctx, fn, bridge.NeedWork{ID: w.ID}, bridge.NeedStory{Command: bridge.CommandID(w.Ref)})
}

var _ bridge.Teller = (*change)(nil)

// Now implements bridge.Teller.
func (c *change) Now() time.Time { return c.now }

// NewID implements bridge.Teller.
func (c *change) NewID(prefix string) string { return c.ids(prefix) }

// Notify implements bridge.Teller.
func (c *change) Notify(n bridge.Notice) (bridge.NoticeID, error) {
	n.ID = bridge.NoticeID(c.NewID("ntc_"))
	if err := c.tell(n); err != nil {
		return "", fmt.Errorf("notify agent %q: %w", n.Agent, err)
	}
	return n.ID, nil
}

// Rouse implements bridge.Teller.
func (c *change) Rouse(n bridge.Notice) error {
	if err := c.RouseNotice(n.ID); err != nil {
		return fmt.Errorf("rouse notice %q: %w", n.ID, err)
	}
	a, err := c.Agent(n.Agent)
	if err != nil {
		return err
	}
	return c.pump(&a)
}

// Record implements bridge.Teller.
func (c *change) Record(kind string, a bridge.Agent, ev bridge.Event) error {
	return c.event(kind, a, ev)
}

// setAgent takes an agent to a state, if its table allows the change.
func (c *change) setAgent(a *bridge.Agent, next bridge.AgentState) error {
	if !a.State.CanBecome(next) {
		return fmt.Errorf("agent %q cannot go from %s to %s", a.ID, a.State, next)
	}
	a.State, a.UpdatedAt = next, c.now
	if err := c.UpdateAgent(*a); err != nil || (next != bridge.AgentFailed && next != bridge.AgentGated) {
		return err
	}
	if err := bridge.LookAtAwaited(c.Scene, a.ID, c.now); err != nil || next == bridge.AgentFailed {
		return err
	}
	return c.waits(a, a.Trouble)
}

// setTurn takes a turn to a state, if its table allows the change.
func (c *change) setTurn(t *bridge.Turn, next bridge.TurnState) error {
	if !t.State.CanBecome(next) {
		return fmt.Errorf("turn %q cannot go from %s to %s", t.ID, t.State, next)
	}
	t.State = next
	if next.Over() {
		t.EndedAt = c.now
	}
	return c.UpdateTurn(*t)
}

// setCommand takes a command to a state, if its table allows the change.
func (c *change) setCommand(m *bridge.Command, next bridge.CommandState) error {
	if !m.State.CanBecome(next) {
		return fmt.Errorf("command %q cannot go from %s to %s", m.ID, m.State, next)
	}
	if next == bridge.CommandReported {
		m.Ended = m.State
	}
	m.State, m.UpdatedAt = next, c.now
	return c.UpdateCommand(*m)
}

// event records one line of the timeline. Its text is for people: never a secret, never a whole body.
func (c *change) event(kind string, a bridge.Agent, ev bridge.Event) error {
	ev.Kind, ev.At, ev.Agent, ev.Name, ev.Root = kind, c.now, a.ID, a.Name, a.Root
	if c.person.Name != "" {
		ev.Fields = maps.Clone(ev.Fields)
		if ev.Fields == nil {
			ev.Fields = map[string]string{}
		}
		ev.Fields["by"], ev.Fields["address"] = c.person.Name, cmp.Or(c.person.Address, "unknown")
	}
	maps.DeleteFunc(ev.Fields, func(_, value string) bool { return value == "" })
	if err := c.AppendEvent(ev); err != nil {
		return err
	}
	c.told = append(c.told, ev)
	return nil
}
