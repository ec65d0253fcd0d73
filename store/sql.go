package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/store/kept"
)

// querier is what a transaction needs of a database handle.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// cachedConn runs statements on the one write connection and keeps them
// prepared: parsing SQL costs more than running it here.
type cachedConn struct{ d *sqliteDB }

// cachedStmt is a prepared statement; writes says that it may change a table of which rows are kept.
type cachedStmt struct {
	*sql.Stmt
	writes bool
}

func (c cachedConn) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	st, ok := c.d.stmts[query]
	if !ok {
		prepared, err := c.d.conn.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		st = cachedStmt{prepared, kept.Changes(query)}
		c.d.stmts[query] = st
	}
	if st.writes {
		c.d.kept.Wrote()
	}
	return st.Stmt, nil
}

// ExecContext implements querier.
func (c cachedConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

// QueryContext implements querier.
func (c cachedConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// tx is one transaction on one handle.
type tx struct {
	ctx context.Context //nolint:containedctx // a tx lives exactly as long as the call that got ctx
	q   querier
	// index is the database's way to search.
	index *textIndex
	// kept are rows that need not be read again; nil keeps none.
	kept *kept.Rows
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.q.ExecContext(t.ctx, query, args...)
	return err
}

// execOne runs a statement that must change exactly one row, or returns none.
func (t *tx) execOne(none error, query string, args ...any) error {
	res, err := t.q.ExecContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return none
	}
	return nil
}

// execCount runs a statement and returns how many rows it changed.
func (t *tx) execCount(query string, args ...any) (int, error) {
	res, err := t.q.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

type scanner interface{ Scan(dest ...any) error }

// selectAll runs a query and scans each row.
func selectAll[T any](t *tx, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.q.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// selectOne returns the first row or bridge.ErrNoRow.
func selectOne[T any](t *tx, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	var zero T
	all, err := selectAll(t, scan, query, args...)
	if err != nil {
		return zero, err
	}
	if len(all) == 0 {
		return zero, bridge.ErrNoRow
	}
	return all[0], nil
}

func scanInt(row scanner) (int64, error) {
	var n int64
	err := row.Scan(&n)
	return n, err
}

// insertSQL returns an INSERT with numbered placeholders for "a, b, c".
func insertSQL(table, columns string) string {
	n := strings.Count(columns, ",") + 1
	marks := make([]string, n)
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + strings.Join(marks, ", ") + ")"
}

// updateSQL returns an UPDATE of all columns but the first, by the first.
func updateSQL(table, columns string) string {
	names := strings.Split(columns, ",")
	sets := make([]string, 0, len(names)-1)
	for i, name := range names[1:] {
		sets = append(sets, strings.TrimSpace(name)+" = $"+strconv.Itoa(i+2))
	}
	return "UPDATE " + table + " SET " + strings.Join(sets, ", ") + " WHERE " + strings.TrimSpace(names[0]) + " = $1"
}

// where collects conditions with their arguments.
type where struct {
	conditions []string
	args       []any
}

// add adds "column op $n" unless the value is the zero value of its type.
func add[T comparable](w *where, condition string, value T) {
	var zero T
	if value == zero {
		return
	}
	w.args = append(w.args, value)
	w.conditions = append(w.conditions, condition+" $"+strconv.Itoa(len(w.args)))
}

// sql renders " WHERE … ORDER BY … LIMIT n".
func (w *where) sql(order string, limit int) (string, []any) {
	var b strings.Builder
	if len(w.conditions) > 0 {
		b.WriteString(" WHERE " + strings.Join(w.conditions, " AND "))
	}
	if limit <= 0 {
		limit = 100
	}
	fmt.Fprintf(&b, " ORDER BY %s LIMIT %d", order, limit)
	return b.String(), w.args
}

// micros and fromMicros keep the zero time as 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// microTime scans a time column.
type microTime struct{ dst *time.Time }

// Scan implements sql.Scanner.
func (m microTime) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("time column holds %T", src)
	}
	*m.dst = fromMicros(n)
	return nil
}

// microSpan scans a column that holds a duration in microseconds.
type microSpan struct{ dst *time.Duration }

// Scan implements sql.Scanner.
func (m microSpan) Scan(src any) error {
	n, ok := src.(int64)
	if !ok {
		return fmt.Errorf("duration column holds %T", src)
	}
	*m.dst = time.Duration(n) * time.Microsecond
	return nil
}

// jsonText scans a JSON column; an empty one leaves dst alone.
type jsonText struct{ dst any }

// Scan implements sql.Scanner.
func (j jsonText) Scan(src any) error {
	var b []byte
	switch v := src.(type) {
	case string:
		b = []byte(v)
	case []byte:
		b = v
	default:
		return fmt.Errorf("JSON column holds %T", src)
	}
	if len(b) == 0 {
		return nil
	}
	return json.Unmarshal(b, j.dst)
}

// asInt writes a truth as both databases keep it.
func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// leanJSON is toJSON without fields that are empty words.
func leanJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", err
	}
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return string(value) == `""` })
	return toJSON(fields)
}

func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
