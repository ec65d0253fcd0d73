package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/cli"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/agents/workspace"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

// hosted is a relay's host of turns over an entry of kind cli, with a listed clone.
type hosted struct {
	*world
	*turns.Host
	spaces *workspace.Store
	clone  string
}

// doors gives each process the server door.
type doors struct{}

// Open implements turns.Door.
func (doors) Open(context.Context, turns.Work) ([]acp.MCPServer, func(), error) {
	return door, func() {}, nil
}

func newHosted(t *testing.T, template string) *hosted {
	t.Helper()
	h := &hosted{world: newWorld(t, template), clone: filepath.Join(t.TempDir(), "clone")}
	h.git("init", "-q", "-b", "main", h.clone)
	h.git("-C", h.clone, "commit", "-q", "--allow-empty", "-m", "first")
	starter := h.world.Driver.Host
	starter.Config.Repos = map[string]settings.Repo{"local/app": {Clone: h.clone, Agents: []string{"fake"}}}
	var err error
	h.spaces, err = workspace.Open(workspace.Options{State: starter.Config.State, Run: starter.Executor, Ability: ability()})
	h.must(err)
	h.Host, err = turns.Open(t.Context(), turns.Options{
		Config: starter.Config, Live: settings.Follow(starter.Config, nil, nil), Spaces: h.spaces, Log: zerolog.Nop(), Door: doors{}, Await: func(context.Context) error { return nil }, Drivers: map[string]turns.Driver{settings.AgentCLI: &cli.Driver{Host: starter}},
	})
	h.must(err)
	t.Cleanup(h.Host.Close)
	return h
}

func (h *hosted) git(args ...string) {
	h.Helper()
	cmd := exec.CommandContext(h.Context(), "git", args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.work, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=P", "GIT_AUTHOR_EMAIL=p@example.com", "GIT_COMMITTER_NAME=P", "GIT_COMMITTER_EMAIL=p@example.com",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		h.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// run says a turn of the session ada and waits for its end.
func (h *hosted) run(id string, script ...string) wire.TurnEnded {
	h.Helper()
	return h.repeat(id, "[bridge "+id+"]", script...)
}

// repeat says a turn with the marker of another one.
func (h *hosted) repeat(id, marker string, script ...string) wire.TurnEnded {
	h.Helper()
	end := h.RunTurn(context.WithoutCancel(h.Context()), wire.Turn{ID: id, BodyHash: id, TurnAsk: wire.TurnAsk{
		Agent: "fake", Session: "ada", Marker: marker, Text: marker + "\n" + strings.Join(script, "\n"), Home: wire.Home{Name: "ada", Repo: "local/app"},
	}})
	if !end.Valid(id) {
		h.Errorf("the end of turn %s is not one: %+v", id, end)
	}
	return end
}

// A hosted entry of kind cli runs turns end to end: one process each, one session, a limit as a time, a stop, a failure and a crash with
// their causes. No process outlives its turn, and no prompt reaches the program twice.
func TestHostedTurns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex", "cursor", "text stdin"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHosted(t, name)
			if end := h.run("t1", "do: spawn 1000", "do: say one"); end.Cause != wire.TurnAnswered || end.Text != "one" {
				t.Errorf("%+v", end)
			}
			wantNothingLeft(t, h.world)
			if end := h.run("t2", "do: fail You've hit your usage limit, try again in 3 hours"); end.Cause != wire.TurnLimited || time.Until(time.UnixMilli(end.Until)).Round(time.Hour) != 3*time.Hour {
				t.Errorf("%+v", end)
			}
			if end := h.run("t3", "do: exit 3"); end.Cause != wire.TurnCrashed || !strings.Contains(end.Error, "exit code 3") {
				t.Errorf("%+v", end)
			}
			if end := h.run("t4", "do: say four"); end.Cause != wire.TurnAnswered || end.Text != "four" {
				t.Errorf("%+v", end)
			}
			wantNothingLeft(t, h.world)
			sessions, heard := map[string]bool{}, map[string]int{}
			for _, p := range h.log() {
				sessions[p.Session] = true
				if strings.Contains(p.Text, "Your process ended") {
					t.Errorf("after a process that ended in order the program is reminded: %q", p.Text)
				}
				for _, id := range []string{"t1", "t2", "t3", "t4"} {
					heard[id] += strings.Count(p.Text, "[bridge "+id+"]")
				}
			}
			for _, id := range []string{"t1", "t2", "t3", "t4"} {
				if mark := id; heard[mark] != 1 {
					t.Errorf("%s reached the program %d times", mark, heard[mark])
				}
			}
			if len(sessions) != 1 {
				t.Errorf("the turns were said in %d sessions", len(sessions))
			}
		})
	}
}

// A turn that was cut off by a limit or a crash goes on in its session, where the program's own file shows that it has the turn: the
// program gets its text once. Where no file tells, the relay is not sure, and says nothing a second time.
func TestHostedRepeats(t *testing.T) {
	t.Parallel()
	for name, tells := range map[string]bool{"claude": true, "codex": true, "cursor": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHosted(t, name)
			h.run("t1", "do: say one")
			if end := h.run("killed", "do: kill"); tells != (end.Cause == wire.TurnAnswered && end.Text == "done") || !tells && !strings.Contains(end.Error, "cannot tell how much of the turn it has") {
				t.Errorf("killed: %+v", end)
			}
			for i, script := range []string{"do: fail Too many requests", "do: exit 3"} {
				id := fmt.Sprint("cut", i)
				if end := h.run(id, script); end.Cause == wire.TurnAnswered {
					t.Errorf("%s: %+v", script, end)
				}
				end := h.repeat(id+"again", "[bridge "+id+"]", script)
				if tells != (end.Cause == wire.TurnAnswered && end.Text == "done") || tells == end.Unclear {
					t.Errorf("%s again: %+v", script, end)
				}
			}
			heard := ""
			for _, p := range h.log() {
				heard += p.Text + "\n"
			}
			for _, script := range []string{"do: fail Too many requests", "do: exit 3", "do: kill"} {
				if n := strings.Count(heard, script); n != 1 {
					t.Errorf("%q was said %d times", script, n)
				}
			}
		})
	}
}

// The files for the agent stand in its workspace before each turn, only its user can read them, git does not offer them, and they do not
// count as work. A file of the repository in their place stays, and the turn says why it did not begin.
func TestHostedFiles(t *testing.T) {
	t.Parallel()
	h := newHosted(t, "cursor")
	end := h.run("t1", "do: say one")
	if end.Cause != wire.TurnAnswered {
		t.Fatalf("%+v", end)
	}
	var evidence struct{ Dirty bool }
	if err := json.Unmarshal([]byte(end.Evidence), &evidence); err != nil || evidence.Dirty {
		t.Errorf("the relay's own files count as work: %v %s", err, end.Evidence)
	}
	space, err := h.spaces.Get(t.Context(), "ada")
	h.must(err)
	for _, name := range []string{".cursor/mcp.json", ".cursor/rules/drawbridge.mdc"} {
		stat, err := os.Stat(filepath.Join(space.Dir(), name))
		if err != nil || stat.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, stat, err)
		}
	}
	if prompts := h.log(); len(prompts) != 1 || !strings.Contains(prompts[0].MCP, `"/opt/drawbridge-relay"`) {
		t.Errorf("the program read %+v", prompts)
	}
	h.must(os.WriteFile(filepath.Join(space.Dir(), ".cursor/mcp.json"), []byte(`{"mcpServers":{}}`), 0o600))
	if end := h.run("t2", "do: say two"); end.Cause != wire.TurnCrashed || !strings.Contains(end.Error, ".cursor/mcp.json exists, and the relay did not write its content") {
		t.Errorf("a file that the agent changed: %+v", end)
	}
	if data, err := os.ReadFile(filepath.Join(space.Dir(), ".cursor/mcp.json")); err != nil || string(data) != `{"mcpServers":{}}` {
		t.Errorf("the file is %q, %v", data, err)
	}
	if n := len(h.log()); n != 1 {
		t.Errorf("the program was started %d times", n)
	}
}
