package agents_test

import (
	"strings"
	"testing"

	"drawbridge/relay/agents"
)

func TestObject(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, " {\"a\":1}\r": `{"a":1}`, "\x1b]0;notes: ready\x07{\"a\":1}": `{"a":1}`, "\x1b[32m{\"a\":1}\x1b[0m": `{"a":1}`, "\ufeff{\"a\":1}": `{"a":1}`,
		`2026-11-28 INFO {x} {"a":"}"} done {"b":2}`: `{"a":"}"}`, `[{"a":1}]`: "", `"{}"`: "", "": "", "plain": "", `{"a":`: "", strings.Repeat("{", 1<<20): "",
		strings.Repeat("{x} ", 20) + `{"a":1}`: "",
	} {
		if got := string(agents.Object([]byte(line))); got != want {
			t.Errorf("%.60q: %q, want %q", line, got, want)
		}
	}
}
