// Package callers keeps what the OpenAI-compatible door records, on SQLite and
// PostgreSQL alike. Its tables are its own; nothing of the engine reads them.
package callers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"drawbridge/openai"
	"drawbridge/store"
)

// Records is openai.Records on a store.
type Records struct{ s *store.Store }

// New returns the records in s. The caller closes s after the door has ended.
func New(s *store.Store) *Records { return &Records{s: s} }

// all collects the rows of a query.
func all[T any](r store.Rows, read func(scan func(...any) error) (T, error), query string, args ...any) (out []T, err error) {
	err = r.Query(query, func(scan func(...any) error) error {
		v, err := read(scan)
		out = append(out, v)
		return err
	}, args...)
	return out, err
}

// marks returns "$first, $first+1, …" for n values.
func marks(first, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("$%d", first+i)
	}
	return strings.Join(out, ", ")
}

func anys(first string, more []string) []any {
	out := []any{first}
	for _, v := range more {
		out = append(out, v)
	}
	return out
}

const tokenColumns = "id, name, hash, models, budget, per_minute, commands, speaks_for, created_at, last_used, revoked_at"

func readToken(scan func(...any) error) (t openai.Token, err error) {
	var models string
	var created, used, revoked int64
	if err = scan(&t.ID, &t.Name, &t.Hash, &models, &t.Budget, &t.PerMinute, &t.Commands, &t.SpeaksFor, &created, &used, &revoked); err != nil {
		return t, err
	}
	t.CreatedAt, t.LastUsed, t.RevokedAt = store.FromMicros(created), store.FromMicros(used), store.FromMicros(revoked)
	return t, json.Unmarshal([]byte(models), &t.Models)
}

// TokenBy implements openai.Records.
func (c *Records) TokenBy(ctx context.Context, hash string) (t openai.Token, err error) {
	var found []openai.Token
	err = c.s.ReadRows(ctx, func(r store.Rows) error {
		found, err = all(r, readToken, "SELECT "+tokenColumns+" FROM openai_tokens WHERE hash = $1", hash)
		return err
	})
	if err == nil && len(found) == 0 {
		err = openai.ErrNoToken
	}
	if err != nil {
		return t, err
	}
	return found[0], nil
}

// Tokens implements openai.Records.
func (c *Records) Tokens(ctx context.Context) (list []openai.Token, err error) {
	err = c.s.ReadRows(ctx, func(r store.Rows) error {
		list, err = all(r, readToken, "SELECT "+tokenColumns+" FROM openai_tokens ORDER BY name, id")
		return err
	})
	return list, err
}

// SaveToken implements openai.Records.
func (c *Records) SaveToken(ctx context.Context, t openai.Token) error {
	models, err := json.Marshal(t.Models)
	if err != nil {
		return err
	}
	return c.s.WriteRows(ctx, func(r store.Rows) error {
		n, err := r.Exec(`UPDATE openai_tokens SET models = $2, budget = $3, per_minute = $4, commands = $5, speaks_for = $6, last_used = $7, revoked_at = $8 WHERE id = $1`,
			t.ID, string(models), t.Budget, t.PerMinute, t.Commands, t.SpeaksFor, store.Micros(t.LastUsed), store.Micros(t.RevokedAt))
		if err != nil || n > 0 {
			return err
		}
		n, err = r.Exec(`INSERT INTO openai_tokens (`+tokenColumns+`) VALUES (`+marks(1, 11)+`) ON CONFLICT DO NOTHING`,
			t.ID, t.Name, t.Hash, string(models), t.Budget, t.PerMinute, t.Commands, t.SpeaksFor, store.Micros(t.CreatedAt), store.Micros(t.LastUsed), store.Micros(t.RevokedAt))
		if err == nil && n == 0 {
			err = openai.ErrConflict
		}
		return err
	})
}

// State implements openai.Records.
func (c *Records) State(ctx context.Context, session, key string) (value []byte, err error) {
	err = c.s.ReadRows(ctx, func(r store.Rows) error {
		return r.Query("SELECT value FROM openai_state WHERE session = $1 AND name = $2", func(scan func(...any) error) error {
			err := scan(&value)
			value = append([]byte{}, value...) // an empty one is there, too
			return err
		}, session, key)
	})
	return value, err
}

// SetState implements openai.Records.
func (c *Records) SetState(ctx context.Context, session, key string, value []byte) error {
	return c.s.WriteRows(ctx, func(r store.Rows) error {
		if value == nil {
			_, err := r.Exec("DELETE FROM openai_state WHERE session = $1 AND name = $2", session, key)
			return err
		}
		_, err := r.Exec("INSERT INTO openai_state (session, name, value, put_at) VALUES ($1, $2, $3, $4) ON CONFLICT (session, name) DO UPDATE SET value = excluded.value, put_at = excluded.put_at",
			session, key, value, time.Now().UnixMicro())
		return err
	})
}

// Spent implements openai.Records.
func (c *Records) Spent(ctx context.Context, token string, since time.Time) (tokens, turns int64, err error) {
	err = c.s.ReadRows(ctx, func(r store.Rows) error {
		return r.Query("SELECT CAST(coalesce(sum(tokens), 0) AS BIGINT), count(*) FROM openai_turns WHERE token = $1 AND started_at >= $2",
			func(scan func(...any) error) error { return scan(&tokens, &turns) }, token, store.Micros(since))
	})
	return tokens, turns, err
}
