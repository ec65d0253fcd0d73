package store

import "drawbridge/bridge"

const watchColumns = "agent, watched, after_seq, created_at"

func scanWatch(row scanner) (w bridge.Watch, err error) {
	err = row.Scan(&w.Agent, &w.On, &w.After, microTime{&w.CreatedAt})
	return w, err
}

var putWatch = insertSQL("watches", watchColumns) + " ON CONFLICT (agent, watched) DO UPDATE SET after_seq = excluded.after_seq, created_at = excluded.created_at"

// PutWatch implements bridge.WatchTx.
func (t *tx) PutWatch(w bridge.Watch) error {
	return t.exec(putWatch, w.Agent, w.On, w.After, micros(w.CreatedAt))
}

// DropWatch implements bridge.WatchTx.
func (t *tx) DropWatch(agent, on bridge.AgentID) (bool, error) {
	n, err := t.execCount("DELETE FROM watches WHERE agent = $1 AND watched = $2", agent, on)
	return n > 0, err
}

// Watches implements bridge.WatchTx.
func (t *tx) Watches(limit int) ([]bridge.Watch, error) {
	if limit <= 0 {
		limit = 100
	}
	return selectAll(t, scanWatch, "SELECT "+watchColumns+" FROM watches WHERE agent > $1 ORDER BY agent, watched LIMIT $2", "", limit)
}
