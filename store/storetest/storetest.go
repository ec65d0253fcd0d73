// Package storetest is the contract of bridge.Store as one suite that every
// implementation must pass. It is not a place for what only one database does
// (files, pragmas, query plans). Rule of thumb: it knows the words of package
// bridge and nothing else, so that a store which passes it can replace another.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/bridge"
)

// Open returns a store over the database that belongs to t. A second call with
// the same t, made after the first store was closed, opens the same database
// again; another t has another database. Open closes what is still open when t ends.
type Open func(t *testing.T) bridge.Store

// Run runs the whole contract. Subtests run in parallel, each on its own
// database. A store that can be closed implements io.Closer; without it the
// durability test cannot mean anything and fails.
func Run(t *testing.T, open func(t *testing.T) bridge.Store) {
	tests := []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"Agents", testAgents},
		{"AgentFilters", testAgentFilters},
		{"AgentConflict", testAgentConflict},
		{"CountOpenSubagents", testCountOpenSubagents},
		{"Turns", testTurns},
		{"TurnFilters", testTurnFilters},
		{"OpenTurn", testOpenTurn},
		{"TurnNumbers", testTurnNumbers},
		{"Commands", testCommands},
		{"CommandFilters", testCommandFilters},
		{"CommandCounts", testCommandCounts},
		{"Notices", testNotices},
		{"MailNotices", testMailNotices},
		{"Messages", testMessages},
		{"MessageFilters", testMessageFilters},
		{"Letters", testLetters},
		{"MailState", testMailState},
		{"Conversations", testConversations},
		{"Members", testMembers},
		{"Reactions", testReactions},
		{"Files", testFiles},
		{"Trees", testTrees},
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
		{"Blocks", testBlocks},
		{"Passages", testPassages},
		{"Search", testSearch},
		{"SearchModel", testSearchModel},
		{"Tokens", testTokens},
		{"Runs", testRuns},
		{"Misses", testMisses},
		{"FailedUpdate", testFailedUpdate},
		{"FailuresAmongOthers", testFailuresAmongOthers},
		{"CancelledUpdate", testCancelledUpdate},
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
		{"Failures", testFailures},
		{"NextDue", testNextDue},
		{"ReleaseAll", testReleaseAll},
		{"LaneWorkers", testLaneWorkers},
		{"LaneModel", testLaneModel},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, open)
		})
	}
}

// epoch is when the tests play. It has microseconds, the finest that a store must keep.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 890_123_000, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

// mustUpdate runs fn in an Update that must succeed. fn returns errors and
// never ends the test: it may run on another caller's goroutine.
func mustUpdate(t *testing.T, s bridge.Store, fn func(bridge.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("update: %v", err)
	}
}

func mustView(t *testing.T, s bridge.Store, fn func(bridge.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatalf("view: %v", err)
	}
}

// read returns what one look-up sees in a View.
func read[T any](t *testing.T, s bridge.Store, look func(bridge.Tx) (T, error)) T {
	t.Helper()
	got, err := lookUp(t.Context(), s, look)
	if err != nil {
		t.Fatalf("look-up: %v", err)
	}
	return got
}

func lookUp[T any](ctx context.Context, s bridge.Store, look func(bridge.Tx) (T, error)) (got T, err error) {
	err = s.View(ctx, func(tx bridge.Tx) error {
		got, err = look(tx)
		return err
	})
	return got, err
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// noZeroField fails when v leaves a field out, so that a field that is added
// to a noun later cannot be forgotten by a store unseen.
func noZeroField(t *testing.T, v any) {
	t.Helper()
	r := reflect.ValueOf(v)
	for i := range r.NumField() {
		if r.Field(i).IsZero() {
			t.Fatalf("the sample %s leaves %s empty; fill it", r.Type(), r.Type().Field(i).Name)
		}
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

var errUndo = errors.New("undo")

// insert returns a function that inserts agents.
func insert(agents ...bridge.Agent) func(bridge.Tx) error {
	return func(tx bridge.Tx) error {
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
