package main

import (
	"errors"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/policy"
	"drawbridge/proof/runtimes"
	"drawbridge/store"
)

// bridgeWith serves the API over a database that fill has written to, and
// returns how to call the program on it. Nothing runs in it.
func bridgeWith(t *testing.T, fill func(*bridge.Scene) error) func(args ...string) outcome {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "bridge.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Update(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	p, problems := policy.New(policy.Rules{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	allow := func() *policy.Policy { return p }
	e, err := engine.New(engine.Options{Store: s, Runtime: &runtimes.Cloud{}, Actions: &runtimes.Relay{}, Policy: allow,
		Keys: bridge.Keys{Current: bridge.Key{ID: "1", Secret: slices.Repeat([]byte("k"), 32)}}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := api.New(api.Options{Engine: e, Policy: allow, Token: operatorToken})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return func(args ...string) outcome {
		return call(t, t.TempDir(), "", append(args, "--url", server.URL, "--token", operatorToken)...)
	}
}

// TestMemoryAndTools: what agents kept and called is shown, and none of it reaches the terminal as it is.
func TestMemoryAndTools(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	run := bridgeWith(t, func(tx *bridge.Scene) error {
		a := bridge.Agent{ID: "agt_1", Name: "main", Root: "agt_1", State: bridge.AgentIdle}
		if err := tx.InsertAgent(a); err != nil {
			return err
		}
		_, turnErr := tx.InsertTurn(bridge.Turn{ID: "trn_1", Agent: a.ID, State: bridge.TurnReplied})
		_, teaErr := tx.InsertPassage(bridge.Passage{ID: "psg_1", Agent: a.ID, Content: "tea \x1b[2Jat noon\nSUBAGENT: x", Tags: []string{"drink"}, CreatedAt: at})
		_, coffeeErr := tx.InsertPassage(bridge.Passage{ID: "psg_2", Agent: a.ID, Content: "coffee", CreatedAt: at})
		_, runErr := tx.AppendRunMessage(bridge.RunMessage{Turn: "trn_1", Kind: bridge.ToolCallMessage, Name: "send_dm\x1b[31m", CallID: "1", Payload: `{"text":"hi"}`, At: at})
		return errors.Join(turnErr, teaErr, coffeeErr, runErr, tx.PutBlock(bridge.Block{Agent: a.ID, Label: "mood", Version: 1, Content: "calm\u202e", UpdatedAt: at}),
			tx.PutBlock(bridge.Block{Agent: a.ID, Label: "mood", Version: 2, Content: "happy", UpdatedAt: at}))
	})
	for _, tt := range []struct {
		args        string
		has, hasNot []string
	}{
		{"memory main", []string{"mood   2", "happy", "psg_2", "psg_1", "drink", "tea ?[2Jat noon SUBAGENT: x"}, []string{"calm", "\x1b"}},
		{"memory main TEA noon", []string{"psg_1"}, []string{"psg_2", "mood"}},
		{"memory main --tag drink", []string{"psg_1"}, []string{"psg_2", "mood"}},
		{"memory main --block mood", []string{"happy", "calm?"}, []string{"psg", "\u202e"}},
		{"memory main --json", []string{`"blocks":[`, `"psg_1"`}, []string{"\x1b"}},
		{"memory main nothing --json", []string{`"passages":[]`, `"blocks":[]`}, nil},
		{"tools trn_1", []string{"tool_call", "send_dm?[31m", `{"text":"hi"}`}, []string{"\x1b"}},
		{"tools trn_1 --after 1 --json", []string{`"messages":[]`}, nil},
	} {
		o := run(strings.Fields(tt.args)...)
		if o.code != exitOK {
			t.Errorf("%s: exit %d, %s", tt.args, o.code, o.stderr)
		}
		for _, want := range tt.has {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("%s: no %q in\n%s", tt.args, want, o.stdout)
			}
		}
		for _, unwanted := range tt.hasNot {
			if strings.Contains(o.stdout, unwanted) {
				t.Errorf("%s: %q in\n%s", tt.args, unwanted, o.stdout)
			}
		}
	}
	for args, want := range map[string]int{"memory nobody": exitNo, "tools trn_9": exitNo, "memory main tea --block mood": exitUsage, "memory": exitUsage} {
		if o := run(strings.Fields(args)...); o.code != want || o.stderr == "" {
			t.Errorf("%s: exit %d, want %d: %s", args, o.code, want, o.stderr)
		}
	}
}
