package stores

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"drawbridge/bridge"
	"drawbridge/parser"
)

// fullAgent has something of its own in every field.
func fullAgent() bridge.Agent {
	return bridge.Agent{
		ID: "agt_full", Name: "full", Role: "main docs", Quarantined: true, Parent: "agt_parent", Command: "cmd_1", Root: "agt_root", Depth: 2, Runtime: "laptop", API: "v0", OpKey: "0a1b", External: "bc-1",
		LastRun: "run-1", Repo: "github.com/me/my-app", Ref: "main", URL: "https://example.com/a?b=c", State: bridge.AgentWaiting, Task: bridge.TaskWaiting, ChatUser: "ümläut \"'",
		Trouble: "line one\nline two", Join: bridge.JoinAny, JoinWithin: 90 * time.Minute, Tokens: 1 << 40, CostMicros: 1<<40 + 1, Unmetered: true, NotBefore: at(time.Minute), Doing: bridge.DoingAsking, DoingSince: at(2 * time.Minute), Prompt: "Say \"hi\" …", CreatedAt: at(time.Microsecond), UpdatedAt: at(time.Hour),
	}
}

func testAgents(t *testing.T, open Open) {
	s, want := open(t), fullAgent()
	noZeroField(t, want)
	mustUpdate(t, s, insert(want, agent(1)))
	get := func(tx *bridge.Scene) (bridge.Agent, error) { return tx.Agent(want.ID) }
	equal(t, "agent", read(t, s, get), want)
	for by, value := range map[bridge.AgentBy]string{bridge.ByName: want.Name, bridge.ByExternal: want.External, bridge.ByChatUser: want.ChatUser} {
		equal(t, "agent by "+string(by), read(t, s, func(tx *bridge.Scene) (bridge.Agent, error) { return tx.FindAgent(by, value) }), want)
	}
	want.State, want.External, want.Trouble, want.UpdatedAt = bridge.AgentDone, "bc-2", "", time.Time{}
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UpdateAgent(want) })
	equal(t, "updated agent", read(t, s, get), want)
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.Agent, error) { return tx.FindAgent("root", "agt_root") }); err == nil || errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("look-up by a field that identifies nobody: %v, want an error that is not ErrNoRow", err)
	}
}

func testAgentFilters(t *testing.T, open Open) {
	s := open(t)
	var all []bridge.Agent
	for n := range 130 {
		a := agent(n)
		if n%2 == 1 {
			a.Root, a.Parent = "agt_0000", "agt_0000"
		}
		if n%10 == 3 {
			a.State = bridge.AgentBusy
		}
		if n == 7 {
			a.Forget()
		}
		all = append(all, a)
	}
	mustUpdate(t, s, insert(all...))
	tests := []struct {
		name   string
		filter bridge.AgentFilter
		want   func(n int) bool
		limit  int
	}{
		{"default limit", bridge.AgentFilter{}, func(int) bool { return true }, 100},
		{"limit", bridge.AgentFilter{Limit: 7}, func(int) bool { return true }, 7},
		{"root", bridge.AgentFilter{Root: "agt_0000"}, func(n int) bool { return n == 0 || n%2 == 1 }, 100},
		{"parent", bridge.AgentFilter{Parent: "agt_0000", Limit: 5}, func(n int) bool { return n%2 == 1 }, 5},
		{"state", bridge.AgentFilter{State: bridge.AgentBusy}, func(n int) bool { return n%10 == 3 }, 100},
		{"without a parent", bridge.AgentFilter{Roots: true}, func(n int) bool { return n%2 == 0 }, 100},
		{"known", bridge.AgentFilter{Known: true, Limit: 1000}, func(n int) bool { return n != 7 }, 1000},
		{"before", bridge.AgentFilter{Before: "agt_0010"}, func(n int) bool { return n < 10 }, 100},
		{"all of it", bridge.AgentFilter{Root: "agt_0000", Parent: "agt_0000", State: bridge.AgentBusy, Before: "agt_0100", Limit: 3}, func(n int) bool { return n%10 == 3 && n < 100 }, 3},
	}
	for _, tt := range tests {
		var want []bridge.AgentID
		for n, a := range slices.Backward(all) {
			if tt.want(n) && len(want) < tt.limit {
				want = append(want, a.ID)
			}
		}
		got := read(t, s, func(tx *bridge.Scene) ([]bridge.Agent, error) { return tx.Agents(tt.filter) })
		equal(t, tt.name, agentIDs(got), want)
	}
}

func testAgentConflict(t *testing.T, open Open) {
	s, first := open(t), fullAgent()
	mustUpdate(t, s, insert(first))
	for field, clash := range map[string]func(*bridge.Agent){
		"name":      func(a *bridge.Agent) { a.Name, a.Parent, a.Root = first.Name, first.Parent, first.Root },
		"external":  func(a *bridge.Agent) { a.External = first.External },
		"chat user": func(a *bridge.Agent) { a.ChatUser = first.ChatUser },
	} {
		second := agent(1)
		clash(&second)
		if err := s.Update(t.Context(), insert(agent(2), second)); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("second agent of the same %s: %v, want a Conflict", field, err)
		}
	}
	equal(t, "agents", agentIDs(read(t, s, func(tx *bridge.Scene) ([]bridge.Agent, error) { return tx.Agents(bridge.AgentFilter{}) })), []bridge.AgentID{first.ID})
	// An empty external id or chat user is none, and clashes with nobody.
	mustUpdate(t, s, insert(agent(3), agent(4)))
}

// testNamesOfTrees: a name is unique within its tree and among roots. Other trees' names are in nobody's way.
func testNamesOfTrees(t *testing.T, open Open) {
	s := open(t)
	named := func(n int, name string, parent int) bridge.Agent {
		a := agent(n)
		if a.Name = name; parent != n {
			a.Root, a.Parent = agent(parent).ID, agent(parent).ID
		}
		return a
	}
	mustUpdate(t, s, insert(named(1, "main", 1), named(2, "docs", 2), named(3, "worker", 1), named(4, "worker", 2), named(5, "docs", 1), named(6, "alone", 2)))
	for what, clash := range map[string]bridge.Agent{"another root": named(7, "main", 7), "a sibling": named(7, "worker", 1), "the root itself": named(7, "main", 1)} {
		if err := s.Update(t.Context(), insert(clash)); bridge.KindOf(err) != bridge.Conflict {
			t.Errorf("the name of %s: %v, want a Conflict", what, err)
		}
	}
	by := func(name string) func(*bridge.Scene) (bridge.Agent, error) {
		return func(tx *bridge.Scene) (bridge.Agent, error) { return tx.FindAgent(bridge.ByName, name) }
	}
	equal(t, "a root and a child of another tree", read(t, s, by("docs")).ID, agent(2).ID)
	equal(t, "one child", read(t, s, by("alone")).ID, agent(6).ID)
	_, err := lookUp(t.Context(), s, by("worker"))
	if bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "agt_0003, agt_0004") {
		t.Errorf("children of two trees: %v, want a Conflict with their ids", err)
	}
	for _, c := range []struct {
		root int
		name string
		want bridge.AgentID
	}{{1, "worker", agent(3).ID}, {2, "worker", agent(4).ID}, {1, "main", agent(1).ID}, {1, "docs", agent(5).ID}, {2, "main", ""}, {1, "alone", ""}, {1, "", ""}} {
		got, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.Agent, error) { return bridge.FindInTree(tx, agent(c.root).ID, c.name) })
		if got.ID != c.want || (c.want == "") != errors.Is(err, bridge.ErrNoRow) {
			t.Errorf("%q in tree %d: %s (%v), want %q", c.name, c.root, got.ID, err, c.want)
		}
	}
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) ([]bridge.Agent, error) { return tx.Agents(bridge.AgentFilter{Name: "main"}) }); err == nil {
		t.Error("agents by name without a root")
	}
	renamed := named(3, "worker-3", 1)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UpdateAgent(renamed) })
	equal(t, "renamed", read(t, s, by("worker")).ID, agent(4).ID)
	equal(t, "name", read(t, s, func(tx *bridge.Scene) (bridge.Agent, error) { return tx.Agent(renamed.ID) }).Name, "worker-3")
}

func testCountOpenSubagents(t *testing.T, open Open) {
	s := open(t)
	count := func(tx *bridge.Scene) (int, error) { return tx.CountOpenSubagents("") }
	equal(t, "of none", read(t, s, count), 0)
	n := 0
	for _, parent := range []bridge.AgentID{"", "agt_p"} {
		for state := range bridge.AgentEdges {
			a := agent(n)
			a.Parent, a.State, a.Root = parent, state, []bridge.AgentID{"agt_r1", "agt_r2"}[n%2]
			n++
			mustUpdate(t, s, insert(a))
		}
	}
	equal(t, "busy and waiting ones with a parent", read(t, s, count), 2)
	under := 0
	for _, root := range []bridge.AgentID{"agt_r1", "agt_r2", "agt_none"} {
		got := read(t, s, func(tx *bridge.Scene) (int, error) { return tx.CountOpenSubagents(root) })
		if under += got; root == "agt_none" && got != 0 {
			t.Errorf("%d open subagents under a root that is none", got)
		}
	}
	equal(t, "summed over the roots", under, 2)
}

func fullTurn(a bridge.AgentID) bridge.Turn {
	return bridge.Turn{
		ID: "trn_full", Agent: a, Seq: 1, Cause: bridge.CauseReminder, Text: "text", Said: []bridge.Said{{Turn: "trn_first", Item: "0123456789abcdef", Source: bridge.OriginOperator, Author: "me"}}, Sent: "sent\n\ttab", Depth: 3, Streak: 4, State: bridge.TurnFailed, Run: "run-1",
		Reply: "reply ✓", Status: bridge.RunError, Trouble: "trouble", Attempts: 5, Retry: 2, Joining: -1, Stopped: true, Got: true, Spent: fullSpent(), DoubtSince: at(1 * time.Second), CreatedAt: at(2 * time.Second),
		SentAt: at(3 * time.Second), EndedAt: at(4 * time.Second),
	}
}

func fullSpent() *bridge.Spent {
	cost := int64(7)
	return &bridge.Spent{Tokens: &bridge.Tokens{Input: 1, Output: 2, CacheWrite: 3, CacheRead: 4}, CostMicros: &cost, Model: "m"}
}

func testTurns(t *testing.T, open Open) {
	s, want := open(t), fullTurn("agt_0001")
	noZeroField(t, want)
	var seq int64
	mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
		if err := tx.InsertAgent(agent(1)); err != nil {
			return err
		}
		given := want
		given.Seq = 99 // the store numbers, not the caller
		seq, err = tx.InsertTurn(given)
		return err
	})
	equal(t, "first number", seq, 1)
	get := func(tx *bridge.Scene) (bridge.Turn, error) { return tx.Turn(want.ID) }
	equal(t, "turn", read(t, s, get), want)
	want.State, want.Reply, want.DoubtSince, want.EndedAt = bridge.TurnReplied, "", time.Time{}, at(time.Hour)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UpdateTurn(want) })
	equal(t, "updated turn", read(t, s, get), want)
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		_, err := tx.InsertTurn(turn("agt_none", 2))
		return err
	}); err == nil {
		t.Error("a turn for an agent that does not exist was accepted")
	}
}

func testTurnFilters(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n := range 120 {
			if n < 2 {
				if err := tx.InsertAgent(agent(n)); err != nil {
					return err
				}
			}
			r := turn(agent(min(n%10, 1)).ID, n) // one in ten is agent 0's
			if n%3 == 0 {
				r.State = bridge.TurnReplied
			}
			if _, err := tx.InsertTurn(r); err != nil {
				return err
			}
		}
		return nil
	})
	ids := func(f bridge.TurnFilter) (ids []bridge.TurnID) {
		for _, r := range read(t, s, func(tx *bridge.Scene) ([]bridge.Turn, error) { return tx.Turns(f) }) {
			ids = append(ids, r.ID)
		}
		return ids
	}
	equal(t, "default limit", len(ids(bridge.TurnFilter{})), 100)
	equal(t, "newest first", ids(bridge.TurnFilter{Limit: 2}), []bridge.TurnID{"trn_0119", "trn_0118"})
	equal(t, "an agent's", ids(bridge.TurnFilter{Agent: "agt_0000", Limit: 2}), []bridge.TurnID{"trn_0110", "trn_0100"})
	equal(t, "an agent's before a number", ids(bridge.TurnFilter{Agent: "agt_0000", Before: 3}), []bridge.TurnID{"trn_0010", "trn_0000"})
	equal(t, "an agent's after a number", ids(bridge.TurnFilter{Agent: "agt_0000", After: 10}), []bridge.TurnID{"trn_0110", "trn_0100"})
	equal(t, "an agent's oldest first", ids(bridge.TurnFilter{Agent: "agt_0000", Oldest: true, Limit: 2}), []bridge.TurnID{"trn_0000", "trn_0010"})
	equal(t, "an agent's oldest after a number", ids(bridge.TurnFilter{Agent: "agt_0000", Oldest: true, After: 3, Limit: 2}), []bridge.TurnID{"trn_0030", "trn_0040"})
	equal(t, "an agent's between two numbers", ids(bridge.TurnFilter{Agent: "agt_0000", Oldest: true, After: 3, Before: 6}), []bridge.TurnID{"trn_0030", "trn_0040"})
	equal(t, "an agent's after the last", ids(bridge.TurnFilter{Agent: "agt_0000", Oldest: true, After: 12}), nil)
	equal(t, "everybody's oldest first", ids(bridge.TurnFilter{Oldest: true, Limit: 2}), []bridge.TurnID{"trn_0000", "trn_0001"})
	equal(t, "an agent's in a state", ids(bridge.TurnFilter{Agent: "agt_0000", State: bridge.TurnReplied}), []bridge.TurnID{"trn_0090", "trn_0060", "trn_0030", "trn_0000"})
	equal(t, "everybody's in a state", len(ids(bridge.TurnFilter{State: bridge.TurnReplied})), 40)
}

func testOpenTurn(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, insert(agent(1), agent(2)))
	for n, state := range []bridge.TurnState{bridge.TurnReplied, bridge.TurnFailed, bridge.TurnUncertain, bridge.TurnQueued} {
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			r := turn("agt_0001", n)
			r.State = state
			_, err := tx.InsertTurn(r)
			return err
		})
	}
	get := func(tx *bridge.Scene) (bridge.Turn, error) { return tx.OpenTurn("agt_0001") }
	got := read(t, s, get)
	equal(t, "first that is not over", got.ID, "trn_0002")
	got.State = bridge.TurnFailed
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UpdateTurn(got) })
	equal(t, "next one", read(t, s, get).ID, "trn_0003")
	for state := range bridge.TurnEdges {
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			r := turn("agt_0002", 50)
			r.ID, r.State = bridge.TurnID("trn_"+state), state
			if _, err := tx.InsertTurn(r); err != nil {
				return err
			}
			_, err := tx.OpenTurn("agt_0002")
			if errors.Is(err, bridge.ErrNoRow) != state.Over() {
				return fmt.Errorf("open turn of an agent whose turn is %s: %w", state, err)
			}
			over, err := tx.Turn(r.ID)
			if err != nil {
				return err
			}
			over.State = bridge.TurnReplied
			return tx.UpdateTurn(over)
		})
	}
}

// testCurrentTurn plays an agent's turns, among them one that is tried again
// while a later one is over.
func testCurrentTurn(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, insert(agent(1), agent(2)))
	expect := func(what, current string, isOpen bool) {
		t.Helper()
		look := func(tx *bridge.Scene) error {
			h, err := tx.CurrentTurn("agt_0001")
			if errors.Is(err, bridge.ErrNoRow) != (current == "") || err == nil && string(h.ID) != current {
				return fmt.Errorf("%s: the current turn is %q (%w), want %q", what, h.ID, err, current)
			}
			if r, err := tx.Turn(h.ID); current != "" && (err != nil || h != bridge.TurnHead{ID: r.ID, State: r.State, Depth: r.Depth}) {
				return fmt.Errorf("%s: head %+v of turn %+v (%w)", what, h, r, err)
			}
			if got, err := tx.HasOpenTurn("agt_0001"); err != nil || got != isOpen {
				return fmt.Errorf("%s: a turn is open: %v (%w), want %v", what, got, err, isOpen)
			}
			return nil
		}
		mustUpdate(t, s, look) // the writer may keep rows
		if err := s.View(t.Context(), look); err != nil {
			t.Error(err)
		}
	}
	add := func(n int) {
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			r := turn("agt_0001", n)
			r.Depth = n
			_, err := tx.InsertTurn(r)
			return err
		})
	}
	become := func(id bridge.TurnID, state bridge.TurnState) {
		mustUpdate(t, s, func(tx *bridge.Scene) error {
			r, err := tx.Turn(id)
			if err != nil {
				return err
			}
			r.State = state
			return tx.UpdateTurn(r)
		})
	}
	expect("no turn", "", false)
	add(1)
	expect("queued", "", true)
	become("trn_0001", bridge.TurnRunning)
	expect("running", "trn_0001", true)
	become("trn_0001", bridge.TurnFailed)
	add(2)
	add(3)
	expect("failed, others queued", "trn_0001", true)
	become("trn_0002", bridge.TurnReplied)
	become("trn_0003", bridge.TurnReplied)
	expect("all over", "trn_0003", false)
	become("trn_0001", bridge.TurnQueued)
	expect("an older one is tried again", "trn_0003", true)
	become("trn_0001", bridge.TurnUncertain)
	expect("an older one is under way", "trn_0001", true)
	if _, err := lookUp(t.Context(), s, func(tx *bridge.Scene) (bridge.TurnHead, error) { return tx.CurrentTurn("agt_0002") }); !errors.Is(err, bridge.ErrNoRow) {
		t.Errorf("current turn of another agent: %v, want ErrNoRow", err)
	}
}

// testTurnNumbers: numbers of an agent are 1, 2, 3 … in the order of commits,
// whoever races, and an update that failed takes none.
func testTurnNumbers(t *testing.T, open Open) {
	const each, agents = 16, 4
	s := open(t)
	for a := range agents {
		mustUpdate(t, s, insert(agent(a)))
	}
	var all errgroup.Group
	for n := range agents * each {
		all.Go(func() error {
			err := s.Update(t.Context(), func(tx *bridge.Scene) error {
				_, err := tx.InsertTurn(turn(agent(n%agents).ID, n))
				if err == nil && n%5 == 0 {
					return errUndo
				}
				return err
			})
			if errors.Is(err, errUndo) != (n%5 == 0) {
				return fmt.Errorf("turn %d: %w", n, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for a := range agents {
		turns := read(t, s, func(tx *bridge.Scene) ([]bridge.Turn, error) { return tx.Turns(bridge.TurnFilter{Agent: agent(a).ID}) })
		kept += len(turns)
		for i, r := range turns {
			if r.Seq != int64(len(turns)-i) {
				t.Fatalf("agent %d: number %d at place %d of %d", a, r.Seq, i, len(turns))
			}
		}
	}
	equal(t, "turns kept", kept, agents*each-13)
}

func fullCommand(n int) bridge.Command {
	return bridge.Command{
		ID: bridge.CommandID(fmt.Sprintf("cmd_%04d", n)), Turn: "trn_1", Agent: "agt_1", Ordinal: n + 1,
		Parsed: parser.Command{Verb: parser.Subagent, Line: 7, Repo: "https://github.com/me/my-app", Prompt: `fix "it", <please> & thanks`, Name: "fixer", Role: "worker", Subdir: "a b", Shared: true, Action: "a", When: "10m",
			Message: "m", AgentID: "bc-1", Status: "FINISHED", Raw: "SUBAGENT: …"},
		OpKey: fmt.Sprintf("key-%d", n), State: bridge.CommandConfirmed, Code: "granted", Reason: "because", Canonical: "github.com/me/my-app", Runtime: "cursor", API: "v1", Relay: "laptop",
		ApprovalKey: "approve", Approved: true, Child: "agt_child",
		Outcome:   &bridge.CommandOutcome{Status: "executed", ExitCode: 3, Stdout: "out\n", Stderr: "err", Omitted: 1 << 40, DurationMS: 12, HTTPStatus: 200, Error: "e", Message: "msg_1"},
		Ended:     bridge.CommandFailed,
		Due:       at(time.Minute),
		CreatedAt: epoch, UpdatedAt: at(time.Second),
	}
}

func testCommands(t *testing.T, open Open) {
	s, want := open(t), fullCommand(0)
	noZeroField(t, want)
	noZeroField(t, want.Parsed)
	noZeroField(t, *want.Outcome)
	get := func(tx *bridge.Scene) (bridge.Command, error) { return tx.Command(want.ID) }
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.InsertCommand(want) })
	equal(t, "command", read(t, s, get), want)
	want.State, want.Outcome, want.Approved, want.Child, want.UpdatedAt = bridge.CommandRefused, nil, false, "", at(time.Hour)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UpdateCommand(want) })
	equal(t, "updated command", read(t, s, get), want)
	twice := fullCommand(1)
	twice.OpKey = want.OpKey
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.InsertCommand(twice) }); err == nil {
		t.Error("two commands with one operation key were accepted")
	}
}

func testCommandFilters(t *testing.T, open Open) {
	s := open(t)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for n := range 110 {
			c := fullCommand(n)
			c.Turn, c.Ordinal = bridge.TurnID(fmt.Sprintf("trn_%d", n/5)), 4-n%5 // ids run against the order in the turn
			c.Agent = bridge.AgentID(fmt.Sprintf("agt_%d", n%2))
			if n%11 == 0 {
				c.State = bridge.CommandHeld
			}
			if n%50 == 7 {
				c.Parsed.Verb = parser.Remind
			}
			if err := tx.InsertCommand(c); err != nil {
				return err
			}
		}
		return nil
	})
	ids := func(f bridge.CommandFilter) (ids []bridge.CommandID) {
		for _, c := range read(t, s, func(tx *bridge.Scene) ([]bridge.Command, error) { return tx.Commands(f) }) {
			ids = append(ids, c.ID)
		}
		return ids
	}
	equal(t, "default limit", len(ids(bridge.CommandFilter{})), 100)
	equal(t, "newest first", ids(bridge.CommandFilter{Limit: 2}), []bridge.CommandID{"cmd_0109", "cmd_0108"})
	equal(t, "an agent's", ids(bridge.CommandFilter{Agent: "agt_0", Limit: 2}), []bridge.CommandID{"cmd_0108", "cmd_0106"})
	equal(t, "a turn's in order", ids(bridge.CommandFilter{Turn: "trn_1"}), []bridge.CommandID{"cmd_0009", "cmd_0008", "cmd_0007", "cmd_0006", "cmd_0005"})
	equal(t, "in a state, before", ids(bridge.CommandFilter{State: bridge.CommandHeld, Before: "cmd_0033"}), []bridge.CommandID{"cmd_0022", "cmd_0011", "cmd_0000"})
	equal(t, "of a verb", ids(bridge.CommandFilter{Verb: parser.Remind}), []bridge.CommandID{"cmd_0107", "cmd_0057", "cmd_0007"})
	equal(t, "an agent's in a state", ids(bridge.CommandFilter{Agent: "agt_1", State: bridge.CommandHeld, Limit: 2}), []bridge.CommandID{"cmd_0099", "cmd_0077"})
}

// testUses: what agents asked for is counted by agent or tree, by target and by what came of it, the latest first.
func testUses(t *testing.T, open Open) {
	s := open(t)
	main, child := bridge.Agent{ID: "agt_1", Name: "main", Role: "lead", Root: "agt_1", OpKey: "1"}, bridge.Agent{ID: "agt_2", Name: "child", Parent: "agt_1", Root: "agt_1", OpKey: "2"}
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		if err := errors.Join(tx.InsertAgent(main), tx.InsertAgent(child)); err != nil {
			return err
		}
		for n, c := range []struct {
			agent        bridge.AgentID
			verb         parser.Verb
			target       string
			state, ended bridge.CommandState
			at           time.Duration
		}{
			{"agt_1", parser.Subagent, "github.com/me/a", bridge.CommandGranted, "", 1 * time.Hour}, // too old
			{"agt_1", parser.Subagent, "github.com/me/a", bridge.CommandGranted, "", 3 * time.Hour},
			{"agt_1", parser.Subagent, "github.com/me/a", bridge.CommandReported, bridge.CommandFailed, 9 * time.Hour},
			{"agt_2", parser.Subagent, "github.com/me/a", bridge.CommandUncertain, "", 5 * time.Hour},
			{"agt_2", parser.Subagent, "github.com/me/a", bridge.CommandReported, bridge.CommandRefused, 6 * time.Hour},
			{"agt_1", parser.Subagent, "github.com/me/a", bridge.CommandRefused, "", 2 * time.Hour},
			{"agt_1", parser.LocalAction, "backup", bridge.CommandHeld, "", 4 * time.Hour},
			{"agt_1", parser.LocalAction, "", bridge.CommandRefused, "", 7 * time.Hour},
			{"agt_1", parser.Remind, "x", bridge.CommandGranted, "", 7 * time.Hour},
			{"agt_1", bridge.VerbPermission, "x", bridge.CommandHeld, "", 7 * time.Hour},
		} {
			m := fullCommand(n)
			m.Agent, m.Parsed.Verb, m.Canonical, m.State, m.Ended, m.CreatedAt = c.agent, c.verb, c.target, c.state, c.ended, at(c.at)
			if err := tx.InsertCommand(m); err != nil {
				return err
			}
		}
		return nil
	})
	uses := func(trees bool, limit int) []bridge.Use {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Use, error) { return tx.Uses(at(2*time.Hour), trees, limit) })
	}
	use := func(by bridge.Agent, verb parser.Verb, target string, state bridge.CommandState, count int, last time.Duration) bridge.Use {
		return bridge.Use{By: bridge.Agent{ID: by.ID, Name: by.Name, Role: by.Role, Parent: by.Parent}, Verb: verb, Target: target, State: state, Count: count, Last: at(last)}
	}
	want := []bridge.Use{
		use(main, parser.Subagent, "github.com/me/a", bridge.CommandGranted, 2, 9*time.Hour),
		use(child, parser.Subagent, "github.com/me/a", bridge.CommandRefused, 1, 6*time.Hour),
		use(child, parser.Subagent, "github.com/me/a", bridge.CommandGranted, 1, 5*time.Hour),
		use(main, parser.LocalAction, "backup", bridge.CommandHeld, 1, 4*time.Hour),
		use(main, parser.Subagent, "github.com/me/a", bridge.CommandRefused, 1, 2*time.Hour),
	}
	equal(t, "uses of agents", uses(false, 10), want)
	equal(t, "the latest uses", uses(false, 2), want[:2])
	equal(t, "uses of trees", uses(true, 10), []bridge.Use{
		use(main, parser.Subagent, "github.com/me/a", bridge.CommandGranted, 3, 9*time.Hour),
		use(main, parser.Subagent, "github.com/me/a", bridge.CommandRefused, 2, 6*time.Hour),
		use(main, parser.LocalAction, "backup", bridge.CommandHeld, 1, 4*time.Hour),
	})
}

// testDays: turns and launches count for the day in UTC on which they began.
func testDays(t *testing.T, open Open) {
	s := open(t)
	cost := int64(2500)
	midnight := epoch.UTC().Truncate(24 * time.Hour)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		if err := tx.InsertAgent(bridge.Agent{ID: "agt_1", Name: "main", Root: "agt_1", OpKey: "1"}); err != nil {
			return err
		}
		for n, turn := range []struct {
			after time.Duration
			ended time.Time
			spent *bridge.Spent
		}{
			{-time.Microsecond, epoch, nil}, // too old
			{0, epoch, &bridge.Spent{Tokens: &bridge.Tokens{Input: 3, Output: 4}, CostMicros: &cost}},
			{24*time.Hour - time.Microsecond, epoch, nil},
			{25 * time.Hour, time.Time{}, nil}, // it is not over
			{72 * time.Hour, epoch, &bridge.Spent{CostMicros: &cost}},
		} {
			_, err := tx.InsertTurn(bridge.Turn{ID: bridge.TurnID(fmt.Sprint("trn_", n)), Agent: "agt_1", Cause: bridge.CauseUser, Spent: turn.spent, CreatedAt: midnight.Add(turn.after), EndedAt: turn.ended})
			if err != nil {
				return err
			}
		}
		launch := fullCommand(1)
		launch.Child, launch.State, launch.CreatedAt, launch.UpdatedAt = "agt_2", bridge.CommandGranted, midnight.Add(49*time.Hour), midnight.Add(49*time.Hour)
		return tx.InsertCommand(launch)
	})
	equal(t, "days", read(t, s, func(tx *bridge.Scene) ([]bridge.Day, error) { return tx.Days(midnight) }), []bridge.Day{
		{Start: midnight, Turns: 2, Tokens: 7, CostMicros: cost, Untold: 1},
		{Start: midnight.Add(24 * time.Hour), Turns: 1},
		{Start: midnight.Add(48 * time.Hour), Launches: 1},
		{Start: midnight.Add(72 * time.Hour), Turns: 1, CostMicros: cost, Untold: 1},
	})
}

func testCommandCounts(t *testing.T, open Open) {
	s := open(t)
	launches := func(since time.Time) int {
		return read(t, s, func(tx *bridge.Scene) (int, error) { return tx.CountLaunches(since) })
	}
	late := fullCommand(50) // held at first and let pass an hour later
	late.State, late.Child, late.UpdatedAt = bridge.CommandHeld, "", epoch
	openStates := 0
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		n := 0
		openStates = 0
		for state := range bridge.CommandEdges {
			c := fullCommand(n)
			c.State, c.Child, c.Agent = state, "", "agt_states"
			if state.Open() {
				openStates++
			}
			n++
			if err := tx.InsertCommand(c); err != nil {
				return err
			}
		}
		return tx.InsertCommand(late)
	})
	equal(t, "open commands", read(t, s, func(tx *bridge.Scene) (int, error) { return tx.CountOpenCommands("agt_states", "") }), openStates)
	equal(t, "open commands of a verb", read(t, s, func(tx *bridge.Scene) (int, error) { return tx.CountOpenCommands("agt_states", parser.Subagent) }), openStates)
	equal(t, "open commands of another verb", read(t, s, func(tx *bridge.Scene) (int, error) { return tx.CountOpenCommands("agt_states", parser.Remind) }), 0)
	equal(t, "open commands of nobody", read(t, s, func(tx *bridge.Scene) (int, error) { return tx.CountOpenCommands("agt_none", "") }), 0)
	equal(t, "launches before any grant", launches(at(-time.Hour)), 0)
	for i, state := range []bridge.CommandState{bridge.CommandGranted, bridge.CommandSending, bridge.CommandReported} {
		late.State, late.Child, late.UpdatedAt = state, "agt_late", at(time.Hour+time.Duration(i)*time.Minute)
		mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.UpdateCommand(late) })
		equal(t, "launches since the grant", launches(at(time.Hour)), 1)
		equal(t, "launches after the grant", launches(at(time.Hour+time.Second)), 0)
	}
	equal(t, "launches since ever", launches(time.Time{}), 1)
}
