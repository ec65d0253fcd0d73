package store

import "drawbridge/bridge"

const doneColumns = "agent, word, digest, result, created_at"

func scanDone(row scanner) (d bridge.Done, err error) {
	err = row.Scan(&d.Agent, &d.Key, &d.Digest, &d.Result, microTime{&d.CreatedAt})
	return d, err
}
