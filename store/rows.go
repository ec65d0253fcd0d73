package store

import (
	"context"
	"time"
)

// Rows runs statements on tables that belong to one room alone, such as what the OpenAI-compatible door keeps. Placeholders are $1, $2, …
// in both dialects. It lives as long as the call that got it.
type Rows struct{ t *tx }

// Exec runs a statement and returns how many rows it changed.
func (r Rows) Exec(query string, args ...any) (int, error) { return r.t.execCount(query, args...) }

// Query runs scan on each row.
func (r Rows) Query(query string, scan func(scan func(dest ...any) error) error, args ...any) error {
	rows, err := r.t.q.QueryContext(r.t.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// WriteRows runs fn in one transaction, which is durable when WriteRows returns nil and leaves no trace when fn returns an error.
// It wakes nobody.
func (s *Store) WriteRows(ctx context.Context, fn func(Rows) error) error {
	return s.direct(ctx, func(t *tx) error { return fn(Rows{t}) })
}

// ReadRows runs fn on one consistent snapshot.
func (s *Store) ReadRows(ctx context.Context, fn func(Rows) error) error {
	return s.look(ctx, func(t *tx) error { return fn(Rows{t}) })
}

// Micros is how times are kept; 0 is the zero time.
func Micros(t time.Time) int64 { return micros(t) }

// FromMicros is the other half of Micros, in UTC.
func FromMicros(n int64) time.Time { return fromMicros(n) }
