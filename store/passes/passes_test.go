package passes_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/proof/pg"
	"drawbridge/store"
	"drawbridge/store/passes"
	"drawbridge/web"
)

func TestMain(m *testing.M) { os.Exit(pg.Main(m)) }

// TestPasses: of several takers one gets a pass, and what has ended goes.
func TestPasses(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "drawbridge.db") },
		"postgres": func(t *testing.T) string { return pg.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := store.Open(t.Context(), database(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			check(t, passes.New(s))
		})
	}
}

func check(t *testing.T, r *passes.Records) {
	t.Helper()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	link := web.Pass{Hash: "a", MadeAt: noon, EndsAt: noon.Add(time.Minute)}
	session := web.Pass{Hash: "b", MadeAt: noon, EndsAt: noon.Add(time.Hour)}
	for _, p := range []web.Pass{link, session} {
		if err := r.AddPass(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if found, there, err := r.FindPass(t.Context(), p.Hash); err != nil || !there || found != p {
			t.Errorf("%+v, %v, %v", found, there, err)
		}
	}
	var taken atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if p, ok, err := r.TakePass(t.Context(), "a"); err != nil || ok && p != link {
				t.Errorf("%+v, %v", p, err)
			} else if ok {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if n := taken.Load(); n != 1 {
		t.Errorf("one link was taken %d times", n)
	}
	if err := r.AddPass(t.Context(), web.Pass{Hash: "c", MadeAt: noon.Add(time.Hour), EndsAt: noon.Add(2 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for hash, want := range map[string]bool{"a": false, "b": false, "c": true} {
		if _, there, err := r.FindPass(t.Context(), hash); err != nil || there != want {
			t.Errorf("%s is there: %v, %v", hash, there, err)
		}
	}
}
