package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
)

// TestTry: a text is judged as the agent's next reply would be, with what the agent heard and what its tree has used, and nothing is
// recorded.
func TestTry(t *testing.T) {
	t.Parallel()
	rules, problems := policy.New(policy.Rules{
		Repos:   []policy.RepoRule{{Pattern: "github.com/me/my-app"}},
		Actions: []policy.ActionRule{{ID: "backup", Relay: "laptop"}, {ID: "deploy", Relay: "laptop"}},
		Limits:  policy.Limits{CommandsPerTurn: 3, Depth: 1},
		Agents:  map[string]policy.Narrowing{"child": {Actions: []string{"backup"}}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	db := memstore.NewDisk().Open()
	err := db.Update(t.Context(), func(tx *bridge.Scene) error {
		c := stepOf(tx, now, func() *policy.Policy { return rules })
		a := bridge.Agent{ID: "agt_1", Name: "main", Root: "agt_1", State: bridge.AgentIdle, API: bridge.APIv1}
		if _, err := c.firstJudged(a, parser.Findings{}); err != nil {
			return err
		}
		if err := c.InsertAgent(bridge.Agent{ID: "agt_2", Name: "child", Parent: "agt_1", Root: "agt_1", Depth: 1, State: bridge.AgentIdle, API: bridge.APIv1}); err != nil {
			return err
		}
		if err := c.InsertAgent(bridge.Agent{ID: "agt_3", Name: "ended", Root: "agt_3", State: bridge.AgentIdle, API: bridge.APIv1}); err != nil {
			return err
		}
		for _, more := range []bridge.Agent{
			{ID: "agt_4", Name: "gone", Root: "agt_4", State: bridge.AgentFailed, API: bridge.APIv1},
			{ID: "agt_5", Name: "model", Root: "agt_5", State: bridge.AgentIdle, External: bridge.ChatAgent("agt_5")},
		} {
			if more.Name == "gone" {
				more.ID = "agt_000004" // a forgotten name ends with the end of the id
				more.Root = more.ID
				more.Forget()
			}
			if err := c.InsertAgent(more); err != nil {
				return err
			}
		}
		if err := c.PutTree(bridge.Tree{Root: "agt_3", StoppedAt: now, Why: "enough"}); err != nil {
			return err
		}
		return echo.Hear(tx, echo.Heard{Agent: "agt_1", Text: "LOCAL_ACTION: deploy", Source: bridge.EchoOperator, Place: "your words"}, now)
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{o: Options{Store: db, API: bridge.APIv1, Policy: func() *policy.Policy { return rules }, Now: func() time.Time { return now }, NewID: bridge.NewID, Parser: parser.Options{Remind: true}}}
	const text = "LOCAL_ACTION: backup\nLOCAL_ACTION: deploy\nSUBAGENT: repo=github.com/me/my-app, prompt=x\n"
	for _, c := range []struct {
		name  string
		agent bridge.AgentID
		text  string
		codes []policy.Code
	}{
		{"anybody", "", text, []policy.Code{"", "", ""}},
		{"one that read a command", "agt_1", text, []policy.Code{"", policy.CodeEcho, ""}},
		{"one that may less", "agt_2", "LOCAL_ACTION: backup\nLOCAL_ACTION: deploy", []policy.Code{"", policy.CodeActionNotAllowed}},
		{"one that is too deep", "agt_2", text, []policy.Code{policy.CodeOverCap, policy.CodeOverCap, policy.CodeOverCap}},
		{"one whose tree is stopped", "agt_3", "LOCAL_ACTION: backup", []policy.Code{policy.CodeOverCap}},
		{"too many", "", text + "LOCAL_ACTION: backup", []policy.Code{policy.CodeOverCap, policy.CodeOverCap, policy.CodeOverCap, policy.CodeOverCap}},
		{"no command", "agt_3", "hello", nil},
		{"a reminder in the past", "agt_1", "REMIND: 2020-01-01, x\nREMIND: 2h, y", []policy.Code{policy.CodeMalformed, ""}},
	} {
		_, judged, err := e.Try(t.Context(), c.agent, c.text)
		var codes []policy.Code
		for _, v := range judged.Verdicts {
			codes = append(codes, v.Code)
		}
		if diff := cmp.Diff(c.codes, codes); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
		}
	}
	for id, want := range map[bridge.AgentID]bridge.ErrorKind{"agt_9": bridge.NotFound, "agt_000004": bridge.Conflict, "agt_5": bridge.Conflict} {
		if _, _, err := e.Try(t.Context(), id, text); bridge.KindOf(err) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	err = db.View(t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Commands(bridge.CommandFilter{})
		if len(all) > 0 {
			t.Errorf("recorded %+v", all)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
