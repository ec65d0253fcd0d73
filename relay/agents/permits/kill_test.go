package permits_test

import (
	"bufio"
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

	"go.uber.org/goleak"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/permits"
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
		os.Exit(playRelay(os.Getenv("RUN_AS_RELAY")))
	}
	syscall.Umask(0o077)
	goleak.VerifyTestMain(m)
}

var ability = sync.OnceValue(func() sandbox.Ability { return sandbox.Probe(context.Background(), nil) })

// relay is a host of scripted agents with its book, over one folder.
type relay struct {
	*turns.Host
	book   *permits.Book
	pool   *keeper.Pool
	config settings.Config
}

func openRelay(ctx context.Context, dir string) (r *relay, err error) {
	r = &relay{}
	if r.config, err = settings.Load(filepath.Join(dir, "relay.yaml"), func(string) (string, bool) { return "", false }); err != nil {
		return nil, err
	}
	if r.pool, err = keeper.NewPool(true); err != nil {
		return nil, err
	}
	spaces, err := workspace.Open(workspace.Options{State: r.config.State, Run: r.pool, Ability: ability()})
	if err == nil {
		r.book, err = permits.OpenBook(permits.Options{Config: r.config, Live: settings.Follow(r.config, nil, nil)})
	}
	if err == nil {
		r.Host, err = turns.Open(ctx, turns.Options{Config: r.config, Live: settings.Follow(r.config, nil, nil), Spaces: spaces, Asker: r.book, Drivers: map[string]turns.Driver{
			settings.AgentACP: turns.ACP{Host: &host.Host{Config: r.config, Executor: r.pool, Ability: ability(), Version: "test", SettleFor: 5 * time.Millisecond}},
		}})
	}
	return r, err
}

func (r *relay) close() {
	r.Host.Close()
	r.pool.Close()
	_ = r.book.Close()
}

// playRelay is a relay process that says one turn, and says when a person is asked.
func playRelay(dir string) int {
	syscall.Umask(0o077)
	ctx := context.Background()
	r, err := openRelay(ctx, dir)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	var t wire.Turn
	if err := json.Unmarshal([]byte(os.Getenv("TURN")), &t); err != nil {
		return 1
	}
	t.ID, t.BodyHash = os.Getenv("TURN_ID"), "body"
	go func() {
		for {
			_, changed := r.book.Permissions()
			if len(r.book.Pending()) > 0 {
				fmt.Println("asking")
				return
			}
			<-changed
		}
	}()
	end := r.RunTurn(ctx, t)
	fmt.Println("ended", end.Cause, end.Refusal, end.Error)
	r.close()
	return 0
}

func git(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@e.org", "GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@e.org"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// folder is a relay's, with the agent fake, which may work on local/app.
func folder(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	clone := filepath.Join(dir, "clone")
	git(t, "init", "-q", "-b", "main", clone)
	git(t, "-C", clone, "commit", "-q", "--allow-empty", "-m", "first")
	program, err := os.Executable()
	must(t, err)
	text := fmt.Sprintf("listen: none\nagents:\n  fake: { kind: acp, argv: [%s], i_know: true, env: { RUN_AS_AGENT: \"1\", GORACE: atexit_sleep_ms=0 }, %s }\nrepos:\n  local/app: { clone: %s, agents: [fake] }\n", program, more, clone)
	must(t, os.WriteFile(filepath.Join(dir, "relay.yaml"), []byte(text), 0o600))
	return dir
}

func turnOf(session, id string, script ...string) wire.Turn {
	marker := "[bridge " + id + "]"
	return wire.Turn{ID: id, BodyHash: "body", TurnAsk: wire.TurnAsk{
		Agent: "fake", Session: session, Marker: marker, Text: marker + "\n" + strings.Join(script, "\n"), Home: wire.Home{Name: session, Repo: "local/app"},
	}}
}

// killWhileAsking starts a relay that says a turn, and kills the relay or the agent when a person is asked.
func killWhileAsking(t *testing.T, dir string, turn wire.Turn, agent bool) {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	ask, err := json.Marshal(turn)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{"RUN_AS_RELAY=" + dir, "TURN=" + string(ask), "TURN_ID=" + turn.ID, "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GORACE=atexit_sleep_ms=0"}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "asking" {
		t.Logf("the relay says %q", lines.Text())
	}
	if !agent {
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		return
	}
	log := agentLog(t, dir)
	must(t, syscall.Kill(log[len(log)-1].PID, syscall.SIGKILL))
	for lines.Scan() {
		// The relay starts the agent again, which asks the same, until ask_hold is over.
		if !strings.HasPrefix(lines.Text(), "ended asking") {
			t.Errorf("after the agent was killed the relay says %q", lines.Text())
		}
	}
	_ = cmd.Wait()
}

func agentLog(t *testing.T, dir string) []acpagent.Line {
	t.Helper()
	config, err := settings.Load(filepath.Join(dir, "relay.yaml"), func(string) (string, bool) { return "", false })
	must(t, err)
	lines, err := acpagent.ReadLog(config.AgentHome("fake"))
	must(t, err)
	for _, l := range lines {
		if l.Event == acpagent.Fault {
			t.Errorf("the agent says that the relay is wrong: %s", l.Text)
		}
	}
	return lines
}

// TestAskHold: the question outlives the process that ask_hold ends, and its answer counts in the next turn.
func TestAskHold(t *testing.T) {
	t.Parallel()
	dir := folder(t, "permissions: ask, ask_hold: 1s")
	r, err := openRelay(t.Context(), dir)
	must(t, err)
	defer r.close()
	end := r.RunTurn(t.Context(), turnOf("s", "t1", "do: ask execute make"))
	if end.Cause != wire.TurnAsking {
		t.Fatalf("the turn ended %s%s %q", end.Cause, end.Refusal, end.Error)
	}
	open := r.book.Pending()
	if len(open) != 1 {
		t.Fatalf("%d questions are open; want 1", len(open))
	}
	must(t, r.book.Decide(permits.Answer{ID: open[0].ID, Allow: true, By: "test"}))
	if end := r.RunTurn(t.Context(), turnOf("s", "t2", "do: ask execute make")); end.Cause != wire.TurnAnswered || !strings.Contains(end.Text, "allow_once") {
		t.Errorf("the next turn ended %s%s with %q %q", end.Cause, end.Refusal, end.Text, end.Error)
	}
	if end := r.RunTurn(t.Context(), turnOf("s", "t3", "do: ask execute make")); end.Cause != wire.TurnAsking {
		t.Errorf("a yes counted twice: the third turn ended %s%s with %q %q", end.Cause, end.Refusal, end.Text, end.Error)
	}
}
