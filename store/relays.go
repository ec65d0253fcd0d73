package store

import (
	"strings"
	"time"

	"drawbridge/bridge"
)

const relayColumns = "name, state, key, next_key, pin, replica, session, connected_at, enrolled_at, seen_at, epoch, offered, process, stopped_at, outdated_at, copy_at, copy_epoch, accept"

var putRelay = putSQL("relays", relayColumns)

func scanRelay(row scanner) (r bridge.Relay, err error) {
	err = row.Scan(&r.Name, &r.State, &r.Key, &r.NextKey, &r.Pin, &r.Replica, &r.Session, microTime{&r.ConnectedAt}, microTime{&r.EnrolledAt}, microTime{&r.SeenAt},
		&r.Epoch, &r.Offered, &r.Process, microTime{&r.StoppedAt}, microTime{&r.OutdatedAt}, microTime{&r.CopyAt}, &r.CopyEpoch, &r.Accept)
	return r, err
}

// PutRelay implements bridge.RelayTx.
func (t *tx) PutRelay(r bridge.Relay) error {
	return t.exec(putRelay, r.Name, r.State, r.Key, r.NextKey, r.Pin, r.Replica, r.Session, micros(r.ConnectedAt), micros(r.EnrolledAt), micros(r.SeenAt),
		r.Epoch, r.Offered, r.Process, micros(r.StoppedAt), micros(r.OutdatedAt), micros(r.CopyAt), r.CopyEpoch, asInt(r.Accept))
}

// Relay implements bridge.RelayTx.
func (t *tx) Relay(name string) (bridge.Relay, error) {
	return selectOne(t, scanRelay, "SELECT "+relayColumns+" FROM relays WHERE name = $1", name)
}

// Relays implements bridge.RelayTx.
func (t *tx) Relays(f bridge.RelayFilter) ([]bridge.Relay, error) {
	var w where
	add(&w, "state =", f.State)
	add(&w, "replica =", f.Replica)
	if f.Replica != "" { // the index holds no others
		w.conditions = append(w.conditions, "replica <> ''")
	}
	add(&w, "name >", f.After)
	tail, args := w.sql("name", f.Limit)
	return selectAll(t, scanRelay, "SELECT "+relayColumns+" FROM relays"+tail, args...)
}

const offerColumns = "relay, action, approval, bridge, definition, shows, approve_by"

var insertOffer = insertSQL("relay_offers", offerColumns)

func scanOffer(row scanner) (o bridge.RelayOffer, err error) {
	err = row.Scan(&o.Relay, &o.Action, &o.Approval, &o.Bridge, &o.Definition, &o.Shows, &o.ApproveBy)
	return o, err
}

// PutOffers implements bridge.RelayTx. A relay that comes back with what it offered before, which is nearly always, costs no write.
func (t *tx) PutOffers(relay string, offers []bridge.RelayOffer) error {
	had, err := t.Offers(relay)
	if err != nil {
		return err
	}
	known := make(map[string]bridge.RelayOffer, len(had))
	for _, o := range had {
		known[o.Action] = o
	}
	for _, o := range offers {
		o.Relay = relay
		old, there := known[o.Action]
		delete(known, o.Action)
		if there && old == o {
			continue
		}
		if there {
			if err := t.exec("DELETE FROM relay_offers WHERE relay = $1 AND action = $2", relay, o.Action); err != nil {
				return err
			}
		}
		if err := t.exec(insertOffer, o.Relay, o.Action, o.Approval, asInt(o.Bridge), o.Definition, o.Shows, o.ApproveBy); err != nil {
			return err
		}
	}
	for action := range known {
		if err := t.exec("DELETE FROM relay_offers WHERE relay = $1 AND action = $2", relay, action); err != nil {
			return err
		}
	}
	return nil
}

// Offers implements bridge.RelayTx.
func (t *tx) Offers(relay string) ([]bridge.RelayOffer, error) {
	return selectAll(t, scanOffer, "SELECT "+offerColumns+" FROM relay_offers WHERE relay = $1 ORDER BY action", relay)
}

// OfferedBy implements bridge.RelayTx.
func (t *tx) OfferedBy(action string) ([]bridge.RelayOffer, error) {
	return selectAll(t, scanOffer, "SELECT o.relay, o.action, o.approval, o.bridge, o.definition, o.shows, o.approve_by FROM relay_offers o JOIN relays r ON r.name = o.relay WHERE o.action = $1 AND r.state <> $2 ORDER BY o.relay",
		action, bridge.RelayRevoked)
}

const questionColumns = "request, relay, since_at, until_at"

var putQuestion = putSQL("machine_questions", questionColumns)

// PutMachineQuestions implements bridge.RelayTx.
func (t *tx) PutMachineQuestions(relay string, questions []bridge.MachineQuestion) error {
	if err := t.exec("DELETE FROM machine_questions WHERE relay = $1", relay); err != nil {
		return err
	}
	for _, q := range questions {
		if err := t.exec(putQuestion, q.Request, relay, micros(q.Since), micros(q.Until)); err != nil {
			return err
		}
	}
	return nil
}

// MachineQuestion implements bridge.RelayTx.
func (t *tx) MachineQuestion(request string) (bridge.MachineQuestion, error) {
	return selectOne(t, func(row scanner) (q bridge.MachineQuestion, err error) {
		err = row.Scan(&q.Request, &q.Relay, microTime{&q.Since}, microTime{&q.Until})
		return q, err
	}, "SELECT "+questionColumns+" FROM machine_questions WHERE request = $1", request)
}

// MachineQuestions implements bridge.RelayTx.
func (t *tx) MachineQuestions() ([]bridge.MachineQuestion, error) {
	return selectAll(t, func(row scanner) (q bridge.MachineQuestion, err error) {
		err = row.Scan(&q.Request, &q.Relay, microTime{&q.Since}, microTime{&q.Until}, &q.Command, &q.Agent, &q.Action)
		return q, err
	}, "SELECT q.request, q.relay, q.since_at, q.until_at, c.id, c.agent, c.canonical FROM machine_questions q JOIN commands c ON c.op_key = q.request WHERE c.state IN ('held', 'sending', 'uncertain') ORDER BY c.id LIMIT 1000")
}

const joinColumns = "id, relay, created_at, expires_at, key"

var putJoin = putSQL("relay_joins", joinColumns)

func scanJoin(row scanner) (j bridge.RelayJoin, err error) {
	err = row.Scan(&j.ID, &j.Relay, microTime{&j.CreatedAt}, microTime{&j.ExpiresAt}, &j.Key)
	return j, err
}

// PutJoin implements bridge.EnrolTx.
func (t *tx) PutJoin(j bridge.RelayJoin) error {
	return t.exec(putJoin, j.ID, j.Relay, micros(j.CreatedAt), micros(j.ExpiresAt), j.Key)
}

// Join implements bridge.EnrolTx.
func (t *tx) Join(id string) (bridge.RelayJoin, error) {
	return selectOne(t, scanJoin, "SELECT "+joinColumns+" FROM relay_joins WHERE id = $1", id)
}

// DropJoins implements bridge.EnrolTx.
func (t *tx) DropJoins(relay string) (int, error) {
	return t.execCount("DELETE FROM relay_joins WHERE relay = $1 AND key = ''", relay)
}

// OpenJoins implements bridge.EnrolTx.
func (t *tx) OpenJoins(after time.Time) ([]bridge.RelayJoin, error) {
	return selectAll(t, scanJoin, "SELECT "+joinColumns+" FROM relay_joins WHERE expires_at > $1 AND key = '' ORDER BY relay, id LIMIT 100", micros(after))
}

// AddRelayKey implements bridge.EnrolTx.
func (t *tx) AddRelayKey(k bridge.RelayKey) error {
	return t.exec("INSERT INTO relay_keys (generation, source, created_at) VALUES ($1, $2, $3)", k.Generation, k.Source, micros(k.CreatedAt))
}

// RelayKeys implements bridge.EnrolTx.
func (t *tx) RelayKeys() ([]bridge.RelayKey, error) {
	return selectAll(t, func(row scanner) (k bridge.RelayKey, err error) {
		err = row.Scan(&k.Generation, &k.Source, microTime{&k.CreatedAt})
		return k, err
	}, "SELECT generation, source, created_at FROM relay_keys ORDER BY generation")
}

// PutReplica implements bridge.RelayCallTx.
func (t *tx) PutReplica(id string, at time.Time) error {
	return t.exec("INSERT INTO replicas (id, seen_at) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at", id, micros(at))
}

// ReplicaSeen implements bridge.RelayCallTx.
func (t *tx) ReplicaSeen(id string) (time.Time, error) {
	n, err := selectOne(t, scanInt, "SELECT seen_at FROM replicas WHERE id = $1", id)
	return fromMicros(n), err
}

const callColumns = "id, replica, relay, request, ask, state, outcome, created_at"

var putCall = putSQL("relay_calls", callColumns)

func scanCall(row scanner) (c bridge.RelayCall, err error) {
	err = row.Scan(&c.ID, &c.Replica, &c.Relay, &c.Request, &c.Ask, &c.State, &c.Outcome, microTime{&c.CreatedAt})
	return c, err
}

// PutCall implements bridge.RelayCallTx.
func (t *tx) PutCall(c bridge.RelayCall) error {
	return t.exec(putCall, c.ID, c.Replica, c.Relay, c.Request, c.Ask, c.State, c.Outcome, micros(c.CreatedAt))
}

// Call implements bridge.RelayCallTx.
func (t *tx) Call(id string) (bridge.RelayCall, error) {
	return selectOne(t, scanCall, "SELECT "+callColumns+" FROM relay_calls WHERE id = $1", id)
}

// DropCall implements bridge.RelayCallTx.
func (t *tx) DropCall(id string) error { return t.exec("DELETE FROM relay_calls WHERE id = $1", id) }

// WaitingCalls implements bridge.RelayCallTx.
func (t *tx) WaitingCalls(replica string) ([]bridge.RelayCall, error) {
	return selectAll(t, scanCall, "SELECT "+callColumns+" FROM relay_calls WHERE replica = $1 AND state = 'waiting' ORDER BY id LIMIT 100", replica)
}

func scanText(row scanner) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}

// BindRequest implements bridge.RelayCallTx.
func (t *tx) BindRequest(request, relay string, at time.Time) (string, error) {
	err := t.exec("INSERT INTO relay_ties (request, relay, created_at) VALUES ($1, $2, $3) ON CONFLICT (request) DO NOTHING", request, relay, micros(at))
	if err != nil {
		return "", err
	}
	return t.BoundRelay(request)
}

// BoundRelay implements bridge.RelayCallTx.
func (t *tx) BoundRelay(request string) (string, error) {
	return selectOne(t, scanText, "SELECT relay FROM relay_ties WHERE request = $1", request)
}

const tieColumns = "request, relay, process, created_at, sent_at"

var putTie = putSQL("relay_ties", tieColumns)

// PutTie implements bridge.RelayCallTx.
func (t *tx) PutTie(b bridge.RelayTie) error {
	return t.exec(putTie, b.Request, b.Relay, b.Process, micros(b.CreatedAt), micros(b.SentAt))
}

// Tie implements bridge.RelayCallTx.
func (t *tx) Tie(request string) (bridge.RelayTie, error) {
	return selectOne(t, func(row scanner) (b bridge.RelayTie, err error) {
		err = row.Scan(&b.Request, &b.Relay, &b.Process, microTime{&b.CreatedAt}, microTime{&b.SentAt})
		return b, err
	}, "SELECT "+tieColumns+" FROM relay_ties WHERE request = $1", request)
}

// PurgeRelays implements bridge.RelayCallTx.
func (t *tx) PurgeRelays(before time.Time) error {
	for _, query := range []string{
		"DELETE FROM relay_joins WHERE expires_at < $1", "DELETE FROM relay_calls WHERE created_at < $1",
		"DELETE FROM relay_ties WHERE created_at < $1", "DELETE FROM machine_questions WHERE until_at < $1", "DELETE FROM replicas WHERE seen_at < $1",
	} {
		if err := t.exec(query, micros(before)); err != nil {
			return err
		}
	}
	return nil
}

// putSQL returns an INSERT that replaces all columns but the first, which is the key.
func putSQL(table, columns string) string {
	return insertSQL(table, columns) + " ON CONFLICT (" + firstColumn(columns) + ") DO UPDATE SET " + excluded(columns)
}

func firstColumn(columns string) string {
	first, _, _ := strings.Cut(columns, ",")
	return first
}

// excluded renders "b = excluded.b, c = excluded.c" for "a, b, c".
func excluded(columns string) string {
	names := strings.Split(columns, ", ")[1:]
	for i, name := range names {
		names[i] = name + " = excluded." + name
	}
	return strings.Join(names, ", ")
}
