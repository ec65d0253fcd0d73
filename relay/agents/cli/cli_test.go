package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drawbridge/proof/cliagent"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/cli"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
)

func TestMain(m *testing.M) {
	keeper.Main()
	if os.Getenv("RUN_AS_AGENT") != "" {
		os.Exit(cliagent.Main())
	}
	syscall.Umask(0o077)
	goleak.VerifyTestMain(m)
}

// template is an entry for each format, with the prompt as an argument and by standard input.
var templates = map[string]string{
	"text":         `argv: [PROGRAM, text], first: ["--session", "{session}", "--", "{prompt}"], resume: ["--resume", "{session}", "--", "{prompt}"], prompt: argument, format: text`,
	"text stdin":   `argv: [PROGRAM, text], first: ["--session", "{session}"], resume: ["--resume", "{session}"], prompt: stdin, format: text`,
	"claude":       `argv: [PROGRAM, claude, --print, --verbose, --output-format, stream-json], first: ["--mcp-config", "{mcp}", "--", "{prompt}"], resume: ["--mcp-config", "{mcp}", --resume, "{session}", "--", "{prompt}"], prompt: argument, mcp: argument, format: claude-stream-json`,
	"claude stdin": `argv: [PROGRAM, claude, --print, --verbose, --output-format, stream-json], first: [--session-id, "{session}"], resume: [--resume, "{session}"], prompt: stdin, format: claude-stream-json`,
	"codex":        `argv: [PROGRAM, codex], first: [exec, --json, -c, "{mcp}", "--", "{prompt}"], resume: [exec, resume, --json, -c, "{mcp}", "{session}", "--", "{prompt}"], prompt: argument, mcp: argument, format: codex-json`,
	"codex stdin":  `argv: [PROGRAM, codex], first: [exec, --json, "-"], resume: [exec, resume, --json, "{session}", "-"], prompt: stdin, format: codex-json`,
	"cursor":       `argv: [PROGRAM, cursor, --print, --output-format, stream-json, --trust, --approve-mcps], first: ["--", "{prompt}"], resume: [--resume, "{session}", "--", "{prompt}"], prompt: argument, mcp: file, format: cursor-stream-json`,
	"cursor parts": `argv: [PROGRAM, cursor, --print, --output-format, stream-json, --stream-partial-output], first: ["--", "{prompt}"], resume: [--resume, "{session}", "--", "{prompt}"], prompt: argument, format: cursor-stream-json`,
}

// streams are the formats with events.
var streams = []string{"claude", "codex", "cursor"}

// world is a relay's host with the scripted agent as its only entry.
type world struct {
	testing.TB
	cli.Driver
	work, session string
	// named are the ids of sessions that the driver reported, and put the files that it wrote.
	named []string
	put   map[string]string
}

func newWorld(t testing.TB, template string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{TB: t, work: t.TempDir(), put: map[string]string{}, Driver: cli.Driver{Host: &host.Host{}}}
	program, err := os.Executable()
	w.must(err)
	env := `{ RUN_AS_AGENT: "1", GORACE: "atexit_sleep_ms=0" }`
	text := fmt.Sprintf("listen: none\nagents: { fake: { kind: cli, env: %s, sandbox: { read: [%q] }, %s } }\n", env, filepath.Dir(program), strings.ReplaceAll(templates[template], "PROGRAM", program))
	path := filepath.Join(dir, "relay.yaml")
	w.must(os.WriteFile(path, []byte(text), 0o600))
	w.Host.Config, err = settings.Load(path, nil)
	w.must(err)
	pool, err := keeper.NewPool(true)
	w.must(err)
	t.Cleanup(pool.Close)
	w.Host.Executor, w.Host.Ability, w.Host.Version = pool, ability(), "test"
	if missing := ability().Plan(sandbox.Wish{}).Missing(); missing != "" {
		entry := w.Host.Config.Agents["fake"]
		entry.IKnow = true
		w.Host.Config.Agents["fake"] = entry
	}
	return w
}

var ability = sync.OnceValue(func() sandbox.Ability { return sandbox.Probe(context.Background(), nil) })

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// door is an MCP server as the host gives it to an agent.
var door = []acp.MCPServer{{Name: "drawbridge", Command: "/opt/drawbridge-relay", Args: []string{"mcp", `a "b"`}, Env: map[string]string{"SOCKET": "/run/x y", "KEY": "k"}}}

// open opens a conversation that goes on with the session of the last turn.
func (w *world) open() turns.Conversation {
	w.Helper()
	c, err := w.Open(w.Context(), turns.Opening{
		Work: turns.Work{Agent: "fake", Session: "s", Turn: "t", Dir: w.work}, Resume: w.session, MCP: door,
		Named: func(id string) error {
			w.named, w.session = append(w.named, id), id
			return nil
		},
		Put: func(_ context.Context, name string, data []byte) error {
			w.put[name] = string(data)
			path := filepath.Join(w.work, name)
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600))
		},
	})
	w.must(err)
	w.Cleanup(c.Close)
	return c
}

func (w *world) prompt(text string) (acp.Answer, error) {
	w.Helper()
	return w.open().Prompt(w.Context(), text)
}

// log is what the agent wrote down; a fault in it fails the test.
func (w *world) log() (prompts []cliagent.Line) {
	w.Helper()
	lines, err := cliagent.ReadLog(w.Host.Config.AgentHome("fake"))
	w.must(err)
	for _, l := range lines {
		if l.Event == cliagent.Fault {
			w.Errorf("the agent says that the driver is wrong: %s", l.Text)
		}
		if l.Event == cliagent.Prompted {
			prompts = append(prompts, l)
		}
	}
	return prompts
}

func wantCause(t testing.TB, err error, cause agents.Cause, reason string) *agents.Error {
	t.Helper()
	var why *agents.Error
	if !errors.As(err, &why) || why.Cause != cause || !strings.Contains(why.Reason, reason) {
		t.Errorf("%v; want %q with %q", err, cause, reason)
		return &agents.Error{}
	}
	return why
}

// In each format an answer is the final answer alone, the session is named once and goes on, and each prompt reaches the program once.
func TestTurns(t *testing.T) {
	t.Parallel()
	for name := range templates {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, name)
			text := strings.HasPrefix(name, "text")
			a, err := w.prompt("[turn 1]\ndo: think SUBAGENT: no\ndo: unknown\ndo: complain usage limit, not logged in\ndo: say SUBAGENT: early\ndo: tool SUBAGENT: no\ndo: say All\\ndone.")
			want := "All\ndone."
			if text {
				want = "SUBAGENT: early\n" + want
			}
			if err != nil || a.Text() != want {
				t.Errorf("%q, %v", a.Text(), err)
			}
			spends := func(total int64) {
				t.Helper()
				spent := a.Spent
				if strings.HasPrefix(name, "codex") { // it counts the session
					spent = a.Total
				} else {
					total = 6
				}
				if (spent == nil || spent.Tokens == nil) != text {
					t.Errorf("spent %+v", spent)
				} else if !text && (spent.Tokens.Input+spent.Tokens.CacheWrite+spent.Tokens.CacheRead != total || spent.Tokens.Output != total/3) {
					t.Errorf("spent %+v, want %d in", spent.Tokens, total)
				}
			}
			spends(6)
			if len(w.named) != 1 {
				t.Fatalf("the session was named %q", w.named)
			}
			if a, err = w.prompt("--dangerously-bypass [turn 2]"); err != nil || a.Text() != "done" {
				t.Errorf("%q, %v", a.Text(), err)
			}
			spends(12)
			if len(w.named) != 1 {
				t.Errorf("the session was named %q", w.named)
			}
			w.session = "00000000-0000-4000-8000-000000000000"
			_, err = w.prompt("[turn 3]")
			wantCause(t, err, agents.SessionGone, "does not know the session: ")
			prompts := w.log()
			if len(prompts) != 2 || !strings.HasPrefix(prompts[0].Text, "[turn 1]") || strings.TrimSpace(prompts[1].Text) != "--dangerously-bypass [turn 2]" || prompts[1].Session != prompts[0].Session {
				t.Errorf("the program was told %+v", prompts)
			}
		})
	}
}

// The MCP servers reach the program: in an argument, or in a file that the relay writes beside rules for the agent.
func TestServers(t *testing.T) {
	t.Parallel()
	asJSON := `{"mcpServers":{"drawbridge":{"command":"/opt/drawbridge-relay","args":["mcp","a \"b\""],"env":{"KEY":"k","SOCKET":"/run/x y"}}}}`
	for name, want := range map[string]string{
		"claude": asJSON, "cursor": asJSON + "\n",
		"codex": `mcp_servers={"drawbridge"={command="/opt/drawbridge-relay",args=["mcp","a \"b\""],env={"KEY"="k","SOCKET"="/run/x y"},default_tools_approval_mode="approve"}}`,
	} {
		w := newWorld(t, name)
		for range 2 {
			if _, err := w.prompt("Go."); err != nil {
				t.Error(err)
			}
		}
		for _, p := range w.log() {
			if p.MCP != want {
				t.Errorf("%s was given %s", name, p.MCP)
			}
		}
		rules := w.put[".cursor/rules/drawbridge.mdc"]
		if name == "cursor" != strings.Contains(rules, "alwaysApply: true") || name == "cursor" != strings.Contains(rules, "Do not poll") {
			t.Errorf("%s has the rules %q", name, rules)
		}
	}
}

// A repository that has a file in the place of the servers keeps it. The turn fails and says so; rules of the repository's own do no harm.
func TestFilesOfTheRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "cursor")
	refuse := func(file string) (turns.Conversation, error) {
		return w.Open(t.Context(), turns.Opening{Work: turns.Work{Agent: "fake", Dir: w.work}, MCP: door, Put: func(_ context.Context, name string, _ []byte) error {
			if name == file {
				return errors.New(name + " is a tracked file of the repository")
			}
			return nil
		}})
	}
	_, err := refuse(".cursor/mcp.json")
	wantCause(t, err, agents.Crashed, ".cursor/mcp.json is a tracked file")
	if c, err := refuse(".cursor/rules/drawbridge.mdc"); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	_, err = w.Open(t.Context(), turns.Opening{Work: turns.Work{Agent: "fake", Dir: w.work}})
	wantCause(t, err, agents.Crashed, "keep a workspace")
}

// much is how many bytes a program writes that writes too much.
func much() int {
	if sampled {
		return 16 << 20
	}
	return 100 << 20
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
		if err == nil && strings.Contains(string(env), "HOME="+w.Host.Config.AgentHome("fake")+"\x00") {
			t.Errorf("%s is left", path)
		}
	}
}

// An answer that was read counts, whatever comes with it and after it.
func TestAnswersThatCount(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{
		fmt.Sprintf("do: line %d\ndo: say over", much()), "do: garbage 1000\ndo: say over", "do: stderr 10485760\ndo: say over", "do: spawn 1000\ndo: say over",
		"do: say over\ndo: linger", "do: forge not an event\ndo: forge {\"type\":7}\ndo: forge {\"a\":\ndo: forge []\ndo: say over",
	} {
		for _, name := range streams {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, name)
				began := time.Now()
				if a, err := w.prompt(prompt); err != nil || a.Text() != "over" {
					t.Errorf("%q: %q, %v", prompt, a.Text(), err)
				}
				if strings.HasSuffix(prompt, "linger") && time.Since(began) > time.Minute {
					t.Errorf("it took %v", time.Since(began))
				}
				wantNothingLeft(t, w)
			})
		}
	}
}

// A prompt of 1 MiB and one with a NUL byte go through standard input. As an argument they are refused with a word on what to do.
func TestLongPrompts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long turn ", 1<<20/12)
	for _, name := range []string{"text stdin", "claude stdin", "codex stdin"} {
		w := newWorld(t, name)
		for _, prompt := range []string{long, "a\x00b"} {
			if a, err := w.prompt(prompt); err != nil || a.Text() != "done" {
				t.Errorf("%s: %q, %v", name, a.Text(), err)
			}
		}
		if p := w.log(); len(p) != 2 || p[0].Text != long || p[1].Text != "a\x00b" {
			t.Errorf("%s got other prompts", name)
		}
	}
	w := newWorld(t, "claude")
	for prompt, reason := range map[string]string{long: "write prompt: stdin", "a\x00b": "NUL character", strings.Repeat("x", 128<<10-1): "write prompt: stdin"} {
		_, err := w.prompt(prompt)
		wantCause(t, err, agents.Crashed, reason)
	}
	if runtime.GOOS == "linux" {
		if _, err := w.prompt(strings.Repeat("x", 128<<10-2)); err != nil {
			t.Errorf("the longest argument: %v", err)
		}
	}
	// A program that does not read its input does not hold the turn.
	w = newWorld(t, "codex stdin")
	entry := w.Host.Config.Agents["fake"]
	entry.Template.First = []string{"--wrong"}
	_, err := w.prompt(long)
	wantCause(t, err, agents.Crashed, "exit code 2; it wrote")
}

// Somebody who ends a turn gives its cause, and Close ends one that runs.
func TestStopped(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"text", "claude", "codex", "cursor"} {
		w := newWorld(t, name)
		ctx, stop := context.WithCancelCause(t.Context())
		c := w.open()
		ended := make(chan error, 1)
		go func() { _, err := c.Prompt(ctx, "do: say half\ndo: hang"); ended <- err }()
		w.begun(1)
		stop(&agents.Error{Cause: agents.Asking, Reason: "a person is asked"})
		wantCause(t, <-ended, agents.Asking, "a person is asked")
		<-c.Done()
		_, err := c.Prompt(t.Context(), "again")
		wantCause(t, err, agents.Crashed, "second turn")

		c = w.open()
		go func() { _, err := c.Prompt(t.Context(), "do: hang"); ended <- err }()
		w.begun(2)
		c.Close()
		wantCause(t, <-ended, agents.Stopped, "")
		wantNothingLeft(t, w)
	}
}

// begun waits until the program got so many prompts.
func (w *world) begun(n int) {
	w.Helper()
	w.eventually("the program starts", func() bool { return w.prompts() >= n })
}

// prompts counts the prompts that the program got.
func (w *world) prompts() (n int) {
	lines, _ := cliagent.ReadLog(w.Host.Config.AgentHome("fake"))
	for _, l := range lines {
		if l.Event == cliagent.Prompted {
			n++
		}
	}
	return n
}

// eventually waits until fn says yes.
func (w *world) eventually(what string, fn func() bool) {
	w.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	limit := time.After(2 * time.Minute)
	for !fn() {
		select {
		case <-look.C:
		case <-limit:
			w.Errorf("it never came to this: %s", what) // from any goroutine
			return
		}
	}
}

// A session that could not be recorded is not begun, and one whose name is an option never becomes an argument.
func TestSessionNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude stdin", "claude", "codex", "cursor"} {
		w := newWorld(t, name)
		c, err := w.Open(t.Context(), turns.Opening{
			Work: turns.Work{Agent: "fake", Dir: w.work}, Put: func(context.Context, string, []byte) error { return nil },
			Named: func(string) error { return errors.New("the disk is full") },
		})
		w.must(err)
		_, err = c.Prompt(t.Context(), "do: sleep 1h")
		wantCause(t, err, agents.Crashed, "the disk is full")
		_, err = w.Open(t.Context(), turns.Opening{Work: turns.Work{Agent: "fake", Dir: w.work}, Resume: "--yolo"})
		wantCause(t, err, agents.SessionGone, "")

		w = newWorld(t, name)
		entry := w.Host.Config.Agents["fake"]
		entry.Env = append(entry.Env, settings.EnvVar{Name: "CLIAGENT_SESSION", Value: "--yolo"})
		w.Host.Config.Agents["fake"] = entry
		if _, err := w.prompt("Go."); name == "claude stdin" {
			// The relay chose the id, and the program took it.
			w.must(err)
		} else {
			wantCause(t, err, agents.Crashed, "cannot be an argument: --yolo")
		}
	}
}

// A million of a program's own fields do not change what counts: the shapes of JSON that a format does not have are skipped.
func TestReadsWhatTheFormatsHave(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, event := range []map[string]any{
		{"type": "assistant", "message": "text"}, {"type": "assistant", "message": map[string]any{"content": map[string]any{}}}, {"type": "user", "message": nil},
		{"type": "tool_call"}, {"type": "item.completed", "item": []int{}}, {"type": "item.completed"}, {"type": "thread.started", "thread_id": 3}, {"type": "rate_limit_event", "rate_limit_info": 1},
	} {
		text, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, "do: forge "+string(text))
	}
	for _, name := range streams {
		w := newWorld(t, name)
		if a, err := w.prompt(strings.Join(lines, "\n") + "\ndo: say over"); err != nil || a.Text() != "over" {
			t.Errorf("%s: %q, %v", name, a.Text(), err)
		}
	}
}
