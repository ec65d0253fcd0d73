// Package stores is the contract of bridge.Store as one suite that every
// implementation must pass. It is not a place for what only one database does
// (files, pragmas, query plans). Rule of thumb: it knows the words of package
// bridge and nothing else, so that a store which passes it can replace another.
package stores

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"drawbridge/bridge"
)

// Open returns a store over the database that belongs to t. A second call with
// the same t, made after the first store was closed, opens the same database
// again; another t has another database. Open closes what is still open when t ends.
type Open func(t *testing.T) bridge.Store

// contractTest is one subtest, on a database of its own.
type contractTest struct {
	name string
	test func(*testing.T, Open)
}

// tests is the contract but for recall.
var tests = []contractTest{
	{"Agents", testAgents},
	{"AgentFilters", testAgentFilters},
	{"AgentConflict", testAgentConflict},
	{"NamesOfTrees", testNamesOfTrees},
	{"CountOpenSubagents", testCountOpenSubagents},
	{"Turns", testTurns},
	{"TurnFilters", testTurnFilters},
	{"OpenTurn", testOpenTurn},
	{"CurrentTurn", testCurrentTurn},
	{"TurnNumbers", testTurnNumbers},
	{"Commands", testCommands},
	{"CommandFilters", testCommandFilters},
	{"Uses", testUses},
	{"Days", testDays},
	{"CommandCounts", testCommandCounts},
	{"Notices", testNotices},
	{"MailNotices", testMailNotices},
	{"Messages", testMessages},
	{"MessageFilters", testMessageFilters},
	{"Letters", testLetters},
	{"MailState", testMailState},
	{"DropLetter", testDropLetter},
	{"Conversations", testConversations},
	{"Members", testMembers},
	{"Reactions", testReactions},
	{"Files", testFiles},
	{"CountThreads", testCountThreads},
	{"Trees", testTrees},
	{"Told", testTold},
	{"Restored", testRestored},
	{"Completions", testCompletions},
	{"Deliveries", testDeliveries},
	{"FirstCompletionWins", testFirstCompletionWins},
	{"Echoes", testEchoes},
	{"Approvals", testApprovals},
	{"Relays", testRelays},
	{"RelayOffers", testRelayOffers},
	{"RelayJoins", testRelayJoins},
	{"RelayKeys", testRelayKeys},
	{"RelayCalls", testRelayCalls},
	{"RelayTies", testRelayTies},
	{"PurgeRelays", testPurgeRelays},
	{"Events", testEvents},
	{"EventsMissNothing", testEventsMissNothing},
	{"History", testHistory},
	{"Quotes", testQuotes},
	{"SentAgain", testSentAgain},
	{"Watches", testWatches},
	{"Misses", testMisses},
	{"FailedUpdate", testFailedUpdate},
	{"FailuresAmongOthers", testFailuresAmongOthers},
	{"Cancelled", testCancelled},
	{"ViewIsASnapshot", testViewIsASnapshot},
	{"ViewWritesNothing", testViewWritesNothing},
	{"ConcurrentUpdates", testConcurrentUpdates},
	{"Durable", testDurable},
	{"LaneOrder", testLaneOrder},
	{"LanesSideBySide", testLanesSideBySide},
	{"LaneDue", testLaneDue},
	{"ClaimLimit", testClaimLimit},
	{"LeaseExpiry", testLeaseExpiry},
	{"LeaseEnds", testLeaseEnds},
	{"WakeLane", testWakeLane},
	{"WakeLanes", testWakeLanes},
	{"Failures", testFailures},
	{"MachineQuestions", testMachineQuestions},
	{"Tries", testTries},
	{"AwaySince", testAwaySince},
	{"Lost", testLost},
	{"NextDue", testNextDue},
	{"ReleaseAll", testReleaseAll},
	{"LaneWorkers", testLaneWorkers},
	{"LaneModel", testLaneModel},
}

// Run runs the whole contract. Subtests run in parallel, each on its own
// database. A store that can be closed implements io.Closer; without it the
// durability test cannot mean anything and fails.
func Run(t *testing.T, open func(t *testing.T) bridge.Store) {
	for _, tt := range slices.Concat(tests, recallTests()) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, open)
		})
	}
}

func mustView(t *testing.T, s bridge.Store, fn func(*bridge.Scene) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatalf("view: %v", err)
	}
}

// reopen closes s and opens its database again.
func reopen(t *testing.T, s bridge.Store, open Open) bridge.Store {
	t.Helper()
	c, ok := s.(io.Closer)
	if !ok {
		t.Fatalf("%T cannot be closed", s)
	}
	if err := c.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return open(t)
}

// insert returns a function that inserts agents.
func insert(agents ...bridge.Agent) func(*bridge.Scene) error {
	return func(tx *bridge.Scene) error {
		for _, a := range agents {
			if err := tx.InsertAgent(a); err != nil {
				return fmt.Errorf("insert agent %q: %w", a.ID, err)
			}
		}
		return nil
	}
}

// agent returns a plain agent whose unique fields are made from n. Ids sort by n.
func agent(n int) bridge.Agent {
	id := bridge.AgentID(fmt.Sprintf("agt_%04d", n))
	return bridge.Agent{ID: id, Name: fmt.Sprintf("name-%d", n), Root: id, API: bridge.APIv1, State: bridge.AgentIdle, CreatedAt: epoch, UpdatedAt: epoch}
}

func turn(a bridge.AgentID, n int) bridge.Turn {
	return bridge.Turn{ID: bridge.TurnID(fmt.Sprintf("trn_%04d", n)), Agent: a, Cause: bridge.CauseUser, Text: "hello", State: bridge.TurnQueued, CreatedAt: epoch}
}

func agentIDs(agents []bridge.Agent) []bridge.AgentID {
	ids := make([]bridge.AgentID, len(agents))
	for i, a := range agents {
		ids[i] = a.ID
	}
	return ids
}
