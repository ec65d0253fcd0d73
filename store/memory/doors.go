package memory

import (
	"slices"
	"time"

	"drawbridge/bridge"
)

// InsertToken implements bridge.TokenTx.
func (t *tx) InsertToken(k bridge.DoorToken) error {
	_, err := t.FindToken(k.Hash)
	if err == nil || t.state.tokens.get(k.ID) != nil {
		return bridge.Errorf(bridge.Conflict, "this door token exists already")
	}
	return t.setToken(k)
}

func (t *tx) setToken(k bridge.DoorToken) error {
	k.CreatedAt, k.LastUsed, k.RevokedAt = stamp(k.CreatedAt), stamp(k.LastUsed), stamp(k.RevokedAt)
	return set(t, &t.state.tokens, k.ID, &k)
}

// FindToken implements bridge.TokenTx.
func (t *tx) FindToken(hash string) (k bridge.DoorToken, err error) {
	err = bridge.ErrNoRow
	t.state.tokens.oldest(func(row *bridge.DoorToken) bool {
		if row.Hash == hash {
			k, err = *row, nil
		}
		return err != nil
	})
	return k, err
}

// Tokens implements bridge.TokenTx.
func (t *tx) Tokens(agent bridge.AgentID) (out []bridge.DoorToken, err error) {
	t.state.tokens.oldest(func(row *bridge.DoorToken) bool {
		if row.Agent == agent {
			out = append(out, *row)
		}
		return true
	})
	slices.Reverse(out)
	return out, nil
}

// UseToken implements bridge.TokenTx.
func (t *tx) UseToken(id bridge.TokenID, at time.Time) error {
	row := t.state.tokens.get(id)
	if row == nil {
		return bridge.ErrNoRow
	}
	k := *row
	if stamp(at).After(k.LastUsed) {
		k.LastUsed = at
	}
	return t.setToken(k)
}

// RevokeToken implements bridge.TokenTx.
func (t *tx) RevokeToken(id bridge.TokenID, at time.Time) error {
	row := t.state.tokens.get(id)
	if row == nil {
		return bridge.ErrNoRow
	}
	k := *row
	if !k.Revoked() {
		k.RevokedAt = at
	}
	return t.setToken(k)
}

// RevokeTokens implements bridge.TokenTx.
func (t *tx) RevokeTokens(agent bridge.AgentID, at time.Time) (n int, err error) {
	all, err := t.Tokens(agent)
	if err != nil {
		return 0, err
	}
	for _, k := range all {
		if k.Revoked() {
			continue
		}
		if err := t.RevokeToken(k.ID, at); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// AppendRunMessage implements bridge.RunTx.
func (t *tx) AppendRunMessage(m bridge.RunMessage) (int64, error) {
	run := t.state.runs[m.Turn]
	if slices.ContainsFunc(run, func(o bridge.RunMessage) bool { return o.CallID == m.CallID && o.Kind == m.Kind }) {
		return 0, nil
	}
	m.Seq, m.At = int64(len(run)+1), stamp(m.At)
	return m.Seq, setMap(t, t.state.runs, m.Turn, append(slices.Clone(run), m))
}

// RunMessages implements bridge.RunTx.
func (t *tx) RunMessages(turn bridge.TurnID, after int64, limit int) ([]bridge.RunMessage, error) {
	run := t.state.runs[turn]
	first := min(max(after, 0), int64(len(run)))
	return slices.Clone(cut(run[first:], limit)), nil
}
