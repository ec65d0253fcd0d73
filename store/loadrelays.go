package store

import (
	"cmp"

	"drawbridge/bridge"
)

var relaysTable = table[string, bridge.Relay]{
	name: "relays", columns: relayColumns, scan: scanRelay,
	key:    func(r *bridge.Relay) string { return r.Name },
	insert: putRelay,
	args: asArgs(func(r *bridge.Relay) []any {
		return []any{r.Name, r.State, r.Key, r.NextKey, r.Pin, r.Replica, r.Session, micros(r.ConnectedAt), micros(r.EnrolledAt), micros(r.SeenAt),
			r.Epoch, r.Offered, r.Process, micros(r.StoppedAt), micros(r.OutdatedAt), micros(r.CopyAt), r.CopyEpoch, micros(r.AcceptedAt)}
	}),
}

var offersTable = table[string, bridge.RelayOffer]{
	name: "relay_offers", columns: offerColumns, scan: scanOffer,
	key:    func(o *bridge.RelayOffer) string { return bridge.OfferKey(o.Relay, o.Action) },
	insert: insertOffer,
	update: "UPDATE relay_offers SET approval = $3, bridge = $4, definition = $5, shows = $6, approve_by = $7 WHERE relay = $1 AND action = $2",
	args: asArgs(func(o *bridge.RelayOffer) []any {
		return []any{o.Relay, o.Action, o.Approval, asInt(o.Bridge), o.Definition, o.Shows, o.ApproveBy}
	}),
	remove:     "DELETE FROM relay_offers WHERE relay = $1 AND action = $2",
	removeArgs: func(o *bridge.RelayOffer) []any { return []any{o.Relay, o.Action} },
}

var joinsTable = table[string, bridge.RelayJoin]{
	name: "relay_joins", columns: joinColumns, scan: scanJoin,
	key:    func(j *bridge.RelayJoin) string { return j.ID },
	insert: putJoin,
	args: asArgs(func(j *bridge.RelayJoin) []any {
		return []any{j.ID, j.Relay, micros(j.CreatedAt), micros(j.ExpiresAt), j.Key}
	}),
	remove:     "DELETE FROM relay_joins WHERE id = $1",
	removeArgs: func(j *bridge.RelayJoin) []any { return []any{j.ID} },
}

var keysTable = table[int64, bridge.RelayKey]{
	name: "relay_keys", columns: "generation, source, created_at",
	scan: func(r scanner) (k bridge.RelayKey, err error) {
		err = r.Scan(&k.Generation, &k.Source, microTime{&k.CreatedAt})
		return k, err
	},
	key:    func(k *bridge.RelayKey) int64 { return k.Generation },
	insert: insertSQL("relay_keys", "generation, source, created_at"),
	args:   asArgs(func(k *bridge.RelayKey) []any { return []any{k.Generation, k.Source, micros(k.CreatedAt)} }),
}

var replicasTable = table[string, bridge.ReplicaRow]{
	name: "replicas", columns: "id, seen_at",
	scan: func(r scanner) (v bridge.ReplicaRow, err error) {
		err = r.Scan(&v.ID, microTime{&v.SeenAt})
		return v, err
	},
	key:        func(v *bridge.ReplicaRow) string { return v.ID },
	insert:     putSQL("replicas", "id, seen_at"),
	args:       asArgs(func(v *bridge.ReplicaRow) []any { return []any{v.ID, micros(v.SeenAt)} }),
	remove:     "DELETE FROM replicas WHERE id = $1",
	removeArgs: func(v *bridge.ReplicaRow) []any { return []any{v.ID} },
}

var callsTable = table[string, bridge.RelayCall]{
	name: "relay_calls", columns: callColumns, scan: scanCall,
	key:    func(c *bridge.RelayCall) string { return c.ID },
	insert: putCall,
	args: asArgs(func(c *bridge.RelayCall) []any {
		return []any{c.ID, c.Replica, c.Relay, c.Request, c.Ask, c.State, c.Outcome, micros(c.CreatedAt)}
	}),
	remove:     "DELETE FROM relay_calls WHERE id = $1",
	removeArgs: func(c *bridge.RelayCall) []any { return []any{c.ID} },
}

var tiesTable = table[string, bridge.RelayTie]{
	name: "relay_ties", columns: tieColumns,
	scan: func(r scanner) (t bridge.RelayTie, err error) {
		err = r.Scan(&t.Request, &t.Relay, &t.Process, microTime{&t.CreatedAt}, microTime{&t.SentAt})
		return t, err
	},
	key:    func(t *bridge.RelayTie) string { return t.Request },
	insert: putTie,
	args: asArgs(func(t *bridge.RelayTie) []any {
		return []any{t.Request, t.Relay, t.Process, micros(t.CreatedAt), micros(t.SentAt)}
	}),
	remove:     "DELETE FROM relay_ties WHERE request = $1",
	removeArgs: func(t *bridge.RelayTie) []any { return []any{t.Request} },
}

var askedTable = table[string, bridge.MachineQuestion]{
	name: "machine_questions", columns: questionColumns, scan: scanMachineQuestion,
	key:    func(q *bridge.MachineQuestion) string { return q.Request },
	insert: putSQL("machine_questions", questionColumns),
	args: asArgs(func(q *bridge.MachineQuestion) []any {
		return []any{q.Request, q.Relay, micros(q.Since), micros(q.Until)}
	}),
	remove:     "DELETE FROM machine_questions WHERE request = $1",
	removeArgs: func(q *bridge.MachineQuestion) []any { return []any{q.Request} },
}

func writeRelays(out *[]statement, sc *bridge.Scene) error {
	r := sc.Rows
	return cmp.Or(
		writesOf(out, &r.Relays, relaysTable),
		writesOf(out, &r.Offers, offersTable),
		writesOf(out, &r.Joins, joinsTable),
		writesOf(out, &r.Keys, keysTable),
		writesOf(out, &r.Replicas, replicasTable),
		writesOf(out, &r.Calls, callsTable),
		writesOf(out, &r.Ties, tiesTable),
		writesOf(out, &r.Asked, askedTable))
}

func loadRelays(sc *bridge.Scene, need bridge.Need) []query {
	r := sc.Rows
	var q query
	switch n := need.(type) {
	case bridge.NeedRelay:
		q = into(sc, need, &r.Relays, relaysTable).rows("WHERE name = $1", n.Name)
	case bridge.NeedRelays:
		tail, args := relaysTail(n.RelayFilter)
		q = into(sc, need, &r.Relays, relaysTable).rows(tail, args...)
	case bridge.NeedOffers:
		q = into(sc, need, &r.Offers, offersTable).rows("WHERE relay = $1", n.Relay)
	case bridge.NeedOfferedBy:
		makers := into(sc, need, &r.Relays, relaysTable).rows("WHERE name IN (SELECT relay FROM relay_offers WHERE action = $1)", n.Action)
		makers.done = nil
		return []query{makers, into(sc, need, &r.Offers, offersTable).rows("WHERE action = $1", n.Action)}
	case bridge.NeedTie:
		q = into(sc, need, &r.Ties, tiesTable).rows("WHERE request = $1", n.Request)
	case bridge.NeedReplica:
		q = into(sc, need, &r.Replicas, replicasTable).rows("WHERE id = $1", n.ID)
	case bridge.NeedCall:
		q = into(sc, need, &r.Calls, callsTable).rows("WHERE id = $1", n.ID)
	case bridge.NeedWaitingCalls:
		q = into(sc, need, &r.Calls, callsTable).rows("WHERE replica = $1 AND state = 'waiting' ORDER BY id LIMIT $2", n.Replica, n.Limit)
	case bridge.NeedRelayKeys:
		q = into(sc, need, &r.Keys, keysTable).rows("")
	default:
		return loadJoins(sc, need)
	}
	return []query{q}
}

func relaysTail(f bridge.RelayFilter) (string, []any) {
	var w where
	add(&w, "state =", f.State)
	add(&w, "replica =", f.Replica)
	if f.Replica != "" { // the index holds no others
		w.conditions = append(w.conditions, "replica <> ''")
	}
	add(&w, "name >", f.After)
	return w.sql("name", f.Limit)
}

// askedWaiting selects requests of commands that wait, of which a machine asks.
const askedWaiting = "FROM machine_questions q JOIN commands c ON c.op_key = q.request WHERE c.state IN ('held', 'sending', 'uncertain') ORDER BY c.id LIMIT $1"

func loadAsked(sc *bridge.Scene, need bridge.Need) []query {
	r := sc.Rows
	asked := func(tail string, args ...any) []query {
		return []query{into(sc, need, &r.Asked, askedTable).rows(tail, args...)}
	}
	switch n := need.(type) {
	case bridge.NeedMachineQuestion:
		return asked("WHERE request = $1", n.Request)
	case bridge.NeedAskedBy:
		return asked("WHERE relay = $1", n.Relay)
	case bridge.NeedMachineQuestions:
		commands := into(sc, need, &r.Commands, commandsTable).rows("WHERE id IN (SELECT c.id "+askedWaiting+")", n.Limit)
		commands.done = nil
		return append([]query{commands}, asked("WHERE request IN (SELECT q.request "+askedWaiting+")", n.Limit)...)
	}
	return nil
}

func loadJoins(sc *bridge.Scene, need bridge.Need) []query {
	if q := loadAsked(sc, need); q != nil {
		return q
	}
	r := sc.Rows
	joins := func(tail string, args ...any) query {
		return into(sc, need, &r.Joins, joinsTable).rows(tail, args...)
	}
	switch n := need.(type) {
	case bridge.NeedJoin:
		return []query{joins("WHERE id = $1", n.ID)}
	case bridge.NeedUnusedJoins:
		return []query{joins("WHERE relay = $1 AND key = ''", n.Relay)}
	case bridge.NeedOpenJoins:
		return []query{joins("WHERE expires_at > $1 AND key = '' ORDER BY relay, id LIMIT $2", micros(n.After), n.Limit)}
	case bridge.NeedOldRelayRows:
		before := micros(n.Before)
		all := []query{
			joins("WHERE expires_at < $1", before),
			into(sc, need, &r.Calls, callsTable).rows("WHERE created_at < $1", before),
			into(sc, need, &r.Ties, tiesTable).rows("WHERE created_at < $1", before),
			into(sc, need, &r.Asked, askedTable).rows("WHERE until_at < $1", before),
			into(sc, need, &r.Replicas, replicasTable).rows("WHERE seen_at < $1", before),
		}
		for i := range all[:len(all)-1] {
			all[i].done = nil
		}
		return all
	}
	return nil
}
