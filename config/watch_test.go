package config_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drawbridge/config"
	"drawbridge/policy"
)

func printed(t *testing.T, v any) []string {
	t.Helper()
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return []string{string(j), fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v)}
}

// watched runs the watcher until the test ends. Each callback is one value in got:
// the first pattern, or the first problem.
type watched struct {
	path string
	got  chan string
}

func startWatch(t *testing.T, o config.WatchOptions) *watched {
	t.Helper()
	w := &watched{path: o.Path, got: make(chan string, 16)}
	if o.Debounce == 0 {
		o.Debounce = 5 * time.Millisecond
	}
	o.OnChange = func(r policy.Rules) {
		if len(r.Repos) == 0 {
			w.got <- "nothing"
			return
		}
		w.got <- r.Repos[0].Pattern
	}
	o.OnBroken = func(p []config.Problem) { w.got <- "broken: " + p[0].Reason }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- config.WatchAllowlist(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the watch ended with %v", err)
		}
		if len(w.got) > 0 {
			t.Errorf("one more callback: %s", <-w.got)
		}
	})
	return w
}

func (w *watched) want(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-w.got:
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("nothing came, want %q", want)
	}
}

// replace swaps a file as a whole, so that no reader meets half of it.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+"~", text)
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

func repos(pattern string) string { return "repos: [" + pattern + "]\n" }

// loaded writes a first allowlist, a, and starts to watch it.
func loaded(t *testing.T, debounce time.Duration) *watched {
	t.Helper()
	path := filepath.Join(t.TempDir(), "allowlist.yaml")
	write(t, path, repos("github.com/a/a"))
	rules, problems := config.LoadAllowlist(path)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w := startWatch(t, config.WatchOptions{Path: path, Current: rules, Debounce: debounce, Recheck: time.Hour})
	// The first change tells that the watch has begun. A change before that is seen at
	// the start, so it is one callback in both cases.
	replace(t, path, repos("github.com/a/b"))
	w.want(t, "github.com/a/b")
	return w
}

func TestWatchReplacement(t *testing.T) {
	t.Parallel()
	w := loaded(t, 0)
	for _, c := range []string{"github.com/a/c", "github.com/a/d"} {
		replace(t, w.path, repos(c))
		w.want(t, c)
	}
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.want(t, "broken: does not exist")
	replace(t, w.path, repos("github.com/a/e"))
	w.want(t, "github.com/a/e")
}

// TestWatchSymlinkSwap is how a mounted configuration changes: the file is a link
// through a folder that is itself a link and is swapped as a whole.
func TestWatchSymlinkSwap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(name, pattern string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "allowlist.yaml"), repos(pattern))
	}
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version("v1", "github.com/a/1")
	version("v2", "github.com/a/2")
	link("v1", "current")
	link("current/allowlist.yaml", "allowlist.yaml")
	w := startWatch(t, config.WatchOptions{Path: filepath.Join(dir, "allowlist.yaml"), Recheck: time.Hour})
	w.want(t, "github.com/a/1")
	link("v2", "next")
	if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	w.want(t, "github.com/a/2")
	// The file behind the links lies in another folder, and that is watched as well.
	replace(t, filepath.Join(dir, "v2", "allowlist.yaml"), repos("github.com/a/3"))
	w.want(t, "github.com/a/3")
}

// TestWatchRecheck: a file whose changes no event tells is found all the same. The
// debounce never passes here, so that events count for nothing.
func TestWatchRecheck(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "allowlist.yaml")
	write(t, path, repos("github.com/a/1"))
	w := startWatch(t, config.WatchOptions{Path: path, Debounce: time.Hour, Recheck: 10 * time.Millisecond})
	w.want(t, "github.com/a/1")
	replace(t, path, repos("github.com/a/2"))
	w.want(t, "github.com/a/2")
}

func TestWatchChecksWithTheBridge(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "allowlist.yaml")
	write(t, path, "actions: {a: {relay: gone}}")
	w := startWatch(t, config.WatchOptions{Path: path, Recheck: time.Hour, Check: func(r policy.Rules) []config.Problem {
		if len(r.Actions) > 0 {
			return []config.Problem{{Reason: "has no relay"}}
		}
		return nil
	}})
	w.want(t, "broken: has no relay")
	replace(t, path, repos("github.com/a/a"))
	w.want(t, "github.com/a/a")
}

func TestWatchNeedsTheFolder(t *testing.T) {
	t.Parallel()
	err := config.WatchAllowlist(t.Context(), config.WatchOptions{Path: filepath.Join(t.TempDir(), "no", "allowlist.yaml")})
	if err == nil {
		t.Error("a folder that does not exist is watched")
	}
}

// TestWatchRefusesWhatOthersMayChange: a list that another user could have
// written is not put in force, whatever it says.
func TestWatchRefusesWhatOthersMayChange(t *testing.T) {
	t.Parallel()
	w := loaded(t, 0)
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	write(t, w.path+"~", repos("github.com/evil/x"))
	chmod(w.path+"~", 0o666)
	if err := os.Rename(w.path+"~", w.path); err != nil {
		t.Fatal(err)
	}
	w.want(t, "broken: "+w.path+" can be written by others (mode 0666)")
	chmod(w.path, 0o644)
	w.want(t, "github.com/evil/x")
}
