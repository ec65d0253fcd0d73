package store

import (
	"strings"

	"drawbridge/bridge"
)

const noticeColumns = "id, agent, cause, body, untrusted, depth, streak, quiet, commands, completion, join_turn, held, message, turn, item, source, author, asked, created_at"

// noticeSelect is noticeColumns with the text that a notice quotes.
var noticeSelect = strings.Replace(noticeColumns, "untrusted", strings.ReplaceAll(saidSQL, "n.", "notices."), 1)

func scanNotice(row scanner) (n bridge.Notice, err error) {
	err = row.Scan(&n.ID, &n.Agent, &n.Cause, &n.Text, &n.Untrusted, &n.Depth, &n.Streak, &n.Quiet, jsonText{&n.Commands}, &n.Completion, &n.Join, &n.Withheld, &n.Message, &n.Turn, &n.Item, &n.Source, &n.Author, &n.Asked, microTime{&n.CreatedAt})
	return n, err
}

const completionColumns = "id, op, turn, run, status, source, evidence, carried_by, delivered_at, created_at"

func scanCompletion(row scanner) (c bridge.Completion, err error) {
	err = row.Scan(&c.ID, &c.Op, &c.Turn, &c.Run, &c.Status, &c.Source, &c.Evidence, &c.CarriedBy, microTime{&c.DeliveredAt}, microTime{&c.CreatedAt})
	return c, err
}

const deliveryColumns = "id, op, external, event, status, sent_at, webhook_id, headers, body, verdict, received_at"

func scanDelivery(row scanner) (d bridge.Delivery, err error) {
	err = row.Scan(&d.ID, &d.Op, &d.External, &d.Event, &d.Status, &d.SentAt, &d.WebhookID, jsonText{&d.Headers}, &d.Body, &d.Verdict, microTime{&d.ReceivedAt})
	return d, err
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
