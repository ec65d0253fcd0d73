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
