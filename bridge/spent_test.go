package bridge_test

import (
	"encoding/json"
	"testing"

	"drawbridge/bridge"
)

// What a turn took is the sum over its runs. What one of them does not tell is not nothing, and adds nothing.
func TestSpentPlus(t *testing.T) {
	t.Parallel()
	n := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		a, b *bridge.Spent
		want string
	}{
		{nil, nil, "null"},
		{nil, &bridge.Spent{Model: "b"}, `{"Tokens":null,"CostMicros":null,"Model":"b"}`},
		{&bridge.Spent{Tokens: &bridge.Tokens{Input: 1, Output: 2, CacheWrite: 3, CacheRead: 4}, CostMicros: n(5), Model: "a"}, nil, `{"Tokens":{"Input":1,"Output":2,"CacheWrite":3,"CacheRead":4},"CostMicros":5,"Model":"a"}`},
		{&bridge.Spent{Tokens: &bridge.Tokens{Input: 1, Output: 2, CacheWrite: 3, CacheRead: 4}, CostMicros: n(5), Model: "a"}, &bridge.Spent{Tokens: &bridge.Tokens{Input: 10, Output: 20, CacheWrite: 30, CacheRead: 40}, CostMicros: n(50), Model: "b"},
			`{"Tokens":{"Input":11,"Output":22,"CacheWrite":33,"CacheRead":44},"CostMicros":55,"Model":"b"}`},
		{&bridge.Spent{CostMicros: n(5)}, &bridge.Spent{Tokens: &bridge.Tokens{Input: 1}}, `{"Tokens":{"Input":1,"Output":0,"CacheWrite":0,"CacheRead":0},"CostMicros":5,"Model":""}`},
	} {
		if got, err := json.Marshal(c.a.Plus(c.b)); err != nil || string(got) != c.want {
			t.Errorf("%s, want %s; %v", got, c.want, err)
		}
	}
}
