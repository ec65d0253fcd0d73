package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

func TestMain(m *testing.M) {
	keeper.Main()
	switch {
	case os.Getenv("RUN_AS_AGENT") != "":
		os.Exit(acpagent.Main())
	case os.Getenv("RUN_AS_RELAY") != "":
		os.Exit(relayProcess())
	}
	syscall.Umask(0o077)
	goleak.VerifyTestMain(m)
}

var ability = sync.OnceValue(func() sandbox.Ability { return sandbox.Probe(context.Background(), nil) })

// world is a relay's folder with a listed clone and scripted agents.
type world struct {
	testing.TB
	dir, clone string
	config     settings.Config
	pool       *keeper.Pool
	*turns.Host
	change func(*turns.Options)
}

// entry is one agent of a world: its variables, and more settings of its entry.
type entry struct {
	env  map[string]string
	more string
}

// newWorld makes a host of the agents, which all may work on local/app. Agent fake is there unless they say otherwise.
func newWorld(t testing.TB, agents map[string]entry, change func(*turns.Options)) *world {
	t.Helper()
	w := &world{TB: t, dir: t.TempDir(), change: change}
	w.files(agents)
	w.open()
	t.Cleanup(w.close)
	return w
}

// files writes relay.yaml and makes the clone.
func (w *world) files(agents map[string]entry) {
	w.Helper()
	w.clone = filepath.Join(w.dir, "clone")
	w.git(w.dir, "init", "-q", "-b", "main", w.clone)
	w.git(w.clone, "commit", "-q", "--allow-empty", "-m", "first")
	if agents == nil {
		agents = map[string]entry{"fake": {}}
	}
	var text strings.Builder
	var names []string
	text.WriteString("listen: none\nagents:\n")
	for name, e := range agents {
		names = append(names, name)
		fmt.Fprintf(&text, "  %s: { kind: acp, argv: [%q], i_know: true, env: %s, %s }\n", name, w.program(), w.env(e.env), e.more)
	}
	fmt.Fprintf(&text, "repos:\n  local/app: { clone: %q, agents: [%s] }\n", w.clone, strings.Join(names, ", "))
	w.must(os.WriteFile(filepath.Join(w.dir, "relay.yaml"), []byte(text.String()), 0o600))
}

func (w *world) program() string {
	w.Helper()
	program, err := os.Executable()
	w.must(err)
	return program
}

func (w *world) env(more map[string]string) string {
	w.Helper()
	// Under the race detector every process would sleep a second at its end.
	env := map[string]string{"RUN_AS_AGENT": "1", "GORACE": "atexit_sleep_ms=0"}
	for name, value := range more {
		env[name] = value
	}
	text, err := json.Marshal(env)
	w.must(err)
	return string(text)
}

// open starts a host over the folder, as a relay does at its start.
func (w *world) open() {
	w.Helper()
	var err error
	w.config, err = settings.Load(filepath.Join(w.dir, "relay.yaml"), nil)
	w.must(err)
	w.pool, err = keeper.NewPool(true)
	w.must(err)
	spaces, err := workspace.Open(workspace.Options{State: w.config.State, Run: w.pool, Ability: ability()})
	w.must(err)
	o := turns.Options{Config: w.config, Live: settings.Follow(w.config, nil, nil), Spaces: spaces, Log: zerolog.Nop(), Drivers: map[string]turns.Driver{
		settings.AgentACP: turns.ACP{Host: &host.Host{Config: w.config, Executor: w.pool, Ability: ability(), Version: "test", SettleFor: 5 * time.Millisecond}},
	}}
	if w.change != nil {
		w.change(&o)
	}
	w.Host, err = turns.Open(w.Context(), o)
	w.must(err)
}

// close ends the host and everything that it started.
func (w *world) close() {
	w.Host.Close()
	w.pool.Close()
}

// again is a restart of the relay in good order.
func (w *world) again() {
	w.Helper()
	w.close()
	w.open()
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// git runs git as a person.
func (w *world) git(dir string, args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(w.Context()), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@example.com",
		"GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// turn is a turn of agent fake in session s, whose workspace has the session's name.
func turn(session, id string, script ...string) wire.Turn {
	marker := "[bridge " + id + "]"
	return wire.Turn{ID: id, BodyHash: "body of " + id, TurnAsk: wire.TurnAsk{
		Agent: "fake", Session: session, Marker: marker, Text: marker + "\n" + strings.Join(script, "\n"), Home: wire.Home{Name: session, Repo: "local/app"},
	}}
}

// run says a turn and waits for its end.
func (w *world) run(t wire.Turn) wire.TurnEnded {
	w.Helper()
	end := w.RunTurn(context.WithoutCancel(w.Context()), t)
	end.ID = t.ID
	if !end.Valid(t.ID) {
		w.Errorf("the end of turn %s is not one: %+v", t.ID, end)
	}
	return end
}

// answers says a turn that is to be answered with a text.
func (w *world) answers(t wire.Turn, text string) wire.TurnEnded {
	w.Helper()
	end := w.run(t)
	if end.Cause != wire.TurnAnswered || end.Text != text {
		w.Errorf("turn %s: %s%s %q %q", t.ID, end.Cause, end.Refusal, end.Text, end.Error)
	}
	return end
}

// background says a turn, and returns where its end will be.
func (w *world) background(t wire.Turn) <-chan wire.TurnEnded {
	ended := make(chan wire.TurnEnded, 1)
	go func() { ended <- w.run(t) }()
	return ended
}

// log is what the agent wrote down. A fault in it fails the test.
func (w *world) log(agent string) []acpagent.Line {
	w.Helper()
	lines, err := acpagent.ReadLog(w.config.AgentHome(agent))
	if os.IsNotExist(err) {
		return nil
	}
	w.must(err)
	for _, l := range lines {
		if l.Event == acpagent.Fault {
			w.Errorf("the agent says that the relay is wrong: %s", l.Text)
		}
	}
	return lines
}

// said counts the prompts of agent fake that hold some words.
func (w *world) said(words string) (n int) {
	w.Helper()
	for _, l := range w.log("fake") {
		if l.Event == acpagent.Prompted && strings.Contains(l.Text, words) {
			n++
		}
	}
	return n
}

// count counts the lines of an event in the log of agent fake.
func (w *world) count(event string) (n int) {
	w.Helper()
	for _, l := range w.log("fake") {
		if l.Event == event {
			n++
		}
	}
	return n
}

// eventually waits until fn says yes.
func (w *world) eventually(what string, fn func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !fn() {
		select {
		case <-ctx.Done():
			w.Fatalf("it never came to this: %s", what)
		case <-tick.C:
		}
	}
}
