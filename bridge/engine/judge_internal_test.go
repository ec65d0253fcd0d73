package engine

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/policy"
	"drawbridge/proof/memstore"
)

// stepOf is a step of an engine that has nothing but keys and a policy.
func stepOf(tx *bridge.Scene, at time.Time, rules func() *policy.Policy) *change {
	keys := bridge.Keys{Current: bridge.Key{ID: "1", Secret: bytes.Repeat([]byte("k"), 32)}}
	e := &Engine{o: Options{API: bridge.APIv1, Keys: keys, Policy: rules}}
	return &change{Scene: tx, e: e, now: at, ids: bridge.NewID}
}

// firstJudged records an agent with its first turn and judges what the turn's reply asks for.
func (c *change) firstJudged(a bridge.Agent, found parser.Findings) (bridge.Turn, error) {
	if err := c.InsertAgent(a); err != nil {
		return bridge.Turn{}, err
	}
	if err := c.addTurn(&a, bridge.Turn{ID: "trn_1", Cause: bridge.CauseUser, Text: "go"}); err != nil {
		return bridge.Turn{}, err
	}
	turn, err := c.Turn("trn_1")
	if err != nil {
		return turn, err
	}
	return turn, c.judge(&asker{Agent: a, Turn: &turn, Names: a.Names()}, found, "")
}

// TestReply: each line of a reply becomes a command with a verdict, and what was granted or approved has somebody who will
// carry it out. No engine is needed for it, and nothing is carried out here.
func TestReply(t *testing.T) {
	t.Parallel()
	rules, problems := policy.New(policy.Rules{
		Repos:   []policy.RepoRule{{Pattern: "github.com/me/my-app"}, {Pattern: "github.com/me/careful", Approval: policy.Approval{Mode: policy.ApprovalEach}}},
		Actions: []policy.ActionRule{{ID: "backup", Relay: "laptop"}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	found := parser.Read("LOCAL_ACTION: backup\nSUBAGENT: repo=github.com/me/my-app, prompt=x\nSUBAGENT: repo=github.com/me/careful, prompt=y\nLOCAL_ACTION: evil\n", parser.Options{})
	err := memstore.NewDisk().Open().Update(t.Context(), func(tx *bridge.Scene) error {
		c := stepOf(tx, at, func() *policy.Policy { return rules })
		a := bridge.Agent{ID: "agt_1", Name: "main", Root: "agt_1", State: bridge.AgentIdle, API: bridge.APIv1, Join: bridge.JoinAll, JoinWithin: time.Hour}
		turn, err := c.firstJudged(a, found)
		if err != nil {
			return err
		}
		if turn.Joining == 0 {
			t.Error("the turn does not wait for what it launched")
		}
		all, err := c.Commands(bridge.CommandFilter{Turn: turn.ID})
		if err != nil {
			return err
		}
		var states []bridge.CommandState
		for _, m := range all {
			states = append(states, m.State)
		}
		if diff := cmp.Diff([]bridge.CommandState{bridge.CommandGranted, bridge.CommandGranted, bridge.CommandHeld, bridge.CommandRefused}, states); diff != "" {
			t.Fatalf("states (-want +got):\n%s", diff)
		}
		if _, err := c.approve(all[0].ID, ""); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("approved what waits for nobody: %v", err)
		}
		q, err := c.questionOf(all[2].ID)
		if err != nil {
			return err
		}
		held, err := c.approve(all[2].ID, q.Hash)
		if err != nil {
			return err
		}
		for _, m := range []bridge.Command{all[1], held} {
			if launch, err := c.OpenTurn(m.Child); err != nil || launch.Cause != bridge.CauseLaunch {
				t.Errorf("command %d has no launch: %+v, %v", m.Ordinal, launch, err)
			}
		}
		var kinds []bridge.WorkKind
		for _, l := range c.Lanes {
			if l.Verb == bridge.LaneEnqueue && !l.Work.Due.After(at) {
				kinds = append(kinds, l.Work.Kind)
			}
		}
		if diff := cmp.Diff([]bridge.WorkKind{bridge.WorkTurn, bridge.WorkAction, bridge.WorkTurn, bridge.WorkTurn}, kinds); diff != "" {
			t.Errorf("work (-want +got):\n%s", diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAskBelongsToTheTurnThatWasHeard: while the next turn is queued, what an agent asks for belongs to the one before, as the record
// of its calls does. It guards against commands that count for a turn that the agent has not heard.
func TestAskBelongsToTheTurnThatWasHeard(t *testing.T) {
	t.Parallel()
	rules, problems := policy.New(policy.Rules{Actions: []policy.ActionRule{{ID: "backup", Relay: "laptop"}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	err := memstore.NewDisk().Open().Update(t.Context(), func(tx *bridge.Scene) error {
		c := stepOf(tx, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), func() *policy.Policy { return rules })
		a := bridge.Agent{ID: "agt_1", Name: "main", Root: "agt_1", State: bridge.AgentIdle, API: bridge.APIv1}
		if err := c.InsertAgent(a); err != nil {
			return err
		}
		ask := func(action string) (bridge.Command, error) {
			return c.askOnce(a.ID, bridge.Once{}, parser.Command{Verb: parser.LocalAction, Action: action})
		}
		if _, err := ask("backup"); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("without a turn: %v", err)
		}
		if err := c.addTurn(&a, bridge.Turn{ID: "trn_1", Cause: bridge.CauseLaunch, Text: "go"}); err != nil {
			return err
		}
		if m, err := ask("backup"); err != nil || m.Turn != "trn_1" {
			t.Errorf("while its first turn is queued: %+v, %v", m, err)
		}
		turn, err := c.Turn("trn_1")
		if err != nil {
			return err
		}
		for _, next := range []bridge.TurnState{bridge.TurnDelivering, bridge.TurnRunning, bridge.TurnReplied} {
			if err := c.setTurn(&turn, next); err != nil {
				return err
			}
		}
		if err := c.addTurn(&a, bridge.Turn{ID: "trn_2", Cause: bridge.CauseUser, Text: "go on"}); err != nil {
			return err
		}
		m, err := ask("backup")
		if err == nil && m.Turn != turn.ID {
			t.Errorf("the command belongs to %s", m.Turn)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLaunchIntoARuntimeThatIsAway: such a launch is refused and never held, by text and by tool, and every other command of the
// reply is judged as ever. An agent whose parent's runtime is there is launched.
func TestLaunchIntoARuntimeThatIsAway(t *testing.T) {
	t.Parallel()
	const why = "the runtime has left; put it back"
	rules, problems := policy.New(policy.Rules{
		Repos: []policy.RepoRule{{Pattern: "github.com/me/my-app"}, {Pattern: "github.com/me/old", API: bridge.APIv0},
			{Pattern: "github.com/me/careful", Approval: policy.Approval{Mode: policy.ApprovalEach}}},
		Actions: []policy.ActionRule{{ID: "backup", Relay: "laptop"}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, tt := range map[string]struct {
		parent string
		away   map[string]bool
		want   []string
	}{
		"the cloud":   {bridge.CloudRuntime, map[string]bool{bridge.CloudRuntime: true}, []string{"granted", "refused", "refused", "refused", "refused"}},
		"another one": {"local", map[string]bool{bridge.CloudRuntime: true}, []string{"granted", "granted", "granted", "held", "refused"}},
		"its own":     {"local", map[string]bool{"local": true}, []string{"granted", "refused", "refused", "refused", "refused"}},
	} {
		away := func(runtime string) error {
			if tt.away[runtime] {
				return bridge.Errorf(bridge.Unavailable, why)
			}
			return nil
		}
		found := parser.Read("LOCAL_ACTION: backup\nSUBAGENT: repo=github.com/me/my-app, prompt=x\nSUBAGENT: repo=github.com/me/old, prompt=y\n"+
			"SUBAGENT: repo=github.com/me/careful, prompt=z\nSUBAGENT: repo=github.com/evil/x, prompt=z\n", parser.Options{})
		err := memstore.NewDisk().Open().Update(t.Context(), func(tx *bridge.Scene) error {
			c := stepOf(tx, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), func() *policy.Policy { return rules })
			c.e.o.Away = away
			a := bridge.Agent{ID: "agt_1", Name: "main", Root: "agt_1", State: bridge.AgentIdle, Runtime: tt.parent}
			turn, err := c.firstJudged(a, found)
			if err != nil {
				return err
			}
			all, err := c.Commands(bridge.CommandFilter{Turn: turn.ID})
			if err != nil {
				return err
			}
			var states []string
			for _, m := range all {
				states = append(states, string(m.State))
				away := m.Code == string(policy.CodeRuntimeAway)
				if away != strings.Contains(m.Reason, why) || away && !strings.Contains(m.Reason, "do the task yourself, or ask the operator") {
					t.Errorf("%s: %s", name, m.Reason)
				}
			}
			if diff := cmp.Diff(tt.want, states); diff != "" {
				t.Errorf("%s: states (-want +got):\n%s", name, diff)
			}
			m, err := c.askOnce(a.ID, bridge.Once{}, parser.Command{Verb: parser.Subagent, Repo: "github.com/me/my-app", Prompt: "by a tool"})
			if err == nil && string(m.State) != tt.want[1] {
				t.Errorf("%s: asked by a tool it is %s: %s", name, m.State, m.Reason)
			}
			return err
		})
		if err != nil {
			t.Fatal(name, err)
		}
	}
}

// TestHeldLaunchWaitsForItsRuntime: a yes does nothing while the runtime is away, the command stays held, and the same yes counts
// once the runtime is back.
func TestHeldLaunchWaitsForItsRuntime(t *testing.T) {
	t.Parallel()
	hold(t, func(w *court) {
		m := w.ask(parser.Command{Verb: parser.Subagent, Repo: "github.com/me/app", Prompt: "Fix it"})
		shown := w.question(m.ID).Hash
		w.c.e.o.Away = func(string) error { return bridge.Errorf(bridge.Unavailable, "no key; set one") }
		for _, hash := range []string{shown, w.question(m.ID).Hash} {
			_, err := w.c.approve(m.ID, hash)
			if bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(err.Error(), string(m.ID)+" stays held: no key; set one") {
				t.Fatalf("a yes while the runtime is away: %v", err)
			}
		}
		if held, err := w.c.Command(m.ID); err != nil || held.State != bridge.CommandHeld {
			t.Fatalf("%s: %v", held.State, err)
		}
		w.c.e.o.Away = nil
		passed, err := w.c.approve(m.ID, shown)
		if err != nil || passed.State != bridge.CommandGranted {
			t.Errorf("a yes when it is back: %s %v", passed.State, err)
		}
	})
}

// TestARuleNamesTheRuntime: an agent lives where the rule of its repository says, else with its parent. A clone on a machine never comes
// into the cloud, whatever its rule says.
func TestARuleNamesTheRuntime(t *testing.T) {
	t.Parallel()
	rules, problems := policy.New(policy.Rules{Repos: []policy.RepoRule{
		{Pattern: "local/my-app", Runtime: "laptop"}, {Pattern: "github.com/me/here", Runtime: "laptop"}, {Pattern: "github.com/me/there"}, {Pattern: "local/lost", Runtime: bridge.CloudRuntime},
	}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for parent, want := range map[string][]string{
		bridge.CloudRuntime: {"laptop", "laptop", bridge.CloudRuntime, "refused"}, "desk": {"laptop", "laptop", "desk", "refused"}, "laptop": {"laptop", "laptop", "laptop", "refused"},
	} {
		err := memstore.NewDisk().Open().Update(t.Context(), func(tx *bridge.Scene) error {
			c := stepOf(tx, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), func() *policy.Policy { return rules })
			a := bridge.Agent{ID: "agt_1", Name: "main", Root: "agt_1", State: bridge.AgentIdle, Runtime: parent}
			if err := c.InsertAgent(a); err != nil {
				return err
			}
			if err := c.addTurn(&a, bridge.Turn{ID: "trn_1", Cause: bridge.CauseUser, Text: "go"}); err != nil {
				return err
			}
			for i, repo := range []string{"LOCAL/my-app", "github.com/me/here", "github.com/me/there", "local/lost"} {
				m, err := c.askOnce(a.ID, bridge.Once{}, parser.Command{Verb: parser.Subagent, Repo: repo, Prompt: "x"})
				if err != nil {
					return err
				}
				got := string(m.State)
				if m.State == bridge.CommandGranted {
					child, err := c.Agent(m.Child)
					if err != nil {
						return err
					}
					got = child.Runtime
				} else if !strings.Contains(m.Reason, "local/lost is a clone on a machine, which agents of the cloud cannot reach") {
					t.Errorf("below %s, %s: %s", parent, repo, m.Reason)
				}
				if got != want[i] {
					t.Errorf("below %s, %s: %s, want %s", parent, repo, got, want[i])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
