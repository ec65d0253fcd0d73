package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge"
)

const workColumns = "id, lane, seq, kind, ref, due_at, lease_until, fence, attempts, tries, failures, lost, woken, share, away_since"

func scanWork(row scanner) (w bridge.Work, err error) {
	err = row.Scan(&w.ID, &w.Lane, &w.Seq, &w.Kind, &w.Ref, microTime{&w.Due}, microTime{&w.Lease}, &w.Fence, &w.Attempts, &w.Tries, &w.Failures, &w.Lost, &w.Woken, &w.Share, microTime{&w.AwaySince})
	return w, err
}

// readyAt is when a head may be handed out: it is due and nobody holds it. The
// index work_ready is over the same text, so a change here needs one there.
const readyAt = "(CASE WHEN lease_until > due_at THEN lease_until ELSE due_at END)"

// laneStatements writes what a step did with work. The number in the lane comes
// from a counter row taken in the same transaction: an identity column would order
// by insert and not by commit (facts: libraries, Trap).
//
// Where steps go side by side, a step that takes work out of a lane takes the counter's
// row, too (lock), so that one sees who stands in the lane after the other has gone.
func laneStatements(changes []bridge.LaneChange, lock string) (out []statement) {
	for _, c := range inLaneOrder(changes, lock) {
		w := c.Work
		switch c.Verb {
		case bridge.LaneEnqueue:
			out = append(out,
				statement{sql: "INSERT INTO lanes (lane, next_seq) VALUES ($1, 1) ON CONFLICT (lane) DO UPDATE SET next_seq = lanes.next_seq + 1", args: []any{w.Lane}},
				statement{sql: enqueue, args: []any{w.Lane, w.Kind, w.Ref, micros(w.Due), w.Share}})
		case bridge.LaneFinish: // what stood behind the work becomes the head
			if lock != "" {
				out = append(out, statement{sql: lock, args: []any{w.Lane}})
			}
			out = append(out,
				statement{sql: "DELETE FROM work" + held, args: []any{w.ID, w.Fence}, empty: bridge.ErrLeaseLost},
				statement{sql: "UPDATE work SET head = 1 WHERE lane = $1 AND seq = (SELECT min(h.seq) FROM work h WHERE h.lane = $1)", args: []any{w.Lane}})
		case bridge.LaneBack:
			out = append(out, statement{sql: giveBack, args: []any{w.ID, w.Fence, w.Woken, micros(c.Due), w.Failures, w.Tries, micros(w.AwaySince)}, empty: bridge.ErrLeaseLost})
		case bridge.LaneWake:
			out = append(out, wakeStatements(c.Lanes, micros(c.Due))...)
		}
	}
	return out
}

// inLaneOrder sorts changes by their lanes where steps go side by side, so that two steps that share lanes take them in one
// order and none waits for the other. What happens in one lane keeps its order. A step that wakes many lanes keeps all of it.
func inLaneOrder(changes []bridge.LaneChange, lock string) []bridge.LaneChange {
	lane := func(c bridge.LaneChange) string {
		if c.Verb == bridge.LaneWake {
			return c.Lanes[0]
		}
		return c.Work.Lane
	}
	if lock == "" || slices.ContainsFunc(changes, func(c bridge.LaneChange) bool { return len(c.Lanes) > 1 || lane(c) == "" }) {
		return changes
	}
	return slices.SortedStableFunc(slices.Values(changes), func(a, b bridge.LaneChange) int { return strings.Compare(lane(a), lane(b)) })
}

const enqueue = `INSERT INTO work (lane, seq, kind, ref, due_at, share, lease_until, fence, attempts, failures, woken, head)
	SELECT $1, next_seq, $2, $3, CAST($4 AS BIGINT), $5, 0, 0, 0, 0, 0, CASE WHEN EXISTS (SELECT 1 FROM work h WHERE h.lane = $1) THEN 0 ELSE 1 END FROM lanes WHERE lane = $1`

const giveBack = "UPDATE work SET lease_until = 0, lost = 0, failures = $5, tries = $6, away_since = $7, due_at = CASE WHEN woken <> $3 THEN due_at ELSE $4 END" + held

// wakesAtOnce is how many lanes one statement wakes; it bounds how many texts of statements there are.
const wakesAtOnce = 128

// wakeStatements wake lanes. A relay that connects has hundreds of which most are
// empty, and so they are looked up together.
func wakeStatements(lanes []string, now int64) (out []statement) {
	for some := range slices.Chunk(lanes, wakesAtOnce) {
		marks, args := make([]string, len(some)), []any{now}
		for i, lane := range some {
			marks[i] = "$" + strconv.Itoa(i+2)
			args = append(args, lane)
		}
		out = append(out, statement{sql: "UPDATE work SET due_at = $1, woken = woken + 1 WHERE head = 1 AND lane IN (" + strings.Join(marks, ", ") + ")", args: args})
	}
	return out
}

// wanted leaves out kinds and shares: each list is one text, with a bar around every name.
const wanted = " AND CAST($2 AS TEXT) NOT LIKE '%|' || kind || '|%' AND CAST($3 AS TEXT) NOT LIKE '%|' || share || '|%'"

// barred writes a list for wanted. No kind, id or name of a relay has a bar or a percent sign. An underscore in one stands for any character
// in LIKE; that two names differ in nothing else is as good as impossible, and would make one of them wait.
func barred[T ~string](names []T) string {
	if len(names) == 0 {
		return ""
	}
	text := "|"
	for _, name := range names {
		text += string(name) + "|"
	}
	return text
}

// claimWork takes the heads that have been ready for longest. A lease that still
// stands there was never given back. PostgreSQL, which locks rows, may run a subquery in IN once a row, and each run would lock other
// rows: MATERIALIZED runs it once.
func claimWork(lock string) string {
	with, picked := "", `SELECT id FROM work WHERE head = 1 AND `+readyAt+` <= $1`+wanted+` ORDER BY `+readyAt+`, id LIMIT $4`+lock
	if lock != "" {
		with, picked = "WITH picked AS MATERIALIZED ("+picked+") ", "SELECT id FROM picked"
	}
	return with + `UPDATE work SET lease_until = $5, fence = fence + 1, attempts = attempts + 1, lost = CASE WHEN lease_until > 0 THEN lost + 1 ELSE lost END
WHERE id IN (` + picked + `)
RETURNING ` + workColumns
}

// Claim implements bridge.Store. A lease that a power failure takes back leaves work that nobody holds, and nobody is woken by one.
func (s *Store) Claim(ctx context.Context, c bridge.Claim) (works []bridge.Work, err error) {
	err = s.once(bridge.Unheard(bridge.Forgettable(ctx)), func(t *tx) error {
		works, err = t.claim(c)
		return err
	})
	return works, err
}

func (t *tx) claim(c bridge.Claim) ([]bridge.Work, error) {
	return selectAll(t, scanWork, t.index.claim, micros(c.Now), barred(c.Without), barred(c.Spent), c.Limit, micros(c.Now.Add(c.Lease)))
}

// held is the condition under which work may be given back or kept. A lease of
// 0 was given back already: a heartbeat that comes too late must not hold it again.
const held = " WHERE id = $1 AND fence = $2 AND lease_until > 0"

// Extend implements bridge.Store.
func (s *Store) Extend(ctx context.Context, w bridge.Work, until time.Time) error {
	return s.once(bridge.Unheard(bridge.Forgettable(ctx)), func(t *tx) error { return t.extend(w, until) })
}

func (t *tx) extend(w bridge.Work, until time.Time) error {
	return t.execOne(bridge.ErrLeaseLost, "UPDATE work SET lease_until = $3"+held, w.ID, w.Fence, micros(until))
}

// nextDue's second condition holds always; it makes the look-up a search in work_ready.
const nextDue = "SELECT " + readyAt + " FROM work WHERE head = 1 AND " + readyAt + " >= $1" + wanted + " ORDER BY " + readyAt + " LIMIT 1"

// NextFor implements bridge.Store. It looks at heads only: what stands behind
// a head is not due before it. Work that someone holds counts as due when the
// lease ends, because its holder may have died.
func (s *Store) NextFor(ctx context.Context, c bridge.Claim) (next time.Time, err error) {
	err = s.peek(ctx, func(t *tx) error {
		next, err = t.nextFor(c)
		return err
	})
	return next, err
}

func (t *tx) nextFor(c bridge.Claim) (time.Time, error) {
	n, err := selectOne(t, scanInt, nextDue, 0, barred(c.Without), barred(c.Spent))
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return time.Time{}, nil
	case n == 0:
		return c.Now, err // due since ever; the zero time would say that there is nothing
	}
	return fromMicros(n), err
}

// ReleaseAll frees every lease, which counts as a lost claim. It is only for a
// store that one process owns alone, at its start.
func (s *Store) ReleaseAll(ctx context.Context) error {
	return s.once(ctx, func(t *tx) error {
		return t.exec("UPDATE work SET lease_until = 0, lost = lost + 1 WHERE head = 1 AND lease_until > 0")
	})
}
