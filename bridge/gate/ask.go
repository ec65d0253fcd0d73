package gate

import (
	"errors"

	"drawbridge/bridge"
	"drawbridge/bridge/desk"
	"drawbridge/bridge/kin"
	"drawbridge/parser"
	"drawbridge/policy"
)

// toolOrdinal is where the commands of tool calls begin in a turn; those of its
// text come before, so that neither can take the other's place.
const toolOrdinal = 1000

// maxAsked bounds the commands of one turn, refused ones too; the ordinals of
// tool calls are counted in as many.
const maxAsked = 1000

// Ask judges commands that an agent asked for by a tool call and returns each as
// it was recorded; see engine.Engine.Ask.
func (g Gate) Ask(tx *desk.Change, id bridge.AgentID, commands []parser.Command) (asked []bridge.Command, err error) {
	c := change{tx, g}
	by, err := c.asking(id)
	if err != nil {
		return nil, err
	}
	earlier, err := c.Commands(bridge.CommandFilter{Turn: by.Turn.ID, Limit: maxAsked})
	if err != nil {
		return nil, err
	}
	if len(earlier)+len(commands) > maxAsked { // refused ones count: each is on record
		return nil, bridge.Errorf(bridge.RateLimited, "%d commands were asked for in this turn, and the limit is %d; end your turn, and ask in the next one", len(earlier), maxAsked)
	}
	r, err := c.request(by, commands)
	if err != nil {
		return nil, err
	}
	r.Earlier = earlierIn(earlier)
	judged := c.Policy().Judge(r)
	for i, cmd := range commands {
		m, err := c.recordAs(by, toolOrdinal+len(earlier)+i, cmd, judged.Verdicts[i])
		if err != nil {
			return asked, err
		}
		asked = append(asked, m)
	}
	return asked, nil
}

// asking loads the turn that an agent's tool calls belong to.
func (c change) asking(id bridge.AgentID) (*Asker, error) {
	a, err := c.Agent(id)
	if err != nil {
		return nil, err
	}
	if err := c.NotStopped(a.Root); err != nil {
		return nil, err
	}
	t, err := c.OpenTurn(id)
	if errors.Is(err, bridge.ErrNoRow) || (err == nil && t.State == bridge.TurnQueued) {
		var last []bridge.Turn
		if last, err = c.Turns(bridge.TurnFilter{Agent: id, Limit: 1}); err == nil && len(last) == 0 {
			err = bridge.Errorf(bridge.Conflict, "agent %s never had a turn, so it cannot ask for anything", a.Name)
		}
		if err == nil {
			t = last[0]
		}
	}
	if err != nil {
		return nil, err
	}
	names, err := kin.Lineage(c.Tx, a)
	return &Asker{Agent: a, Turn: &t, Names: names, silent: true}, err
}

// earlierIn are the commands that a turn's tool calls asked for before.
func earlierIn(all []bridge.Command) []parser.Command {
	var earlier []parser.Command
	for _, m := range all {
		if m.Ordinal >= toolOrdinal && m.State != bridge.CommandRefused && m.Code != string(policy.CodeOverCap) {
			earlier = append(earlier, m.Parsed)
		}
	}
	return earlier
}
