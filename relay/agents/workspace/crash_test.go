package workspace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

// childVariable makes this binary a relay that does one thing: "<what> <folder> <n>". It kills itself at the nth step; with n 0 it does not.
const childVariable = "WORKSPACE_CHILD"

// abilityVariable tells it what the machine can do, so that it does not have to look again.
const abilityVariable = "WORKSPACE_ABILITY"

func child() int {
	if err := json.Unmarshal([]byte(os.Getenv(abilityVariable)), &ability); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	what, rest, _ := strings.Cut(os.Getenv(childVariable), " ")
	dir, number, _ := strings.Cut(rest, " ")
	at, err := strconv.Atoi(number)
	if err != nil {
		return 3
	}
	steps := 0
	workspace.AtStep(func(name string) {
		if steps++; steps == at {
			fmt.Println(name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	if err := do(context.Background(), what, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func do(ctx context.Context, what, dir string) error {
	store, err := workspace.Open(workspace.Options{State: filepath.Join(dir, "state"), Run: pool, Ability: ability})
	if err != nil {
		return err
	}
	if what == "make" {
		_, err := store.Make(ctx, workspace.Spec{Agent: "ada", Clone: filepath.Join(dir, "clone")})
		return err
	}
	if lose, remove := strings.CutPrefix(what, "remove:"); remove {
		err := store.Remove(ctx, "ada", lose)
		var missing *workspace.NotFound
		if errors.As(err, &missing) {
			return nil
		}
		return err
	}
	s, err := store.Get(ctx, "ada")
	if err != nil {
		return err
	}
	switch what {
	case "fetch":
		_, err = s.Fetch(ctx, false)
	case "fetch-all":
		_, err = s.Fetch(ctx, true)
	case "state":
		_, err = s.State(ctx)
	case "put":
		err = s.Put(ctx, "settings/mcp.json", []byte("{}"))
	default:
		err = fmt.Errorf("unknown: %s", what)
	}
	return err
}

// relay runs such a process and returns the step at which it died; "" when it came to its end.
func relay(t *testing.T, what, dir string, at int) string {
	t.Helper()
	can, err := json.Marshal(ability)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), fmt.Sprintf("%s=%s %s %d", childVariable, what, dir, at), abilityVariable + "=" + string(can),
		"GORACE=atexit_sleep_ms=0", // under the race detector every process would sleep a second at its end
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return strings.TrimSpace(string(out))
	}
	t.Fatalf("%s: %v %s", what, err, out)
	return ""
}

// eachStep kills a relay at every step of what it does, each time in the same world as it was before, and has the next one finish.
// A short run kills at every tenth step, one under the race detector at every fifth.
func eachStep(t *testing.T, what string, check crashCheck) {
	t.Helper()
	met := map[string]int{}
	if stride() > 1 {
		check.least = 1
	}
	w := newWorld(t)
	if check.prepare != nil {
		what = check.prepare(t, w, what)
	}
	before := w.dir + ".before"
	run(t, "/", "cp", "-a", w.dir, before)
	for at := 1; ; at += stride() {
		// The same place each time: a workspace holds absolute paths.
		must(t, os.RemoveAll(w.dir))
		run(t, "/", "cp", "-a", before, w.dir)
		w.open()
		step := relay(t, what, w.dir, at)
		if check.killed != nil && step != "" {
			check.killed(t, w)
		}
		if step != "" && relay(t, what, w.dir, 0) != "" {
			t.Fatal("the second one died, too")
		}
		check.done(t, w)
		if step == "" {
			break
		}
		met[step]++
	}
	t.Logf("killed at %v", met)
	if len(met) < check.least {
		t.Errorf("only %d kinds of steps: %v", len(met), met)
	}
}

type crashCheck struct {
	// least is how many different steps there have to be, so that a test without steps fails.
	least   int
	prepare func(t *testing.T, w *world, what string) string
	killed  func(*testing.T, *world)
	done    func(*testing.T, *world)
}

func (w *world) ada() *workspace.Space {
	w.t.Helper()
	w.open()
	s, err := w.store.Get(w.t.Context(), "ada")
	must(w.t, err)
	return s
}

// work makes a workspace with commits, loose and packed, a stash and changes.
func work(t *testing.T, w *world, what string) string {
	t.Helper()
	s := w.make("ada")
	commit(t, s, "one", "1\n")
	git(t, s.Dir(), "repack", "-qad")
	commit(t, s, "two", "2\n")
	sh(t, s.Dir(), `echo x >> README; git stash -q`)
	if what == "remove:" {
		write(t, filepath.Join(s.Dir(), "left"), "left\n")
		return what + state(t, s).Code
	}
	return what
}

// small runs git with a bound on the size of files, as a disk that is nearly full has one.
type small struct{ most uint64 }

func (s small) Run(ctx context.Context, c keeper.Command) (keeper.End, error) {
	c.Bounds = sandbox.Bounds{FileSize: s.most}
	return pool.Run(ctx, c)
}
