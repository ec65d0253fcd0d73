package main

import (
	"testing"

	"drawbridge/api/office"
)

// TestReactionText: reactions are counted by emoji in the order in which they came, with names.
func TestReactionText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reactions []office.Reaction
		want      string
	}{
		{nil, ""},
		{[]office.Reaction{{Agent: "agt_1", Name: "ann", Emoji: "👍"}, {Agent: "agt_2", Name: "bob", Emoji: ":+1:"}, {Agent: "agt_2", Name: "bob", Emoji: "👍"}}, "👍 2 (ann, bob), :+1: 1 (bob)"},
	} {
		if got := reactionText(tt.reactions); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.reactions, got, tt.want)
		}
	}
}
