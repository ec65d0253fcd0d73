package store

import "drawbridge/bridge"

func scanYes(row scanner) (y bridge.Yes, err error) {
	err = row.Scan(&y.Root, &y.Target, jsonText{&y.Effect}, microTime{&y.At})
	return y, err
}

// PutYes implements bridge.YesTx.
func (t *tx) PutYes(y bridge.Yes) error {
	effect, err := toJSON(y.Effect)
	if err != nil {
		return err
	}
	return t.exec("INSERT INTO yeses (root, target, effect, at) VALUES ($1, $2, $3, $4) ON CONFLICT (root, target) DO UPDATE SET effect = excluded.effect, at = excluded.at",
		y.Root, y.Target, effect, micros(y.At))
}

// LastYes implements bridge.YesTx.
func (t *tx) LastYes(root bridge.AgentID, target string) (bridge.Yes, error) {
	return selectOne(t, scanYes, "SELECT root, target, effect, at FROM yeses WHERE root = $1 AND target = $2", root, target)
}
