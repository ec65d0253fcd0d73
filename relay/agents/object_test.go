package agents_test

import (
	"fmt"
	"strings"
	"testing"

	"drawbridge/relay/agents"
)

func TestObjects(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"a":1}`: `[{"a":1}] true`, " {\"a\":1}\r": `[{"a":1}] true`, "\x1b]0;notes: ready\x07{\"a\":1}": `[{"a":1}] true`, "\x1b[32m{\"a\":1}\x1b[0m": `[{"a":1}] true`, "\ufeff{\"a\":1}": `[{"a":1}] true`,
		`{"a":1} {"b":2}`: `[{"a":1} {"b":2}] true`, `2026-11-28 INFO {x} {"a":"}"} done {"b":2}`: `[{"a":"}"} {"b":2}] false`, `{"a":1} done`: `[{"a":1}] false`,
		`[{"a":1}]`: "[] false", `"{}"`: "[] false", "": "[] false", "plain": "[] false", `{"a":`: "[] false", strings.Repeat("{", 1<<20): "[] false", strings.Repeat("{x} ", 20) + `{"a":1}`: "[] false",
	} {
		all, bare := agents.Objects([]byte(line))
		if got := fmt.Sprintf("%s %t", all, bare && len(all) > 0); got != want {
			t.Errorf("%.60q: %s, want %s", line, got, want)
		}
	}
}
