package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
)

func TestMain(m *testing.M) {
	keeper.Main()
	if os.Getenv("RUN_AS_AGENT") != "" {
		os.Exit(acpagent.Main())
	}
	if path := os.Getenv("RUN_AS_THIEF"); path != "" {
		steal(path)
	}
	syscall.Umask(0o077)
	goleak.VerifyTestMain(m)
}

// world is a host with the scripted agent as its only entry.
type world struct {
	testing.TB
	host.Host
	dir, work string
}

// startTimeout sets how long agent fake may take to start.
func (w *world) startTimeout(most time.Duration) {
	a := w.Config.Agents["fake"]
	a.StartTimeout = most
	w.Config.Agents["fake"] = a
}

// newWorld makes a host whose agent has these variables and these settings.
func newWorld(t testing.TB, env map[string]string, more string) *world {
	t.Helper()
	w := &world{TB: t, dir: t.TempDir(), work: t.TempDir()}
	program, err := os.Executable()
	w.must(err)
	if env == nil {
		env = map[string]string{}
	}
	if env["RUN_AS_THIEF"] == "" {
		env["RUN_AS_AGENT"] = "1"
	}
	// Under the race detector every process would sleep a second at its end.
	env["GORACE"] = "atexit_sleep_ms=0"
	pairs, err := json.Marshal(env)
	w.must(err)
	text := fmt.Sprintf("listen: none\nagents: { fake: { kind: acp, argv: [%s], env: %s, %s } }\n", program, pairs, more)
	path := filepath.Join(w.dir, "relay.yaml")
	w.must(os.WriteFile(path, []byte(text), 0o600))
	w.Config, err = settings.Load(path, nil)
	w.must(err)
	pool, err := keeper.NewPool(true)
	w.must(err)
	t.Cleanup(pool.Close)
	w.Executor, w.Ability, w.Version = pool, ability(), "test"
	return w
}

var ability = sync.OnceValue(func() sandbox.Ability { return sandbox.Probe(context.Background(), nil) })

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start starts the agent and opens a session.
func (w *world) start(ask func(context.Context, acp.Question) acp.Reply) (*host.Process, *acp.Session) {
	w.Helper()
	p, err := w.Start(w.Context(), "fake", host.At{Dir: w.work}, ask)
	w.must(err)
	w.Cleanup(p.Close)
	_, err = p.Initialize(w.Context())
	w.must(err)
	s, err := p.NewSession(w.Context(), acp.Start{Dir: w.work})
	w.must(err)
	return p, s
}

// log is what the agent wrote down; a fault in it fails the test.
func (w *world) log() []acpagent.Line {
	w.Helper()
	lines, err := acpagent.ReadLog(w.Config.AgentHome("fake"))
	w.must(err)
	for _, l := range lines {
		if l.Event == acpagent.Fault {
			w.Errorf("the agent says that the driver is wrong: %s", l.Text)
		}
	}
	return lines
}

const open = "i_know: true"

// A process of the scripted agent plays turns, asks, is killed, and its session goes on in the next process, where the replay tells what
// was said. Each prompt reached it once.
func TestTurnsAndResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, "sandbox: {}")
	asked := make(chan acp.Question, 2)
	reply := acp.Allow
	p, s := w.start(func(_ context.Context, q acp.Question) acp.Reply {
		asked <- q
		return reply
	})
	a, err := s.Prompt(t.Context(), "[turn 1]\ndo: think SUBAGENT: no\ndo: quote SUBAGENT: no\ndo: unknown\ndo: say I look.\ndo: tool SUBAGENT: no\ndo: say done")
	if err != nil || a.Text() != "I look.\ndone" {
		t.Errorf("%q, %v", a.Text(), err)
	}
	a, err = s.Prompt(t.Context(), "[turn 2]\ndo: ask execute git status")
	if err != nil || a.Text() != "asked for git status: allow_once" {
		t.Errorf("%q, %v", a.Text(), err)
	}
	if q := <-asked; string(q.Arguments) != `{"command":"git status"}` || q.Kind != "execute" {
		t.Errorf("asked %+v", q)
	}
	reply = acp.Refuse
	if a, err = s.Prompt(t.Context(), "[turn 3]\ndo: ask edit x"); err != nil || a.Text() != "asked for x: reject_once" {
		t.Errorf("%q, %v", a.Text(), err)
	}
	if a, err = s.Prompt(t.Context(), "[turn 4]\ndo: request fs/read_text_file"); err != nil {
		t.Errorf("%q, %v", a.Text(), err)
	}
	_, err = s.Prompt(t.Context(), "[turn 5]\ndo: say half\ndo: kill")
	wantCause(t, err, agents.Crashed, "the agent was ended by a signal: killed")
	p.Close()

	next, err := w.Start(t.Context(), "fake", host.At{Dir: w.work}, nil)
	w.must(err)
	defer next.Close()
	_, err = next.Initialize(t.Context())
	w.must(err)
	again, said, err := next.Load(t.Context(), s.ID, acp.Start{Dir: w.work})
	w.must(err)
	if len(said) == 0 || !strings.HasPrefix(said[0].Text, "[turn 1]") || !strings.Contains(said[len(said)-1].Text, "[turn 5]") || !said[len(said)-1].User {
		t.Errorf("replayed %+v", said)
	}
	if a, err = again.Prompt(t.Context(), "[turn 6]"); err != nil || a.Text() != "done" {
		t.Errorf("%q, %v", a.Text(), err)
	}
	_, err = next.Resume(t.Context(), "acp-never", acp.Start{Dir: w.work})
	wantCause(t, err, agents.SessionGone, "Resource not found")
	heard := map[string]int{}
	for _, l := range w.log() {
		if l.Event == acpagent.Prompted {
			turn, _, _ := strings.Cut(l.Text, "\n")
			heard[turn]++
		}
		if l.Event == acpagent.Replied && strings.Contains(l.Text, "error") && !strings.Contains(l.Text, "-32601") {
			t.Errorf("a request that is not served was answered with %s", l.Text)
		}
	}
	for i := range 6 {
		if turn := fmt.Sprintf("[turn %d]", i+1); heard[turn] != 1 {
			t.Errorf("%s reached the agent %d times", turn, heard[turn])
		}
	}
}

func wantCause(t *testing.T, err error, cause agents.Cause, reason string) {
	t.Helper()
	if err == nil || agents.CauseOf(err) != cause || !strings.Contains(err.Error(), reason) {
		t.Errorf("%v; want %q with %q", err, cause, reason)
	}
}

// Agents misbehave as real processes: each turn ends with its cause, the process is ended with all that it started, and this process holds
// no more memory and no more goroutines than before.
func TestHostileProcesses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, prompt string
		cause        agents.Cause
		reason       string
	}{
		{"garbage", "do: garbage 200000", agents.Crashed, "does not write messages of the Agent Client Protocol"},
		{"100 MB on a line", "do: line 104857600", agents.Crashed, "a line of more than 8 MiB"},
		{"ends without an answer", "do: say half\ndo: exit 7", agents.Crashed, "the agent ended with exit code 7"},
		{"floods its errors and ends", "do: stderr 104857600\ndo: exit 7", agents.Crashed, "exit code 7; it wrote"},
		{"is killed", "do: kill", agents.Crashed, "ended by a signal: killed"},
		{"wants a login in a turn", "do: error -32000 Authentication required", agents.LoginMissing, "Authentication required"},
		{"is limited", "do: error -32603 429 Too Many Requests: usage limit reached, resets at 9pm", agents.Limited, "resets at 9pm"},
		{"refuses", "do: stop refusal", agents.Refused, "refused"},
		{"hangs", "do: hang", agents.Hung, "longer than allowed"},
		{"spawns and ends", "do: spawn 1000\ndo: exit 1", agents.Crashed, "exit code 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, open)
			p, s := w.start(nil)
			ctx, limit := t.Context(), time.Hour
			if tt.cause == agents.Hung {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			_, err := s.Prompt(ctx, tt.prompt)
			wantCause(t, err, tt.cause, tt.reason)
			p.Close()
			wantNothingLeft(t, w)
			w.log()
		})
	}
}

// wantNothingLeft fails when a process lives that has the home of this world's agent in its environment.
func wantNothingLeft(t *testing.T, w *world) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	w.must(err)
	for _, path := range found {
		env, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(env), "HOME="+w.Config.AgentHome("fake")+"\x00") {
			t.Errorf("%s is left", path)
		}
	}
}

// A turn is stopped while it asks: the question is answered with cancelled, as the agent checks.
func TestStopWhileAsking(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, open)
	asked := make(chan struct{})
	_, s := w.start(func(ctx context.Context, _ acp.Question) acp.Reply {
		close(asked)
		<-ctx.Done()
		return acp.Allow
	})
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-asked; stop() }()
	_, err := s.Prompt(ctx, "do: ask execute rm -rf /")
	wantCause(t, err, agents.Stopped, "stopped")
	if a, err := s.Prompt(t.Context(), "do: say on"); err != nil || a.Text() != "on" {
		t.Errorf("%q, %v", a.Text(), err)
	}
	w.log()
}

// The environment is made from nothing, the home is the entry's own and private, and the sandbox keeps the agent out of the relay's state and
// of what other processes hold.
func TestWhatAnAgentReaches(t *testing.T) {
	t.Parallel()
	if ability().Landlock == 0 && ability().Bubblewrap == "" {
		t.Skip("SKIPPED: this machine has no sandbox")
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	tries := []string{secret, "DIR/relay.yaml", fmt.Sprintf("/proc/%d/environ", os.Getpid()), fmt.Sprintf("/proc/%d/mem", os.Getpid()), fmt.Sprintf("/proc/%d/cwd/", os.Getpid())}
	w := newWorld(t, map[string]string{"RUN_AS_THIEF": strings.Join(tries, ":"), "HIDDEN": "listed"}, "sandbox: {}")
	// The folder of the world is known only now.
	a := w.Config.Agents["fake"]
	a.Env[indexOf(a.Env, "RUN_AS_THIEF")].Value = strings.ReplaceAll(strings.Join(tries, ":"), "DIR", w.dir)
	p, err := w.Start(t.Context(), "fake", host.At{Dir: w.work}, nil)
	w.must(err)
	defer p.Close()
	_, err = p.Initialize(t.Context())
	wantCause(t, err, agents.Crashed, "exit code 0")
	home := w.Config.AgentHome("fake")
	data, err := os.ReadFile(filepath.Join(home, "loot"))
	w.must(err)
	var loot struct {
		Read []string
		Env  []string
	}
	w.must(json.Unmarshal(data, &loot))
	if len(loot.Read) > 0 {
		t.Errorf("the agent read %q", loot.Read)
	}
	for _, v := range loot.Env {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "RUN_AS_THIEF", "GORACE", "HIDDEN":
		case "HOME":
			if value != home {
				t.Errorf("HOME is %s", value)
			}
		case "TMPDIR":
			if !strings.HasPrefix(value, home+"/") {
				t.Errorf("TMPDIR is %s", value)
			}
		case "PATH", "TERM":
		default:
			t.Errorf("the agent has the variable %s", v)
		}
	}
	if stat, err := os.Stat(home); err != nil || stat.Mode().Perm() != 0o700 {
		t.Errorf("home: %v %v", stat, err)
	}
}

func indexOf(env []settings.EnvVar, name string) int {
	for i, v := range env {
		if v.Name == name {
			return i
		}
	}
	return -1
}

// steal is this binary as an agent that reads what it should not, and writes what it got into its home.
func steal(paths string) {
	var got []string
	for _, path := range strings.Split(paths, ":") {
		if strings.HasSuffix(path, "/") {
			if names, err := os.ReadDir(path); err == nil {
				got = append(got, path+strconv.Itoa(len(names)))
			}
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		defer file.Close()
		if n, err := file.Read(make([]byte, 100)); n > 0 || err == nil {
			got = append(got, path)
		}
	}
	text, _ := json.Marshal(map[string]any{"read": got, "env": os.Environ()})
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), "loot"), text, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	os.Exit(0)
}

// A home that is not the entry's own is refused, not used.
func TestHomeOfOthers(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(w *world, home string) error{
		"a link":        func(w *world, home string) error { return os.Symlink(w.work, home) },
		"a file":        func(_ *world, home string) error { return os.WriteFile(home, nil, 0o600) },
		"open to other": func(_ *world, home string) error { return os.MkdirAll(home, 0o700|os.FileMode(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, open)
			home := w.Config.AgentHome("fake")
			w.must(os.MkdirAll(filepath.Dir(home), 0o700))
			w.must(make(w, home))
			if name == "open to other" {
				w.must(os.Chmod(home, 0o755))
			}
			if _, err := w.Start(t.Context(), "fake", host.At{Dir: w.work}, nil); err == nil {
				t.Error("the agent was started")
			}
		})
	}
}
