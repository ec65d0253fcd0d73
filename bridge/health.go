package bridge

import "time"

// DatabaseHealth says how a database is.
type DatabaseHealth struct {
	// Bytes is how large it is. BytesBefore is how large it was at Before, at most 30 days ago; the zero time when nobody knows.
	Bytes, BytesBefore int64
	Before             time.Time
	// Queued counts the agents and relays for which work is due that nobody does yet, 10,000 at most.
	Queued int
	// Replicas are the bridges that use it, where several can.
	Replicas []Replica
}

// Replica is one of several bridges on a database. Name is its host and process.
type Replica struct {
	Name  string
	Since time.Time
}
