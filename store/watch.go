package store

import "drawbridge/bridge"

const watchColumns = "agent, watched, after_seq, created_at"

func scanWatch(row scanner) (w bridge.Watch, err error) {
	err = row.Scan(&w.Agent, &w.On, &w.After, microTime{&w.CreatedAt})
	return w, err
}

var putWatch = insertSQL("watches", watchColumns) + " ON CONFLICT (agent, watched) DO UPDATE SET after_seq = excluded.after_seq, created_at = excluded.created_at"
