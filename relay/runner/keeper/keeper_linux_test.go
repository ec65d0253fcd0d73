package keeper_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
)

func TestMain(m *testing.M) {
	keeper.Main()
	if os.Getenv("KEEPER_OPENS") != "" {
		os.Exit(opens())
	}
	if path := os.Getenv("KEEPER_CONNECTS"); path != "" {
		os.Exit(connects(path))
	}
	if os.Getenv("KEEPER_RELAY") != "" {
		os.Exit(relay())
	}
	syscall.Umask(0o077)
	goleak.VerifyTestMain(m)
}

// relay is this binary as a relay that is going to be killed: it runs a script and tells when it began.
func relay() int {
	pool, err := keeper.NewPool(os.Getenv("KEEPER_CGROUPS") != "")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = pool.Run(context.Background(), keeper.Command{
		Path: "/bin/sh", Argv: []string{"sh", "-c", strings.ReplaceAll(os.Getenv("KEEPER_RELAY"), "@RELAY", strconv.Itoa(os.Getpid()))}, Dir: "/", Stdout: os.Stdout, Stderr: os.Stdout,
	})
	return 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begun is what a script says when all is in place for its end.
const begun = "begun\n"

// safe is a buffer for two writers. Its cut, if set, is called when a program has said that it has begun.
type safe struct {
	mu  sync.Mutex
	b   bytes.Buffer
	cut func()
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.b.Write(p)
	if s.cut != nil && strings.Contains(s.b.String(), begun) {
		s.cut()
	}
	return n, err
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// pools are the pools that every attack is tried on: with cgroups, where this machine lets us make some, and without.
func pools(t *testing.T, each func(t *testing.T, pool *keeper.Pool)) {
	t.Helper()
	for _, cgroups := range []bool{false, true} {
		t.Run(fmt.Sprintf("cgroups %t", cgroups), func(t *testing.T) {
			t.Parallel()
			pool, err := keeper.NewPool(cgroups)
			must(t, err)
			t.Cleanup(pool.Close)
			t.Logf("trees are ended by: %s", pool)
			each(t, pool)
		})
	}
}

// script runs a shell script with a mark in its arguments, by which whatever is left of it can be found.
func script(ctx context.Context, pool *keeper.Pool, text string, more ...func(*keeper.Command)) (keeper.End, string, error) {
	var out safe
	c := keeper.Command{Path: "/bin/sh", Argv: []string{"sh", "-c", text}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Stdout: &out, Stderr: &out, Processes: 200}
	for _, change := range more {
		change(&c)
	}
	end, err := pool.Run(ctx, c)
	return end, out.String(), err
}

// endWhenBegun is script, ended when it says that it has begun: a limit would depend on how fast the machine is.
func endWhenBegun(t *testing.T, pool *keeper.Pool, text, mark string) (keeper.End, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var told time.Time
	out := safe{cut: sync.OnceFunc(func() { told = time.Now(); cancel() })}
	end, _, err := script(ctx, pool, text, marked(mark), func(c *keeper.Command) { c.Stdout, c.Stderr = &out, &out })
	t.Logf("gone %s after it had begun", time.Since(told).Round(time.Millisecond))
	return end, out.String(), err
}

// left returns the processes whose environment holds exactly this mark.
func left(mark string) (pids []string) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte("MARK="+mark+"\x00")) {
			pids = append(pids, path)
		}
	}
	return pids
}

func marked(mark string) func(*keeper.Command) {
	return func(c *keeper.Command) { c.Env = append(c.Env, "MARK="+mark) }
}

func TestEnds(t *testing.T) {
	t.Parallel()
	pools(t, func(t *testing.T, pool *keeper.Pool) {
		for text, want := range map[string]keeper.End{
			"exit 7":     {Code: 7},
			"kill -9 $$": {Code: keeper.NoCode, Signal: syscall.SIGKILL},
			"true":       {},
		} {
			end, said, err := script(t.Context(), pool, text)
			end.Most = 0
			if err != nil || end != want {
				t.Errorf("%s: %+v, %q, %v", text, end, said, err)
			}
		}
		_, err := pool.Run(t.Context(), keeper.Command{Path: "/no/such", Argv: []string{"x"}, Stdout: &safe{}, Stderr: &safe{}, Dir: "/"})
		if err == nil || errors.Is(err, keeper.ErrLost) || !strings.Contains(err.Error(), `start "/no/such": no such file or directory`) {
			t.Errorf("a program that is not there: %v", err)
		}
		if _, said, err := script(t.Context(), pool, "ps -o stat= -p $$ 2>/dev/null; ls /proc/self/fd | wc -l"); err != nil || !strings.HasSuffix(said, "4\n") {
			t.Errorf("descriptors of a program: %q, %v", said, err)
		}
	})
}

// bomb forks for as long as its fuse is there, so that a keeper that fails takes no machine with it.
const bomb = `b() { [ -e $FUSE ] || exit 0; b | b & }; echo begun; b; while [ -e $FUSE ]; do sleep 0.1; done`

// A program cannot reach into its own keeper, by whose word the relay knows that an action is over. Root can, so this relay is
// not root's.
func TestKeeperKeepsItsSocket(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe") // its folder may be root's alone
	cmd.Dir = "/"
	cmd.Env = []string{"KEEPER_RELAY=PATH=/usr/bin:/bin; ls /proc/self/fd >/dev/null && ls /proc/$PPID/fd"}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	must(t, err)
	if said := string(out); !strings.Contains(said, "Permission denied") {
		t.Errorf("the keeper's descriptors: %q", said)
	}
}

// killRelay kills a relay in the middle of an action and returns how many orphans it saw then.
func killRelay(t *testing.T, cgroups string) int {
	t.Helper()
	mark := fmt.Sprintf("orphan-%d-%s", os.Getpid(), cgroups)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	// The keeper gives its programs nothing of the relay's environment.
	cmd.Env = []string{"KEEPER_CGROUPS=" + cgroups, "KEEPER_RELAY=export PATH=/usr/bin:/bin MARK=" + mark +
		"; (setsid sleep 300 &); setsid sh -c \"trap '' TERM; sleep 300\" & echo begun; sleep 300"}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if _, err := out.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(left(mark)) > 0 })
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	orphans, err := keeper.Orphans()
	must(t, err)
	must(t, keeper.AwaitOrphans(t.Context()))
	if pids := left(mark); len(pids) > 0 {
		t.Errorf("the orphans are gone, and %v live", pids)
	}
	return orphans
}

// eventually waits for what other processes do.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatal("it did not come to be within 2 minutes")
		case <-tick.C:
		}
	}
}

// What is executed is what was opened, whatever stands at the path by then.
func TestExecutesTheDescriptor(t *testing.T) {
	t.Parallel()
	pools(t, func(t *testing.T, pool *keeper.Pool) {
		for name, content := range map[string]string{"script": "#!/bin/sh\necho genuine $1\n", "binary": ""} {
			path := filepath.Join(t.TempDir(), name)
			want := "genuine arg\n"
			if content == "" {
				echo, err := os.ReadFile("/bin/echo")
				must(t, err)
				content, want = string(echo), "arg\n"
			}
			must(t, os.WriteFile(path, []byte(content), 0o700))
			program, err := os.Open(path)
			must(t, err)
			must(t, os.Remove(path))
			must(t, os.WriteFile(path, []byte("#!/bin/sh\necho swapped\n"), 0o700))
			var out safe
			end, err := pool.Run(t.Context(), keeper.Command{Path: path, Program: program, Argv: []string{path, "arg"}, Dir: "/", Stdout: &out, Stderr: &out})
			must(t, program.Close())
			if err != nil || end.Code != 0 || out.String() != want {
				t.Errorf("%s: %+v, %q, %v", name, end, out.String(), err)
			}
		}
	})
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func resident(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

// The sandbox, seen from inside. Where the kernel has no Landlock and no namespaces, the plan has to say so.
func TestSandbox(t *testing.T) {
	t.Parallel()
	// Without bubblewrap, and with it where it is installed.
	for _, look := range []func(string) (string, error){func(string) (string, error) { return "", os.ErrNotExist }, exec.LookPath} {
		ability := sandbox.Probe(t.Context(), look)
		t.Logf("this machine: %s", ability)
		checkSandbox(t, ability)
	}
}

func checkSandbox(t *testing.T, ability sandbox.Ability) {
	t.Helper()
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "in"), filepath.Join(dir, "secret")
	must(t, os.Mkdir(inside, 0o700))
	must(t, os.WriteFile(outside, []byte("hunter2"), 0o600))
	plan := ability.Plan(sandbox.Wish{Write: []string{inside}})
	pool, err := keeper.NewPool(true)
	must(t, err)
	t.Cleanup(pool.Close)
	_, said, err := script(t.Context(), pool, "cat "+outside+"; echo x >"+dir+"/new; echo y >"+inside+"/new; cat "+inside+"/new; mv "+inside+"/new "+
		inside+"/moved; ls /root /home; cat /proc/$PPID/environ; ls /sys/class/net; kill -0 $PPID && echo can-signal; echo end",
		func(c *keeper.Command) { c.Sandbox = &plan })
	must(t, err)
	if ability.Landlock == 0 && ability.Bubblewrap == "" {
		if plan.Missing() == "" || !strings.Contains(said, "hunter2") {
			t.Errorf("without Landlock: plan %s, missing %q, said %q", plan, plan.Missing(), said)
		}
		return
	}
	if strings.Contains(said, "hunter2") || !strings.Contains(said, "y\n") || !strings.Contains(said, "end\n") {
		t.Errorf("said %q", said)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("it wrote outside its folder")
	}
	if ability.Landlock >= 6 && strings.Contains(said, "can-signal") {
		t.Error("it can signal its keeper")
	}
	if got := exec.Command("/bin/sh", "-c", "cat "+outside); got.Run() != nil {
		t.Error("the limits apply to us as well")
	}
}

func TestSandboxNetwork(t *testing.T) {
	t.Parallel()
	ability := sandbox.Probe(t.Context(), func(string) (string, error) { return "", os.ErrNotExist })
	pool, err := keeper.NewPool(true)
	must(t, err)
	t.Cleanup(pool.Close)
	for _, network := range []bool{false, true} {
		plan := ability.Plan(sandbox.Wish{Network: network, Read: []string{"/proc"}})
		_, said, err := script(t.Context(), pool, "cat /proc/net/dev | tail -n +3 | grep -cv lo:", func(c *keeper.Command) { c.Sandbox = &plan })
		must(t, err)
		interfaces, _ := strconv.Atoi(strings.TrimSpace(said))
		if cut := !network && ability.Namespace; cut && interfaces != 0 {
			t.Errorf("%s: it sees %d interfaces", plan, interfaces)
		}
		if !network && !ability.Namespace && plan.Missing() == "" {
			t.Errorf("%s claims more than the machine has (%s)", plan, ability)
		}
	}
}

// A stage that cannot become its program says why, as a program without a stage does.
func TestSandboxOfNothing(t *testing.T) {
	t.Parallel()
	pool, err := keeper.NewPool(true)
	must(t, err)
	t.Cleanup(pool.Close)
	dir := t.TempDir()
	path := filepath.Join(dir, "broken")
	must(t, os.WriteFile(path, []byte("no program"), 0o700))
	_, err = pool.Run(t.Context(), keeper.Command{Path: path, Argv: []string{path}, Dir: "/", Stdout: &safe{}, Stderr: &safe{}, Sandbox: &sandbox.Plan{}})
	if err == nil || errors.Is(err, keeper.ErrLost) || !strings.Contains(err.Error(), "exec format error") {
		t.Errorf("%v", err)
	}
}

func BenchmarkTrue(b *testing.B) {
	for _, cgroups := range []bool{false, true} {
		b.Run(fmt.Sprintf("cgroups=%t", cgroups), func(b *testing.B) {
			pool, err := keeper.NewPool(cgroups)
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			for b.Loop() {
				end, err := pool.Run(b.Context(), keeper.Command{Path: "/bin/true", Argv: []string{"true"}, Dir: "/", Stdout: &safe{}, Stderr: &safe{}, Processes: 256})
				if err != nil || end.Code != 0 {
					b.Fatal(end, err)
				}
			}
		})
	}
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
