package store

import (
	"errors"
	"time"

	"drawbridge/bridge"
)

const noticeColumns = "id, agent, cause, body, untrusted, depth, streak, quiet, commands, completion, join_turn, held, message, turn, item, source, author, asked, created_at"

var insertNotice = insertSQL("notices", noticeColumns)

func scanNotice(row scanner) (n bridge.Notice, err error) {
	err = row.Scan(&n.ID, &n.Agent, &n.Cause, &n.Text, &n.Untrusted, &n.Depth, &n.Streak, &n.Quiet, jsonText{&n.Commands}, &n.Completion, &n.Join, &n.Held, &n.Message, &n.Turn, &n.Item, &n.Source, &n.Author, &n.Asked, microTime{&n.CreatedAt})
	return n, err
}

// InsertNotice implements bridge.NoticeTx.
func (t *tx) InsertNotice(n bridge.Notice) error {
	commands, err := toJSON(n.Commands)
	if err != nil {
		return err
	}
	return t.exec(insertNotice, n.ID, n.Agent, n.Cause, n.Text, n.Untrusted, n.Depth, n.Streak, asInt(n.Quiet), commands, n.Completion, n.Join, asInt(n.Held), n.Message, n.Turn, n.Item, n.Source, n.Author, n.Asked, micros(n.CreatedAt))
}

// WaitingNotices implements bridge.NoticeTx.
func (t *tx) WaitingNotices(agent bridge.AgentID, limit int) ([]bridge.Notice, error) {
	return selectAll(t, scanNotice, "SELECT "+noticeColumns+" FROM notices WHERE agent = $1 AND turn = '' AND held = 0 ORDER BY quiet, id LIMIT $2", agent, limit)
}

// WaitingMail implements bridge.NoticeTx.
func (t *tx) WaitingMail(agent bridge.AgentID, limit int) ([]bridge.Notice, error) {
	return selectAll(t, scanNotice, "SELECT "+noticeColumns+" FROM notices WHERE agent = $1 AND turn = '' AND held = 0 AND message <> '' ORDER BY quiet, id LIMIT $2", agent, limit)
}

// NoticesOf implements bridge.NoticeTx. It goes by the letters, which saves an index on notices.
func (t *tx) NoticesOf(id bridge.MessageID) ([]bridge.Notice, error) {
	letters, err := t.Letters(id)
	if err != nil {
		return nil, err
	}
	var all []bridge.Notice
	for _, l := range letters {
		n, err := selectOne(t, scanNotice, "SELECT "+noticeColumns+" FROM notices WHERE id = $1", l.Notice)
		if err != nil && !errors.Is(err, bridge.ErrNoRow) {
			return nil, err
		}
		if err == nil {
			all = append(all, n)
		}
	}
	return all, nil
}

// RewriteNotices implements bridge.NoticeTx.
func (t *tx) RewriteNotices(id bridge.MessageID, text bridge.Words, untrusted string) (int, error) {
	return t.execCount("UPDATE notices SET body = CASE WHEN $2 = '' THEN body ELSE $2 END, untrusted = $3 WHERE id IN (SELECT notice FROM letters WHERE message = $1) AND turn = ''", id, text, untrusted)
}

// RouseNotice implements bridge.NoticeTx.
func (t *tx) RouseNotice(id bridge.NoticeID) error {
	return t.execOne(bridge.ErrNoRow, "UPDATE notices SET quiet = 0 WHERE id = $1", id)
}

// CarryNotices implements bridge.NoticeTx.
func (t *tx) CarryNotices(ids []bridge.NoticeID, turn bridge.TurnID) error {
	for _, id := range ids {
		if err := t.execOne(bridge.ErrNoRow, "UPDATE notices SET turn = $2 WHERE id = $1", id, turn); err != nil {
			return err
		}
	}
	return nil
}

// CarriedNotices implements bridge.NoticeTx.
func (t *tx) CarriedNotices(turn bridge.TurnID) ([]bridge.Notice, error) {
	return selectAll(t, scanNotice, "SELECT "+noticeColumns+" FROM notices WHERE turn = $1 AND turn <> '' ORDER BY id", turn)
}

// ReleaseNotices implements bridge.NoticeTx.
func (t *tx) ReleaseNotices(join bridge.TurnID) (int, error) {
	return t.execCount("UPDATE notices SET held = 0 WHERE join_turn = $1 AND held = 1", join)
}

// Tree implements bridge.TreeTx.
func (t *tx) Tree(root bridge.AgentID) (bridge.Tree, error) {
	return readKept(&t.kept.trees, root, func() (bridge.Tree, error) {
		tree := bridge.Tree{Root: root}
		_, err := selectOne(t, func(row scanner) (any, error) {
			return nil, row.Scan(&tree.Launches, &tree.Turns, &tree.Tokens, &tree.CostMicros, &tree.Unmetered, microTime{&tree.StoppedAt}, &tree.Why)
		}, "SELECT launches, turns, tokens, cost, unmetered, stopped_at, why FROM trees WHERE root = $1", root)
		if errors.Is(err, bridge.ErrNoRow) {
			return tree, nil
		}
		return tree, err
	})
}

// PutTree implements bridge.TreeTx.
func (t *tx) PutTree(tree bridge.Tree) error {
	t.kept.trees.change(tree.Root)
	return t.exec(`INSERT INTO trees (root, launches, turns, tokens, cost, unmetered, stopped_at, why) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (root) DO UPDATE SET launches = $2, turns = $3, tokens = $4, cost = $5, unmetered = $6, stopped_at = $7, why = $8`,
		tree.Root, tree.Launches, tree.Turns, tree.Tokens, tree.CostMicros, tree.Unmetered, micros(tree.StoppedAt), tree.Why)
}

const completionColumns = "id, op, turn, run, status, source, evidence, carried_by, delivered_at, created_at"

var insertCompletion = insertSQL("completions", completionColumns) + " ON CONFLICT (op, run, status) DO NOTHING"

func scanCompletion(row scanner) (c bridge.Completion, err error) {
	err = row.Scan(&c.ID, &c.Op, &c.Turn, &c.Run, &c.Status, &c.Source, &c.Evidence, &c.CarriedBy, microTime{&c.DeliveredAt}, microTime{&c.CreatedAt})
	return c, err
}

// InsertCompletion implements bridge.LedgerTx.
func (t *tx) InsertCompletion(c bridge.Completion) (bool, error) {
	return t.inserted(insertCompletion, c.ID, c.Op, c.Turn, c.Run, c.Status, c.Source, c.Evidence, c.CarriedBy, micros(c.DeliveredAt), micros(c.CreatedAt))
}

// inserted runs an INSERT … ON CONFLICT DO NOTHING and reports whether a row came of it.
func (t *tx) inserted(query string, args ...any) (bool, error) {
	err := t.execOne(bridge.ErrNoRow, query, args...)
	if errors.Is(err, bridge.ErrNoRow) {
		return false, nil
	}
	return err == nil, err
}

// DeliverCompletions implements bridge.LedgerTx.
func (t *tx) DeliverCompletions(ids []bridge.CompletionID, turn bridge.TurnID, at time.Time) error {
	for _, id := range ids {
		if err := t.exec("UPDATE completions SET carried_by = $2, delivered_at = $3 WHERE id = $1", id, turn, micros(at)); err != nil {
			return err
		}
	}
	return nil
}

// Completions implements bridge.LedgerTx.
func (t *tx) Completions(op bridge.AgentID) ([]bridge.Completion, error) {
	return selectAll(t, scanCompletion, "SELECT "+completionColumns+" FROM completions WHERE op = $1 ORDER BY id", op)
}

const deliveryColumns = "id, op, external, event, status, sent_at, webhook_id, headers, body, verdict, received_at"

var insertDelivery = insertSQL("deliveries", deliveryColumns) + " ON CONFLICT (op, external, event, status, sent_at) DO NOTHING"

func scanDelivery(row scanner) (d bridge.Delivery, err error) {
	err = row.Scan(&d.ID, &d.Op, &d.External, &d.Event, &d.Status, &d.SentAt, &d.WebhookID, jsonText{&d.Headers}, &d.Body, &d.Verdict, microTime{&d.ReceivedAt})
	return d, err
}

// InsertDelivery implements bridge.LedgerTx.
func (t *tx) InsertDelivery(d bridge.Delivery) (bool, error) {
	headers, err := toJSON(d.Headers)
	if err != nil {
		return false, err
	}
	if d.Body == nil {
		d.Body = []byte{} // nil would be NULL
	}
	return t.inserted(insertDelivery, d.ID, d.Op, d.External, d.Event, d.Status, d.SentAt, d.WebhookID, headers, d.Body, d.Verdict, micros(d.ReceivedAt))
}

// Deliveries implements bridge.LedgerTx.
func (t *tx) Deliveries(op bridge.AgentID, limit int) ([]bridge.Delivery, error) {
	var w where
	add(&w, "op =", op)
	tail, args := w.sql("id DESC", limit)
	return selectAll(t, scanDelivery, "SELECT "+deliveryColumns+" FROM deliveries"+tail, args...)
}

const echoColumns = "agent, key, created_at, digest, source, author, place, turn, seq"

var putEcho = insertSQL("echoes", echoColumns) + ` ON CONFLICT (agent, key) DO UPDATE SET created_at = excluded.created_at, digest = excluded.digest,
	source = excluded.source, author = excluded.author, place = excluded.place, turn = excluded.turn, seq = excluded.seq`

func scanEcho(row scanner) (e bridge.Echo, err error) {
	err = row.Scan(&e.Agent, &e.Key, microTime{&e.At}, &e.Digest, &e.Source, &e.Author, &e.Place, &e.Turn, &e.Seq)
	if len(e.Digest) == 0 {
		e.Digest = nil // as it was given
	}
	return e, err
}

// PutEcho implements bridge.MemoTx.
func (t *tx) PutEcho(e bridge.Echo) error {
	if e.Digest == nil {
		e.Digest = []byte{} // nil would be NULL
	}
	return t.exec(putEcho, e.Agent, e.Key, micros(e.At), e.Digest, e.Source, e.Author, e.Place, e.Turn, e.Seq)
}

// Echoes implements bridge.MemoTx.
func (t *tx) Echoes(agent bridge.AgentID, age bridge.EchoAge, limit int) ([]bridge.Echo, error) {
	return selectAll(t, scanEcho, "SELECT "+echoColumns+" FROM echoes WHERE agent = $1 AND (seq > $2 OR created_at > $3) ORDER BY key LIMIT $4",
		agent, age.Seq, micros(age.At), limit)
}

// DropEchoes implements bridge.MemoTx.
func (t *tx) DropEchoes(agent bridge.AgentID, age bridge.EchoAge) (int, error) {
	return t.execCount("DELETE FROM echoes WHERE agent = $1 AND seq <= $2 AND created_at <= $3", agent, age.Seq, micros(age.At))
}

// PutApproval implements bridge.MemoTx.
func (t *tx) PutApproval(root bridge.AgentID, key string, until time.Time) error {
	return t.exec("INSERT INTO approvals (root, key, until_at) VALUES ($1, $2, $3) ON CONFLICT (root, key) DO UPDATE SET until_at = excluded.until_at", root, key, micros(until))
}

// Approved implements bridge.MemoTx.
func (t *tx) Approved(root bridge.AgentID, key string, at time.Time) (bool, error) {
	n, err := selectOne(t, scanInt, "SELECT count(*) FROM approvals WHERE root = $1 AND key = $2 AND until_at > $3", root, key, micros(at))
	return n > 0, err
}

// AppendEvent implements bridge.EventTx.
func (t *tx) AppendEvent(e bridge.Event) (int64, error) {
	fields, err := toJSON(e.Fields)
	if err != nil {
		return 0, err
	}
	return selectOne(t, scanInt, "INSERT INTO events (at, kind, agent, name, turn, command, body, fields) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING seq",
		micros(e.At), e.Kind, e.Agent, e.Name, e.Turn, e.Command, e.Text, fields)
}

func scanEvent(row scanner) (e bridge.Event, err error) {
	err = row.Scan(&e.Seq, microTime{&e.At}, &e.Kind, &e.Agent, &e.Name, &e.Turn, &e.Command, &e.Text, jsonText{&e.Fields})
	return e, err
}

// Events implements bridge.EventTx.
func (t *tx) Events(after int64, limit int) ([]bridge.Event, error) {
	if limit <= 0 {
		limit = 100
	}
	return selectAll(t, scanEvent, "SELECT seq, at, kind, agent, name, turn, command, body, fields FROM events WHERE seq > $1 ORDER BY seq LIMIT $2", after, limit)
}
