package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"drawbridge/bridge"
	"drawbridge/store"
)

func plainAgent(n int) bridge.Agent {
	id := bridge.AgentID(fmt.Sprintf("agt_%06d", n))
	return bridge.Agent{ID: id, Name: fmt.Sprint("agent-", n), Root: id, API: bridge.APIv1, State: bridge.AgentIdle}
}

func insertAgent(n int) func(*bridge.Scene) error {
	return func(tx *bridge.Scene) error { return tx.InsertAgent(plainAgent(n)) }
}

func countAgents(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	if err := s.View(t.Context(), func(tx *bridge.Scene) error {
		all, err := tx.Agents(bridge.AgentFilter{Limit: 1000})
		n = len(all)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDurabilitySettings guards facts: Webhook receiver, rule 7. With
// synchronous=NORMAL an acknowledged webhook can be forgotten.
func TestDurabilitySettings(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	for name, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "foreign_keys": "1", "busy_timeout": "10000"} {
		if got, err := s.Pragma(t.Context(), name); err != nil || got != want {
			t.Errorf("PRAGMA %s of the write connection is %q (%v), want %q", name, got, err, want)
		}
	}
	// A commit that need not wait for the disk changes nothing for the next one.
	for _, c := range []struct {
		ctx  context.Context
		want string
	}{{bridge.Forgettable(t.Context()), "1"}, {t.Context(), "2"}} {
		if err := s.Update(c.ctx, func(*bridge.Scene) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Pragma(t.Context(), "synchronous"); err != nil || got != c.want {
			t.Errorf("PRAGMA synchronous is %q (%v) after an update, want %q", got, err, c.want)
		}
	}
	if got, err := s.ReadPragma(t.Context(), "query_only"); err != nil || got != "1" {
		t.Errorf("PRAGMA query_only of a read connection is %q (%v), want 1", got, err)
	}
}

func TestOpenTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "drawbridge.db"), filepath.Join(dir, "link.db")
	first, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link, filepath.Join(dir, ".", "x", "..", "drawbridge.db")} {
		second, err := store.Open(t.Context(), p)
		if bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "another drawbridge") {
			t.Errorf("open %s a second time: %v, want a Conflict that says who has it", p, err)
		}
		if second != nil {
			t.Errorf("open %s a second time returned a store", p)
		}
	}
	if err := first.Update(t.Context(), insertAgent(1)); err != nil {
		t.Errorf("the first store does not work any more: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if n := countAgents(t, open(t, link)); n != 1 {
		t.Errorf("%d agents after the first was closed, want 1", n)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	lost, loop := filepath.Join(dir, "lost.db"), filepath.Join(dir, "loop.db")
	for link, target := range map[string]string{lost: filepath.Join(dir, "nothing.db"), loop: loop} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, path, want string
		kind             bridge.ErrorKind
	}{
		{"a text file", text, "is not a database, or its beginning is damaged; choose another path", bridge.Invalid},
		{"a directory", dir, "is a directory; name a file in it", bridge.Invalid},
		{"a missing folder", filepath.Join(dir, "none", "x.db"), "does not exist; create it", bridge.Invalid},
		{"a device", os.DevNull, "is not a regular file; choose another path", bridge.Invalid},
		{"a file as folder", filepath.Join(text, "x.db"), "a part of its path is a file; choose another path", bridge.Invalid},
		{"a link to nothing", lost, "is a link that leads to no file", bridge.Invalid},
		{"a link to itself", loop, "is a link that leads to no file", bridge.Invalid},
		{"a long name", filepath.Join(dir, strings.Repeat("x", 300)), "choose a shorter path", bridge.Invalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := store.Open(t.Context(), tt.path)
			if s != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("open %s: %v, want %q", tt.path, err, tt.want)
			}
			if !strings.HasPrefix(err.Error(), "open store ") || bridge.KindOf(err) != tt.kind {
				t.Errorf("open %s: %q of kind %q, want kind %q and to say what was being done", tt.path, err, bridge.KindOf(err), tt.kind)
			}
		})
	}
	if got, err := os.ReadFile(text); err != nil || !strings.HasPrefix(string(got), "this is no database") {
		t.Errorf("the text file was changed: %.20q, %v", got, err)
	}
	for _, left := range []string{dir + ".lock", os.DevNull + ".lock"} {
		if _, err := os.Lstat(left); err == nil {
			t.Errorf("%s was left behind", left)
		}
	}
}

// TestPathTroubleSaysWhatToDo: what a test cannot bring about as root has its remedy, too.
func TestPathTroubleSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]string{
		syscall.EACCES: "give that user the right to write the file and its folder", syscall.EPERM: "give that user the right",
		syscall.EROFS: "mount it for writing, or choose another path", syscall.ENOSPC: "the disk is full; make room", syscall.EDQUOT: "make room",
	} {
		err := store.StartTrouble(fmt.Errorf("open lock: %w", &fs.PathError{Op: "open", Path: "/data/x.db.lock", Err: cause}), "/data/x.db")
		if bridge.KindOf(err) != bridge.Invalid || !strings.HasPrefix(err.Error(), "the database /data/x.db ") || !strings.Contains(bridge.SafeMessage(err), want) {
			t.Errorf("%v: %v, want %q", cause, err, want)
		}
	}
	if other := errors.New("other"); store.StartTrouble(other, "/data/x.db") != other {
		t.Error("an error that is not known here is changed")
	}
}

// TestOpenDamaged: what cannot be opened is left as it is, and the error says what to do.
func TestOpenDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damaged, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(damaged[100:], strings.Repeat("\xff", 200)) // the head of the schema's own table
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), path)
	if bridge.KindOf(err) != bridge.Invalid || !strings.Contains(bridge.SafeMessage(err), "is damaged; restore it and the files beside it") {
		t.Errorf("open a damaged database: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, damaged) {
		t.Errorf("the damaged file was changed, %v", err)
	}
}

// TestFileModes: what agents were told and said is nobody else's business.
func TestFileModes(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]os.FileMode{"new": 0, "open to others": 0o644} {
		path := filepath.Join(t.TempDir(), "drawbridge.db")
		if before != 0 {
			if err := os.WriteFile(path, nil, before); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, path)
		if err := s.Update(t.Context(), insertAgent(1)); err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
			info, err := os.Stat(path + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s: mode of %s is %o, want 600", name, filepath.Base(path+suffix), info.Mode().Perm())
			}
		}
	}
}

// TestOddPaths: a path is a path, whatever SQLite's URIs make of its characters.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b.db", "what?.db", "x?mode=memory", "50%.db", "%41.db", "#1.db", ":memory:", "ü&=;.db", "file:x.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, path)
		if err := s.Update(t.Context(), insertAgent(1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s: the file is not where it was asked for: %v", name, err)
		}
		if n := countAgents(t, open(t, path)); n != 1 {
			t.Errorf("%s: %d agents after opening again, want 1", name, n)
		}
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := s.Update(t.Context(), insertAgent(1)); err == nil {
		t.Error("update of a closed store returned nil")
	}
	if err := s.View(t.Context(), func(*bridge.Scene) error { return nil }); err == nil {
		t.Error("view of a closed store returned nil")
	}
}

// TestOpenReleasesLeases: the process that held them is dead, or the file would be locked.
func TestOpenReleasesLeases(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "drawbridge.db")
	s := open(t, path)
	claims := func(s *store.Store) int {
		works, err := s.Claim(t.Context(), bridge.Claim{Now: benchTime, Lease: benchTime.Sub(benchTime.AddDate(-1, 0, 0)), Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(works)
	}
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.Enqueue(bridge.Work{Lane: "x", Due: benchTime}) }); err != nil {
		t.Fatal(err)
	}
	if first, second := claims(s), claims(s); first != 1 || second != 0 {
		t.Fatalf("claimed %d and %d, want 1 and 0", first, second)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := claims(open(t, path)); n != 1 {
		t.Errorf("claimed %d after opening again, want 1", n)
	}
}

// TestFullDisk: when the database gives up a transaction by itself, nobody of
// the batch is told that it is recorded, nothing of it is, and the store goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	if err := s.Update(t.Context(), insertAgent(0)); err != nil {
		t.Fatal(err)
	}
	pages, err := s.Pragma(t.Context(), "page_count")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Exec(t.Context(), "PRAGMA max_page_count = "+pages); err != nil {
		t.Fatal(err)
	}
	errs := together(t, s, 8, func(n int) func(*bridge.Scene) error {
		return func(tx *bridge.Scene) error {
			a := plainAgent(n + 1)
			if n%2 == 0 {
				a.Trouble = strings.Repeat("x", 1<<20)
			}
			return tx.InsertAgent(a)
		}
	})
	recorded := 1
	for n, err := range errs {
		if err == nil {
			recorded++
		}
		if n%2 == 0 && err == nil {
			t.Errorf("update %d had no room and returned nil", n)
		}
		if err != nil && (bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(bridge.SafeMessage(err), "the disk of the database is full; make room")) {
			t.Errorf("update %d: %v, want words about the disk", n, err)
		}
	}
	if n := countAgents(t, s); n != recorded {
		t.Errorf("%d agents are there and %d were acknowledged", n, recorded)
	}
	if err := s.Exec(t.Context(), "PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), insertAgent(100)); err != nil {
		t.Errorf("update after there is room again: %v", err)
	}
}

// TestLostTransaction: a transaction that ends under a batch must not be
// continued by a new one that commits the second half.
func TestLostTransaction(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	lose := "CREATE TEMP TRIGGER lose AFTER INSERT ON main.agents WHEN NEW.id = '" + string(plainAgent(1).ID) + "' BEGIN SELECT RAISE(ROLLBACK, 'lost'); END"
	if err := s.Exec(t.Context(), lose); err != nil {
		t.Fatal(err)
	}
	errs := together(t, s, 4, func(n int) func(*bridge.Scene) error {
		return func(tx *bridge.Scene) error { return tx.InsertAgent(plainAgent(n)) }
	})
	for n, err := range errs {
		if err == nil {
			t.Errorf("update %d was acknowledged", n)
		}
	}
	if n := countAgents(t, s); n != 0 {
		t.Errorf("%d agents of a batch that was lost", n)
	}
	if err := s.Update(t.Context(), insertAgent(9)); err != nil {
		t.Errorf("the next update: %v", err)
	}
}

// TestFunctionEndsItsGoroutine: a caller that never returns (t.FailNow in a
// test) takes nobody with it who then waits without end.
func TestFunctionEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = s.Update(t.Context(), func(tx *bridge.Scene) error {
			if err := tx.InsertAgent(plainAgent(1)); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
	}()
	<-gone
	if err := s.Update(t.Context(), insertAgent(2)); err != nil {
		t.Errorf("the next update: %v", err)
	}
	if n := countAgents(t, s); n != 1 {
		t.Errorf("%d agents, want the second one alone", n)
	}
}

// together runs n updates in one commit, in order, and returns their errors.
func together(t *testing.T, s *store.Store, n int, fn func(n int) func(*bridge.Scene) error) []error {
	t.Helper()
	fns := make([]func(*bridge.Scene) error, n)
	for i := range fns {
		fns[i] = fn(i)
	}
	return s.Together(t.Context(), fns)
}

// TestOddText: what agents write comes back byte for byte.
func TestOddText(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	for n, text := range []string{"", "\x00", "a\x00b", "\xff\xfe", "'; DROP TABLE agents; --", "\u202egnp", strings.Repeat("ß", 1<<20), "$1 ?1 :x"} {
		a := plainAgent(n)
		a.Trouble = text
		if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return tx.InsertAgent(a) }); err != nil {
			t.Fatal(err)
		}
		if err := s.View(t.Context(), func(tx *bridge.Scene) error {
			got, err := tx.Agent(a.ID)
			if err == nil && got.Trouble != text {
				err = errors.New("it came back as something else")
			}
			return err
		}); err != nil {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// TestViewsPrepareOnce: a look-up is parsed once, and views that all meet new look-ups at once do not wait for each other's connections.
func TestViewsPrepareOnce(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "db"))
	views := 4 * (4 + runtime.NumCPU()) // more than there are connections
	look := func() {
		var inside sync.WaitGroup
		for i := range views {
			inside.Go(func() {
				if err := s.View(t.Context(), func(sc *bridge.Scene) error {
					if _, err := sc.Turns(bridge.TurnFilter{Agent: bridge.AgentID(fmt.Sprint("agt_", i)), Limit: 1}); err != nil {
						return err
					}
					_, err := sc.Agents(bridge.AgentFilter{Limit: i + 1})
					return err
				}); err != nil {
					t.Error(err)
				}
			})
		}
		inside.Wait()
	}
	look()
	first := store.Prepared(s)
	look()
	if again := store.Prepared(s); first == 0 || again != first {
		t.Errorf("%d statements are prepared after the first views and %d after the same views once more", first, again)
	}
}

// TestFailingLoadWritesNothing: a look-up that fails while a step runs ends the step with that error, also where the step took it for a row
// that is not there.
func TestFailingLoadWritesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	const agents = 3
	step := func(tx *bridge.Scene) error {
		for n := range agents {
			if _, err := tx.Agent(plainAgent(n).ID); err != nil {
				if err := tx.InsertAgent(plainAgent(n)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for n := 1; n <= agents; n++ {
		if writes, err := s.FailAt(t.Context(), n, step); !errors.Is(err, store.ErrBroken) || writes != 0 {
			t.Errorf("look-up %d failed: %d statements were written, %v", n, writes, err)
		}
	}
	if writes, err := s.FailAt(t.Context(), 0, step); err != nil || writes < agents {
		t.Errorf("without a fault %d statements were written, %v", writes, err)
	}
}
