package memory

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"drawbridge/bridge"
)

// InsertNotice implements bridge.NoticeTx.
func (t *tx) InsertNotice(n bridge.Notice) error {
	if t.state.notices.get(n.ID) != nil {
		return fmt.Errorf("notice %q exists already", n.ID)
	}
	n.CreatedAt, n.Commands = stamp(n.CreatedAt), slices.Clone(n.Commands)
	return set(t, &t.state.notices, n.ID, &n)
}

// notices returns up to limit notices that fn takes, oldest first.
func (t *tx) noticesBy(limit int, fn func(*bridge.Notice) bool) (out []bridge.Notice) {
	t.state.notices.oldest(func(n *bridge.Notice) bool {
		if len(out) < limit && fn(n) {
			own := *n
			own.Commands = slices.Clone(n.Commands)
			out = append(out, own)
		}
		return len(out) < limit
	})
	return out
}

// WaitingNotices implements bridge.NoticeTx.
func (t *tx) WaitingNotices(agent bridge.AgentID, limit int) ([]bridge.Notice, error) {
	return t.waiting(limit, func(n *bridge.Notice) bool { return n.Agent == agent }), nil
}

// waiting returns up to limit notices that wait, those that are worth a turn first.
func (t *tx) waiting(limit int, fn func(*bridge.Notice) bool) []bridge.Notice {
	all := t.noticesBy(len(t.state.notices.keys), func(n *bridge.Notice) bool { return n.Turn == "" && !n.Held && fn(n) })
	slices.SortStableFunc(all, func(a, b bridge.Notice) int {
		switch {
		case a.Quiet == b.Quiet:
			return 0
		case a.Quiet:
			return 1
		}
		return -1
	})
	return all[:min(len(all), limit)]
}

// WaitingMail implements bridge.NoticeTx.
func (t *tx) WaitingMail(agent bridge.AgentID, limit int) ([]bridge.Notice, error) {
	return t.waiting(limit, func(n *bridge.Notice) bool { return n.Agent == agent && n.Message != "" }), nil
}

// NoticesOf implements bridge.NoticeTx.
func (t *tx) NoticesOf(id bridge.MessageID) ([]bridge.Notice, error) {
	return t.noticesBy(len(t.state.notices.keys), func(n *bridge.Notice) bool { return id != "" && n.Message == id }), nil
}

// RewriteNotices implements bridge.NoticeTx.
func (t *tx) RewriteNotices(id bridge.MessageID, text bridge.Words, untrusted string) (int, error) {
	waiting := t.noticesBy(len(t.state.notices.keys), func(n *bridge.Notice) bool { return id != "" && n.Message == id && n.Turn == "" })
	for _, n := range waiting {
		if n.Untrusted = untrusted; text != "" {
			n.Text = text
		}
		if err := set(t, &t.state.notices, n.ID, &n); err != nil {
			return 0, err
		}
	}
	return len(waiting), nil
}

// RouseNotice implements bridge.NoticeTx.
func (t *tx) RouseNotice(id bridge.NoticeID) error {
	row := t.state.notices.get(id)
	if row == nil {
		return bridge.ErrNoRow
	}
	n := *row
	n.Quiet = false
	return set(t, &t.state.notices, id, &n)
}

// CarriedNotices implements bridge.NoticeTx.
func (t *tx) CarriedNotices(turn bridge.TurnID) ([]bridge.Notice, error) {
	return t.noticesBy(len(t.state.notices.keys), func(n *bridge.Notice) bool { return turn != "" && n.Turn == turn }), nil
}

// ReleaseNotices implements bridge.NoticeTx.
func (t *tx) ReleaseNotices(join bridge.TurnID) (int, error) {
	held := t.noticesBy(len(t.state.notices.keys), func(n *bridge.Notice) bool { return n.Join == join && n.Held })
	for _, n := range held {
		n.Held = false
		if err := set(t, &t.state.notices, n.ID, &n); err != nil {
			return 0, err
		}
	}
	return len(held), nil
}

// Tree implements bridge.TreeTx.
func (t *tx) Tree(root bridge.AgentID) (bridge.Tree, error) {
	if row := t.state.trees.get(root); row != nil {
		return *row, nil
	}
	return bridge.Tree{Root: root}, nil
}

// PutTree implements bridge.TreeTx.
func (t *tx) PutTree(tree bridge.Tree) error {
	tree.StoppedAt = stamp(tree.StoppedAt)
	return set(t, &t.state.trees, tree.Root, &tree)
}

// CarryNotices implements bridge.NoticeTx.
func (t *tx) CarryNotices(ids []bridge.NoticeID, turn bridge.TurnID) error {
	for _, id := range ids {
		row := t.state.notices.get(id)
		if row == nil {
			return bridge.ErrNoRow
		}
		n := *row
		n.Turn = turn
		if err := set(t, &t.state.notices, id, &n); err != nil {
			return err
		}
	}
	return nil
}

// InsertCompletion implements bridge.LedgerTx.
func (t *tx) InsertCompletion(c bridge.Completion) (bool, error) {
	known := false
	t.state.completions.oldest(func(o *bridge.Completion) bool {
		known = o.Op == c.Op && o.Run == c.Run && o.Status == c.Status
		return !known
	})
	if known {
		return false, nil
	}
	c.DeliveredAt, c.CreatedAt = stamp(c.DeliveredAt), stamp(c.CreatedAt)
	return true, set(t, &t.state.completions, c.ID, &c)
}

// DeliverCompletions implements bridge.LedgerTx.
func (t *tx) DeliverCompletions(ids []bridge.CompletionID, turn bridge.TurnID, at time.Time) error {
	for _, id := range ids {
		row := t.state.completions.get(id)
		if row == nil {
			continue
		}
		c := *row
		c.CarriedBy, c.DeliveredAt = turn, stamp(at)
		if err := set(t, &t.state.completions, id, &c); err != nil {
			return err
		}
	}
	return nil
}

// Completions implements bridge.LedgerTx.
func (t *tx) Completions(op bridge.AgentID) (out []bridge.Completion, err error) {
	t.state.completions.oldest(func(c *bridge.Completion) bool {
		if c.Op == op {
			out = append(out, *c)
		}
		return true
	})
	return out, nil
}

// InsertDelivery implements bridge.LedgerTx.
func (t *tx) InsertDelivery(d bridge.Delivery) (bool, error) {
	known := false
	t.state.deliveries.oldest(func(o *bridge.Delivery) bool {
		known = o.Op == d.Op && o.External == d.External && o.Event == d.Event && o.Status == d.Status && o.SentAt == d.SentAt
		return !known
	})
	if known {
		return false, nil
	}
	d.ReceivedAt = stamp(d.ReceivedAt)
	d = ownDelivery(d)
	return true, set(t, &t.state.deliveries, d.ID, &d)
}

func ownDelivery(d bridge.Delivery) bridge.Delivery {
	if d.Body = bytes.Clone(d.Body); d.Body == nil {
		d.Body = []byte{}
	}
	d.Headers = maps.Clone(d.Headers)
	for name, values := range d.Headers {
		d.Headers[name] = slices.Clone(values)
	}
	return d
}

// Deliveries implements bridge.LedgerTx.
func (t *tx) Deliveries(op bridge.AgentID, limit int) (out []bridge.Delivery, err error) {
	for _, row := range t.state.deliveries.newest(limit, func(d *bridge.Delivery) bool { return is(op, d.Op) }) {
		out = append(out, ownDelivery(*row))
	}
	return out, nil
}

// PutEcho implements bridge.MemoTx.
func (t *tx) PutEcho(e bridge.Echo) error {
	e.At, e.Digest = stamp(e.At), bytes.Clone(e.Digest)
	return set(t, &t.state.echoes, echoKey(e.Agent, e.Key), &e)
}

// echoKey keeps an agent's echoes side by side.
func echoKey(agent bridge.AgentID, key string) string { return string(agent) + " " + key }

// Echoes implements bridge.MemoTx.
func (t *tx) Echoes(agent bridge.AgentID, age bridge.EchoAge, limit int) (out []bridge.Echo, err error) {
	for _, row := range t.echoesOf(agent) {
		if e := *row; !expired(e, age) {
			e.Digest = bytes.Clone(e.Digest)
			out = append(out, e)
		}
	}
	return out[:min(limit, len(out))], nil
}

// DropEchoes implements bridge.MemoTx.
func (t *tx) DropEchoes(agent bridge.AgentID, age bridge.EchoAge) (n int, err error) {
	for _, row := range t.echoesOf(agent) {
		if e := *row; expired(e, age) {
			if err := set(t, &t.state.echoes, echoKey(agent, e.Key), nil); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// echoesOf are an agent's echoes in the order of their keys.
func (t *tx) echoesOf(agent bridge.AgentID) (out []*bridge.Echo) {
	t.state.echoes.oldest(func(e *bridge.Echo) bool {
		if e.Agent == agent {
			out = append(out, e)
		}
		return true
	})
	return out
}

func expired(e bridge.Echo, age bridge.EchoAge) bool {
	return e.Seq <= age.Seq && !e.At.After(stamp(age.At))
}

// PutApproval implements bridge.MemoTx.
func (t *tx) PutApproval(root bridge.AgentID, key string, until time.Time) error {
	return setMap(t, t.state.memos, memo{"approval", string(root), key}, stamp(until))
}

// Approved implements bridge.MemoTx.
func (t *tx) Approved(root bridge.AgentID, key string, at time.Time) (bool, error) {
	until, known := t.state.memos[memo{"approval", string(root), key}]
	return known && until.After(stamp(at)), nil
}

// AppendEvent implements bridge.EventTx.
func (t *tx) AppendEvent(e bridge.Event) (int64, error) {
	if t.readOnly {
		return 0, errReadOnly
	}
	s := t.state
	n := len(s.events)
	e.Seq, e.At, e.Fields = int64(n+1), stamp(e.At), maps.Clone(e.Fields)
	s.events = append(s.events, e)
	t.undo = append(t.undo, func() { s.events = s.events[:n] })
	return e.Seq, nil
}

// Events implements bridge.EventTx.
func (t *tx) Events(after int64, limit int) ([]bridge.Event, error) {
	first := min(max(after, 0), int64(len(t.state.events)))
	out := slices.Clone(cut(t.state.events[first:], limit))
	for i := range out {
		out[i].Fields = maps.Clone(out[i].Fields)
	}
	return out, nil
}
