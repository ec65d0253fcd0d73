package turns_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// relayProcess is a relay for tests that kill one: it takes turns as lines of JSON, and writes their ends.
func relayProcess() int {
	syscall.Umask(0o077)
	ctx := context.Background()
	config, err := settings.Load(os.Getenv("RUN_AS_RELAY"), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	pool, err := keeper.NewPool(true)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	spaces, err := workspace.Open(workspace.Options{State: config.State, Run: pool, Ability: sandbox.Ability{}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h, err := turns.Open(ctx, turns.Options{Config: config, Live: settings.Follow(config, nil, nil), Spaces: spaces, Log: zerolog.New(os.Stderr), Drivers: map[string]turns.Driver{
		settings.AgentACP: turns.ACP{Host: &host.Host{Config: config, Executor: pool, Version: "test", SettleFor: 5 * time.Millisecond}},
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var running sync.WaitGroup
	var writing sync.Mutex
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var t wire.Turn
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		running.Go(func() {
			end := h.RunTurn(ctx, t)
			end.ID = t.ID
			text, _ := json.Marshal(end)
			writing.Lock()
			defer writing.Unlock()
			fmt.Println(string(text))
		})
	}
	running.Wait()
	h.Close()
	pool.Close()
	return 0
}

// relay is a relay in a process of its own.
type relay struct {
	*world
	cmd   *exec.Cmd
	input io.Closer
	in    *json.Encoder
	ends  chan wire.TurnEnded
}

// start starts a relay over the folder of a world. The world's own host must be closed.
func (w *world) start() *relay {
	w.Helper()
	r := &relay{world: w, cmd: exec.CommandContext(context.WithoutCancel(w.Context()), w.program()), ends: make(chan wire.TurnEnded, 16)}
	r.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "RUN_AS_RELAY=" + w.config.File, "GORACE=atexit_sleep_ms=0"}
	r.cmd.Stderr = os.Stderr
	in, err := r.cmd.StdinPipe()
	w.must(err)
	out, err := r.cmd.StdoutPipe()
	w.must(err)
	w.must(r.cmd.Start())
	r.in, r.input = json.NewEncoder(in), in
	go func() {
		defer close(r.ends)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var end wire.TurnEnded
			if json.Unmarshal(lines.Bytes(), &end) == nil {
				r.ends <- end
			}
		}
	}()
	w.Cleanup(r.kill)
	return r
}

// kill ends the relay at once, and takes nothing that it wrote later.
func (r *relay) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// kills is how many kills of each kind a test makes: few under the race detector. A soak asks for more.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DRAWBRIDGE_KILLS")
	if text == "" && sampled {
		return 3
	}
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ledger is what a test knows of the turns of one session over kills: it is the bridge.
type ledger struct {
	*world
	session string
	counts  map[string]int
}

// settle asks a host for a turn until it has an end that is not a refusal, and checks the end against what the agent wrote down.
func (l *ledger) settle(t wire.Turn) wire.TurnEnded {
	l.Helper()
	var end wire.TurnEnded
	l.eventually("turn "+t.ID+" has an end", func() bool {
		end = l.run(t)
		if end.Refusal != "" && end.Refusal != wire.RefusedBusy {
			l.Fatalf("turn %s is refused: %+v", t.ID, end)
		}
		return end.Refusal == ""
	})
	if again := l.run(t); again.Cause != end.Cause || again.Text != end.Text || !again.Replayed {
		l.Errorf("turn %s has two ends: %+v and %+v", t.ID, end, again)
	}
	said := 0
	for _, line := range l.log("fake") {
		if line.Event == acpagent.Prompted && strings.Contains(line.Text, t.Marker+"\n") {
			said++
		}
	}
	if said > 1 || said == 0 && end.Cause == wire.TurnAnswered {
		l.Errorf("turn %s was said %d times and ended %s: %s", t.ID, said, end.Cause, end.Error)
	}
	if end.Cause == wire.TurnAnswered && end.Text != "answer "+t.ID {
		l.Errorf("turn %s: %q", t.ID, end.Text)
	}
	l.counts[string(end.Cause)]++
	return end
}

func wait(d time.Duration) { <-time.After(d) }

// killAgent kills the newest process of agent fake. One that has ended meanwhile is fine.
func (w *world) killAgent() {
	w.Helper()
	pid := w.newest()
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && strings.Contains(string(name), "RUN_AS_AGENT") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
