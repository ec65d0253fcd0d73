// Package passes keeps who is logged in at the operator's page, on SQLite and
// PostgreSQL alike. Its table is its own; nothing of the engine reads it. Rule of
// thumb: whoever reads the database cannot log in with what is there.
package passes

import (
	"context"
	"time"

	"drawbridge/store"
	"drawbridge/web"
)

// Records is web.Records on a store.
type Records struct{ s *store.Store }

// New returns the records in s. The caller closes s after the page has ended.
func New(s *store.Store) *Records { return &Records{s: s} }

// AddPass implements web.Records.
func (r *Records) AddPass(ctx context.Context, p web.Pass) error {
	return r.s.WriteRows(ctx, func(rows store.Rows) error {
		if _, err := rows.Exec("DELETE FROM page_passes WHERE ends_at <= $1", p.MadeAt.UnixMicro()); err != nil {
			return err
		}
		_, err := rows.Exec("INSERT INTO page_passes (hash, made_at, ends_at) VALUES ($1, $2, $3)", p.Hash, p.MadeAt.UnixMicro(), p.EndsAt.UnixMicro())
		return err
	})
}

// FindPass implements web.Records.
func (r *Records) FindPass(ctx context.Context, hash string) (p web.Pass, found bool, err error) {
	err = r.s.ReadRows(ctx, func(rows store.Rows) error {
		p, found, err = find(rows, hash)
		return err
	})
	return p, found, err
}

// TakePass implements web.Records. The number of rows that went decides, so that of two takers at two replicas one gets it.
func (r *Records) TakePass(ctx context.Context, hash string) (p web.Pass, taken bool, err error) {
	err = r.s.WriteRows(ctx, func(rows store.Rows) error {
		if p, taken, err = find(rows, hash); err != nil || !taken {
			return err
		}
		n, err := rows.Exec("DELETE FROM page_passes WHERE hash = $1", hash)
		taken = n == 1
		return err
	})
	return p, taken, err
}

func find(rows store.Rows, hash string) (p web.Pass, found bool, err error) {
	err = rows.Query("SELECT hash, made_at, ends_at FROM page_passes WHERE hash = $1", func(scan func(...any) error) error {
		var made, ends int64
		if err := scan(&p.Hash, &made, &ends); err != nil {
			return err
		}
		p.MadeAt, p.EndsAt, found = time.UnixMicro(made).UTC(), time.UnixMicro(ends).UTC(), true
		return nil
	}, hash)
	return p, found, err
}
