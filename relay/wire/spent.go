package wire

import (
	"fmt"
	"regexp"
)

// Spent is what a turn took as its agent says it, which nobody else checks.
type Spent struct {
	// Tokens is nil where the agent does not say it.
	Tokens *Tokens `json:"tokens,omitempty"`
	// CostMicros is in millionths of a US dollar, nil where the agent does not say it.
	CostMicros *int64 `json:"cost_micros,omitempty"`
	// Model is the model that was in use at the end, "" where the agent does not name it.
	Model string `json:"model,omitempty"`
}

// Tokens counts the tokens of a turn by kind. Input leaves out what came from caches or went into them.
type Tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Bounds of what a turn is taken to have spent. A larger number is none, and so is a longer name.
const (
	MaxSpent = int64(1) << 50
	MaxModel = 80
)

// model matches the name of a model: printable ASCII without blanks. So no sentence of an agent's stands among words of ours.
var model = regexp.MustCompile(fmt.Sprintf(`^[!-~]{1,%d}$`, MaxModel))

// Known returns what of s is in bounds, nil for nothing.
func (s Spent) Known() *Spent {
	known := func(n int64) bool { return n >= 0 && n <= MaxSpent }
	if t := s.Tokens; t != nil && !(known(t.Input) && known(t.Output) && known(t.CacheRead) && known(t.CacheWrite)) {
		s.Tokens = nil
	}
	if s.CostMicros != nil && !known(*s.CostMicros) {
		s.CostMicros = nil
	}
	if !model.MatchString(s.Model) {
		s.Model = ""
	}
	if s == (Spent{}) {
		return nil
	}
	return &s
}
