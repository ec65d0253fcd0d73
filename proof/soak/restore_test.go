//go:build deep

package soak_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"drawbridge/api"
)

// restoreCloud: each part that the orchestrator hears of makes it ask for a check,
// so that a result that is told again would launch again.
const restoreCloud = `latency: 100ms
agents:
  - repo: github.com/me/agent-env
    turns:
      - match: "Ship it"
        reply: |
          SUBAGENT: repo=github.com/me/my-app, prompt=Part 1
          SUBAGENT: repo=github.com/me/my-app, prompt=Part 2
          SUBAGENT: repo=github.com/me/my-app, prompt=Part 3
          LOCAL_ACTION: backup_script
      - { match: "Part 1 is fine.", reply: "SUBAGENT: repo=github.com/me/lib, prompt=Check 1" }
      - { match: "Part 2 is fine.", reply: "SUBAGENT: repo=github.com/me/lib, prompt=Check 2" }
      - { match: "Part 3 is fine.", reply: "SUBAGENT: repo=github.com/me/lib, prompt=Check 3\nLOCAL_ACTION: stamp_release" }
      - reply: "Noted."
  - repo: github.com/me/my-app
    turns:
      - { match: "Part 1", reply: "Part 1 is fine.", after: 500ms }
      - { match: "Part 2", reply: "Part 2 is fine.", after: 2s }
      - { match: "Part 3", reply: "Part 3 is fine.", after: 3500ms }
  - repo: github.com/me/lib
    turns:
      - { match: "Check 1", reply: "Check 1 is done.", after: 1s }
      - { match: "Check 2", reply: "Check 2 is done.", after: 1s }
      - { match: "Check 3", reply: "Check 3 is done.", after: 1s }
`

// restores is how many times each of the stories of TestRestore puts a copy back.
const restores = 3

// TestRestore puts copies of the database back that are up to 8 s old, three in
// each of eight stories, with the bridge killed before. What happened is read from
// the simulated cloud's log and the actions' files. With streams that show prompts
// nobody has to answer anything; without, one answer settles what is uncertain.
// With -soak.rounds it plays that many seeds, each in both ways.
func TestRestore(t *testing.T) {
	t.Parallel()
	for _, shown := range []bool{true, false} {
		for n := range int64(cmp.Or(*rounds, 4)) {
			t.Run(fmt.Sprintf("shown %t, seed %d", shown, *seed+n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, setting{})
				more := ""
				if !shown {
					more = "settings: { no_prompts: true }\n"
				}
				w.write("cloud.yaml", restoreCloud+more)
				w.write("allowlist.yaml", strings.Replace(storyAllowlist, "  - { repo: github.com/acme/*, api: v0 }\n", "", 1))
				for _, p := range w.programs() {
					p.start()
				}
				for _, p := range w.programs() {
					p.ready()
				}
				rng := rand.New(rand.NewPCG(uint64(*seed+n), 0))
				w.launchOnce()
				for range restores {
					w.restore(time.Duration(rng.Int64N(int64(8 * time.Second))))
				}
				w.settled(shown)
				w.judgeRestored(shown)
			})
		}
	}
}

// launchOnce launches the orchestrator and waits until its first reply is there.
func (w *world) launchOnce() {
	w.t.Helper()
	if _, err := w.clients[0].Launch(w.t.Context(), api.LaunchRequest{Name: "main", Repo: "github.com/me/agent-env", Prompt: "Ship it"}); err != nil {
		w.t.Fatal(err)
	}
	until(w.t, patience, func() (bool, string) {
		now, err := look(w.t.Context(), w.clients[0])
		return err == nil && len(now.commands) >= 4, fmt.Sprint(now, err)
	})
}

// restore copies the database while the bridge stands still, lets it go on for a
// while, kills it and puts the copy back.
func (w *world) restore(age time.Duration) {
	w.t.Helper()
	b := w.bridges[0]
	b.signal(syscall.SIGSTOP)
	older := map[string][]byte{}
	for _, name := range w.databaseFiles() {
		text, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		older[name] = text
	}
	b.signal(syscall.SIGCONT)
	began := time.Now()
	until(w.t, patience, func() (bool, string) { return time.Since(began) >= age, "the copy gets older" })
	b.kill()
	for _, name := range w.databaseFiles() {
		if err := os.Remove(name); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, text := range older {
		if strings.HasSuffix(name, "-shm") {
			continue
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	b.start()
	b.ready()
	totals.add("copies of a database put back", 1)
}

// databaseFiles are the database and its logs.
func (w *world) databaseFiles() []string {
	names, err := filepath.Glob(filepath.Join(w.dir, "*.db*"))
	if err != nil || len(names) == 0 {
		w.t.Fatalf("no database: %v", err)
	}
	all := names[:0]
	for _, name := range names {
		if !strings.HasSuffix(name, ".lock") {
			all = append(all, name)
		}
	}
	return all
}

// settled waits for the end of the story. Where runs show no prompts the operator
// says once that they told what the database holds.
func (w *world) settled(shown bool) {
	w.t.Helper()
	answered := false
	calm := time.Time{}
	until(w.t, patience, func() (bool, string) {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		now, err := look(ctx, w.clients[0])
		if err != nil {
			return false, err.Error()
		}
		if strings.Contains(now.String(), " uncertain ") {
			switch {
			case shown:
				w.t.Fatalf("a person is asked, and the streams show prompts:\n%s", now)
			case !answered:
				done, err := w.clients[0].ResolveRestored(ctx, api.RestoredRequest{Told: true})
				if err != nil {
					return false, err.Error()
				}
				answered = true
				totals.add("turns that were uncertain after a copy was put back", done.Settled)
			}
		}
		if !now.over() {
			calm = time.Time{}
			return false, now.String()
		}
		if calm.IsZero() {
			calm = time.Now()
		}
		return time.Since(calm) > 2*time.Second, now.String()
	})
}

// judgeRestored counts what was told twice and what was launched or run twice. Where
// runs show their prompts, nothing that the first reply asked for is lost.
func (w *world) judgeRestored(shown bool) {
	created, told := map[string]int{}, ""
	for _, e := range w.effects() {
		switch {
		case e.Kind == "agent_created":
			created[e.Prompt]++
		case e.Kind == "run_created" && e.Repo == "github.com/me/agent-env":
			told += e.Prompt + "\n"
		}
	}
	twice, doubled := 0, 0
	for prompt, n := range created {
		if n > 1 {
			doubled += n - 1
			w.t.Errorf("%q was launched %d times", prompt, n)
		}
	}
	for _, action := range []string{"backup_script", "stamp_release"} {
		if n := w.runs(action); n > 1 {
			doubled += n - 1
			w.t.Errorf("%s ran %d times", action, n)
		}
	}
	for _, text := range []string{"Part 1 is fine.", "Part 2 is fine.", "Part 3 is fine.", "Check 1 is done.", "Check 2 is done.", "Check 3 is done.", "backup_script says hello", "stamp_release says hello"} {
		n := strings.Count(told, "| "+text)
		if n > 1 {
			twice += n - 1
			w.t.Errorf("%q was told %d times", text, n)
		}
		if shown && n == 0 && (strings.HasPrefix(text, "Part") || strings.HasPrefix(text, "backup")) {
			w.t.Errorf("%q was never told", text)
		}
		totals.add("results and outcomes told once", once(n == 1))
	}
	totals.add("told twice after a copy was put back", twice)
	totals.add("launches and actions doubled after a copy was put back", doubled)
}
