package mail_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"drawbridge/internal/pgtest"
	"drawbridge/mail"
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
		{"RateLimit", testRateLimit},
		{"FailedTurnKeepsItsMail", testFailedTurnKeepsItsMail},
		{"InboxInTheTurn", testInboxInTheTurn},
		{"Messages", testMessages},
		{"QuietMailHidesNothing", testQuietMailHidesNothing},
		{"ManyWriters", testManyWriters},
		{"Thread", testThread},
		{"ThreadWakes", testThreadWakes},
		{"Channel", testChannel},
		{"DMChain", testDMChain},
		{"EditAndDelete", testEditAndDelete},
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
		s, err := store.Open(t.Context(), database(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return newWorldOn(t, s, o)
	})
}

// cluster is started once, by the first test that needs it, and stopped by TestMain.
var cluster struct {
	sync.Once
	server *pgtest.Server
	err    error
}

// database makes a database that goes when t ends.
func database(t testing.TB) string {
	t.Helper()
	cluster.Do(func() { cluster.server, cluster.err = pgtest.Start(context.Background()) })
	if cluster.err != nil {
		t.Fatal(cluster.err)
	}
	address, err := cluster.server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.server.Drop(context.Background(), address); err != nil {
			t.Errorf("drop database: %v", err)
		}
	})
	return address
}

func TestMain(m *testing.M) {
	code := m.Run()
	if cluster.server != nil {
		if err := cluster.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "leaked goroutines:", err)
		code = 1
	}
	os.Exit(code)
}
