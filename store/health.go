package store

import (
	"context"
	"fmt"
	"os"
	"time"

	"drawbridge/bridge"
)

// maxQueued bounds how many lanes of work are counted.
const maxQueued = 10_000

// sizesKept is how long the size of each day is kept.
const sizesKept = 30 * 24 * time.Hour

// Health says how large the database is, how much work waits in it, and who uses it.
func (s *Store) Health(ctx context.Context, now time.Time) (h bridge.DatabaseHealth, err error) {
	err = s.ReadRows(ctx, func(r Rows) error {
		if h.Bytes, err = s.size(r); err != nil {
			return err
		}
		if err := one(r, "SELECT count(*) FROM (SELECT 1 FROM work WHERE head = 1 AND (CASE WHEN lease_until > due_at THEN lease_until ELSE due_at END) <= $1 LIMIT $2) due", []any{micros(now), maxQueued}, &h.Queued); err != nil {
			return err
		}
		err := r.Query("SELECT day, bytes FROM database_sizes ORDER BY day LIMIT 1", func(scan func(...any) error) error {
			var day int64
			err := scan(&day, &h.BytesBefore)
			h.Before = time.Unix(day*secondsADay, 0).UTC()
			return err
		})
		if err != nil || s.pg == nil {
			return err
		}
		// A role sees the names of its own sessions without further rights.
		return r.Query("SELECT substr(application_name, $1), CAST(extract(epoch FROM min(backend_start)) AS BIGINT) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE $2 GROUP BY 1 ORDER BY 1",
			func(scan func(...any) error) error {
				var one bridge.Replica
				var since int64
				err := scan(&one.Name, &since)
				one.Since = time.Unix(since, 0).UTC()
				h.Replicas = append(h.Replicas, one)
				return err
			}, len(replicaName)+1, replicaName+"%")
	})
	return h, err
}

const secondsADay = 24 * 60 * 60

// NoteSize records how large the database is today, in UTC. Twice a day is fine: the first size counts.
func (s *Store) NoteSize(ctx context.Context, now time.Time) error {
	return s.WriteRows(ctx, func(r Rows) error {
		bytes, err := s.size(r)
		if err != nil {
			return err
		}
		day := now.Unix() / secondsADay
		if _, err := r.Exec("INSERT INTO database_sizes (day, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING", day, bytes); err != nil {
			return err
		}
		_, err = r.Exec("DELETE FROM database_sizes WHERE day < $1", day-int64(sizesKept/(secondsADay*time.Second)))
		return err
	})
}

// size is that of the database, in bytes.
func (s *Store) size(r Rows) (bytes int64, err error) {
	query := "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
	if s.pg != nil {
		query = "SELECT pg_database_size(current_database())"
	}
	return bytes, one(r, query, nil, &bytes)
}

// one reads the one value of a query.
func one(r Rows, query string, args []any, into any) error {
	return r.Query(query, func(scan func(...any) error) error { return scan(into) }, args...)
}

// replicaName begins the names of our sessions at a server.
const replicaName = "drawbridge "

// sessionName is the name of our sessions at a server, which cuts it after 63 bytes.
func sessionName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s%.40s:%d", replicaName, host, os.Getpid())
}
