package turns

import (
	"encoding/json"
	"testing"

	"drawbridge/relay/agents/acp"
	"drawbridge/relay/wire"
)

// What a turn took is what the agent says of the turn, and else by how much its session took more than at the end of the turn before, over restarts of
// the relay. An agent that counts less began anew, and so does a new session.
func TestSpentBy(t *testing.T) {
	t.Parallel()
	tokens := func(n int64) *wire.Tokens { return &wire.Tokens{Input: n, Output: n, CacheRead: n} }
	micros := func(n int64) *int64 { return &n }
	r := &record{session: "s", turns: map[string]*past{}}
	for n, row := range []struct {
		answer acp.Answer
		named  string
		want   string
	}{
		{acp.Answer{}, "one", "null"},
		{acp.Answer{Spent: &wire.Spent{Tokens: tokens(5), Model: "m"}}, "", `{"tokens":{"input":5,"output":5,"cache_read":5},"model":"m"}`},
		{acp.Answer{Spent: &wire.Spent{Tokens: tokens(5)}, Total: &wire.Spent{CostMicros: micros(100)}}, "", `{"tokens":{"input":5,"output":5,"cache_read":5},"cost_micros":100}`},
		{acp.Answer{Total: &wire.Spent{CostMicros: micros(130)}}, "", `{"cost_micros":30}`},
		{acp.Answer{Spent: &wire.Spent{Tokens: tokens(5)}}, "", `{"tokens":{"input":5,"output":5,"cache_read":5}}`},
		{acp.Answer{Total: &wire.Spent{CostMicros: micros(130)}}, "", `{"cost_micros":0}`},
		{acp.Answer{Total: &wire.Spent{CostMicros: micros(20), Tokens: tokens(10)}}, "", `{"tokens":{"input":10,"output":10,"cache_read":10},"cost_micros":20}`},
		{acp.Answer{Total: &wire.Spent{Tokens: tokens(14)}}, "", `{"tokens":{"input":4,"output":4,"cache_read":4}}`},
		{acp.Answer{Total: &wire.Spent{Tokens: &wire.Tokens{Input: 20, Output: 1, CacheRead: 20}}}, "", `{"tokens":{"input":20,"output":1,"cache_read":20}}`},
		{acp.Answer{Total: &wire.Spent{Tokens: tokens(30)}}, "two", `{"tokens":{"input":30,"output":30,"cache_read":30}}`},
	} {
		if row.named != "" {
			if err := r.apply(line{Step: stepNamed, Name: row.named}); err != nil {
				t.Fatal(err)
			}
		}
		spent := spentBy(row.answer, r.total)
		if got, err := json.Marshal(spent); err != nil || string(got) != row.want {
			t.Errorf("row %d: %s, want %s; %v", n, got, row.want, err)
		}
		id := "t" + string(rune('a'+n))
		kept, err := json.Marshal(line{Step: stepAnswered, Turn: id, End: &wire.TurnEnded{ID: id, Cause: wire.TurnAnswered, Spent: spent}, Total: row.answer.Total})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.keep(kept); err != nil {
			t.Fatal(err)
		}
	}
}
