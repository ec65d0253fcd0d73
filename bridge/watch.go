package bridge

import "time"

// Watch is one agent's wish to be told, once, when another that is busy comes to
// rest (Substrat: subscribe, "busy->idle").
type Watch struct {
	Agent AgentID
	// On is the agent that is watched.
	On AgentID
	// After is the number of On's latest turn that does not count: it was over
	// when the watch began.
	After     int64
	CreatedAt time.Time
}

// WatchTx keeps watches.
type WatchTx interface {
	// PutWatch stores a watch, in place of an earlier one of the same two agents.
	PutWatch(w Watch) error
	// DropWatch reports false when it is gone already: then another told of it.
	DropWatch(agent, on AgentID) (bool, error)
	// Watches returns the watches of all, by both agents' ids. Limit 0 means 100.
	Watches(limit int) ([]Watch, error)
}
