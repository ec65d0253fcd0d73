//go:build deep

package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"drawbridge/relay/agents/workspace"
)

// TestMany: a hundred fetches of several agents at once, each by stores of their own, as of several processes.
func TestMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var group sync.WaitGroup
	for i := range 4 {
		agent := fmt.Sprintf("ada%d", i)
		for range 3 {
			group.Go(func() {
				store, err := workspace.Open(w.options())
				if err != nil {
					t.Error(err)
					return
				}
				s, err := store.Make(t.Context(), workspace.Spec{Agent: agent, Clone: w.clone})
				if err != nil {
					t.Error(err)
					return
				}
				for range 3 {
					if _, err := s.Fetch(t.Context(), true); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	tips := map[string]string{}
	for i := range 4 {
		s, err := w.store.Get(t.Context(), fmt.Sprintf("ada%d", i))
		must(t, err)
		tips[s.Agent()] = commit(t, s, "new", s.Agent())
		for range 2 {
			group.Go(func() {
				if _, err := s.Fetch(t.Context(), false); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	for agent, tip := range tips {
		if got := git(t, w.clone, "rev-parse", "drawbridge/"+agent); got != tip {
			t.Errorf("%s is at %s instead of %s", agent, got, tip)
		}
	}
	git(t, w.clone, "fsck", "--full", "--strict")
}

// TestHugeThings: size is judged before content, and every look is bounded.
func TestHugeThings(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct{ name, plant, says string }{
		{"tracked file", `truncate -s 8T README`, "1 changed file"},
		{"untracked file", `truncate -s 8T new`, "1 untracked file"},
		{"HEAD", `truncate -s 8T .git/HEAD`, "larger than"},
		{"packed refs", `truncate -s 8T .git/packed-refs`, "larger than"},
		{"index", `truncate -s 8T .git/index`, "larger than"},
		{"ref", `truncate -s 8T .git/refs/heads/x`, "larger than"},
		{"pack", `truncate -s 8T .git/objects/pack/pack-0123456789012345678901234567890123456789.pack`, "more than 33554432 bytes"},
		{"loose object", `mkdir -p .git/objects/01; truncate -s 8T .git/objects/01/23456789012345678901234567890123456789`, "more than 33554432 bytes"},
		{"object that unpacks to very much", `head -c 64M /dev/zero | git hash-object -w --stdin`, "more than 33554432 bytes"},
		{"many files", `mkdir many; cd many; seq 1200 | xargs touch`, "more than 1000 files"},
		{"many files in an ignored folder", `mkdir many; cd many; echo '*' > .gitignore; seq 1200 | xargs touch`, "more than 1000 files"},
		{"many files beside tracked ones", `seq 1200 | xargs touch`, "more than 1000 files"},
		{"deep folders", `i=0; while [ $i -lt 600 ]; do mkdir d; cd -P d; i=$((i+1)); done; echo x > f`, "deep"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.limit(workspace.Limits{Entries: 1000, Bytes: 32 << 20})
			s := w.make("ada")
			sh(t, s.Dir(), c.plant)
			if got := strings.Join(state(t, s).Unsaved(), ", "); !strings.Contains(got, c.says) {
				t.Errorf("%q, want %q", got, c.says)
			}
		})
	}
}

// TestBelowInARace: a parent that swaps a folder and a link all the time gets the relay nowhere else.
func TestBelowInARace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	outside := filepath.Join(w.dir, "outside")
	must(t, os.MkdirAll(outside, 0o700))
	place, link := filepath.Join(s.Dir(), "place"), filepath.Join(s.Dir(), "link")
	must(t, os.Mkdir(place, 0o700))
	must(t, os.Symlink(outside, link))
	var stop atomic.Bool
	done := make(chan int)
	go func() {
		swaps := 0
		for ; !stop.Load(); swaps++ {
			swap(place, link)
		}
		done <- swaps
	}()
	reached, refused := 0, 0
	for reached < 100 || refused < 100 {
		sub, err := s.Below("place/child")
		if err != nil {
			refused++
			continue
		}
		reached++
		stat, err := sub.File.Stat()
		must(t, err)
		if beyond, err := os.Stat(filepath.Join(outside, "child")); err == nil && os.SameFile(stat, beyond) {
			t.Error("outside")
		}
		must(t, sub.File.Close())
	}
	stop.Store(true)
	t.Logf("%d swaps; %d reached the folder, %d were refused", <-done, reached, refused)
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside: %v %v", entries, err)
	}
}

// TestFilesThatNeverEnd: a FIFO in the place of a file that git reads does not stop the relay. The control shows that git opens it.
func TestFilesThatNeverEnd(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct{ name, file, control string }{
		{"tracked file", "README", "hash-object README"},
		{"HEAD", ".git/HEAD", "status"},
		{"index", ".git/index", "status"},
		{"config", ".git/config", "status"},
		{"packed refs", ".git/packed-refs", "for-each-ref"},
		{"info/exclude", ".git/info/exclude", "status"},
		{"info/attributes", ".git/info/attributes", "check-attr -a README"},
		{".gitignore", ".gitignore", "status"},
		{".gitattributes", ".gitattributes", "check-attr -a README"},
		{"ref", ".git/refs/heads/drawbridge/ada", "status"},
		{"alternates", ".git/objects/info/alternates", "log"},
		{"shallow", ".git/shallow", "log"},
		{"commondir", ".git/commondir", "status"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			path := filepath.Join(s.Dir(), c.file)
			must(t, os.RemoveAll(path))
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must(t, syscall.Mkfifo(path, 0o600))
			everything(t, w, s)
			opens(t, s.Dir(), path, strings.Fields(c.control))
		})
	}
}

// TestEvidenceIsBounded: an agent that commits very much does not flood what the relay passes on.
func TestEvidenceIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	sh(t, s.Dir(), `for i in $(seq 60); do git commit -q --allow-empty -m "c $i"; done
		for i in $(seq 300); do echo $i > f$i; done; git add -A; git commit -qm many`)
	e, err := s.Evidence(t.Context(), "")
	must(t, err)
	if e.Total != 61 || len(e.Commits) != 50 || e.Changed != 300 || len(e.Files) != 100 || e.Additions != 300 {
		t.Errorf("total %d, commits %d, changed %d, files %d, additions %d", e.Total, len(e.Commits), e.Changed, len(e.Files), e.Additions)
	}
}
