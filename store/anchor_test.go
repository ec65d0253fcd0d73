package store_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/store"
)

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// replaceWithCopy puts a copy in a file's place at once, and keeps the file itself under another name.
func replaceWithCopy(t *testing.T, path, kept string) {
	t.Helper()
	if err := os.Link(path, kept); err != nil {
		t.Fatal(err)
	}
	copyFile(t, path, path+".copy")
	move(t, path+".copy", path)
}

// TestFilesGoAwayUnderAStore: SQLite commits on into files that were removed, moved or replaced, and all of that is lost
// with the process. The store notices before it acknowledges anything, stays so, and what it acknowledged before is in the
// file that survives.
func TestFilesGoAwayUnderAStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir string)
		// whole is where everything acknowledged stands after Close; "" when the file itself is gone.
		whole, want string
	}{
		"the database is removed":  {func(t *testing.T, dir string) { remove(t, dir+"/x.db") }, "", "x.db is gone"},
		"it is moved":              {func(t *testing.T, dir string) { move(t, dir+"/x.db", dir+"/y.db") }, "y.db", "x.db is gone"},
		"it is moved and put back": {func(t *testing.T, dir string) { move(t, dir+"/x.db", dir+"/y.db") }, "y.db", "x.db is gone"},
		"a copy replaces it": {func(t *testing.T, dir string) {
			replaceWithCopy(t, dir+"/x.db", dir+"/y.db")
		}, "y.db", "x.db is another file"},
		"an empty file replaces it": {func(t *testing.T, dir string) {
			if err := os.Link(dir+"/x.db", dir+"/y.db"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/empty", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			move(t, dir+"/empty", dir+"/x.db")
		}, "y.db", "x.db is another file"},
		"its folder is moved": {func(t *testing.T, dir string) { move(t, dir, dir+"2") }, "../store2/x.db", "x.db is gone"},
		"its log is removed":  {func(t *testing.T, dir string) { remove(t, dir+"/x.db-wal") }, "x.db", "x.db-wal is gone"},
		"its log is moved":    {func(t *testing.T, dir string) { move(t, dir+"/x.db-wal", dir+"/old-wal") }, "x.db", "x.db-wal is gone"},
		"its log is replaced": {func(t *testing.T, dir string) {
			replaceWithCopy(t, dir+"/x.db-wal", dir+"/old-wal")
		}, "x.db", "x.db-wal is another file"},
		"its index is removed": {func(t *testing.T, dir string) { remove(t, dir+"/x.db-shm") }, "x.db", "x.db-shm is gone"},
		"its link leads elsewhere": {func(t *testing.T, dir string) {
			copyFile(t, dir+"/x.db", dir+"/z.db")
			if err := os.Symlink(dir+"/z.db", dir+"/new"); err != nil {
				t.Fatal(err)
			}
			move(t, dir+"/new", filepath.Dir(dir)+"/link.db")
		}, "x.db", "link.db is another file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(filepath.Dir(dir), "link.db")
			if err := os.WriteFile(filepath.Join(dir, "x.db"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(dir, "x.db"), link); err != nil {
				t.Fatal(err)
			}
			s := open(t, link)
			for n := range 5 {
				if err := s.Update(t.Context(), insertAgent(n)); err != nil {
					t.Fatal(err)
				}
			}
			said := watch(t, s)
			c.harm(t, dir)
			refused(t, "the first update", s.Update(t.Context(), insertAgent(5)), c.want)
			if name == "it is moved and put back" {
				move(t, dir+"/y.db", dir+"/x.db")
				refused(t, "an update after it was put back", s.Update(t.Context(), insertAgent(6)), c.want)
				move(t, dir+"/x.db", dir+"/y.db")
			}
			refused(t, "a view", s.View(t.Context(), func(*bridge.Scene) error { return nil }), c.want)
			refused(t, "the watch", <-said, c.want)
			refused(t, "a check", s.Check(), c.want)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if c.whole != "" {
				if n := countAgents(t, open(t, filepath.Join(dir, c.whole))); n != 5 {
					t.Errorf("%d agents of those that were acknowledged are there, want 5", n)
				}
			}
		})
	}
}

func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	if bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(bridge.SafeMessage(err), want) || !strings.Contains(bridge.SafeMessage(err), "Stop this bridge") {
		t.Errorf("%s: %v, want %q and what to do", what, err, want)
	}
}

// watch runs the store's watch and returns where it says that a file is lost.
func watch(t *testing.T, s *store.Store) <-chan error {
	t.Helper()
	said := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Watch(ctx, time.Millisecond, func(err error) { said <- err }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
		if len(said) > 0 {
			t.Error("the watch says it twice")
		}
	})
	return said
}

// TestFileMovesDuringACommit: the transaction itself succeeds, into a file that the path does not lead to.
func TestFileMovesDuringACommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path)
	var once sync.Once
	err := s.Update(t.Context(), func(tx *bridge.Scene) error {
		once.Do(func() { move(t, path, path+".old") })
		return tx.InsertAgent(plainAgent(1))
	})
	refused(t, "the update", err, "x.db is gone")
	other := open(t, filepath.Join(t.TempDir(), "x.db"))
	err = other.View(t.Context(), func(tx *bridge.Scene) error {
		path := other.Path(t.Context())
		move(t, path, path+".old")
		return nil
	})
	refused(t, "a view", err, "x.db is gone")
}

// TestOneBridgePerFile: whatever it is called, two bridges never serve one file.
func TestOneBridgePerFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	s := open(t, path)
	if err := os.Link(path, filepath.Join(dir, "hard.db")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("hard.db", filepath.Join(dir, "soft.db")); err != nil {
		t.Fatal(err)
	}
	remove(t, path+".lock")
	held := func(name string) {
		t.Helper()
		second, err := store.Open(t.Context(), filepath.Join(dir, name))
		if bridge.KindOf(err) != bridge.Conflict || !strings.Contains(bridge.SafeMessage(err), "another drawbridge") {
			t.Errorf("%s: %v", name, err)
		}
		if second != nil {
			t.Fatal("opened", second.Close())
		}
	}
	held("hard.db")
	held("soft.db")
	held("x.db") // its lock file was removed
	move(t, path, filepath.Join(dir, "moved.db"))
	held("moved.db")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, filepath.Join(dir, "moved.db"))
}

func logFile(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func large(n, size int) func(*bridge.Scene) error {
	return func(tx *bridge.Scene) error {
		a := plainAgent(n)
		a.Trouble = strings.Repeat("x", size)
		return tx.InsertAgent(a)
	}
}

// TestLogIsBounded: readers that overlap without a gap kept the log from ever being begun again, so that it grew to 33 MB beside a small
// database and filled a small volume.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	turn := make(chan struct{}, 3) // one of three views may end, when another has begun
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				_ = s.View(ctx, func(tx *bridge.Scene) error {
					_, err := tx.Agents(bridge.AgentFilter{Limit: 1})
					select {
					case turn <- struct{}{}:
					case <-turn:
					case <-ctx.Done():
					}
					return err
				})
			}
		})
	}
	largest := int64(0)
	for n := range 300 { // 30 MB
		if err := s.Update(t.Context(), large(n, 100<<10)); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, logFile(t, path))
	}
	stop()
	readers.Wait()
	t.Logf("the log had at most %d KB", largest>>10)
	if largest > 10<<20 { // with as much time as a busy machine gives the readers
		t.Errorf("the log grew to %d KB, want at most 10 MB", largest>>10)
	}
}
