package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/proof/acpagent"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/settings"
)

// said is a report as one text.
func said(r host.Report) string {
	text := ""
	for _, l := range r.Lines {
		text += l[0] + ": " + l[1] + "\n"
	}
	return text + "PROBLEMS: " + strings.Join(r.Problems, "\n")
}

// A check ends whatever the agent does, says why in words, and leaves nothing but the home.
func TestCheckEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		env      map[string]string
		startFor time.Duration
		want     string
	}{
		"never answers":       {map[string]string{"ACPAGENT_START": "silent"}, 2 * time.Second, "PROBLEMS: the agent did not start in time: the check waited 2s, and "},
		"speaks no protocol":  {map[string]string{"ACPAGENT_START": "garbage"}, 0, "does not write messages of the Agent Client Protocol"},
		"begins with a word":  {map[string]string{"ACPAGENT_START": "banner"}, 0, "output: the relay ignored text outside of messages in 1 lines of the agent's output; the first begins: \\x1b[1mWelcome to acpagent!"},
		"speaks version 2":    {map[string]string{"ACPAGENT_START": "version2"}, 0, "the agent speaks version 2 of the protocol"},
		"ends":                {map[string]string{"ACPAGENT_START": "exit"}, 0, `exit code 3; it wrote "acpagent: the configuration cannot be read"`},
		"floods its errors":   {map[string]string{"ACPAGENT_START": "stderr"}, 0, "session: opened in"},
		"wants a login":       {map[string]string{"ACPAGENT_LOGIN": "missing"}, 0, "login: missing (it offers: Set ACPAGENT_LOGIN)"},
		"loads alone":         {map[string]string{"ACPAGENT_SESSIONS": "load"}, 0, "sessions: the agent can load its sessions with their history (session/load)"},
		"resumes alone":       {map[string]string{"ACPAGENT_SESSIONS": "resume"}, 0, "sessions: the agent can resume its sessions (session/resume), but cannot load"},
		"asks nothing":        {map[string]string{"ACPAGENT_MODE": "open"}, 0, "the session is in mode bypassPermissions, where the agent acts without asking"},
		"is ended by a login": {map[string]string{"ACPAGENT_LOGIN": "missing"}, 0, "PROBLEMS: the agent wants its user to log in; run: drawbridge-relay login fake --config "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.env, open)
			if tt.startFor > 0 {
				w.startTimeout(tt.startFor)
			}
			if got := said(w.Check(t.Context(), "fake")); !strings.Contains(got, tt.want) {
				t.Errorf("want %q in\n%s", tt.want, got)
			}
			wantNothingLeft(t, w)
			for _, l := range w.log() {
				if l.Event == acpagent.Prompted {
					t.Errorf("a check sent the prompt %q", l.Text)
				}
			}
			if left, err := os.ReadDir(filepath.Dir(w.Config.AgentHome("fake"))); err != nil || len(left) != 1 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// A program that is gone since relay.yaml was read, or that others could have replaced, is not started.
func TestCheckJudgesTheProgramAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, open)
	path := filepath.Join(w.dir, "agent")
	a := w.Config.Agents["fake"]
	a.Argv = []string{path}
	w.Config.Agents["fake"] = a
	if got := said(w.Check(t.Context(), "fake")); !strings.Contains(got, "agent does not exist") {
		t.Error(got)
	}
	w.must(os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	w.must(os.Chmod(path, 0o777))
	if got := said(w.Check(t.Context(), "fake")); !strings.Contains(got, "can be written by others") {
		t.Error(got)
	}
}

// Without the means for a sandbox, an agent that cannot be made to ask does not start, unless its user knows.
func TestNoSandboxHere(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		"sandbox: {}":               "PROBLEMS: this machine cannot keep the agent in its sandbox: files are not limited",
		"sandbox: {}, i_know: true": "session: opened in",
	} {
		w := newWorld(t, nil, more)
		w.Ability.Landlock, w.Ability.Bubblewrap, w.Ability.Namespace, w.Ability.Cover = 0, "", false, false
		if got := said(w.Check(t.Context(), "fake")); !strings.Contains(got, want) {
			t.Errorf("%s: want %q in\n%s", more, want, got)
		}
	}
}

// Without the means for a sandbox, a setup does not run for an agent that asks either: nobody asks about the setup.
func TestSetUpNeedsASandbox(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		"sandbox: {}":               "this machine cannot keep the setup of the workspace in the agent's sandbox: files are not limited",
		"sandbox: {}, i_know: true": "the setup of the workspace (sh -c pwd; echo ~; exit 3) ended with exit code 3; it wrote: WORK | HOME",
	} {
		w := newWorld(t, nil, more)
		w.Ability.Landlock, w.Ability.Bubblewrap, w.Ability.Namespace, w.Ability.Cover = 0, "", false, false
		want = strings.NewReplacer("WORK", w.work, "HOME", w.Config.AgentHome("fake")).Replace(want)
		if err := w.SetUp(t.Context(), "fake", w.work, []string{"sh", "-c", "pwd; echo ~; exit 3"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", more, err)
		}
	}
}

// hung is an Executor whose programs end when they are ended.
type hung struct{}

func (hung) Run(ctx context.Context, _ keeper.Command) (keeper.End, error) {
	<-ctx.Done()
	return keeper.End{Cut: true}, nil
}

// A setup ends at turn_timeout, and when its turn is stopped.
func TestSetUpTakesTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, "i_know: true")
	w.Executor = hung{}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := w.SetUp(t.Context(), "fake", w.work, []string{"make"})
		if spent := time.Since(began); err == nil || !strings.Contains(err.Error(), "(make) took longer than turn_timeout (1h0m0s)") || spent != time.Hour {
			t.Errorf("after %s: %v", spent, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := w.SetUp(ctx, "fake", w.work, []string{"make"}); err == nil || !strings.Contains(err.Error(), "(make) was ended from outside") {
			t.Error(err)
		}
	})
}

// A check runs what the clones of an entry ask for, in its sandbox.
func TestCheckRunsTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, "sandbox: {}, i_know: true")
	if ability().Landlock == 0 && ability().Bubblewrap == "" {
		t.Skip("SKIPPED: nothing limits files here")
	}
	clone, tools := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"go": "echo go version 1.2 of $1; echo more", "cargo": "echo no home >&2; echo see the manual >&2; exit 3", "hidden/mix": "echo no"} {
		path := filepath.Join(tools, name)
		w.must(os.MkdirAll(filepath.Dir(path), 0o700))
		w.must(os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}
	for _, name := range []string{"go.mod", "Cargo.toml", "mix.exs"} {
		w.must(os.WriteFile(filepath.Join(clone, name), nil, 0o600))
	}
	a := w.Config.Agents["fake"]
	a.Sandbox.Read = []string{filepath.Join(tools, "go"), filepath.Join(tools, "cargo")}
	a.Env = append(a.Env, settings.EnvVar{Name: "PATH", Value: tools + ":" + filepath.Join(tools, "hidden") + ":/usr/bin:/bin"})
	w.Config.Agents["fake"] = a
	w.Config.Repos = map[string]settings.Repo{"local/app": {Clone: clone, Agents: []string{"fake"}}, "local/other": {Clone: clone}}
	got := said(w.Check(t.Context(), "fake"))
	for _, want := range []string{
		"builds: local/app asks for go (go.mod): go version 1.2 of version\n", `builds: local/app asks for cargo (Cargo.toml): CANNOT RUN: it ended with exit code 3; it wrote: no home | see the manual`,
		"builds: local/app asks for mix (mix.exs): CANNOT RUN: it ended with exit code 12",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "local/other") || !strings.HasSuffix(got, "PROBLEMS: ") {
		t.Errorf("got\n%s", got)
	}
}

// A program of kind cli is asked for its version alone.
func TestCheckCLI(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"echo tool 1.2; echo more": "agent: version tool 1.2; one process for each turn, format text",
		"echo broken >&2; exit 3":  `PROBLEMS: the program cannot print its version (--version): the agent ended with exit code 3; it wrote "broken"`,
		"sleep 1000":               "PROBLEMS: the program did not print its version (--version) within 2s",
		"yes":                      "PROBLEMS: the program did not print its version (--version) within 2s",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			if ability().Landlock == 0 && ability().Bubblewrap == "" {
				t.Skip("SKIPPED: this machine has no sandbox")
			}
			w := newWorld(t, nil, open)
			if strings.Contains(want, "within 2s") {
				w.startTimeout(2 * time.Second)
			}
			path := filepath.Join(w.dir, "tool")
			w.must(os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
			a := w.Config.Agents["fake"]
			a.Kind, a.Argv, a.Template, a.Sandbox = settings.AgentCLI, []string{path}, &settings.Template{Format: settings.FormatText}, &settings.Sandbox{Read: []string{path}}
			w.Config.Agents["fake"] = a
			if got := said(w.Check(t.Context(), "fake")); !strings.Contains(got, want) {
				t.Errorf("want %q in\n%s", want, got)
			}
			wantNothingLeft(t, w)
		})
	}
}

// What of a template will not work with its program is a problem with a remedy, before the first turn.
func TestCheckTemplate(t *testing.T) {
	t.Parallel()
	if ability().Landlock == 0 && ability().Bubblewrap == "" {
		t.Skip("SKIPPED: this machine has no sandbox")
	}
	prompt := []string{"--", "{prompt}"}
	for _, tt := range []struct {
		name, program string
		argv          []string
		t             settings.Template
		cap           int
		want, not     []string
	}{
		{"claude", "claude", []string{"-p", "--verbose", "--output-format", "stream-json"}, settings.Template{Format: settings.FormatClaudeStream, First: prompt, Prompt: settings.ByArgument}, 0,
			[]string{"prompt: an argument, which cannot hold", "mcp: none", "sessions: the agent cannot continue a session", "login: not seen"}, []string{"PROBLEMS"}},
		{"claude in half", "claude", []string{"--print"}, settings.Template{Format: settings.FormatClaudeStream, First: prompt, Resume: []string{"--verbose"}}, 0,
			[]string{"argv and first have no stream-json", "argv and first have no --verbose", "argv and resume have no stream-json"}, []string{"resume have no --verbose"}},
		{"codex with a sandbox of its own", "codex", []string{"exec", "--json"}, settings.Template{Format: settings.FormatCodex, MCP: settings.ByArgument}, 0,
			[]string{"add --sandbox danger-full-access", "mcp: an argument, which other agents"}, []string{"have no"}},
		{"codex", "codex", []string{"exec", "--json", "-s", "danger-full-access"}, settings.Template{Format: settings.FormatCodex}, 0, []string{"login: by .codex/auth.json"}, []string{"PROBLEMS"}},
		{"codex as text", "codex", []string{"exec"}, settings.Template{Format: settings.FormatText}, 0, []string{"write format: codex-json", "answer: all output of the agent"}, nil},
		{"cursor", "cursor-agent", []string{"--print", "--output-format", "stream-json", "--trust"}, settings.Template{Format: settings.FormatCursorStream, MCP: settings.ByFile}, 0,
			[]string{"have no --approve-mcps", "write tool_cap: 40", "writes .cursor/mcp.json"}, []string{"no --trust"}},
		{"cursor with a cap", "cursor-agent", []string{"--print", "--output-format", "stream-json", "--trust", "--approve-mcps"}, settings.Template{Format: settings.FormatCursorStream, MCP: settings.ByFile}, 40, []string{"tools: at most 40, as relay.yaml says; all toolsets of a bridge together have 40 tools, so at least 0 are left for other servers"}, []string{"PROBLEMS"}},
		{"cursor with a low cap", "cursor-agent", []string{"--print", "--output-format", "stream-json", "--trust", "--approve-mcps"}, settings.Template{Format: settings.FormatCursorStream, MCP: settings.ByFile}, 20, []string{"tools: at most 20, as relay.yaml says; all toolsets of a bridge together have 40 tools, so the agent may leave some out; write tool_cap: 20 below the runtime in bridge.yaml"}, []string{"PROBLEMS"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, open)
			path := filepath.Join(w.dir, tt.program)
			w.must(os.WriteFile(path, []byte("#!/bin/sh\necho 1.0\n"), 0o700))
			a := w.Config.Agents["fake"]
			a.Kind, a.Argv, a.Template, a.Sandbox, a.ToolCap = settings.AgentCLI, append([]string{path}, tt.argv...), &tt.t, &settings.Sandbox{Read: []string{path}}, tt.cap
			w.Config.Agents["fake"] = a
			login := filepath.Join(w.Config.AgentHome("fake"), ".codex", "auth.json")
			w.must(os.MkdirAll(filepath.Dir(login), 0o700))
			w.must(os.WriteFile(login, []byte("{}"), 0o600))
			got := said(w.Check(t.Context(), "fake"))
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("want %q in\n%s", want, got)
				}
			}
			for _, not := range tt.not {
				if not == "PROBLEMS" && strings.HasSuffix(strings.TrimSpace(got), not+":") {
					continue
				}
				if strings.Contains(got, not) {
					t.Errorf("do not want %q in\n%s", not, got)
				}
			}
		})
	}
}
