package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"drawbridge/bridge"
	"drawbridge/proof/pg"
)

// TestPostgresErrorCodes: what a step does when the server fails its commit so many times with a code. A step that met another one runs
// again, at most twenty times. Any other trouble is an error at once that says what was recorded. The next try is recorded once.
func TestPostgresErrorCodes(t *testing.T) {
	t.Parallel()
	address := pg.Database(t)
	s := open(t, address)
	onServer(t, address, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "CREATE SEQUENCE tries; "+failing(0, "40001")+"; CREATE TRIGGER fail BEFORE UPDATE ON agents FOR EACH ROW EXECUTE FUNCTION fail()")
		return err
	})
	const nothing, look = "This change was not recorded", "Check whether this change was recorded"
	for _, c := range []struct {
		code         string
		fails, tries int
		says         string
	}{
		{"40001", 3, 4, ""},
		{"40P01", 3, 4, ""},
		{"40001", 25, 20, nothing},
		{"40P01", 25, 20, nothing},
		{"55P03", 1, 1, nothing},
		{"57014", 1, 1, nothing},
		{"53300", 1, 1, nothing},
		{"57P01", 1, 1, look},
		{"57P02", 1, 1, look},
		{"08006", 1, 1, look},
	} {
		t.Run(fmt.Sprint(c.code, " ", c.fails), func(t *testing.T) {
			clean(t, address)
			insertTree(t, s, "agt_1")
			failUpdates(t, address, c.code, c.fails)
			deepen := func(tx *bridge.Scene) error {
				a, err := tx.Agent("agt_1")
				if err != nil {
					return err
				}
				a.Depth++
				return tx.UpdateAgent(a)
			}
			err := s.Update(t.Context(), deepen)
			if c.says != "" && (bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(err.Error(), c.says)) || c.says == "" && err != nil {
				t.Errorf("the step: %v; want %q", err, c.says)
			}
			if n := triesOf(t, address); n != c.tries {
				t.Errorf("%d tries; want %d", n, c.tries)
			}
			if c.says != "" {
				must(t, s.Update(t.Context(), deepen))
			}
			must(t, s.View(t.Context(), deepIs1))
		})
	}
}

// failUpdates makes the server fail the next updates of an agent. A sequence counts them, because no rollback takes it back.
func failUpdates(t *testing.T, address, code string, times int) {
	t.Helper()
	onServer(t, address, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "ALTER SEQUENCE tries RESTART; "+failing(times, code))
		return err
	})
}

func failing(times int, code string) string {
	return fmt.Sprintf(`CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('tries') <= %d THEN RAISE EXCEPTION 'made to fail' USING ERRCODE = '%s'; END IF; RETURN NEW; END $$`, times, code)
}

func triesOf(t *testing.T, address string) (n int) {
	t.Helper()
	onServer(t, address, func(conn *pgx.Conn) error {
		return conn.QueryRow(t.Context(), "SELECT last_value FROM tries").Scan(&n)
	})
	return n
}

func onServer(t *testing.T, address string, do func(*pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	must(t, errors.Join(do(conn), conn.Close(t.Context())))
}
