//go:build deep

package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/keeper"
)

func TestCrashWhileMaking(t *testing.T) {
	t.Parallel()
	eachStep(t, "make", crashCheck{
		least: 6,
		killed: func(t *testing.T, w *world) {
			w.open()
			agents, err := w.store.List(t.Context())
			must(t, err)
			if len(agents) == 1 {
				if got := state(t, w.ada()); len(got.Unsaved()) != 0 { // whole, or not there
					t.Errorf("after the crash: %q", got.Unsaved())
				}
			}
		},
		done: func(t *testing.T, w *world) {
			if got := state(t, w.ada()); !got.Clean() || len(got.Unsaved()) != 0 {
				t.Errorf("at last: %q", got.Unsaved())
			}
			git(t, w.ada().Dir(), "fsck", "--full")
		},
	})
}

func TestCrashWhileFetching(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"fetch", "fetch-all"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			eachStep(t, what, crashCheck{least: 6, prepare: work, done: func(t *testing.T, w *world) {
				s := w.ada()
				if tip := git(t, s.Dir(), "rev-parse", "HEAD"); git(t, w.clone, "rev-parse", "drawbridge/ada") != tip {
					t.Error("the branch is not there")
				}
				if got := state(t, s); got.Unfetched != 0 || what == "fetch-all" && len(got.Unsaved()) != 0 || got.Dirty() != 0 {
					t.Errorf("at last: %q", got.Unsaved())
				}
				git(t, w.clone, "fsck", "--full", "--strict")
				git(t, s.Dir(), "fsck", "--full")
			}})
		})
	}
}

func TestCrashWhileRemoving(t *testing.T) {
	t.Parallel()
	eachStep(t, "remove:", crashCheck{
		least: 7, prepare: work,
		killed: func(t *testing.T, w *world) {
			w.open()
			agents, err := w.store.List(t.Context())
			must(t, err)
			if len(agents) == 0 {
				return // it was decided, and the next one finished it
			}
			s := w.ada()
			if !exists(filepath.Join(s.Dir(), "left")) || !exists(filepath.Join(s.Dir(), "README")) {
				t.Error("half of it is gone")
			}
			git(t, s.Dir(), "fsck", "--full")
		},
		done: func(t *testing.T, w *world) {
			w.open()
			if agents, err := w.store.List(t.Context()); err != nil || len(agents) != 0 {
				t.Errorf("left: %q %v", agents, err)
			}
			entries, err := os.ReadDir(filepath.Join(w.dir, "state", workspace.Folder))
			must(t, err)
			if len(entries) != 1 { // the locks
				t.Errorf("left: %v", entries)
			}
		},
	})
}

// TestCrashWhileWriting: a file of the relay that was cut off is written again, and counts as nobody's work.
func TestCrashWhileWriting(t *testing.T) {
	t.Parallel()
	eachStep(t, "put", crashCheck{
		least: 3, prepare: func(t *testing.T, w *world, what string) string { w.make("ada"); return what },
		done: func(t *testing.T, w *world) {
			s := w.ada()
			text, err := os.ReadFile(filepath.Join(s.Dir(), "settings", "mcp.json"))
			if err != nil || string(text) != "{}" {
				t.Errorf("%q %v", text, err)
			}
			if got := state(t, s); !got.Clean() || len(got.Unsaved()) != 0 {
				t.Errorf("at last: %q %q", got.Unsaved(), got.Names)
			}
		},
	})
}

// TestProcessesAtOnce: several relays make, read and fetch the same workspace at the same time.
func TestProcessesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { relay(t, "make", w.dir, 0) })
	}
	group.Wait()
	tip := commit(t, w.ada(), "new", "new\n")
	for _, what := range []string{"fetch", "fetch-all", "state", "put", "fetch"} {
		group.Go(func() { relay(t, what, w.dir, 0) })
	}
	group.Wait()
	if got := git(t, w.clone, "rev-parse", "drawbridge/ada"); got != tip {
		t.Errorf("at %s", got)
	}
	if got := state(t, w.ada()); len(got.Unsaved()) != 0 {
		t.Errorf("unsaved: %q", got.Unsaved())
	}
}

// TestFilesThatCannotGrow: git is ended in the middle of writing, wherever that is. Nothing is lost, and the next attempt succeeds.
func TestFilesThatCannotGrow(t *testing.T) {
	t.Parallel()
	if !keeper.Bounds {
		t.Skip("SKIPPED: this machine cannot bound the size of files")
	}
	w := newWorld(t)
	sh(t, w.clone, `head -c 300000 /dev/urandom > big; git add big; git commit -qm big`)
	tight := w.options()
	tight.Run = small{most: 64 << 10}
	store, err := workspace.Open(tight)
	must(t, err)
	if _, err := store.Make(t.Context(), workspace.Spec{Agent: "ada", Clone: w.clone}); err == nil {
		t.Fatal("made within the bound, so that this test shows nothing")
	}
	if agents, err := w.store.List(t.Context()); err != nil || len(agents) != 0 {
		t.Errorf("left: %q %v", agents, err)
	}
	s := w.make("ada")
	sh(t, s.Dir(), `head -c 300000 /dev/urandom > more; git add more; git commit -qm more; git gc -q`)
	tip := git(t, s.Dir(), "rev-parse", "HEAD")
	bounded, err := store.Get(t.Context(), "ada")
	must(t, err)
	if f, err := bounded.Fetch(t.Context(), false); err == nil {
		t.Fatalf("fetched within the bound, so that this test shows nothing: %+v", f)
	} else {
		t.Log(err)
	}
	if err := store.Remove(t.Context(), "ada", ""); err == nil {
		t.Error("removed")
	}
	git(t, w.clone, "fsck", "--full", "--strict")
	git(t, s.Dir(), "fsck", "--full")
	if f := fetch(t, s, false); f.After != tip {
		t.Errorf("at last: %+v", f)
	}
}

// TestFullDisk: a disk without room loses nothing, neither in the clone nor in the relay's state.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := mountSmall(disk, "3m"); err != nil {
		t.Skipf("SKIPPED: this user or machine cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unmount(disk) })
	for _, full := range []string{"clone", "state"} {
		w := newWorld(t)
		must(t, mountSmall(disk, "3m"))
		place := filepath.Join(disk, full)
		must(t, os.MkdirAll(filepath.Dir(place), 0o700))
		if full == "clone" {
			must(t, os.Rename(w.clone, w.clone+".old"))
			sh(t, w.dir, "cp -r clone.old "+place)
			w.clone = place
		} else {
			sh(t, w.dir, "rm -rf state; mkdir "+place+"; ln -s "+place+" state")
		}
		w.open()
		s := w.make("ada")
		file := `head -c 4000000 /dev/urandom > big`
		if full == "state" {
			file = `head -c 1500000 /dev/urandom > big`
		}
		if out, err := try(t, s.Dir(), "sh", "-ec", file+`; git add big; git commit -qm big`); err != nil {
			t.Logf("the agent itself met the full disk: %s", out)
			sh(t, s.Dir(), `rm -f .git/index.lock .git/objects/pack/tmp* .git/objects/??/tmp*; git reset -q; rm -f big; head -c 900000 /dev/urandom > big; git add big; git commit -qm big`)
		}
		tip := git(t, s.Dir(), "rev-parse", "HEAD")
		f, err := s.Fetch(t.Context(), true)
		if full == "clone" && err == nil {
			t.Fatalf("fetched onto a full disk: %+v", f)
		}
		if err != nil && strings.Contains(err.Error(), "damaged") {
			t.Errorf("a full disk is not damage: %v", err)
		}
		if err := w.store.Remove(t.Context(), "ada", ""); err == nil && git(t, w.clone, "rev-parse", "drawbridge/ada") != tip {
			t.Error("removed")
		}
		git(t, w.clone, "fsck", "--full", "--strict")
		must(t, mountLarger(disk, "64m"))
		if s, err := w.store.Get(t.Context(), "ada"); err == nil {
			if f := fetch(t, s, false); f.After != tip {
				t.Errorf("at last: %+v", f)
			}
		}
		if git(t, w.clone, "rev-parse", "drawbridge/ada") != tip {
			t.Error("the commit is not in the clone")
		}
		must(t, unmount(disk))
	}
}
