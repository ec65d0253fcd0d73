package words_test

import (
	"testing"

	"drawbridge/bridge/words"
)

// TestForAgent: an agent reads what it can do itself, and never a command of the operator's.
func TestForAgent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain; words (all of them)":                                                                           "plain; words (all of them)",
		"relay \"x\" is not connected; is drawbridge-relay running there?":                                     "relay \"x\" is not connected; ask the operator",
		"the tree was stopped; `drawbridge resume main` lets it go on; wait":                                   "the tree was stopped; wait; ask the operator",
		"delete one (`drawbridge memory AGENT --forget-block LABEL`)":                                          "delete one",
		"one\nline 3 (LOCAL_ACTION x): failed: not enrolled; enroll it with `drawbridge relay token x`\nthree": "one\nline 3 (LOCAL_ACTION x): failed: not enrolled; ask the operator\nthree",
		"use `drawbridge say x`": "ask the operator",
	} {
		if got := words.ForAgent(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
