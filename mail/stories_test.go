package mail_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"drawbridge/mail"
	"drawbridge/proof/pg"
	"drawbridge/store"
)

// beginner makes a world on a database of its own.
type beginner func(testing.TB, mail.Options) *world

// play runs the stories that every database must tell alike.
func play(t *testing.T, begin beginner) {
	for _, story := range []struct {
		name string
		test func(*testing.T, beginner)
	}{
		{"SyncIsTwoTurns", testSyncIsTwoTurns},
		{"Broadcast", testBroadcast},
		{"JoinedBroadcast", testJoinedBroadcast},
		{"JoinedBroadcastEndsAtItsDeadline", testJoinedBroadcastEndsAtItsDeadline},
		{"JoinedBroadcastCountsTheSilent", testJoinedBroadcastCountsTheSilent},
		{"RateLimit", testRateLimit},
		{"FailedTurnKeepsItsMail", testFailedTurnKeepsItsMail},
		{"InboxInTheTurn", testInboxInTheTurn},
		{"Messages", testMessages},
		{"QuietMailHidesNothing", testQuietMailHidesNothing},
		{"ManyWriters", testManyWriters},
		{"Thread", testThread},
		{"ThreadWakes", testThreadWakes},
		{"MembersHearOfMembers", testMembersHearOfMembers},
		{"RemovedMember", testRemovedMember},
		{"RemovedInAGroup", testRemovedInAGroup},
		{"RemovedAndTheTurnFails", testRemovedAndTheTurnFails},
		{"RemovedFromAChannel", testRemovedFromAChannel},
		{"Channel", testChannel},
		{"DMChain", testDMChain},
		{"DMChainIsAsLongAsConfigured", testDMChainIsAsLongAsConfigured},
		{"EditAndDelete", testEditAndDelete},
		{"EditOfAThreadsBeginning", testEditOfAThreadsBeginning},
		{"TheOperatorAnswers", testTheOperatorAnswers},
		{"CountedBounds", testCountedBounds},
		{"CountedMessages", testCountedMessages},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			story.test(t, begin)
		})
	}
}

func TestStories(t *testing.T) {
	t.Parallel()
	play(t, newFileWorld)
}

func TestStoriesOnPostgres(t *testing.T) {
	t.Parallel()
	play(t, func(t testing.TB, o mail.Options) *world {
		s, err := store.Open(t.Context(), pg.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return newWorldOn(t, s, o)
	})
}

func TestMain(m *testing.M) {
	os.Exit(pg.Main(m, func() error { return goleak.Find() }))
}
