package words_test

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// A number has its noun and its verb in the right form.
func TestNumbers(t *testing.T) {
	t.Parallel()
	open := []bridge.Command{{}, {}}
	for want, got := range map[string]string{
		"1 line":                                  words.Count(1, "line"),
		"0 lines":                                 words.Count(0, "line"),
		"2 bytes":                                 words.Count(int64(2), "byte"),
		"joined: its subagent has ended":          string(words.Joined(words.Results{Launched: 1})),
		"joined: its subagent has not ended":      string(words.Joined(words.Results{Launched: 1, Open: open[:1]})),
		"joined: 1 of its 2 subagents has ended":  string(words.Joined(words.Results{Launched: 2, Open: open[:1]})),
		"joined: 0 of its 2 subagents have ended": string(words.Joined(words.Results{Launched: 2, Open: open})),
		"1 more waits for a person's approval":    string(words.Joined(words.Results{Launched: 1, Held: 1})),
		"2 more wait for a person's approval":     string(words.Joined(words.Results{Launched: 1, Held: 2})),
		"(1 byte of output dropped)":              string(words.Action(bridge.ActionOutcome{Omitted: 1})),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
