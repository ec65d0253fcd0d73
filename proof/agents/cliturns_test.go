//go:build deep

package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/cli"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
)

// once is an agent that is started once for each turn.
type once struct {
	program string
	// entry are settings of its entry beside argv, env and sandbox.
	entry map[string]any
	args  []string
	env   func(url string) map[string]string
	// prepare puts the agent's own settings into its home.
	prepare func(home, url string) error
	// server is the prefix of the tools of the server drawbridge, as the scripted model names them.
	server string
}

var onces = map[string]once{
	"codex": {
		program: "@openai/codex-linux-*/vendor/*/bin/codex", server: namespace + ".",
		args: []string{"exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"},
		entry: map[string]any{
			"first": []string{"--json", "-c", "{mcp}", "-"}, "resume": []string{"resume", "--json", "-c", "{mcp}", "{session}", "-"},
			"prompt": "stdin", "mcp": "argument", "format": "codex-json",
		},
		env:     func(string) map[string]string { return nil },
		prepare: scriptedCodex,
	},
	"claude": {
		program: "@anthropic-ai/claude-code-linux-*/claude", server: "mcp__drawbridge__",
		args: []string{"--print", "--verbose", "--output-format", "stream-json", "--allowedTools", "Bash,Edit,Write,mcp__drawbridge"},
		entry: map[string]any{
			"first": []string{"--mcp-config", "{mcp}"}, "resume": []string{"--mcp-config", "{mcp}", "--resume", "{session}"},
			"prompt": "stdin", "mcp": "argument", "format": "claude-stream-json",
		},
		env: func(url string) map[string]string {
			return map[string]string{
				"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-scripted-000000", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "0",
			}
		},
		prepare: func(string, string) error { return nil },
	},
}

// scriptedCodex lets Codex use the scripted model.
func scriptedCodex(home, url string) error {
	config := fmt.Sprintf("model = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = %q\nwire_api = \"responses\"\nrequest_max_retries = 0\n", url+"/v1")
	return put(filepath.Join(home, ".codex", "config.toml"), []byte(config))
}

// settings is the agent's entry in relay.yaml. It may read the folders, too.
func (o once) settings(t *testing.T, name, url string, folders ...string) map[string]any {
	t.Helper()
	modules := agentsHome(t, name)
	entry := map[string]any{
		"kind": "cli", "argv": append([]string{program(t, modules, o.program)}, o.args...), "env": o.env(url),
		"sandbox": map[string]any{"read": append([]string{"/usr", modules}, folders...), "network": true},
	}
	for key, value := range o.entry {
		entry[key] = value
	}
	return entry
}

// onceBench is a relay.yaml with one real agent of kind cli, its model, and a bridge with a door.
type onceBench struct {
	*bench
	cli.Driver
	session string
	server  acp.MCPServer
}

func newOnceBench(t *testing.T, name string) *onceBench {
	t.Helper()
	o := onces[name]
	b := &onceBench{bench: &bench{T: t, model: newChat(), dir: t.TempDir(), work: t.TempDir(), agent: name}}
	t.Cleanup(b.model.Close)
	w := newWorld(t)
	b.server = acp.MCPServer{Name: "drawbridge", Command: w.program, Args: []string{"mcp", "--agent", "main"}, Env: map[string]string{"DRAWBRIDGE_URL": w.url, tokenVariable: strings.TrimSpace(w.cli("token", "main"))}}
	entry := o.settings(t, name, b.model.URL, filepath.Dir(w.program))
	text, err := json.Marshal(map[string]any{"listen": "none", "agents": map[string]any{name: entry}})
	b.must(err)
	file := filepath.Join(b.dir, "relay.yaml")
	b.must(os.Chmod(b.dir, 0o700))
	b.must(os.WriteFile(file, text, 0o600))
	b.Config, err = settings.Load(file, nil)
	b.must(err)
	pool, err := keeper.NewPool(true)
	b.must(err)
	t.Cleanup(pool.Close)
	b.Executor, b.Ability, b.Version = pool, sandbox.Probe(t.Context(), nil), "test"
	b.Driver.Host = &b.bench.Host
	b.must(os.MkdirAll(b.home(), 0o700))
	b.must(o.prepare(b.home(), b.model.URL))
	return b
}

// turn runs one turn of the session.
func (b *onceBench) turn(words string) (acp.Answer, error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	c, err := b.Open(ctx, turns.Opening{
		Work: turns.Work{Agent: b.agent, Session: "s", Dir: b.work}, Resume: b.session, MCP: []acp.MCPServer{b.server},
		Named: func(id string) error { b.session = id; return nil },
	})
	b.must(err)
	defer c.Close()
	return c.Prompt(ctx, words)
}

// want runs a turn that has to be answered with these words, and returns the tokens that the agent counts: those of the turn, or of the session.
func (b *onceBench) want(words, answer string) (tokens int64) {
	b.Helper()
	a, err := b.turn(words)
	said := a.Spent
	if b.agent == "codex" {
		said = a.Total
	}
	if err != nil || a.Text() != answer || said == nil || said.Tokens == nil {
		b.Errorf("%.60q: %q, spent %+v, %v; want %q", words, a.Text(), said, err, answer)
		return 0
	}
	t := *said.Tokens
	b.Logf("%.20q: %+v, model %q", words, t, said.Model)
	return t.Input + t.Output + t.CacheRead + t.CacheWrite
}

func (b *onceBench) cause(words string, cause agents.Cause) *agents.Error {
	b.Helper()
	_, err := b.turn(words)
	why, _ := err.(*agents.Error)
	if agents.CauseOf(err) != cause || why == nil {
		b.Errorf("%.60q: %v; want %q", words, err, cause)
		return &agents.Error{}
	}
	b.Logf("%v", err)
	return why
}

// Real agents of kind cli run once for each turn, in the relay's sandbox: a turn, a command line, a tool of the bridge's door, a limit that
// is a time, a missing login, a lost session, a kill in mid-turn, and after it the same session. No prompt is put to the model twice, and no process is left.
func TestAgentsOncePerTurn(t *testing.T) {
	t.Parallel()
	for name, o := range onces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newOnceBench(t, name)
			one := b.want("[turn 1] Say something.", "All done.") // one request to the model; the next turns need two
			session := b.session
			made := filepath.Join(b.work, "made.txt")
			two := b.want("[turn 2] Make a file.\nRUN: echo one > "+made, "The tool answered.")
			if _, err := os.Stat(made); err != nil {
				t.Errorf("the command did not run: %v; it returned %.600q", err, b.model.result())
			}
			three := b.want("[turn 3] Look.\nTOOL: "+o.server+"list_agents", "The tool answered.")
			if sum := two == 3*one && three == 5*one; one == 0 || sum != (name == "codex") || !sum && (two != 2*one || three != two) {
				t.Errorf("the turns took %d, %d and %d tokens", one, two, three)
			}
			if result := b.model.result(); !strings.Contains(result, "main") {
				t.Errorf("the tool of the bridge returned %.300q", result)
			}
			b.limits()
			b.replays()
			b.model.refuse(http.StatusUnauthorized, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`)
			b.cause("[turn 5] Go on.", agents.LoginMissing)
			b.model.refuse(0, "")
			b.killed()
			// The prompt as an argument, also one that looks like an option.
			template := b.Config.Agents[name].Template
			template.Prompt, template.Resume = settings.ByArgument, append(slices.DeleteFunc(slices.Clone(template.Resume), func(word string) bool { return word == "-" }), "--", settings.PromptPlace)
			b.want("--help [turn 7]", "All done.")
			if b.session != session {
				t.Errorf("the session went on as %s, not as %s", b.session, session)
			}
			b.session = "01a205b6-a708-7bf1-bfef-c68396cfc999"
			b.cause("[turn 8] Go on.", agents.SessionGone)
			for i, times := range []int{1, 1, 1, 0, 0, 1, 1, 0} {
				// A prompt that the model refused stays in the session: Claude Code puts it to the model with the next one.
				refused := i == 3 || i == 4
				if mark := fmt.Sprintf("[turn %d]", i+1); b.model.times(mark) != times && (!refused || b.model.times(mark) > 1) {
					t.Errorf("%s was put to the model %d times, want %d", mark, b.model.times(mark), times)
				}
			}
			if left := b.living(); len(left) > 0 {
				t.Errorf("%d processes are left", len(left))
			}
			if len(b.model.faults) > 0 {
				t.Errorf("the model says %q", b.model.faults)
			}
		})
	}
}

// replays wants what the agent itself keeps of the session: the turns with their answers, and the one that the limit cut off without.
func (b *onceBench) replays() {
	b.Helper()
	c, err := b.Open(b.Context(), turns.Opening{Work: turns.Work{Agent: b.agent, Dir: b.work}, Resume: b.session, Replay: true})
	b.must(err)
	defer c.Close()
	said, known := c.Replay()
	order := ""
	for _, m := range said {
		for i := range 9 {
			if m.User && strings.Contains(m.Text, fmt.Sprintf("[turn %d]", i)) {
				order += fmt.Sprint(i)
			}
		}
		switch {
		case m.Tool:
			order += "t"
		case !m.User:
			order += "a"
		}
	}
	if !known || order != "1a2ta3ta4" {
		b.Errorf("the agent's own file tells %q, known: %t; want turn, answer, turn, tool, answer, and at last turn 4 alone", order, known)
	}
}

// limits lets the model refuse as the account's limit does, and wants the time.
func (b *onceBench) limits() {
	b.Helper()
	ends := time.Now().Add(3 * time.Hour).Truncate(time.Minute)
	if b.agent == "codex" {
		b.model.refuse(http.StatusTooManyRequests, fmt.Sprintf(`{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_at":%d}}`, ends.Unix()))
	} else {
		b.model.refuse(http.StatusTooManyRequests, `{"type":"error","error":{"type":"rate_limit_error","message":"Usage limit reached, try again in 3 hours."}}`)
	}
	if why := b.cause("[turn 4] Go on.", agents.Limited); why.Until.Sub(ends).Abs() > 2*time.Minute {
		b.Errorf("limited until %v, want %v: %v", why.Until, ends, why)
	}
}

// killed kills every process of the agent in the middle of a turn.
func (b *onceBench) killed() {
	b.Helper()
	hold := make(chan struct{})
	b.model.mu.Lock()
	b.model.hold = hold
	b.model.mu.Unlock()
	ended := make(chan error, 1)
	go func() { _, err := b.turn("[turn 6] Wait."); ended <- err }()
	look, limit := time.NewTicker(20*time.Millisecond), time.After(patience)
	defer look.Stop()
	for b.model.times("[turn 6]") == 0 {
		select {
		case <-look.C:
		case err := <-ended:
			b.Fatalf("the turn ended: %v", err)
		case <-limit:
			b.Fatal("the turn did not reach the model")
		}
	}
	for _, pid := range b.living() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := <-ended; agents.CauseOf(err) != agents.Crashed {
		b.Errorf("a killed agent: %v", err)
	}
	b.model.mu.Lock()
	b.model.hold = nil
	b.model.mu.Unlock()
	close(hold)
}
