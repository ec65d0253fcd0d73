package store

import (
	"drawbridge/bridge"
)

const tokenColumns = "id, agent, hash, generation, client, created_at, last_used, revoked_at"

func scanToken(row scanner) (k bridge.DoorToken, err error) {
	err = row.Scan(&k.ID, &k.Agent, &k.Hash, &k.Generation, &k.Client, microTime{&k.CreatedAt}, microTime{&k.LastUsed}, microTime{&k.RevokedAt})
	return k, err
}

const runColumns = "turn, seq, kind, name, call_id, payload, at"

func scanRunMessage(row scanner) (m bridge.RunMessage, err error) {
	err = row.Scan(&m.Turn, &m.Seq, &m.Kind, &m.Name, &m.CallID, &m.Payload, microTime{&m.At})
	return m, err
}
