package store

import (
	"time"

	"drawbridge/bridge"
)

const workColumns = "id, lane, seq, kind, ref, due_at, lease_until, fence, attempts, woken"

func scanWork(row scanner) (w bridge.Work, err error) {
	err = row.Scan(&w.ID, &w.Lane, &w.Seq, &w.Kind, &w.Ref, microTime{&w.Due}, microTime{&w.Lease}, &w.Fence, &w.Attempts, &w.Woken)
	return w, err
}

// Enqueue implements bridge.LaneTx. The number in the lane comes from a
// counter row taken in the same transaction: an identity column would order by
// insert and not by commit (facts: libraries, Trap).
func (t *tx) Enqueue(w bridge.Work) error {
	seq, err := selectOne(t, scanInt, "INSERT INTO lanes (lane, next_seq) VALUES ($1, 1) ON CONFLICT (lane) DO UPDATE SET next_seq = lanes.next_seq + 1 RETURNING next_seq", w.Lane)
	if err != nil {
		return err
	}
	return t.exec("INSERT INTO work (lane, seq, kind, ref, due_at, lease_until, fence, attempts, woken) VALUES ($1, $2, $3, $4, $5, 0, 0, 0, 0)",
		w.Lane, seq, w.Kind, w.Ref, micros(w.Due))
}

// claimWork takes the heads of lanes that are due. A row that is done is
// deleted, so the head of a lane is the row before which there is none.
const claimWork = `UPDATE work SET lease_until = $2, fence = fence + 1, attempts = attempts + 1
WHERE id IN (
    SELECT w.id FROM work w
    WHERE w.due_at <= $1 AND w.lease_until <= $1
      AND NOT EXISTS (SELECT 1 FROM work h WHERE h.lane = w.lane AND h.seq < w.seq)
    ORDER BY w.due_at, w.id LIMIT $3)
RETURNING ` + workColumns

// ClaimWork implements bridge.LaneTx.
func (t *tx) ClaimWork(c bridge.Claim) ([]bridge.Work, error) {
	return selectAll(t, scanWork, claimWork, micros(c.Now), micros(c.Now.Add(c.Lease)), c.Limit)
}

// FinishWork implements bridge.LaneTx.
func (t *tx) FinishWork(w bridge.Work) error {
	return t.execOne(bridge.ErrLeaseLost, "DELETE FROM work WHERE id = $1 AND fence = $2", w.ID, w.Fence)
}

// PutBack implements bridge.LaneTx.
func (t *tx) PutBack(w bridge.Work, due time.Time) error {
	return t.execOne(bridge.ErrLeaseLost, `UPDATE work SET lease_until = 0, due_at = CASE WHEN woken <> $3 THEN due_at ELSE $4 END
		WHERE id = $1 AND fence = $2`, w.ID, w.Fence, w.Woken, micros(due))
}

// ExtendLease implements bridge.LaneTx.
func (t *tx) ExtendLease(w bridge.Work, until time.Time) error {
	return t.execOne(bridge.ErrLeaseLost, "UPDATE work SET lease_until = $3 WHERE id = $1 AND fence = $2", w.ID, w.Fence, micros(until))
}

// WakeLane implements bridge.LaneTx. Waking a lane that is empty is fine.
func (t *tx) WakeLane(lane string, now time.Time) error {
	return t.exec(`UPDATE work SET due_at = $2, woken = woken + 1
		WHERE lane = $1 AND seq = (SELECT min(h.seq) FROM work h WHERE h.lane = $1)`, lane, micros(now))
}

// NextDue implements bridge.LaneTx. It looks at heads only: what stands
// behind a head is not due before it.
func (t *tx) NextDue(now time.Time) (time.Time, error) {
	n, err := selectOne(t, scanInt, `SELECT coalesce(min(CASE WHEN w.lease_until > w.due_at THEN w.lease_until ELSE w.due_at END), 0) FROM work w
		WHERE NOT EXISTS (SELECT 1 FROM work h WHERE h.lane = w.lane AND h.seq < w.seq)`)
	return fromMicros(n), err
}

// ReleaseAll implements bridge.LaneTx.
func (t *tx) ReleaseAll() error {
	return t.exec("UPDATE work SET lease_until = 0 WHERE lease_until > 0")
}
