package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
	"drawbridge/proof/stores"
	"drawbridge/store"
)

func TestPostgresContract(t *testing.T) {
	t.Parallel()
	var addresses sync.Map // *testing.T to the address of its database
	stores.Run(t, func(t *testing.T) bridge.Store {
		address, seen := addresses.Load(t)
		if !seen {
			address = pg.Database(t)
			addresses.Store(t, address)
		}
		return open(t, address.(string))
	})
}

func TestPostgresAddressIsNeverShown(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://user:hunter2hunter2@127.0.0.1:1/db?sslmode=disable&connect_timeout=1",
		"postgres://user:hunter2hunter2@127.0.0.1:notaport/db",
	} {
		s, err := store.Open(t.Context(), address)
		if err == nil {
			t.Fatal("opened", s.Close())
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in the error: %v", err)
		}
		if kind := bridge.KindOf(err); kind != bridge.Unavailable && kind != bridge.Invalid {
			t.Errorf("kind %q of %v", kind, err)
		}
	}
}

func TestPostgresTextOfAnyBytes(t *testing.T) {
	t.Parallel()
	s := open(t, pg.Database(t))
	turn := bridge.Turn{ID: "trn_1", Agent: "agt_1", State: bridge.TurnQueued, Reply: "a\x00b\xffc"}
	err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		if err := tx.InsertAgent(bridge.Agent{ID: "agt_1", Name: "a", Root: "agt_1", State: bridge.AgentIdle}); err != nil {
			return err
		}
		_, err := tx.InsertTurn(turn)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), func(tx *bridge.Scene) error {
		got, err := tx.Turn("trn_1")
		if got.Reply != "a\ufffdb\ufffdc" {
			t.Errorf("reply %q", got.Reply)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Two replicas on one database wake each other, and neither loses an update.
func TestPostgresReplicas(t *testing.T) {
	t.Parallel()
	address := pg.Database(t)
	a, b := open(t, address), open(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	woken := make(chan struct{}, 100)
	var listening sync.WaitGroup
	listening.Go(func() {
		if err := b.Listen(ctx, func() { woken <- struct{}{} }); err != nil {
			t.Errorf("listen: %v", err)
		}
	})
	<-woken // connected
	insert := func(s *store.Store, name string) {
		err := s.Update(ctx, func(tx *bridge.Scene) error {
			return tx.InsertAgent(bridge.Agent{ID: bridge.AgentID("agt_" + name), Name: name, Root: "x", State: bridge.AgentIdle})
		})
		if err != nil {
			t.Errorf("insert %s: %v", name, err)
		}
	}
	insert(a, "a")
	select {
	case <-woken:
	case <-ctx.Done():
		t.Error("the other replica was not woken")
	}
	var writers sync.WaitGroup
	for i := range 20 {
		for _, s := range []*store.Store{a, b} {
			writers.Go(func() {
				err := s.Update(ctx, func(tx *bridge.Scene) error {
					got, err := tx.Agent("agt_a")
					if err != nil {
						return err
					}
					got.Depth++ // a lost update would show as a number too small
					return tx.UpdateAgent(got)
				})
				if err != nil {
					t.Errorf("update %d: %v", i, err)
				}
			})
		}
	}
	writers.Wait()
	cancel()
	listening.Wait()
	treesSideBySide(t, address, a, b)
	unheardWakesNobody(t)
	err := a.View(t.Context(), func(tx *bridge.Scene) error {
		got, err := tx.Agent("agt_a")
		if got.Depth != 40 {
			t.Errorf("%d of 40 updates are there", got.Depth)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// treesSideBySide: while a replica is at a step of a tree, another one's step of that tree waits, and a step of another
// tree does not.
func treesSideBySide(t *testing.T, address string, a, b *store.Store) {
	t.Helper()
	watch, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Close(context.Background()) }()
	insertTree(t, a, "agt_left")
	insertTree(t, a, "agt_right")
	deepen := func(s *store.Store, id bridge.AgentID, meanwhile func()) error {
		return s.Update(t.Context(), func(tx *bridge.Scene) error {
			got, err := tx.Agent(id)
			if err != nil {
				return err
			}
			meanwhile()
			got.Depth++
			return tx.UpdateAgent(got)
		})
	}
	within, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		done <- deepen(a, "agt_left", func() { close(within); <-goOn })
	}()
	<-within
	if err := deepen(b, "agt_right", func() {}); err != nil { // it would wait until the statement's own limit
		t.Errorf("a step of another tree: %v", err)
	}
	var late atomic.Bool
	go func() {
		done <- deepen(b, "agt_left", func() {
			if !late.Load() {
				t.Error("another replica writes in the same tree")
			}
		})
	}()
	for waiting := 0; waiting == 0; {
		// Locks are of the whole server, which other tests use too.
		const query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
		if err := watch.QueryRow(t.Context(), query).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	late.Store(true)
	close(goOn)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	err = a.View(t.Context(), func(tx *bridge.Scene) error {
		got, err := tx.Agent("agt_left")
		if got.Depth != 2 {
			t.Errorf("%d of 2 updates are there", got.Depth)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func insertTree(t *testing.T, s *store.Store, id bridge.AgentID) {
	t.Helper()
	err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		return tx.InsertAgent(bridge.Agent{ID: id, Name: string(id), Root: id, State: bridge.AgentIdle})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unheardWakesNobody: what gives nobody anything to do is not announced to other replicas.
func unheardWakesNobody(t *testing.T) {
	t.Helper()
	address := pg.Database(t) // a store that wrote before may still have a wake-up to send
	s := open(t, address)
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "LISTEN drawbridge_wake"); err != nil {
		t.Fatal(err)
	}
	refuse := func(*bridge.Scene) error { return errors.New("refused") }
	if _, err := s.Claim(t.Context(), bridge.Claim{Now: time.Now(), Lease: time.Second, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	if s.Update(t.Context(), refuse) == nil {
		t.Error("an update that failed was recorded")
	}
	if _, err := conn.Exec(t.Context(), "NOTIFY drawbridge_wake, 'the end'"); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.WaitForNotification(t.Context()); err != nil || n.Payload != "the end" {
		t.Errorf("heard %+v, %v before the end", n, err)
	}
}

// TestServerAway: while the server is away everything says so, and how to go on.
func TestServerAway(t *testing.T) {
	t.Parallel()
	server := pg.Need(t)
	address, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, address)
	if err := server.Drop(t.Context(), address); err != nil { // ends its sessions, and lets nobody in
		t.Fatal(err)
	}
	read := func(tx *bridge.Scene) error {
		_, err := tx.Events(0, 1)
		return err
	}
	for what, err := range map[string]error{"update": s.Update(t.Context(), read), "view": s.View(t.Context(), read)} {
		// A session that was ended in its pool says so; a new one is let in no more.
		said := bridge.SafeMessage(err)
		known := strings.Contains(said, "the database server cannot be reached") || strings.Contains(said, "the database server takes no work now")
		if bridge.KindOf(err) != bridge.Unavailable || !known || !strings.Contains(said, "try again") {
			t.Errorf("%s: %q of kind %q (%v)", what, said, bridge.KindOf(err), err)
		}
	}
}

// TestCutOffAtTheStart: a connection that ends while the schema is looked at is the server's trouble and nobody's data; a
// schema that is wrong stays what it is.
func TestCutOffAtTheStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		kind bridge.ErrorKind
	}{
		{"ended by the operator", &pgconn.PgError{Code: "57P01"}, bridge.Unavailable},
		{"connection failure", &pgconn.PgError{Code: "08006"}, bridge.Unavailable},
		{"the transaction idled for too long", &pgconn.PgError{Code: "25P03"}, bridge.Unavailable},
		{"the transaction failed before", &pgconn.PgError{Code: "25P02"}, ""},
		{"cut", io.ErrUnexpectedEOF, bridge.Unavailable},
		{"reset", &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, bridge.Unavailable},
		{"no right", &pgconn.PgError{Code: "42501"}, ""},
		{"wrong schema", errors.New("no such table"), ""},
	}
	for _, tt := range tests {
		if err := store.CutOff(fmt.Errorf("migrate: %w", tt.err)); bridge.KindOf(err) != tt.kind || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v of kind %q, want %q", tt.name, err, bridge.KindOf(err), tt.kind)
		}
	}
}
