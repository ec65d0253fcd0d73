package memory

import "drawbridge/bridge"

func doneKey(agent bridge.AgentID, key string) string { return string(agent) + "\x00" + key }

// InsertDone implements bridge.OnceTx.
func (t *tx) InsertDone(d bridge.Done) error {
	if t.state.done.get(doneKey(d.Agent, d.Key)) != nil {
		return bridge.Errorf(bridge.Conflict, "the agent has used this key")
	}
	d.CreatedAt = stamp(d.CreatedAt)
	return set(t, &t.state.done, doneKey(d.Agent, d.Key), &d)
}

// FindDone implements bridge.OnceTx.
func (t *tx) FindDone(agent bridge.AgentID, key string) (bridge.Done, error) {
	row := t.state.done.get(doneKey(agent, key))
	if row == nil {
		return bridge.Done{}, bridge.ErrNoRow
	}
	return *row, nil
}
