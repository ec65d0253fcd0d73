package web_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/store"
	"drawbridge/web"
)

// BenchmarkPage is the whole page of a bridge with 10,000 agents, of which 64 are busy, 100,000 turns and commands, 300,000 events and 100 held commands, in SQLite.
func BenchmarkPage(b *testing.B) {
	db, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "drawbridge.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	fill(b, db)
	w := benchWorld(b, db, &cloud{})
	for _, place := range []struct{ name, path, want string }{
		{"needs", "/", "20 of 64"},
		{"agents", "/agents", "the newest 500"},
		{"conversation", "/agents/agent-7", "Turn 10"},
		{"timeline", "/timeline", "Earlier events"},
		{"timeline of an agent", "/timeline?agent=agent-7", "turn=trn_00007_9"},
		{"timeline of a rare kind", "/timeline?show=mail", "may be further back"},
		{"rules", "/rules", "times by agent-0, "},
		{"use", "/use", "100000 turns"},
	} {
		b.Run(place.name, func(b *testing.B) {
			for b.Loop() {
				if rec := w.get(place.path); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "(100) ") || !strings.Contains(rec.Body.String(), place.want) {
					b.Fatalf("%d %s", rec.Code, rec.Body)
				}
			}
		})
	}
}

// benchWorld is a bridge on a database, and a browser that is logged in. Nothing runs yet.
func benchWorld(b *testing.B, db *store.Store, runtime *cloud) *world {
	b.Helper()
	rules, _ := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/me/careful", Approval: policy.Approval{Mode: policy.ApprovalEach}}}, OperatorRepos: []string{"github.com/me/agent-env"}, Limits: policy.Limits{TurnsPerChain: 1000}})
	w := &world{t: b, rules: rules, records: &passes{all: map[string]web.Pass{}}}
	var err error
	if w.engine, err = engine.New(engine.Options{Store: db, Runtime: runtime, Actions: noRelay{}, Policy: func() *policy.Policy { return rules }, Log: zerolog.Nop(),
		Keys: bridge.Keys{Current: bridge.Key{ID: "k1", Secret: []byte(strings.Repeat("k", 32))}}, PollMin: time.Second, PollMax: time.Second}); err != nil {
		b.Fatal(err)
	}
	w.open(operatorToken, "")
	w.logIn()
	return w
}

// fill writes the agents.
func fill(b *testing.B, db *store.Store) {
	b.Helper()
	const agents, busy, held, turns = 10_000, 64, 100, 10
	at := time.Now()
	for from := 0; from < agents; from += 500 {
		err := db.Update(b.Context(), func(tx *bridge.Scene) error {
			for n := from; n < from+500; n++ {
				a := bridge.Agent{ID: bridge.AgentID(fmt.Sprintf("agt_%05d", n)), Name: fmt.Sprintf("agent-%d", n), Repo: "github.com/me/agent-env", State: bridge.AgentIdle, OpKey: fmt.Sprint(n), CreatedAt: at, UpdatedAt: at}
				if a.Root = a.ID; n < busy {
					a.State = bridge.AgentBusy
				}
				if err := tx.InsertAgent(a); err != nil {
					return err
				}
				for i := range turns {
					t := bridge.Turn{ID: bridge.TurnID(fmt.Sprintf("trn_%05d_%d", n, i)), Agent: a.ID, Cause: bridge.CauseUser, Text: "do it", State: bridge.TurnReplied, Reply: "done", CreatedAt: at}
					if _, err := tx.InsertTurn(t); err != nil {
						return err
					}
					if err := tx.InsertCommand(bridge.Command{ID: bridge.CommandID(fmt.Sprintf("cmd_%05d_%d", n, i)), Turn: t.ID, Agent: a.ID, Ordinal: 1, OpKey: fmt.Sprint("op", n, "-", i), State: bridge.CommandReported,
						Canonical: "backup", Parsed: parser.Command{Verb: parser.LocalAction, Action: "backup", Line: 1}, CreatedAt: at, UpdatedAt: at}); err != nil {
						return err
					}
					for _, kind := range []string{bridge.EventTurn, bridge.EventCompleted, bridge.EventReply} {
						if err := tx.AppendEvent(bridge.Event{At: at, Kind: kind, Agent: a.ID, Name: a.Name, Root: a.Root, Turn: t.ID, Text: "do it"}); err != nil {
							return err
						}
					}
				}
				if n < held {
					if err := tx.InsertCommand(bridge.Command{ID: bridge.CommandID(fmt.Sprintf("cmd_%05d", n)), Turn: bridge.TurnID(fmt.Sprintf("trn_%05d_0", n)), Agent: a.ID, OpKey: fmt.Sprint("op", n), State: bridge.CommandHeld, Code: "needs_approval",
						Canonical: "github.com/me/careful", Parsed: parser.Command{Verb: parser.Subagent, Repo: "github.com/me/careful", Prompt: fmt.Sprintf("Fix %d", n), Line: 1}, CreatedAt: at, UpdatedAt: at}); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
