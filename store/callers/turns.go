package callers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/openai"
	"drawbridge/openai/upstream"
	"drawbridge/store"
)

const sessionColumns = "id, token, client_key, model, created_at, used_at"

func readSession(scan func(...any) error) (s openai.Session, err error) {
	var created, used int64
	err = scan(&s.ID, &s.Token, &s.Key, &s.Model, &created, &used)
	s.CreatedAt, s.Used = store.FromMicros(created), store.FromMicros(used)
	return s, err
}

const turnColumns = "id, session, token, model, state, client_key, body, before_sum, after_sum, ref, holder, held_until, started_at, broken_at, ended_at, had_at, answer, tokens, version"

func readTurn(scan func(...any) error) (t openai.Turn, err error) {
	var held, started, broken, ended, had int64
	err = scan(&t.ID, &t.Session, &t.Token, &t.Model, &t.State, &t.Key, &t.Body, &t.Before, &t.After, &t.Ref, &t.Holder, &held, &started, &broken, &ended, &had, &t.Answer, &t.Tokens, &t.Version)
	t.Held, t.StartedAt, t.BrokenAt, t.EndedAt, t.HadAt = store.FromMicros(held), store.FromMicros(started), store.FromMicros(broken), store.FromMicros(ended), store.FromMicros(had)
	return t, err
}

const callColumns = "id, turn, upstream, name, arguments, state, result, seq"

func readCall(scan func(...any) error) (m openai.CallRow, err error) {
	err = scan(&m.ID, &m.Turn, &m.Upstream, &m.Name, &m.Arguments, &m.State, &m.Result, &m.Seq)
	return m, err
}

// Look implements openai.Records. The selections together are one snapshot.
func (c *Records) Look(ctx context.Context, q openai.Query) (f openai.Found, err error) {
	err = c.s.ReadRows(ctx, func(r store.Rows) error {
		l := look{rows: r, q: q}
		l.calls()
		l.turns("id = $2", q.Turn)
		l.turns("client_key = $2", q.Key)
		l.turns("body = $2 AND had_at = 0 AND client_key = '' AND started_at >= $3 ORDER BY started_at DESC LIMIT 64", q.Body, store.Micros(q.Since))
		l.histories()
		l.sessions()
		f = l.found
		return l.err
	})
	byNewest(f.Turns, func(t openai.Turn) (time.Time, string) { return t.StartedAt, t.ID })
	byNewest(f.Sessions, func(s openai.Session) (time.Time, string) { return s.Used, s.ID })
	return f, err
}

// byNewest sorts by time, newest first, and then by id, largest first.
func byNewest[T any](rows []T, of func(T) (time.Time, string)) {
	slices.SortFunc(rows, func(a, b T) int {
		at, aid := of(a)
		bt, bid := of(b)
		if n := bt.Compare(at); n != 0 {
			return n
		}
		return strings.Compare(bid, aid)
	})
}

// look collects what a query selects; after an error it does nothing more.
type look struct {
	rows  store.Rows
	q     openai.Query
	found openai.Found
	err   error
}

// turns adds those of the token that meet a condition whose first value is $2; nothing when that is "".
func (l *look) turns(where string, args ...any) {
	if l.err != nil || args[0] == "" {
		return
	}
	rows, err := all(l.rows, readTurn, "SELECT "+turnColumns+" FROM openai_turns WHERE token = $1 AND "+where, append([]any{l.q.Token}, args...)...)
	l.err = err
	for _, t := range rows {
		if !slices.ContainsFunc(l.found.Turns, func(o openai.Turn) bool { return o.ID == t.ID }) {
			l.found.Turns = append(l.found.Turns, t)
		}
	}
}

// calls adds the calls that are named, the turns that made them, and the other calls of those.
func (l *look) calls() {
	if len(l.q.Calls) == 0 {
		return
	}
	l.turns("id IN (SELECT turn FROM openai_calls WHERE id IN ("+marks(2, len(l.q.Calls))+"))", anys(l.q.Calls[0], l.q.Calls[1:])...)
	for _, t := range l.found.Turns {
		if l.err != nil {
			return
		}
		var rows []openai.CallRow
		rows, l.err = all(l.rows, readCall, "SELECT "+callColumns+" FROM openai_calls WHERE turn = $1 ORDER BY seq, id", t.ID)
		l.found.Calls = append(l.found.Calls, rows...)
	}
}

// histories adds the newest turns of the first history that there is, in the client's session where it names one.
func (l *look) histories() {
	if l.err != nil || len(l.q.Histories) == 0 {
		return
	}
	within, more := func(int) string { return "" }, []any(nil)
	if l.q.SessionKey != "" {
		within = func(n int) string {
			return fmt.Sprintf(" AND session = (SELECT id FROM openai_sessions WHERE token = $1 AND client_key = $%d ORDER BY used_at DESC, id DESC LIMIT 1)", n)
		}
		more = []any{l.q.SessionKey}
	}
	sums := make([]string, len(l.q.Histories))
	for i := range sums {
		sums[i] = fmt.Sprintf("(%d, CAST($%d AS TEXT))", i, i+2)
	}
	// Each history is one look into the index, however many turns have it.
	query := "SELECT column2 FROM (VALUES " + strings.Join(sums, ", ") + ") AS histories WHERE EXISTS (SELECT 1 FROM openai_turns WHERE token = $1 AND after_sum = column2 AND after_sum <> ''" +
		within(len(sums)+2) + ") ORDER BY column1 LIMIT 1"
	var longest []string
	longest, l.err = all(l.rows, func(scan func(...any) error) (sum string, err error) { return sum, scan(&sum) }, query, slices.Concat(anys(l.q.Token, l.q.Histories), more)...)
	if len(longest) > 0 {
		l.turns("after_sum = $2"+within(3)+" ORDER BY started_at DESC, id DESC LIMIT 8", slices.Concat(anys(longest[0], nil), more)...)
	}
}

// sessions adds the one that the client calls so, and those of the turns.
func (l *look) sessions() {
	var ids []string
	for _, t := range l.found.Turns {
		ids = append(ids, t.Session)
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var rows []openai.Session
	if l.err == nil && len(ids) > 0 {
		rows, l.err = all(l.rows, readSession, "SELECT "+sessionColumns+" FROM openai_sessions WHERE token = $1 AND id IN ("+marks(2, len(ids))+")", anys(l.q.Token, ids)...)
		l.found.Sessions = rows
	}
	if l.err == nil && l.q.SessionKey != "" {
		rows, l.err = all(l.rows, readSession, "SELECT "+sessionColumns+" FROM openai_sessions WHERE token = $1 AND client_key = $2 ORDER BY used_at DESC, id DESC LIMIT 1", l.q.Token, l.q.SessionKey)
		for _, s := range rows {
			if !slices.Contains(ids, s.ID) {
				l.found.Sessions = append(l.found.Sessions, s)
			}
		}
	}
}

// Save implements openai.Records.
func (c *Records) Save(ctx context.Context, change openai.Change) error {
	return c.s.WriteRows(ctx, func(r store.Rows) error {
		for _, t := range change.Turns {
			if err := saveTurn(r, t); err != nil {
				return err
			}
		}
		if s := change.Session; s != nil {
			if _, err := r.Exec("INSERT INTO openai_sessions ("+sessionColumns+") VALUES ("+marks(1, 6)+") ON CONFLICT (id) DO UPDATE SET client_key = excluded.client_key, model = excluded.model, used_at = excluded.used_at",
				s.ID, s.Token, s.Key, s.Model, store.Micros(s.CreatedAt), store.Micros(s.Used)); err != nil {
				return err
			}
		}
		for _, m := range change.Calls {
			if _, err := r.Exec("INSERT INTO openai_calls ("+callColumns+") VALUES ("+marks(1, 8)+") ON CONFLICT (id) DO UPDATE SET upstream = excluded.upstream, arguments = excluded.arguments, state = excluded.state, result = excluded.result",
				m.ID, m.Turn, m.Upstream, m.Name, m.Arguments, m.State, m.Result, m.Seq); err != nil {
				return err
			}
		}
		return nil
	})
}

// saveTurn adds a turn of Version 0 as version 1, or replaces the one of that Version.
func saveTurn(r store.Rows, t openai.Turn) error {
	args := []any{t.ID, t.Session, t.Token, t.Model, t.State, t.Key, t.Body, t.Before, t.After, t.Ref, t.Holder, store.Micros(t.Held), store.Micros(t.StartedAt), store.Micros(t.BrokenAt), store.Micros(t.EndedAt), store.Micros(t.HadAt), t.Answer, t.Tokens, t.Version}
	query := "INSERT INTO openai_turns (" + turnColumns + ") VALUES (" + marks(1, 18) + ", CAST($19 AS BIGINT) + 1) ON CONFLICT DO NOTHING"
	if t.Version > 0 {
		query = `UPDATE openai_turns SET session = $2, token = $3, model = $4, state = $5, client_key = $6, body = $7, before_sum = $8, after_sum = $9, ref = $10, holder = $11,
			held_until = $12, started_at = $13, broken_at = $14, ended_at = $15, had_at = $16, answer = $17, tokens = $18, version = version + 1 WHERE id = $1 AND version = $19`
	}
	n, err := r.Exec(query, args...)
	if err == nil && n == 0 {
		err = openai.ErrConflict
	}
	return err
}

// Hold implements openai.Records. It changes no version: who holds a turn may save it meanwhile.
func (c *Records) Hold(ctx context.Context, holder string, turns []string, until time.Time) (lost []string, err error) {
	err = c.s.WriteRows(ctx, func(r store.Rows) error {
		lost = nil
		for _, id := range turns {
			n, err := r.Exec("UPDATE openai_turns SET held_until = $3 WHERE id = $1 AND holder = $2 AND ended_at = 0", id, holder, store.Micros(until))
			if err != nil {
				return err
			}
			if n == 0 {
				lost = append(lost, id)
			}
		}
		return nil
	})
	return lost, err
}

// Forget implements openai.Records.
func (c *Records) Forget(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = c.s.WriteRows(ctx, func(r store.Rows) error {
		n = 0
		remove := func(query string, from ...string) error {
			old, err := all(r, func(scan func(...any) error) (id string, err error) { return id, scan(&id) }, query, store.Micros(before), limit-n)
			if err != nil || len(old) == 0 {
				return err
			}
			n += len(old)
			for _, f := range from {
				query := "DELETE FROM " + f + " (" + marks(1, len(old)) + ")" + strings.Repeat(")", strings.Count(f, "("))
				if _, err := r.Exec(query, anys(old[0], old[1:])...); err != nil {
					return err
				}
			}
			return nil
		}
		err := remove("SELECT id FROM openai_sessions s WHERE used_at < $1 AND NOT EXISTS (SELECT 1 FROM openai_turns t WHERE t.session = s.id AND t.ended_at = 0) ORDER BY used_at LIMIT $2",
			"openai_calls WHERE turn IN (SELECT id FROM openai_turns WHERE session IN", "openai_turns WHERE session IN", "openai_state WHERE session IN", "openai_sessions WHERE id IN")
		if err != nil || n == limit {
			return err
		}
		err = remove(`SELECT id FROM openai_turns t WHERE ended_at > 0 AND ended_at < $1 AND EXISTS (SELECT 1 FROM openai_turns l WHERE l.session = t.session AND l.started_at > t.started_at AND (l.after_sum <> '' OR t.after_sum = ''))
			ORDER BY ended_at LIMIT $2`, "openai_calls WHERE turn IN", "openai_turns WHERE id IN")
		if err != nil {
			return err
		}
		_, err = r.Exec("DELETE FROM openai_state WHERE put_at < $1 AND name >= $2 AND name < $3", store.Micros(before), upstream.TurnKeys, upstream.TurnKeys+"~")
		return err
	})
	return n, err
}

// Left implements openai.Records.
func (c *Records) Left(ctx context.Context, now time.Time, limit int) (left []openai.Turn, err error) {
	err = c.s.ReadRows(ctx, func(r store.Rows) error {
		left, err = all(r, readTurn, "SELECT "+turnColumns+" FROM openai_turns WHERE ended_at = 0 AND held_until < $1 ORDER BY held_until, id LIMIT $2", store.Micros(now), limit)
		return err
	})
	return left, err
}
