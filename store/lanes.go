package store

import (
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

// Enqueue implements bridge.LaneTx. The number in the lane comes from a
// counter row taken in the same transaction: an identity column would order by
// insert and not by commit (facts: libraries, Trap).
func (t *tx) Enqueue(w bridge.Work) error {
	seq, err := selectOne(t, scanInt, "INSERT INTO lanes (lane, next_seq) VALUES ($1, 1) ON CONFLICT (lane) DO UPDATE SET next_seq = lanes.next_seq + 1 RETURNING next_seq", w.Lane)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO work (lane, seq, kind, ref, due_at, share, lease_until, fence, attempts, failures, woken, head)
		VALUES ($1, $2, $3, $4, $5, $6, 0, 0, 0, 0, 0, CASE WHEN EXISTS (SELECT 1 FROM work h WHERE h.lane = $1) THEN 0 ELSE 1 END)`,
		w.Lane, seq, w.Kind, w.Ref, micros(w.Due), w.Share)
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
// stands there was never given back.
const claimWork = `UPDATE work SET lease_until = $5, fence = fence + 1, attempts = attempts + 1, lost = CASE WHEN lease_until > 0 THEN lost + 1 ELSE lost END
WHERE id IN (SELECT id FROM work WHERE head = 1 AND ` + readyAt + ` <= $1` + wanted + ` ORDER BY ` + readyAt + `, id LIMIT $4)
RETURNING ` + workColumns

// ClaimWork implements bridge.LaneTx.
func (t *tx) ClaimWork(c bridge.Claim) ([]bridge.Work, error) {
	return selectAll(t, scanWork, claimWork, micros(c.Now), barred(c.Without), barred(c.Spent), c.Limit, micros(c.Now.Add(c.Lease)))
}

// held is the condition under which work may be given back or kept. A lease of
// 0 was given back already: a heartbeat that comes too late must not hold it again.
const held = " WHERE id = $1 AND fence = $2 AND lease_until > 0"

// FinishWork implements bridge.LaneTx. What stood behind the work becomes the head.
func (t *tx) FinishWork(w bridge.Work) error {
	if err := t.execOne(bridge.ErrLeaseLost, "DELETE FROM work"+held, w.ID, w.Fence); err != nil {
		return err
	}
	return t.exec("UPDATE work SET head = 1 WHERE lane = $1 AND seq = (SELECT min(h.seq) FROM work h WHERE h.lane = $1)", w.Lane)
}

// PutBack implements bridge.LaneTx.
func (t *tx) PutBack(w bridge.Work, due time.Time) error {
	w.Failures = 0
	return t.giveBack(w, due)
}

// PutOff implements bridge.LaneTx.
func (t *tx) PutOff(w bridge.Work, due time.Time) error {
	w.Tries, w.Failures = w.Tries+1, 0
	return t.giveBack(w, due)
}

// FailWork implements bridge.LaneTx.
func (t *tx) FailWork(w bridge.Work, due time.Time) error {
	w.Failures += w.Lost + 1
	return t.giveBack(w, due)
}

func (t *tx) giveBack(w bridge.Work, due time.Time) error {
	return t.execOne(bridge.ErrLeaseLost, "UPDATE work SET lease_until = 0, lost = 0, failures = $5, tries = $6, away_since = $7, due_at = CASE WHEN woken <> $3 THEN due_at ELSE $4 END"+held,
		w.ID, w.Fence, w.Woken, micros(due), w.Failures, w.Tries, micros(w.AwaySince))
}

// ExtendLease implements bridge.LaneTx.
func (t *tx) ExtendLease(w bridge.Work, until time.Time) error {
	return t.execOne(bridge.ErrLeaseLost, "UPDATE work SET lease_until = $3"+held, w.ID, w.Fence, micros(until))
}

// WakeLane implements bridge.LaneTx. Waking a lane that is empty is fine.
func (t *tx) WakeLane(lane string, now time.Time) error {
	return t.exec("UPDATE work SET due_at = $2, woken = woken + 1 WHERE lane = $1 AND head = 1", lane, micros(now))
}

// wakesAtOnce is how many lanes one statement wakes; it bounds how many texts of statements there are.
const wakesAtOnce = 128

// WakeLanes implements bridge.LaneTx. A relay that connects has hundreds of lanes of which most are empty, and so they are
// looked up together.
func (t *tx) WakeLanes(lanes []string, now time.Time) error {
	for some := range slices.Chunk(lanes, wakesAtOnce) {
		marks, args := make([]string, len(some)), []any{micros(now)}
		for i, lane := range some {
			marks[i] = "$" + strconv.Itoa(i+2)
			args = append(args, lane)
		}
		if err := t.exec("UPDATE work SET due_at = $1, woken = woken + 1 WHERE head = 1 AND lane IN ("+strings.Join(marks, ", ")+")", args...); err != nil {
			return err
		}
	}
	return nil
}

// nextDue's second condition holds always; it makes the look-up a search in work_ready.
const nextDue = "SELECT " + readyAt + " FROM work WHERE head = 1 AND " + readyAt + " >= $1" + wanted + " ORDER BY " + readyAt + " LIMIT 1"

// NextDue implements bridge.LaneTx. It looks at heads only: what stands behind
// a head is not due before it. Work that someone holds counts as due when the
// lease ends, because its holder may have died.
func (t *tx) NextDue(now time.Time) (time.Time, error) { return t.NextFor(bridge.Claim{Now: now}) }

// NextFor implements bridge.LaneTx.
func (t *tx) NextFor(c bridge.Claim) (time.Time, error) {
	n, err := selectOne(t, scanInt, nextDue, 0, barred(c.Without), barred(c.Spent))
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return time.Time{}, nil
	case n == 0:
		return c.Now, err // due since ever; the zero time would say that there is nothing
	}
	return fromMicros(n), err
}

// ReleaseAll implements bridge.LaneTx.
func (t *tx) ReleaseAll() error {
	return t.exec("UPDATE work SET lease_until = 0, lost = lost + 1 WHERE head = 1 AND lease_until > 0")
}
