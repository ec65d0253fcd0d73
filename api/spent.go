package api

import (
	"fmt"
	"strconv"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// Spent is what a turn took, as its agent or its API says it.
type Spent struct {
	// Tokens is absent when it is unknown.
	Tokens *SpentTokens `json:"tokens,omitempty"`
	// CostUSD is absent when it is unknown. It may be a price of the list that nobody pays, such as under a subscription.
	CostUSD *float64 `json:"cost_usd,omitempty"`
	// Model is the last one that the agent used, in the agent's words.
	Model string `json:"model,omitempty"`
}

// SpentTokens counts tokens by kind. Input leaves out what came from caches or went into them.
type SpentTokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

func viewSpent(s *bridge.Spent) *Spent {
	if s == nil {
		return nil
	}
	out := &Spent{Model: s.Model}
	if t := s.Tokens; t != nil {
		out.Tokens = &SpentTokens{Input: t.Input, Output: t.Output, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite}
	}
	if s.CostMicros != nil {
		usd := dollars(*s.CostMicros)
		out.CostUSD = &usd
	}
	return out
}

// SpentOf reads what a run took from the event of its end, nil where the event does not say it.
func SpentOf(e Event) *Spent {
	n := func(key string) *int64 {
		v, err := strconv.ParseInt(e.Fields[key], 10, 64)
		if err != nil {
			return nil
		}
		return &v
	}
	s := bridge.Spent{CostMicros: n("cost_micros"), Model: e.Fields["model"]}
	if in, out, read, write := n("input_tokens"), n("output_tokens"), n("cache_read_tokens"), n("cache_write_tokens"); in != nil && out != nil && read != nil && write != nil {
		s.Tokens = &bridge.Tokens{Input: *in, Output: *out, CacheRead: *read, CacheWrite: *write}
	}
	if s == (bridge.Spent{}) {
		return nil
	}
	return viewSpent(&s)
}

// String is one line for people, "" for nothing. The model's name is the agent's own word.
func (s *Spent) String() string {
	if s == nil {
		return ""
	}
	var parts []string
	if t := s.Tokens; t != nil {
		cached := ""
		if t.CacheRead > 0 {
			cached = fmt.Sprintf(" (%d from a cache)", t.CacheRead)
		}
		parts = append(parts, words.Count(t.Input+t.CacheRead+t.CacheWrite, "token")+" in"+cached, fmt.Sprintf("%d out", t.Output))
	}
	if s.CostUSD != nil {
		parts = append(parts, fmt.Sprintf("$%.4f", *s.CostUSD))
	}
	if s.Model != "" {
		parts = append(parts, "model "+s.Model)
	}
	return strings.Join(parts, ", ")
}
