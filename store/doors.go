package store

import (
	"errors"
	"time"

	"drawbridge/bridge"
)

const tokenColumns = "id, agent, hash, generation, client, created_at, last_used, revoked_at"

var insertToken = insertSQL("door_tokens", tokenColumns) + " ON CONFLICT DO NOTHING"

func scanToken(row scanner) (k bridge.DoorToken, err error) {
	err = row.Scan(&k.ID, &k.Agent, &k.Hash, &k.Generation, &k.Client, microTime{&k.CreatedAt}, microTime{&k.LastUsed}, microTime{&k.RevokedAt})
	return k, err
}

// InsertToken implements bridge.TokenTx. A token that is there already does not
// spoil the transaction, so that a launch which is repeated can go on.
func (t *tx) InsertToken(k bridge.DoorToken) error {
	return t.execOne(bridge.Errorf(bridge.Conflict, "this door token exists already"),
		insertToken, k.ID, k.Agent, k.Hash, k.Generation, k.Client, micros(k.CreatedAt), micros(k.LastUsed), micros(k.RevokedAt))
}

// FindToken implements bridge.TokenTx.
func (t *tx) FindToken(hash string) (bridge.DoorToken, error) {
	return selectOne(t, scanToken, "SELECT "+tokenColumns+" FROM door_tokens WHERE hash = $1", hash)
}

// Tokens implements bridge.TokenTx.
func (t *tx) Tokens(agent bridge.AgentID) ([]bridge.DoorToken, error) {
	return selectAll(t, scanToken, "SELECT "+tokenColumns+" FROM door_tokens WHERE agent = $1 ORDER BY id DESC", agent)
}

// UseToken implements bridge.TokenTx.
func (t *tx) UseToken(id bridge.TokenID, at time.Time) error {
	return t.execOne(bridge.ErrNoRow, "UPDATE door_tokens SET last_used = CASE WHEN last_used < $2 THEN $2 ELSE last_used END WHERE id = $1", id, micros(at))
}

// RevokeToken implements bridge.TokenTx.
func (t *tx) RevokeToken(id bridge.TokenID, at time.Time) error {
	return t.execOne(bridge.ErrNoRow, "UPDATE door_tokens SET revoked_at = CASE WHEN revoked_at = 0 THEN $2 ELSE revoked_at END WHERE id = $1", id, micros(at))
}

// RevokeTokens implements bridge.TokenTx.
func (t *tx) RevokeTokens(agent bridge.AgentID, at time.Time) (int, error) {
	return t.execCount("UPDATE door_tokens SET revoked_at = $2 WHERE agent = $1 AND revoked_at = 0", agent, micros(at))
}

const runColumns = "turn, seq, kind, name, call_id, payload, at"

func scanRunMessage(row scanner) (m bridge.RunMessage, err error) {
	err = row.Scan(&m.Turn, &m.Seq, &m.Kind, &m.Name, &m.CallID, &m.Payload, microTime{&m.At})
	return m, err
}

// AppendRunMessage implements bridge.RunTx. There is one writer at a time, so
// that the number that is next stays it until the row is there.
func (t *tx) AppendRunMessage(m bridge.RunMessage) (int64, error) {
	seq, err := selectOne(t, scanInt, "INSERT INTO run_messages ("+runColumns+`)
		VALUES ($1, (SELECT coalesce(max(seq), 0) + 1 FROM run_messages WHERE turn = $1), $2, $3, $4, $5, $6)
		ON CONFLICT (turn, call_id, kind) DO NOTHING RETURNING seq`, m.Turn, m.Kind, m.Name, m.CallID, m.Payload, micros(m.At))
	if errors.Is(err, bridge.ErrNoRow) {
		return 0, nil
	}
	return seq, err
}

// RunMessages implements bridge.RunTx.
func (t *tx) RunMessages(turn bridge.TurnID, after int64, limit int) ([]bridge.RunMessage, error) {
	if limit <= 0 {
		limit = 100
	}
	return selectAll(t, scanRunMessage, "SELECT "+runColumns+" FROM run_messages WHERE turn = $1 AND seq > $2 ORDER BY seq LIMIT $3", turn, after, limit)
}
