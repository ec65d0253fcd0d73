package store

import (
	"strings"

	"drawbridge/bridge"
)

const relayColumns = "name, state, key, next_key, pin, replica, session, connected_at, enrolled_at, seen_at, epoch, offered, process, stopped_at, outdated_at, copy_at, copy_epoch, accepted_at"

var putRelay = putSQL("relays", relayColumns)

func scanRelay(row scanner) (r bridge.Relay, err error) {
	err = row.Scan(&r.Name, &r.State, &r.Key, &r.NextKey, &r.Pin, &r.Replica, &r.Session, microTime{&r.ConnectedAt}, microTime{&r.EnrolledAt}, microTime{&r.SeenAt},
		&r.Epoch, &r.Offered, &r.Process, microTime{&r.StoppedAt}, microTime{&r.OutdatedAt}, microTime{&r.CopyAt}, &r.CopyEpoch, microTime{&r.AcceptedAt})
	return r, err
}

const offerColumns = "relay, action, approval, bridge, definition, shows, approve_by"

var insertOffer = insertSQL("relay_offers", offerColumns)

func scanOffer(row scanner) (o bridge.RelayOffer, err error) {
	err = row.Scan(&o.Relay, &o.Action, &o.Approval, &o.Bridge, &o.Definition, &o.Shows, &o.ApproveBy)
	return o, err
}

const joinColumns = "id, relay, created_at, expires_at, key"

var putJoin = putSQL("relay_joins", joinColumns)

func scanJoin(row scanner) (j bridge.RelayJoin, err error) {
	err = row.Scan(&j.ID, &j.Relay, microTime{&j.CreatedAt}, microTime{&j.ExpiresAt}, &j.Key)
	return j, err
}

const callColumns = "id, replica, relay, request, ask, state, outcome, created_at"

var putCall = putSQL("relay_calls", callColumns)

func scanCall(row scanner) (c bridge.RelayCall, err error) {
	err = row.Scan(&c.ID, &c.Replica, &c.Relay, &c.Request, &c.Ask, &c.State, &c.Outcome, microTime{&c.CreatedAt})
	return c, err
}

func scanText(row scanner) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}

const tieColumns = "request, relay, process, created_at, sent_at"

var putTie = putSQL("relay_ties", tieColumns)

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

const questionColumns = "request, relay, since_at, until_at"

func scanMachineQuestion(row scanner) (q bridge.MachineQuestion, err error) {
	err = row.Scan(&q.Request, &q.Relay, microTime{&q.Since}, microTime{&q.Until})
	return q, err
}
