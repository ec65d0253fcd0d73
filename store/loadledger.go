package store

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"drawbridge/bridge"
)

var noticeRest = without(noticeColumns, "untrusted")

var noticesTable = table[bridge.NoticeID, bridge.Notice]{
	name: "notices", columns: noticeSelect, scan: scanNotice,
	key:    func(n *bridge.Notice) bridge.NoticeID { return n.ID },
	insert: insertSQL("notices", noticeRest+", untrusted, quotes"), update: updateSQL("notices", noticeRest+", untrusted, quotes"),
	rest: updateSQL("notices", noticeRest),
	same: func(was, now *bridge.Notice) bool {
		return was.Untrusted == now.Untrusted && was.Completion == now.Completion
	},
	args: func(n *bridge.Notice) ([]any, error) {
		commands, err := toJSON(n.Commands)
		return []any{n.ID, n.Agent, n.Cause, n.Text, n.Depth, n.Streak, asInt(n.Quiet), commands, n.Completion, n.Join, asInt(n.Withheld), n.Message, n.Turn, n.Item, n.Source, n.Author, n.Asked, micros(n.CreatedAt)}, err
	},
	texts: func(sc *bridge.Scene, n *bridge.Notice) []any {
		if saidElsewhere(sc, n) {
			return []any{"", 1}
		}
		return []any{n.Untrusted, 0}
	},
	remove:     "DELETE FROM notices WHERE id = $1",
	removeArgs: func(n *bridge.Notice) []any { return []any{n.ID} },
}

var completionsTable = table[bridge.CompletionID, bridge.Completion]{
	name: "completions", columns: completionColumns, scan: scanCompletion,
	key:    func(c *bridge.Completion) bridge.CompletionID { return c.ID },
	insert: insertSQL("completions", completionColumns), update: updateSQL("completions", completionColumns),
	args: asArgs(func(c *bridge.Completion) []any {
		return []any{c.ID, c.Op, c.Turn, c.Run, c.Status, c.Source, c.Evidence, c.CarriedBy, micros(c.DeliveredAt), micros(c.CreatedAt)}
	}),
}

var deliveriesTable = table[bridge.DeliveryID, bridge.Delivery]{
	name: "deliveries", columns: deliveryColumns, scan: scanDelivery,
	key:    func(d *bridge.Delivery) bridge.DeliveryID { return d.ID },
	insert: insertSQL("deliveries", deliveryColumns),
	args: func(d *bridge.Delivery) ([]any, error) {
		headers, err := toJSON(d.Headers)
		return []any{d.ID, d.Op, d.External, d.Event, d.Status, d.SentAt, d.WebhookID, headers, d.Body, d.Verdict, micros(d.ReceivedAt)}, err
	},
}

const treeColumns = "root, launches, turns, tokens, cost, unmetered, stopped_at, why"

var treesTable = table[bridge.AgentID, bridge.Tree]{
	name: "trees", columns: treeColumns,
	scan: func(r scanner) (t bridge.Tree, err error) {
		err = r.Scan(&t.Root, &t.Launches, &t.Turns, &t.Tokens, &t.CostMicros, &t.Unmetered, microTime{&t.StoppedAt}, &t.Why)
		return t, err
	},
	key:    func(t *bridge.Tree) bridge.AgentID { return t.Root },
	insert: putSQL("trees", treeColumns),
	args: asArgs(func(t *bridge.Tree) []any {
		return []any{t.Root, t.Launches, t.Turns, t.Tokens, t.CostMicros, t.Unmetered, micros(t.StoppedAt), t.Why}
	}),
}

var echoesTable = table[string, bridge.Echo]{
	name: "echoes", columns: echoColumns, scan: scanEcho,
	key:    func(e *bridge.Echo) string { return bridge.EchoKey(e.Agent, e.Key) },
	insert: putEcho,
	args: asArgs(func(e *bridge.Echo) []any {
		digest := e.Digest
		if digest == nil {
			digest = []byte{} // nil would be NULL
		}
		return []any{e.Agent, e.Key, micros(e.At), digest, e.Source, e.Author, e.Place, e.Turn, e.Seq}
	}),
	remove:     "DELETE FROM echoes WHERE agent = $1 AND key = $2",
	removeArgs: func(e *bridge.Echo) []any { return []any{e.Agent, e.Key} },
}

var approvalsTable = table[string, bridge.ApprovalRow]{
	name: "approvals", columns: "root, key, until_at",
	scan: func(r scanner) (a bridge.ApprovalRow, err error) {
		err = r.Scan(&a.Root, &a.Key, microTime{&a.Until})
		return a, err
	},
	key:    func(a *bridge.ApprovalRow) string { return bridge.ApprovalKey(a.Root, a.Key) },
	insert: "INSERT INTO approvals (root, key, until_at) VALUES ($1, $2, $3) ON CONFLICT (root, key) DO UPDATE SET until_at = excluded.until_at",
	args:   asArgs(func(a *bridge.ApprovalRow) []any { return []any{a.Root, a.Key, micros(a.Until)} }),
}

var yesesTable = table[string, bridge.Yes]{
	name: "yeses", columns: "root, target, effect, at", scan: scanYes,
	key:    func(y *bridge.Yes) string { return bridge.YesKey(y.Root, y.Target) },
	insert: "INSERT INTO yeses (root, target, effect, at) VALUES ($1, $2, $3, $4) ON CONFLICT (root, target) DO UPDATE SET effect = excluded.effect, at = excluded.at",
	args: func(y *bridge.Yes) ([]any, error) {
		effect, err := toJSON(y.Effect)
		return []any{y.Root, y.Target, effect, micros(y.At)}, err
	},
}

var toldTable = table[string, bridge.ToldRow]{
	name: "told", columns: "agent, item, turn",
	scan: func(r scanner) (t bridge.ToldRow, err error) {
		err = r.Scan(&t.Agent, &t.Item, &t.Turn)
		return t, err
	},
	key:    func(t *bridge.ToldRow) string { return bridge.ToldKey(t.Agent, t.Item) },
	insert: "INSERT INTO told (agent, item, turn) VALUES ($1, $2, $3) ON CONFLICT (agent, item) DO UPDATE SET turn = excluded.turn",
	args:   asArgs(func(t *bridge.ToldRow) []any { return []any{t.Agent, t.Item, t.Turn} }),
}

var restoringTable = table[int, bridge.Restored]{
	name: "restored", columns: "told, at",
	scan: func(r scanner) (v bridge.Restored, err error) {
		err = r.Scan(&v.Told, microTime{&v.At})
		return v, err
	},
	key:    func(*bridge.Restored) int { return 1 },
	insert: "INSERT INTO restored (id, told, at) VALUES (1, $1, $2) ON CONFLICT (id) DO UPDATE SET told = excluded.told, at = excluded.at",
	args:   asArgs(func(v *bridge.Restored) []any { return []any{asInt(v.Told), micros(v.At)} }),
}

var watchesTable = table[string, bridge.Watch]{
	name: "watches", columns: watchColumns, scan: scanWatch,
	key:        func(w *bridge.Watch) string { return bridge.WatchKey(w.Agent, w.On) },
	insert:     putWatch,
	args:       asArgs(func(w *bridge.Watch) []any { return []any{w.Agent, w.On, w.After, micros(w.CreatedAt)} }),
	remove:     "DELETE FROM watches WHERE agent = $1 AND watched = $2",
	removeArgs: func(w *bridge.Watch) []any { return []any{w.Agent, w.On} },
}

var onceTable = table[string, bridge.Done]{
	name: "done_once", columns: doneColumns, scan: scanDone,
	key:    func(d *bridge.Done) string { return bridge.OnceKey(d.Agent, d.Key) },
	insert: insertSQL("done_once", doneColumns),
	args:   asArgs(func(d *bridge.Done) []any { return []any{d.Agent, d.Key, d.Digest, d.Result, micros(d.CreatedAt)} }),
}

var eventsTable = table[int64, bridge.Event]{
	name: "events", columns: eventSelect, scan: scanEvent, key: func(e *bridge.Event) int64 { return e.Seq },
}

var workTable = table[int64, bridge.Work]{
	name: "work", columns: workColumns, scan: scanWork, key: func(w *bridge.Work) int64 { return w.ID },
}

func writeLedger(out *[]statement, sc *bridge.Scene) error {
	r := sc.Rows
	return cmp.Or(
		writesOf(out, &r.Notices, noticesTable.in(sc)),
		writesOf(out, &r.Completions, completionsTable),
		writesOf(out, &r.Deliveries, deliveriesTable),
		writesOf(out, &r.Trees, treesTable),
		writesOf(out, &r.Echoes, echoesTable),
		writesOf(out, &r.Approvals, approvalsTable),
		writesOf(out, &r.Yeses, yesesTable),
		writesOf(out, &r.Told, toldTable),
		writesOf(out, &r.Restoring, restoringTable),
		writesOf(out, &r.Watches, watchesTable),
		writesOf(out, &r.Once, onceTable))
}

// eventStatements records events, which get their numbers in this order.
func eventStatements(sc *bridge.Scene) (out []statement, err error) {
	for _, e := range sc.News {
		e, attempt := lessOf(sc, e)
		fields, err := json.Marshal(e.Fields)
		if err != nil {
			return nil, err
		}
		out = append(out, statement{sql: insertEvent, args: []any{micros(e.At), e.Kind, e.Agent, e.Name, e.Root, e.Turn, e.Command, e.Text, string(fields), attempt}})
	}
	return out, nil
}

const insertEvent = "INSERT INTO events (at, kind, agent, name, root, turn, command, body, fields, attempt) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"

func loadLedger(sc *bridge.Scene, need bridge.Need) []query {
	if q := loadNotices(sc, need); q != nil {
		return q
	}
	if q := loadCompletions(sc, need); q != nil {
		return q
	}
	return loadMemos(sc, need)
}

func loadNotices(sc *bridge.Scene, need bridge.Need) []query {
	notices := func(tail string, args ...any) []query {
		return []query{into(sc, need, &sc.Rows.Notices, noticesTable).rows(tail, args...)}
	}
	switch n := need.(type) {
	case bridge.NeedNotice:
		return notices("WHERE id = $1", n.ID)
	case bridge.NeedWaiting:
		mail := ""
		if n.Mail {
			mail = " AND message <> ''"
		}
		return notices("WHERE agent = $1 AND turn = '' AND held = 0"+mail+" ORDER BY quiet, id LIMIT $2", n.Agent, n.Limit)
	case bridge.NeedNoticesOf:
		return notices("WHERE id IN (SELECT notice FROM letters WHERE message = $1)", n.Message)
	case bridge.NeedCarried:
		return notices("WHERE turn = $1 AND turn <> ''", n.Turn)
	case bridge.NeedHeld:
		return notices("WHERE join_turn = $1 AND held = 1", n.Join)
	}
	return nil
}

func loadCompletions(sc *bridge.Scene, need bridge.Need) []query {
	completions := func(tail string, args ...any) []query {
		return []query{into(sc, need, &sc.Rows.Completions, completionsTable).rows(tail, args...)}
	}
	deliveries := func(tail string, args ...any) []query {
		return []query{into(sc, need, &sc.Rows.Deliveries, deliveriesTable).rows(tail, args...)}
	}
	switch n := need.(type) {
	case bridge.NeedRunEnd:
		return completions("WHERE op = $1 AND run = $2 AND status = $3", n.Op, n.Run, n.Status)
	case bridge.NeedCompletion:
		return completions("WHERE id = $1", n.ID)
	case bridge.NeedCompletions:
		return completions("WHERE op = $1 ORDER BY id", n.Op)
	case bridge.NeedDelivery:
		return deliveries("WHERE op = $1 AND external = $2 AND event = $3 AND status = $4 AND sent_at = $5", n.Op, n.External, n.Event, n.Status, n.SentAt)
	case bridge.NeedDeliveries:
		var w where
		add(&w, "op =", n.Op)
		tail, args := w.sql("id DESC", n.Limit)
		return deliveries(tail, args...)
	}
	return nil
}

func loadMemos(sc *bridge.Scene, need bridge.Need) []query {
	r := sc.Rows
	var q query
	switch n := need.(type) {
	case bridge.NeedTree:
		q = into(sc, need, &r.Trees, treesTable).rows("WHERE root = $1", n.Root)
	case bridge.NeedEchoes:
		q = into(sc, need, &r.Echoes, echoesTable).rows("WHERE agent = $1 AND (seq > $2 OR created_at > $3) ORDER BY key LIMIT $4", n.Agent, n.Age.Seq, micros(n.Age.At), n.Limit)
	case bridge.NeedOldEchoes:
		q = into(sc, need, &r.Echoes, echoesTable).rows("WHERE agent = $1 AND seq <= $2 AND created_at <= $3", n.Agent, n.Age.Seq, micros(n.Age.At))
	case bridge.NeedApproval:
		q = into(sc, need, &r.Approvals, approvalsTable).rows("WHERE root = $1 AND key = $2", n.Root, n.Key)
	case bridge.NeedYes:
		q = into(sc, need, &r.Yeses, yesesTable).rows("WHERE root = $1 AND target = $2", n.Root, n.Target)
	case bridge.NeedTold:
		q = into(sc, need, &r.Told, toldTable).rows("WHERE agent = $1 AND item = $2", n.Agent, n.Item)
	case bridge.NeedRestored:
		q = into(sc, need, &r.Restoring, restoringTable).rows("WHERE id = 1")
	case bridge.NeedWatch:
		q = into(sc, need, &r.Watches, watchesTable).rows("WHERE agent = $1 AND watched = $2", n.Agent, n.On)
	case bridge.NeedWatches:
		q = into(sc, need, &r.Watches, watchesTable).rows("WHERE agent > '' ORDER BY agent, watched LIMIT $1", n.Limit)
	case bridge.NeedOnce:
		q = into(sc, need, &r.Once, onceTable).rows("WHERE agent = $1 AND word = $2", n.Agent, n.Key)
	case bridge.NeedEvents:
		q = into(sc, need, &r.Past, eventsTable).rows("WHERE seq > $1 ORDER BY seq LIMIT $2", n.After, n.Limit)
	case bridge.NeedHistory:
		tail, args := history(n)
		q = into(sc, need, &r.Past, eventsTable).rows(tail, args...)
	case bridge.NeedWork:
		q = into(sc, need, &r.Work, workTable).rows("WHERE id = $1", n.ID)
	default:
		return nil
	}
	return []query{q}
}

// history selects the newest events of a tree by its index, and others by their number.
func history(n bridge.NeedHistory) (string, []any) {
	w := where{conditions: []string{"seq > $1"}, args: []any{n.After}}
	add(&w, "seq <", n.Before)
	add(&w, "root =", n.Root)
	add(&w, "agent =", n.Agent)
	if kinds := strings.Fields(n.Kinds); len(kinds) > 0 {
		marks := make([]string, len(kinds))
		for i, k := range kinds {
			w.args = append(w.args, k)
			marks[i] = "$" + strconv.Itoa(len(w.args))
		}
		w.conditions = append(w.conditions, "kind IN ("+strings.Join(marks, ", ")+")")
	}
	return w.sql("seq DESC", n.Limit)
}
