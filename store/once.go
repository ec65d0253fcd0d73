package store

import "drawbridge/bridge"

const doneColumns = "agent, word, digest, result, created_at"

var insertDone = insertSQL("done_once", doneColumns) + " ON CONFLICT DO NOTHING"

func scanDone(row scanner) (d bridge.Done, err error) {
	err = row.Scan(&d.Agent, &d.Key, &d.Digest, &d.Result, microTime{&d.CreatedAt})
	return d, err
}

// InsertDone implements bridge.OnceTx.
func (t *tx) InsertDone(d bridge.Done) error {
	return t.execOne(bridge.Errorf(bridge.Conflict, "the agent has used this key"), insertDone, d.Agent, d.Key, d.Digest, d.Result, micros(d.CreatedAt))
}

// FindDone implements bridge.OnceTx.
func (t *tx) FindDone(agent bridge.AgentID, key string) (bridge.Done, error) {
	return selectOne(t, scanDone, "SELECT "+doneColumns+" FROM done_once WHERE agent = $1 AND word = $2", agent, key)
}
