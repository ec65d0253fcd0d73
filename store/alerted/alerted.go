// Package alerted keeps alerts, on SQLite and PostgreSQL alike. Its table is its
// own; nothing of the engine reads it.
package alerted

import (
	"context"
	"time"

	"drawbridge/alerts"
	"drawbridge/api"
	"drawbridge/store"
)

// Records is alerts.Records on a store.
type Records struct{ s *store.Store }

// New returns the records in s. The caller closes s after the alerts have ended.
func New(s *store.Store) *Records { return &Records{s: s} }

const columns = "id, need, kind, turn, agent, state, tries, trouble, made_at, tried_at, due_at, seen_at"

// list collects the alerts that a query selects.
func (r *Records) list(ctx context.Context, where string, args ...any) (all []api.Alert, err error) {
	err = r.s.ReadRows(ctx, func(rows store.Rows) error {
		return rows.Query("SELECT "+columns+" FROM alerts WHERE "+where, func(scan func(...any) error) error {
			var a api.Alert
			var made, tried, due, seen int64
			if err := scan(&a.ID, &a.Need, &a.Kind, &a.Turn, &a.Agent, &a.State, &a.Tries, &a.Trouble, &made, &tried, &due, &seen); err != nil {
				return err
			}
			a.MadeAt, a.TriedAt, a.SeenAt = store.FromMicros(made), store.FromMicros(tried), store.FromMicros(seen)
			if a.State == api.AlertWaiting {
				a.DueAt = store.FromMicros(due)
			}
			all = append(all, a)
			return nil
		}, args...)
	})
	return all, err
}

// Open implements alerts.Records.
func (r *Records) Open(ctx context.Context) ([]api.Alert, error) {
	return r.list(ctx, "closed_at = 0 ORDER BY id")
}

// List implements alerts.Records.
func (r *Records) List(ctx context.Context, before string, limit int) ([]api.Alert, error) {
	if before == "" {
		return r.list(ctx, "id > '' ORDER BY id DESC LIMIT $1", limit)
	}
	return r.list(ctx, "id < $1 ORDER BY id DESC LIMIT $2", before, limit)
}

// Change implements alerts.Records.
func (r *Records) Change(ctx context.Context, c alerts.Change) error {
	return r.s.WriteRows(ctx, func(rows store.Rows) error {
		for _, id := range c.Seen {
			if _, err := rows.Exec("UPDATE alerts SET seen_at = $1 WHERE id = $2 AND closed_at = 0 AND seen_at < $1", c.Now.UnixMicro(), id); err != nil {
				return err
			}
		}
		for _, a := range c.Add {
			if _, err := rows.Exec("INSERT INTO alerts ("+columns+", closed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0) ON CONFLICT DO NOTHING",
				a.ID, a.Need, a.Kind, a.Turn, a.Agent, a.State, a.Tries, a.Trouble, store.Micros(a.MadeAt), store.Micros(a.TriedAt), store.Micros(a.DueAt), store.Micros(a.SeenAt)); err != nil {
				return err
			}
		}
		if _, err := rows.Exec("UPDATE alerts SET closed_at = $1, state = CASE state WHEN 'waiting' THEN 'over' ELSE state END WHERE closed_at = 0 AND seen_at < $2", c.Now.UnixMicro(), c.Before.UnixMicro()); err != nil {
			return err
		}
		_, err := rows.Exec("DELETE FROM alerts WHERE closed_at > 0 AND closed_at < $1", c.Now.Add(-alerts.Kept).UnixMicro())
		return err
	})
}

// Take implements alerts.Records. The number of rows that changed decides, so that of two takers at two replicas one gets it.
func (r *Records) Take(ctx context.Context, a api.Alert, until time.Time) (ok bool, err error) {
	err = r.s.WriteRows(ctx, func(rows store.Rows) error {
		n, err := rows.Exec("UPDATE alerts SET due_at = $1, tries = tries + 1 WHERE id = $2 AND state = 'waiting' AND closed_at = 0 AND due_at = $3", until.UnixMicro(), a.ID, store.Micros(a.DueAt))
		ok = n == 1
		return err
	})
	return ok, err
}

// Tried implements alerts.Records.
func (r *Records) Tried(ctx context.Context, a api.Alert, until time.Time) error {
	return r.s.WriteRows(ctx, func(rows store.Rows) error {
		_, err := rows.Exec("UPDATE alerts SET state = CASE WHEN closed_at > 0 AND $1 = 'waiting' THEN 'over' ELSE $1 END, trouble = $2, tried_at = $3, due_at = $4 WHERE id = $5 AND due_at = $6 AND state IN ('waiting', 'over')",
			a.State, a.Trouble, store.Micros(a.TriedAt), store.Micros(a.DueAt), a.ID, until.UnixMicro())
		return err
	})
}
