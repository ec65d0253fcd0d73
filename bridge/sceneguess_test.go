package bridge_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"drawbridge/bridge"
)

// TestOneRunNamesAllThatItLacks: look-ups that may find nothing go on, so that what they lack comes together; one whose row must be
// there ends the run.
func TestOneRunNamesAllThatItLacks(t *testing.T) {
	t.Parallel()
	sc, since := bridge.NewScene(), time.Unix(0, 0).UTC()
	if sc.Guesses() {
		t.Error("a scene guesses before anything was looked up")
	}
	if _, err := sc.ToldBy("agt_1", "item"); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("who told an item: %v", err)
	}
	if open, err := sc.CountLaunches(since); err != nil || open != 0 {
		t.Errorf("launches: %d, %v", open, err)
	}
	if all, err := sc.WaitingNotices("agt_1", 3); err != nil || len(all) != 0 {
		t.Errorf("notices: %v, %v", all, err)
	}
	if _, err := sc.Agent("agt_1"); !errors.Is(err, bridge.ErrLacking) {
		t.Errorf("an agent that is not loaded: %v", err)
	}
	want := []bridge.Need{
		bridge.NeedTold{Agent: "agt_1", Item: "item"}, bridge.NeedLaunches{Since: since},
		bridge.NeedWaiting{Agent: "agt_1", Limit: 3}, bridge.NeedAgent{ID: "agt_1"},
	}
	if guessed, got := sc.Guesses(), sc.Lacks(); !guessed || !slices.Equal(got, want) {
		t.Errorf("lacks %+v (guesses: %v); want %+v", got, guessed, want)
	}
}

// TestNothingIsLackedAboutWhatAStepMakes: the database has no rows about an agent that the step itself inserts.
func TestNothingIsLackedAboutWhatAStepMakes(t *testing.T) {
	t.Parallel()
	sc := bridge.NewScene()
	for _, n := range []bridge.Need{bridge.NeedNamed{Root: "agt_1", Name: "new"}, bridge.NeedAgentBy{By: bridge.ByName, Value: "new"}, bridge.NeedRootNamed{Name: "new"},
		bridge.NeedAgent{ID: "agt_1"}} {
		sc.Knows(n, 0)
	}
	if err := sc.InsertAgent(bridge.Agent{ID: "agt_1", Root: "agt_1", Name: "new"}); err != nil {
		t.Fatal(err)
	}
	_, _ = sc.Tokens("agt_1")
	_, _ = sc.Completions("agt_1")
	_, _ = sc.Turns(bridge.TurnFilter{Agent: "agt_1", Limit: 1})
	if lacks := sc.Lacks(); len(lacks) > 0 {
		t.Errorf("lacks %+v about an agent that the step has made", lacks)
	}
	_, _ = sc.Tokens("agt_2")
	if lacks := sc.Lacks(); len(lacks) != 1 {
		t.Errorf("lacks %+v about another agent", lacks)
	}
}

// TestOwners: whose rows a need is for follows from its fields.
func TestOwners(t *testing.T) {
	t.Parallel()
	for need, want := range map[bridge.Need]bridge.Owner{
		bridge.NeedAgent{ID: "agt_1"}:                                            {Agent: "agt_1"},
		bridge.NeedTurn{ID: "trn_1"}:                                             {Turn: "trn_1"},
		bridge.NeedCommand{ID: "cmd_1"}:                                          {Command: "cmd_1"},
		bridge.NeedCommands{CommandFilter: bridge.CommandFilter{Turn: "trn_1"}}:  {Turn: "trn_1"},
		bridge.NeedCommands{CommandFilter: bridge.CommandFilter{Agent: "agt_1"}}: {Agent: "agt_1"},
		bridge.NeedTurns{TurnFilter: bridge.TurnFilter{Agent: "agt_1"}}:          {Agent: "agt_1"},
		bridge.NeedTurns{}:                                                       {},
		bridge.NeedAgents{AgentFilter: bridge.AgentFilter{Root: "agt_1"}}:        {Root: "agt_1"},
		bridge.NeedCompletions{Op: "agt_1"}:                                      {Agent: "agt_1"},
		bridge.NeedStory{Command: "cmd_1"}:                                       {Command: "cmd_1"},
		bridge.NeedJob{Turn: "trn_1", Root: "agt_1"}:                             {Turn: "trn_1", Root: "agt_1"},
		bridge.NeedLetter{Message: "msg_1", Agent: "agt_1"}:                      {},
		bridge.NeedOpenSubagents{Root: "agt_1"}:                                  {},
		bridge.NeedRelayKeys{}:                                                   {},
	} {
		if got := bridge.OwnerOf(need); got != want {
			t.Errorf("%+v belongs to %+v; want %+v", need, got, want)
		}
	}
}
