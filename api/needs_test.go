package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/moving"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
)

// story writes what happened to several agents, of each kind that waits for a person and of those that wait for nobody.
type story struct {
	tx  *bridge.Scene
	at  time.Time
	n   int // the commands so far
	err error
}

func (s *story) must(err error) {
	if s.err == nil {
		s.err = err
	}
}

// agent is at the top of a tree of its own unless it has a parent.
func (s *story) agent(a bridge.Agent) bridge.Agent {
	a.ID = bridge.AgentID("agt_" + a.Name)
	if a.Root = a.ID; a.Parent != "" {
		a.Root = a.Parent
	}
	a.OpKey, a.CreatedAt, a.UpdatedAt = string(a.ID), s.at, s.at
	s.must(s.tx.InsertAgent(a))
	return a
}

func (s *story) turn(a bridge.Agent, state bridge.TurnState) bridge.Turn {
	t := bridge.Turn{ID: bridge.TurnID("trn_" + a.Name), Agent: a.ID, Cause: bridge.CauseUser, Text: "do it", State: state, Trouble: "it broke", CreatedAt: s.at}
	seq, err := s.tx.InsertTurn(t)
	s.must(err)
	t.Seq = seq
	return t
}

func (s *story) command(c bridge.Command) bridge.Command {
	s.n++
	c.Ordinal = s.n
	c.ID, c.Turn, c.CreatedAt, c.UpdatedAt = bridge.CommandID("cmd_"+c.OpKey), bridge.TurnID("trn_"+strings.TrimPrefix(string(c.Agent), "agt_")), s.at, s.at
	s.must(s.tx.InsertCommand(c))
	return c
}

func (s *story) tell() error {
	busy := s.agent(bridge.Agent{Name: "busy", State: bridge.AgentBusy, Runtime: "laptop"})
	s.turn(busy, bridge.TurnReplied)
	s.must(s.tx.PutTree(bridge.Tree{Root: busy.ID, Launches: 9, Turns: 2}))
	for _, key := range []string{"first", "second"} {
		s.command(bridge.Command{Agent: busy.ID, OpKey: key, State: bridge.CommandHeld, Canonical: "github.com/acme/x", Parsed: parser.Command{Verb: parser.Subagent, Repo: "github.com/acme/x", Prompt: "Fix\nit", Line: 3}})
	}
	asks, err := bridge.Permission{ID: "apr_1", Relay: "laptop", AtBridge: true, Kind: "execute", Tool: "npm", Arguments: `{"command":"npm install"}`}.Command()
	s.must(err)
	s.command(bridge.Command{Agent: busy.ID, OpKey: "ask", State: bridge.CommandHeld, Parsed: asks, Relay: "laptop"})
	asks, err = bridge.Permission{ID: "apr_2", Relay: "laptop", Kind: "other", Tool: "mailer", AtMachine: true}.Command()
	s.must(err)
	s.command(bridge.Command{Agent: busy.ID, OpKey: "there", State: bridge.CommandHeld, Parsed: asks, Relay: "laptop"})
	at := s.command(bridge.Command{Agent: busy.ID, OpKey: "machine", State: bridge.CommandSending, Canonical: "open_browser", Relay: "laptop", Parsed: parser.Command{Verb: parser.LocalAction, Action: "open_browser"}})
	lost := s.command(bridge.Command{Agent: busy.ID, OpKey: "lost", State: bridge.CommandUncertain, Canonical: "backup", Parsed: parser.Command{Verb: parser.LocalAction, Action: "backup"}})
	s.must(s.tx.PutMachineQuestions("laptop", []bridge.MachineQuestion{{Request: at.OpKey, Relay: "laptop", Since: s.at, Until: s.at.Add(time.Hour)}, {Request: lost.OpKey, Relay: "laptop", Since: s.at, Until: s.at.Add(time.Hour)}}))
	launch := s.command(bridge.Command{Agent: busy.ID, OpKey: "launch", State: bridge.CommandUncertain, Canonical: "github.com/acme/y", Parsed: parser.Command{Verb: parser.Subagent, Repo: "github.com/acme/y"}})
	s.turn(s.agent(bridge.Agent{Name: "child", Parent: busy.ID, Command: launch.ID, State: bridge.AgentBusy}), bridge.TurnUncertain) // its command stands for it

	s.turn(s.agent(bridge.Agent{Name: "fell", State: bridge.AgentFailed, External: "bc-1"}), bridge.TurnFailed)
	s.agent(bridge.Agent{Name: "never", State: bridge.AgentFailed, Trouble: "no such repository"})
	s.turn(s.agent(bridge.Agent{Name: "below", Parent: busy.ID, State: bridge.AgentFailed, External: "bc-2"}), bridge.TurnFailed) // its parent was told
	s.turn(s.agent(bridge.Agent{Name: "moved", State: bridge.AgentFailed, LastRun: moving.Prefix + "1"}), bridge.TurnFailed)
	s.turn(s.agent(bridge.Agent{Name: "doubt", State: bridge.AgentBusy, External: "bc-3"}), bridge.TurnUncertain)
	s.agent(bridge.Agent{Name: "shut", State: bridge.AgentGated, Trouble: "20 turns without a person"})
	stopped := s.agent(bridge.Agent{Name: "stopped", State: bridge.AgentGated})
	s.must(s.tx.PutTree(bridge.Tree{Root: stopped.ID, StoppedAt: s.at})) // a person did it
	ended := s.agent(bridge.Agent{Name: "ended", State: bridge.AgentFailed, External: "bc-4"})
	s.must(s.tx.PutTree(bridge.Tree{Root: ended.ID, StoppedAt: s.at}))
	for _, r := range []bridge.Relay{{Name: "laptop"}, {Name: "idle"}, {Name: "off", StoppedAt: s.at}, {Name: "twin", CopyAt: s.at, StoppedAt: s.at}, {Name: "known", CopyAt: s.at, CopyEpoch: 3, AcceptedAt: s.at}} {
		r.State, r.SeenAt = bridge.RelayEnrolled, s.at
		s.must(s.tx.PutRelay(r))
	}
	return s.err
}

// TestNeeds: each kind of thing that waits for a person is listed once, the most urgent first, and what waits for nobody is not.
func TestNeeds(t *testing.T) {
	t.Parallel()
	db := memstore.NewDisk().Open()
	t.Cleanup(func() { _ = db.Close() })
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if err := db.Update(t.Context(), func(tx *bridge.Scene) error { return (&story{tx: tx, at: now.Add(-time.Minute)}).tell() }); err != nil {
		t.Fatal(err)
	}
	rules, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{{Pattern: "github.com/acme/*", Approval: policy.Approval{Mode: policy.ApprovalEach}}}, Limits: policy.Limits{Tree: policy.Budget{Launches: 10, Turns: 100, Open: 10}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	h := onStore(t, db, func(o *api.Options) {
		o.Now = func() time.Time { return now }
		o.Policy = func() *policy.Policy { return rules }
		o.Problem = func() string { return "allowlist.yaml:3: no such key" }
		o.RelayOf = func(runtime string) string { return map[string]string{"laptop": "laptop"}[runtime] }
	})
	r := httptest.NewRequest(http.MethodGet, "/v1/needs", nil)
	r.Header.Set("X-Bridge-Token", testToken)
	rec := serveDirect(h, r)
	list := decode[api.NeedList](t, rec.Body.String())
	var got []string
	for _, n := range list.Needs {
		got = append(got, fmt.Sprintf("%s %s %d: %s | %s", n.Kind, n.Key, n.Count, n.Text, n.Line))
		if n.Next == "" || (n.Since.IsZero() && n.Kind != api.NeedAllowlist && n.Kind != api.NeedBudget && n.Kind != api.NeedCopy) {
			t.Errorf("%+v", n)
		}
	}
	want := []string{
		"allowlist allowlist 1: The allowlist file has an error. The bridge still uses the earlier version. | allowlist.yaml:3: no such key",
		"uncertain cmd_launch 1: The bridge does not know whether busy launched an agent on github.com/acme/y | ",
		"uncertain cmd_lost 1: The bridge does not know whether backup ran for busy | ",
		"uncertain trn_doubt 1: The bridge does not know whether doubt got its turn 1 | do it",
		"copy copy:twin 1: A copy of relay twin tries to connect. The bridge refuses it. | ",
		"stopped relay:off 1: The kill switch of relay off is on. Nothing runs there. | ",
		"stopped relay:twin 1: The kill switch of relay twin is on. Nothing runs there. | ",
		"permission cmd_ask 1: busy asks on laptop to run a command | npm install",
		"approval cmd_first 2: busy wants to launch an agent on github.com/acme/x | Fix …",
		"question cmd_machine 1: busy wants to run open_browser on laptop | ",
		"question cmd_there 1: busy asks on laptop to use mailer | mailer",
		"failed agt_fell 1: Turn 1 of fell failed | it broke",
		"failed agt_moved 1: Turn 1 of moved failed | it broke",
		"failed agt_never 1: never was not launched | no such repository",
		"gated agt_shut 1: shut may not go on by itself | 20 turns without a person",
		"away relay:laptop 1: Relay laptop is not connected, and work waits for it. | ",
		"budget budget:agt_busy 1: The agents of busy have nearly used up their budget | 9 of 10 launches",
	}
	if !slices.Equal(got, want) || list.Working != 3 {
		t.Errorf("%d at work, status %d; got\n%s\nwant\n%s", list.Working, rec.Code, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAgentNow: a question of an agent comes first, then what it does while it is busy, then its state.
func TestAgentNow(t *testing.T) {
	t.Parallel()
	at, asked, doing := time.Unix(1, 0), time.Unix(2, 0), time.Unix(3, 0)
	for _, tt := range []struct {
		agent api.Agent
		word  string
		since time.Time
	}{
		{api.Agent{State: "idle", UpdatedAt: at, Doing: "idle", DoingSince: &doing}, "idle", at},
		{api.Agent{State: "busy", UpdatedAt: at}, "busy", at},
		{api.Agent{State: "busy", UpdatedAt: at, Doing: "silent", DoingSince: &doing}, "silent", doing},
		{api.Agent{State: "busy", UpdatedAt: at, Doing: "working", DoingSince: &doing, Asked: []api.Asked{{Since: asked}}}, "asking", asked},
	} {
		if word, since := tt.agent.Now(); word != tt.word || !since.Equal(tt.since) {
			t.Errorf("%+v: %s since %v", tt.agent, word, since)
		}
	}
}
