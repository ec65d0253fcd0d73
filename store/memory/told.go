package memory

import "drawbridge/bridge"

func toldKey(agent bridge.AgentID, item bridge.ItemID) string {
	return string(agent) + "\x00" + string(item)
}

// PutTold implements bridge.ToldTx.
func (t *tx) PutTold(agent bridge.AgentID, items []bridge.ItemID, turn bridge.TurnID) error {
	for _, item := range items {
		by := turn
		if err := set(t, &t.state.told, toldKey(agent, item), &by); err != nil {
			return err
		}
	}
	return nil
}

// ToldBy implements bridge.ToldTx.
func (t *tx) ToldBy(agent bridge.AgentID, item bridge.ItemID) (bridge.TurnID, error) {
	row := t.state.told.get(toldKey(agent, item))
	if row == nil {
		return "", bridge.ErrNoRow
	}
	return *row, nil
}

// PutRestored implements bridge.ToldTx.
func (t *tx) PutRestored(r bridge.Restored) error {
	r.At = stamp(r.At)
	return set(t, &t.state.restored, 1, &r)
}

// Restored implements bridge.ToldTx.
func (t *tx) Restored() (bridge.Restored, error) {
	if row := t.state.restored.get(1); row != nil {
		return *row, nil
	}
	return bridge.Restored{}, nil
}
