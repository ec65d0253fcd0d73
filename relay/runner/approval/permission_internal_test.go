package approval

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// A person reads each escape of the arguments once, in printable ASCII, and reads back from the line exactly what the agent gave.
func TestArgumentsAreEscapedOnce(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"command":"go test ./..."}`:                 `{"command":"go test ./..."}`,
		"{ \"text\":\n \"package main\\n\\\"x\\\"\"}": `{"text":"package main\n\"x\""}`,
		`{"text":"\\u202e"}`:                          `{"text":"\\u202e"}`,
		"{\"text\":\"\u202eé😀\x7f\"}":                 `{"text":"\u202e\u00e9\ud83d\ude00\u007f"}`,
		"no JSON \\ \u202e":                           `no JSON \\ \u202e`,
		"{\"text\":\"\xff\"}":                         `{"text":"\xff"}`,
	} {
		got := jsonLine(in)
		if got != want || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		var before, after any
		if utf8.ValidString(in) && json.Unmarshal([]byte(in), &before) == nil && (json.Unmarshal([]byte(got), &after) != nil || !same(before, after)) {
			t.Errorf("%q reads as %v, not %v", in, after, before)
		}
	}
}

func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
