package memory

import (
	"slices"

	"drawbridge/bridge"
)

func yesKey(root bridge.AgentID, target string) string { return string(root) + "\x00" + target }

// PutYes implements bridge.YesTx.
func (t *tx) PutYes(y bridge.Yes) error {
	y.At, y.Effect = stamp(y.At), slices.Clone(y.Effect)
	return set(t, &t.state.yeses, yesKey(y.Root, y.Target), &y)
}

// LastYes implements bridge.YesTx.
func (t *tx) LastYes(root bridge.AgentID, target string) (bridge.Yes, error) {
	row := t.state.yeses.get(yesKey(root, target))
	if row == nil {
		return bridge.Yes{}, bridge.ErrNoRow
	}
	y := *row
	y.Effect = slices.Clone(y.Effect)
	return y, nil
}
