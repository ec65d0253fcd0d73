//go:build deep

package soak_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"drawbridge/proof/pg"
)

// trouble is something that is done to a world at a time after its start.
type trouble struct {
	at time.Duration
	do func()
}

// storm does its troubles when their time has come.
type storm struct {
	began time.Time
	todo  []trouble
}

// act reports whether everything was done.
func (s *storm) act() bool {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	for len(s.todo) > 0 && time.Since(s.began) >= s.todo[0].at {
		s.todo[0].do()
		s.todo = s.todo[1:]
	}
	return len(s.todo) == 0
}

// random makes everything of one proof from its seed.
type random struct {
	*rand.Rand
	w     *world
	storm storm
	plan  []string
}

// within is a time in the middle of a story, which takes some three seconds undisturbed.
func (r *random) within() time.Duration { return time.Duration(r.Int64N(int64(4 * time.Second))) }

func (r *random) plot(what string, at time.Duration, do func()) {
	r.plan = append(r.plan, fmt.Sprintf("%s at %s", what, at.Round(time.Millisecond)))
	r.storm.todo = append(r.storm.todo, trouble{at, func() { totals.add(what, 1); do() }})
}

// sorted puts the troubles in the order of their times.
func (r *random) sorted() *storm {
	slices.SortStableFunc(r.storm.todo, func(a, b trouble) int { return cmp.Compare(a.at, b.at) })
	return &r.storm
}

// cloudFaults are misbehaviors of the cloud that leave exactly one way for the story to end.
var cloudFaults = []string{
	"{ fault: lost_create_response, times: 1, api: v1 }", "{ fault: lost_create_response, times: 1, api: v0 }", "{ fault: create_5xx, when: after, times: 1, api: v1 }",
	"{ fault: create_5xx, when: before, times: 1, api: v1 }", "{ fault: followup_lost_response, times: 1 }", "{ fault: stream_drop, times: 2 }",
	"{ fault: stream_unavailable, times: 2 }", "{ fault: webhook_duplicate }", "{ fault: webhook_never }", "{ fault: rate_limit, times: 3 }",
	"{ fault: slow_create, delay: 2s, times: 1, api: v1 }", "{ fault: hang, op: run, delay: 2s, times: 1 }",
}

func (r *random) faults() string {
	chosen := r.Perm(len(cloudFaults))[:r.IntN(3)]
	var list []string
	for _, i := range chosen {
		list = append(list, cloudFaults[i])
		r.plan = append(r.plan, cloudFaults[i])
	}
	return "faults: [" + strings.Join(list, ", ") + "]\n"
}

// TestRandomKills kills the bridge and the relay at seeded times, several times each, with faults of the cloud besides.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	eachSeed(t, 4, func(t *testing.T, r *random) {
		set := worldOn(t, []string{"sqlite", "postgres"}[r.IntN(2)])
		set.cloud = r.faults()
		r.w = newWorld(t, set)
		for range 1 + r.IntN(4) {
			r.plot("the bridge is killed", r.within(), r.w.bridges[0].crash)
		}
		for range r.IntN(3) {
			r.plot("the relay is killed", r.within(), r.w.relay.crash)
		}
	})
}

// TestReplicas has three bridges on one PostgreSQL database. At seeded times one is killed, others are stopped for longer
// than their leases, and connections are cut: to the database, by its server and on the way, to the cloud, to the relay. One
// seed of three has a server of its own, which is ended at once and started again.
func TestReplicas(t *testing.T) {
	t.Parallel()
	eachSeed(t, 3, func(t *testing.T, r *random) {
		address, own := pg.Database(t), (*pg.Server)(nil)
		if r.IntN(3) == 0 {
			own, address = ownServer(t)
		}
		r.w = newWorld(t, setting{database: address, lease: 2 * time.Second, cloud: r.faults(), proxied: true, replicas: 3})
		r.plot("a replica of three is killed", r.within(), r.w.bridges[r.IntN(3)].crash)
		for range 1 + r.IntN(2) {
			p, at := r.w.bridges[r.IntN(3)], r.within()
			r.plot("a replica of three is stopped beyond its lease", at, func() { p.signal(syscall.SIGSTOP) })
			// Longer than a lease, and now and then longer than the server lets a transaction lie idle (5 s).
			wake := at + 2500*time.Millisecond + time.Duration(r.Int64N(int64(4*time.Second)))
			r.storm.todo = append(r.storm.todo, trouble{wake, func() { p.signal(syscall.SIGCONT) }})
		}
		for range 1 + r.IntN(3) {
			r.plot("every database session is ended by the server", r.within(), func() { terminate(t, address) })
		}
		for range once(own != nil) * (1 + r.IntN(2)) {
			r.plot("PostgreSQL is ended at once and started again", r.within(), func() {
				if _, err := own.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		}
		for _, name := range []string{"database", "cloud", "relay"} {
			for range 1 + r.IntN(3) {
				r.plot("every connection to the "+name+" is cut", r.within(), func() {
					totals.add("connections cut", r.w.proxies[name].cut())
				})
			}
		}
		if r.IntN(3) == 0 {
			r.plot("the relay is killed", r.within(), r.w.relay.crash)
		}
	})
}

// ownServer starts a server that no other test uses, and makes a database there.
func ownServer(t *testing.T) (*pg.Server, string) {
	t.Helper()
	server, err := pg.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	address, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return server, address
}

// terminate ends every session of the bridges on a database.
func terminate(t *testing.T, address string) {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var n int
	err = conn.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()",
		strings.TrimPrefix(u.Path, "/")).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	totals.add("database sessions ended", n)
}

// eachSeed plays seeds: a few in the short form, until the time is over in the long one.
func eachSeed(t *testing.T, short int, set func(*testing.T, *random)) {
	n, began := short, time.Now()
	if *rounds > 0 {
		n = *rounds
	}
	next, hands := make(chan int64), sync.WaitGroup{}
	for range max(*workers/3, 1) {
		hands.Go(func() {
			for s := range next {
				t.Run(fmt.Sprint("seed", s), func(t *testing.T) { playSeed(t, s, set) })
			}
		})
	}
	for i := 0; i < n || *long > 0 && *rounds == 0 && time.Since(began) < *long; i++ {
		next <- *seed + int64(i)
	}
	close(next)
	hands.Wait()
}

func playSeed(t *testing.T, s int64, set func(*testing.T, *random)) {
	r := &random{Rand: rand.New(rand.NewPCG(uint64(s), 1))}
	set(t, r)
	again := fmt.Sprintf("go test -tags deep ./proof/soak -run '%s$' -soak.seed=%d -soak.rounds=1", strings.ReplaceAll(t.Name(), "/", "$/^"), s)
	t.Logf("seed %d: %s\nrepeat with: %s", s, strings.Join(r.plan, "; "), again)
	r.w.raise()
	check(t, r.w.play(r.sorted().act), again)
	totals.add("seeds of "+strings.Split(t.Name(), "/")[0], 1)
}
