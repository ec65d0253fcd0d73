package store

import (
	"encoding/json"
	"errors"

	"drawbridge/bridge"
)

// saidJSON is "" for no words, so that most rows stay as short as they were.
func saidJSON(said []bridge.Said) string {
	if len(said) == 0 {
		return ""
	}
	b, err := json.Marshal(said)
	if err != nil {
		panic(err) // strings alone: it cannot fail
	}
	return string(b)
}

// PutTold implements bridge.ToldTx.
func (t *tx) PutTold(agent bridge.AgentID, items []bridge.ItemID, turn bridge.TurnID) error {
	for _, item := range items {
		if err := t.exec("INSERT INTO told (agent, item, turn) VALUES ($1, $2, $3) ON CONFLICT (agent, item) DO UPDATE SET turn = $3", agent, item, turn); err != nil {
			return err
		}
	}
	return nil
}

// ToldBy implements bridge.ToldTx.
func (t *tx) ToldBy(agent bridge.AgentID, item bridge.ItemID) (bridge.TurnID, error) {
	return selectOne(t, func(row scanner) (turn bridge.TurnID, err error) {
		err = row.Scan(&turn)
		return turn, err
	}, "SELECT turn FROM told WHERE agent = $1 AND item = $2", agent, item)
}

// PutRestored implements bridge.ToldTx.
func (t *tx) PutRestored(r bridge.Restored) error {
	return t.exec("INSERT INTO restored (id, told, at) VALUES (1, $1, $2) ON CONFLICT (id) DO UPDATE SET told = $1, at = $2", asInt(r.Told), micros(r.At))
}

// Restored implements bridge.ToldTx.
func (t *tx) Restored() (bridge.Restored, error) {
	r, err := selectOne(t, func(row scanner) (r bridge.Restored, err error) {
		err = row.Scan(&r.Told, microTime{&r.At})
		return r, err
	}, "SELECT told, at FROM restored WHERE id = 1")
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.Restored{}, nil
	}
	return r, err
}
