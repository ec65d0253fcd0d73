package store

import (
	"encoding/json"

	"drawbridge/bridge"
)

// saidJSON is "" for no words, so that most rows stay as short as they were.
func saidJSON(said []bridge.Said) string {
	if len(said) == 0 {
		return ""
	}
	b, err := json.Marshal(said)
	if err != nil {
		panic(err) // strings alone: it cannot fail
	}
	return string(b)
}

// spentJSON is "" where it is unknown what a turn took.
func spentJSON(s *bridge.Spent) string {
	if s == nil {
		return ""
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers and strings alone: it cannot fail
	}
	return string(b)
}
