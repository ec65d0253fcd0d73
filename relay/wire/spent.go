package wire

import (
	"errors"
	"strings"
	"unicode"
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

// Bounds of what a turn is taken to have spent. A larger number is none.
const (
	MaxSpent = int64(1) << 50
	MaxModel = 200
)

// Known returns what of s is in bounds, nil for nothing.
func (s Spent) Known() *Spent {
	known := func(n int64) bool { return n >= 0 && n <= MaxSpent }
	if t := s.Tokens; t != nil && !(known(t.Input) && known(t.Output) && known(t.CacheRead) && known(t.CacheWrite)) {
		s.Tokens = nil
	}
	if s.CostMicros != nil && !known(*s.CostMicros) {
		s.CostMicros = nil
	}
	if len(s.Model) > MaxModel || strings.ContainsFunc(s.Model, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		s.Model = ""
	}
	if s == (Spent{}) {
		return nil
	}
	return &s
}

func (s *Spent) check() error {
	if s == nil {
		return nil
	}
	if known := s.Known(); known == nil || *known != *s {
		return errors.New("a turn that spent what is out of bounds")
	}
	return nil
}
