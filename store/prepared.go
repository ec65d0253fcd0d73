package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// readStmts are the prepared statements of SQLite's views. SQLite needs more time to parse a look-up than to run it.
// Package database/sql prepares each one once on each connection.
type readStmts struct {
	mu  sync.Mutex // guards all
	all map[string]*sql.Stmt
}

// mostPrepared bounds how many statements stay prepared. A list has a text for each set of filters; further texts are
// parsed each time.
const mostPrepared = 512

func (r *readStmts) of(query string) *sql.Stmt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[query]
}

// add prepares statements for the next views. It takes a connection, so that the caller must hold none, and no lock either while it
// waits for one: views that each hold a connection would wait without end. An error harms nothing; the statement is parsed again
// next time.
func (r *readStmts) add(ctx context.Context, db *sql.DB, queries []string) {
	for _, query := range queries {
		if !r.wants(query) {
			continue
		}
		st, err := db.PrepareContext(ctx, query)
		if err == nil && !r.put(query, st) {
			_ = st.Close()
		}
	}
}

func (r *readStmts) wants(query string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all != nil && r.all[query] == nil && len(r.all) < mostPrepared
}

// put keeps a statement, and reports false when another view was faster or the database is closed.
func (r *readStmts) put(query string, st *sql.Stmt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || r.all[query] != nil {
		return false
	}
	r.all[query] = st
	return true
}

// close ends the statements; later calls of add do nothing.
func (r *readStmts) close() error {
	r.mu.Lock()
	all := r.all
	r.all = nil
	r.mu.Unlock()
	var errs []error
	for _, st := range all {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}

// preparedTx is a view's transaction. It runs prepared statements and notes the texts of those that are not prepared yet.
type preparedTx struct {
	d       *sqliteDB
	t       *sql.Tx
	unknown []string
}

// ExecContext implements querier.
func (p *preparedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return p.t.ExecContext(ctx, query, args...)
}

// QueryContext implements querier.
func (p *preparedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if st := p.d.prepared.of(query); st != nil {
		return p.t.StmtContext(ctx, st).QueryContext(ctx, args...)
	}
	p.unknown = append(p.unknown, query)
	return p.t.QueryContext(ctx, query, args...)
}
