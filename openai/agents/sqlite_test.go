package agents_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/openai/agents"
	"drawbridge/openai/upstream"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/runtimes"
	"drawbridge/store"
)

// TestOnSQLite: a turn, a launch and an answer that acts are recorded on SQLite as in memory.
func TestOnSQLite(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "bridge.db"))
	if err != nil {
		t.Fatal(err)
	}
	p, problems := policy.New(rules)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w := &world{T: t, cloud: &runtimes.Cloud{}, relay: &runtimes.Relay{}, state: &state{}}
	w.cloud.Answer = func(string, string) bridge.Observation {
		return bridge.Observation{State: bridge.RunFinished, Reply: "Done."}
	}
	w.engine, err = engine.New(engine.Options{
		Store: db, Runtime: w.cloud, Actions: w.relay, Policy: func() *policy.Policy { return p },
		Keys:    bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))}},
		PollMin: time.Millisecond, PollMax: 5 * time.Millisecond, Parser: parser.Options{Remind: true}, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	o := agents.Options{Engine: w.engine, Tools: agents.NewTools(agents.ToolsOptions{Steps: w.engine, Watch: w.engine.Watch}), Repos: map[string]string{"app": "github.com/me/my-app"}}
	if w.agents, err = agents.New(o); err != nil {
		t.Fatal(err)
	}
	if w.repos, err = agents.NewCloud(o); err != nil {
		t.Fatal(err)
	}
	w.launch()
	r := w.ask("chatcmpl-1", "hello")
	r.Tools = []upstream.Tool{bash}
	if text, _ := w.whole(w.begin(w.agents, r)); text != "Done." {
		t.Errorf("text %q", text)
	}
	if text, _ := w.whole(w.begin(w.agents, r)); text != "Done." || w.cloud.Effects("send") != 1 {
		t.Errorf("text %q, effects %q", text, w.cloud.Log())
	}
	r = w.ask("chatcmpl-2", "hello")
	r.Model = "app"
	if text, _ := w.whole(w.begin(w.repos, r)); text != "Done." {
		t.Errorf("text %q", text)
	}
	c := agents.NewCommander(w.engine)
	for range 2 {
		if err := c.Act(t.Context(), agents.Spoken{Agent: "main", Token: "web", Session: "s1", Turn: "chatcmpl-3", State: w.state, Finish: "stop", Text: "LOCAL_ACTION: backup_script"}); err != nil {
			t.Fatal(err)
		}
	}
	w.outcomes(c, "ended, executed")
	if len(w.relay.Log()) != 1 {
		t.Errorf("the relay did %q", w.relay.Log())
	}
}
