package words_test

import (
	"testing"

	"drawbridge/bridge/words"
)

// TestForPerson: a person reads a turn without the bridge's marks, and with everything else.
func TestForPerson(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[bridge trn_1]\nWhat happened:\n\n1. x [items aea8053a33cdecf1 05dcd2872b127471]": "What happened:\n\n1. x",
		"x [items aea8053a33cdecf1] and more":                                              "x [items aea8053a33cdecf1] and more",
		"plain":                                                                            "plain",
	} {
		if got := words.ForPerson(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
