package settings_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drawbridge/relay/runner/settings"
)

// folderWith is a folder with a clone in it and with programs that are named as agents are.
func folderWith(t *testing.T, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "clone", ".git"), 0o700))
	for _, name := range programs {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	}
	return dir
}

func TestLoadAgents(t *testing.T) {
	t.Parallel()
	dir, state := folderWith(t, "bin/opencode", "bin/cursor-agent"), t.TempDir()
	write(t, filepath.Join(dir, "model.key"), "key-of-the-model\n", 0o600)
	path := write(t, filepath.Join(dir, "relay.yaml"), `
listen: none
state: `+state+`
agents:
  opencode:
    kind: acp
    argv: [`+dir+`/bin/opencode, acp]
    env: { MODEL_KEY: "${file:model.key}" }
    slots: 2
    idle: 10m
    turn_timeout: 1h
    ask_hold: 11m
    silent_after: 5m
    sandbox: { read: [/usr], network: true }
    permissions: { read: allow, edit: allow, execute: ask, fetch: ask, other: ask }
    approve_by: either
    tool_cap: 40
  plain: { kind: acp, argv: [/bin/cat], i_know: true, permissions: ask }
  rules: { kind: acp, argv: [/bin/cat], i_know: true, permissions: { execute: [ { program: go, args: [test] }, { program: /usr/bin/make, exact: true } ] } }
  cursor:
    kind: cli
    argv: [`+dir+`/bin/cursor-agent, --print, --output-format, stream-json, --trust, --approve-mcps]
    first: ["{prompt}"]
    resume: [--resume, "{session}", "{prompt}"]
    prompt: argument
    mcp: file
    format: cursor-stream-json
    sandbox: {}
    permissions: { read: allow }
repos:
  github.com/me/my-app: { clone: `+dir+`/clone, agents: [opencode, cursor] }
  local/app: { clone: `+dir+`/clone, agents: [plain] }
`, 0o600)
	got, err := settings.Load(path, noEnv)
	must(t, err)
	want := map[string]settings.Agent{
		"opencode": {
			Kind: "acp", Argv: []string{dir + "/bin/opencode", "acp"}, Env: []settings.EnvVar{{Name: "MODEL_KEY", Value: "key-of-the-model"}}, Slots: 2,
			StartTimeout: 3 * time.Minute, Idle: 10 * time.Minute, TurnTimeout: time.Hour, AskHold: 11 * time.Minute, SilentAfter: 5 * time.Minute,
			Sandbox:     &settings.Sandbox{Read: []string{"/usr"}, Network: true},
			Permissions: settings.Permissions{Read: "allow", Edit: "allow", Execute: "ask", Fetch: "ask", Other: "ask"}, ApproveBy: "either", ToolCap: 40,
		},
		"plain": {
			Kind: "acp", Argv: []string{"/bin/cat"}, Slots: 1, StartTimeout: 3 * time.Minute, Idle: 10 * time.Minute, TurnTimeout: time.Hour, AskHold: 10 * time.Minute, SilentAfter: 5 * time.Minute,
			Permissions: settings.Permissions{Read: "ask", Edit: "ask", Execute: "ask", Fetch: "ask", Other: "ask"}, ApproveBy: "machine", IKnow: true,
		},
		"rules": {
			Kind: "acp", Argv: []string{"/bin/cat"}, Slots: 1, StartTimeout: 3 * time.Minute, Idle: 10 * time.Minute, TurnTimeout: time.Hour, AskHold: 10 * time.Minute, SilentAfter: 5 * time.Minute,
			Permissions: settings.Permissions{Execute: "ask", Commands: []settings.Command{{Program: "go", Args: []string{"test"}}, {Program: "/usr/bin/make", Exact: true}}}, ApproveBy: "machine", IKnow: true,
		},
		"cursor": {
			Kind: "cli", Argv: []string{dir + "/bin/cursor-agent", "--print", "--output-format", "stream-json", "--trust", "--approve-mcps"}, Slots: 1,
			StartTimeout: 3 * time.Minute, Idle: 10 * time.Minute, TurnTimeout: time.Hour, AskHold: 10 * time.Minute, SilentAfter: 5 * time.Minute,
			Sandbox: &settings.Sandbox{}, Permissions: settings.Permissions{Read: "allow"}, ApproveBy: "machine",
			Template: &settings.Template{First: []string{"{prompt}"}, Resume: []string{"--resume", "{session}", "{prompt}"}, Prompt: "argument", MCP: "file", Format: "cursor-stream-json"},
		},
	}
	if diff := cmp.Diff(want, got.Agents, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	repos := map[string]settings.Repo{
		"github.com/me/my-app": {Clone: dir + "/clone", Agents: []string{"opencode", "cursor"}}, "local/app": {Clone: dir + "/clone", Agents: []string{"plain"}},
	}
	if diff := cmp.Diff(repos, got.Repos); diff != "" {
		t.Errorf("repos (-want +got):\n%s", diff)
	}
	if hidden := got.Redactor().Hide("its key-of-the-model"); strings.Contains(hidden, "key-of") {
		t.Errorf("shown: %s", hidden)
	}
	if text := fmt.Sprintf("%v %+v %#v", got, got.Agents, got.Agents); strings.Contains(text, "key-of-the-model") {
		t.Errorf("the key is printed: %s", text)
	}
	if home := got.AgentHome("opencode"); home != filepath.Join(state, "agents", "opencode", "home") {
		t.Errorf("home %s", home)
	}
	if k, ok := got.Agents["opencode"].Forced(); !ok || k.Name != "OpenCode" || len(k.Env) == 0 {
		t.Errorf("OpenCode is not made to ask: %+v", k)
	}
	if _, ok := got.Agents["plain"].Forced(); ok {
		t.Error("cat is taken for an agent that we know")
	}
}

// Every agent gets the tools of the machine: their folders join its PATH and what it reads, and its own variables win.
func TestTools(t *testing.T) {
	t.Parallel()
	dir := folderWith(t, "go/bin/go", "agent/bin/agent")
	path := write(t, filepath.Join(dir, "relay.yaml"), `
listen: none
tools: { path: [`+dir+`/go/bin, /usr/bin], read: [`+dir+`/go, `+dir+`/none], env: { GOFLAGS: -v, RUSTUP_HOME: /opt/rustup }, env_from: [MODEL_KEY, UNSET, GOPROXY] }
agents:
  own: { kind: acp, argv: [`+dir+`/agent/bin/agent], env: { PATH: "`+dir+`/agent/bin:/usr/bin", GOFLAGS: -race }, sandbox: { read: [/usr] } }
  open: { kind: acp, argv: [/bin/cat], i_know: true, env_from: [MODEL_KEY] }
repos:
  local/app: { clone: `+dir+`/clone, agents: [own], setup: [go, mod, download] }
`, 0o600)
	got, err := settings.Load(path, func(name string) (string, bool) {
		return map[string]string{"MODEL_KEY": "key-of-the-model", "GOPROXY": "https://me:hunter22@proxy.example,direct"}[name], name != "UNSET"
	})
	must(t, err)
	own, open := got.Agents["own"], got.Agents["open"]
	var vars []string
	for _, v := range append(own.Env, open.Env...) {
		vars = append(vars, v.Name+"="+v.Value)
	}
	want := []string{
		"PATH=" + dir + "/agent/bin:" + dir + "/go/bin:/usr/bin", "GOFLAGS=-race", "RUSTUP_HOME=/opt/rustup", "MODEL_KEY=key-of-the-model", "GOPROXY=https://me:hunter22@proxy.example,direct",
		"MODEL_KEY=key-of-the-model", "PATH=" + dir + "/go/bin:" + settings.DefaultPath, "GOFLAGS=-v", "RUSTUP_HOME=/opt/rustup", "GOPROXY=https://me:hunter22@proxy.example,direct",
	}
	if diff := cmp.Diff(want, vars); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/usr", dir + "/go/bin", "/usr/bin", dir + "/go"}, own.Sandbox.Read); diff != "" || open.Sandbox != nil {
		t.Errorf("what it reads (-want +got):\n%s", diff)
	}
	if own.PathOf() != strings.TrimPrefix(want[0], "PATH=") || (settings.Agent{}).PathOf() != settings.DefaultPath {
		t.Errorf("PATH %s", own.PathOf())
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0].String(), "tools.read[1]") {
		t.Errorf("warnings: %v", got.Warnings)
	}
	if hidden := got.Redactor().Hide("its key-of-the-model at https://me:hunter22@proxy.example"); strings.Contains(hidden, "key-of") || strings.Contains(hidden, "hunter22") || !strings.Contains(hidden, "proxy.example") {
		t.Errorf("shown: %s", hidden)
	}
	if diff := cmp.Diff([]string{"go", "mod", "download"}, got.Repos["local/app"].Setup); diff != "" {
		t.Errorf("setup (-want +got):\n%s", diff)
	}
}

// Codex's adapter, Gemini and Qwen begin in the mode that asks, and need a sandbox all the same.
func TestForcedInPart(t *testing.T) {
	t.Parallel()
	for program, mode := range map[string]string{
		"/opt/node_modules/@agentclientprotocol/codex-acp/dist/index.js": "read-only", "/usr/bin/codex-acp": "read-only",
		"/opt/node_modules/@google/gemini-cli/bundle/gemini.js": "default", "/usr/bin/gemini": "default",
		"/opt/node_modules/@qwen-code/qwen-code/cli-entry.js": "default", "/usr/bin/qwen": "default",
	} {
		a := settings.Agent{Kind: settings.AgentACP, Argv: []string{"/usr/bin/node", program}}
		if k, ok := a.Forced(); ok || k.Mode != mode {
			t.Errorf("%s: %+v, enough without a sandbox: %t", program, k, ok)
		}
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "qwen")
	text := "listen: none\nagents:\n  a: { kind: acp, argv: [" + program + ", --acp] }\n"
	for path, mode := range map[string]os.FileMode{program: 0o700, filepath.Join(dir, "relay.yaml"): 0o600} {
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := settings.Load(filepath.Join(dir, "relay.yaml"), nil); err == nil || !strings.Contains(err.Error(), "sandbox") {
		t.Errorf("without a sandbox: %v", err)
	}
}

// A missing program is a warning of its agent, which says what to do. The other agents of the file can be used.
func TestMissingAgent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.yaml")
	text := "listen: none\nagents:\n  a: { kind: acp, argv: [/no/such/agent], sandbox: { read: [/usr, /no/such], write: [/no/such/too] } }\n  b: { kind: acp, argv: [/bin/cat], sandbox: {} }\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := settings.Load(path, nil)
	if err != nil || len(c.Agents) != 2 || len(c.Warnings) != 3 {
		t.Fatalf("%v, %+v", err, c.Warnings)
	}
	if s := c.Agents["a"].Sandbox; len(s.Read) != 1 || len(s.Write) != 0 {
		t.Errorf("%+v", s)
	}
	if got, want := c.Warnings[1].String(), `relay.yaml:3: agents.a.sandbox.read[1]: "/no/such": does not exist, so the relay cannot use it; create it`; !strings.Contains(got, want) {
		t.Errorf("%s", got)
	}
	if got, want := c.Warnings[0].String(), `relay.yaml:3: agents.a.argv[0]: "/no/such/agent": does not exist, so turns of this agent fail; install it or correct the path, and restart the relay`; !strings.Contains(got, want) {
		t.Errorf("%s", got)
	}
}

func TestLoadAgentProblems(t *testing.T) {
	t.Parallel()
	acp := func(rest string) string {
		return "agents:\n  a: { kind: acp, argv: [/bin/cat], sandbox: {}, " + rest + " }\n"
	}
	cli := func(rest string) string {
		return "agents:\n  a: { kind: cli, argv: [/bin/cat], " + rest + " }\n"
	}
	const whole = "sandbox: {}, prompt: stdin, format: text"
	tests := []struct{ name, text, want string }{
		{"name", "agents: { Open: {} }\n", `:2: agents: "Open": is not the name of an agent; use 1 to 64 of`},
		{"no kind", "agents: { a: { argv: [/bin/cat], sandbox: {} } }\n", `agents.a.kind: is missing; write kind: acp`},
		{"kind", "agents: { a: { kind: chat, argv: [/bin/cat] } }\n", `agents.a.kind: "chat": is not known; write acp or cli`},
		{"no argv", "agents: { a: { kind: acp, sandbox: {} } }\n", `agents.a.argv: is missing`},
		{"program that is a folder", "agents: { a: { kind: acp, argv: [/usr], sandbox: {} } }\n", `agents.a.argv[0]: "/usr": is not a regular file`},
		{"program without a path", "agents: { a: { kind: acp, argv: [such], sandbox: {} } }\n", `agents.a.argv[0]: "such": is not an absolute path`},
		{"unknown key", acp("timeout: 1m"), `agents.a.timeout: is not a known key; use one of kind, argv, env, env_from, slots, start_timeout, idle, turn_timeout`},
		{"setting of an action", acp("approval: each"), `agents.a.approval: is not a known key`},
		{"slots", acp("slots: 0"), `agents.a.slots: "0": is not a number in range; write a number from 1 to 64`},
		{"idle", acp("idle: 25h"), `agents.a.idle: "25h": is not a duration in range`},
		{"tools", acp("tool_cap: many"), `agents.a.tool_cap: "many": is not a number in range`},
		{"permission", acp("permissions: { execute: always }"), `agents.a.permissions.execute: "always": is not known; write allow or ask`},
		{"kind of permission", acp("permissions: { shell: ask }"), `agents.a.permissions.shell: is not a known key; use one of read, edit, execute, fetch, other`},
		{"commands without a program", acp("permissions: { execute: [ { args: [test] } ] }"), `agents.a.permissions.execute[0].program: is missing; write { program: go, args: [test] }`},
		{"command that is text", acp("permissions: { execute: [ go test ] }"), `agents.a.permissions.execute[0]`},
		{"shell as a command", acp("permissions: { execute: [ { program: bash } ] }"), `"bash": starts any program that its arguments name`},
		{"wrapper by its path", acp("permissions: { execute: [ { program: /usr/bin/env } ] }"), `"/usr/bin/env": starts any program that its arguments name`},
		{"find", acp("permissions: { execute: [ { program: find, args: [.] } ] }"), `"find": starts any program that its arguments name`},
		{"word of a shell", acp("permissions: { execute: [ { program: eval } ] }"), `"eval": is a command of the shell itself`},
		{"command of the workspace", acp("permissions: { execute: [ { program: ./test.sh } ] }"), `"./test.sh": is a path that depends on the agent's folder`},
		{"path that is not clean", acp("permissions: { execute: [ { program: /bin/../bin/make } ] }"), `is a path that depends on the agent's folder`},
		{"assignment", acp("permissions: { execute: [ { program: A=1 } ] }"), `"A=1": is not the plain name of a program`},
		{"two words", acp("permissions: { execute: [ { program: go test } ] }"), `"go test": is not the plain name of a program`},
		{"interpreter alone", acp("permissions: { execute: [ { program: python3.12 } ] }"), `"python3.12": needs arguments`},
		{"git alone", acp("permissions: { execute: [ { program: git } ] }"), `"git": needs arguments`},
		{"git with settings", acp("permissions: { execute: [ { program: git, args: [-c, a=b, status] } ] }"), `has the argument "-c"`},
		{"starter", acp("permissions: { execute: [ { program: go, args: [test, -exec=id] } ] }"), `has the argument "-exec=id"`},
		{"every command without a sandbox", "agents: { a: { kind: acp, argv: [/bin/cat], i_know: true, permissions: { execute: allow } } }\n", `agents.a.permissions: allows every command, and the agent has no sandbox`},
		{"everything without a sandbox", "agents: { a: { kind: acp, argv: [/bin/cat], i_know: true, permissions: allow } }\n", `agents.a.permissions: allows every command`},
		{"commands of cli", cli("permissions: { execute: [ { program: make } ] }, " + whole), `agents.a.permissions: asks a person, and an agent of kind cli cannot ask`},
		{"permission for all", acp("permissions: deny"), `agents.a.permissions: "deny": is not known`},
		{"HOME", acp("env: { HOME: /root }"), `agents.a.env.HOME: is chosen by the relay`},
		{"preload", acp("env: { LD_PRELOAD: x }"), `agents.a.env.LD_PRELOAD: may not be set`},
		{"key that others read", acp("env: { KEY: '${file:open.key}' }"), `open.key can be read by others (mode 0644); run: chmod go-r`},
		{"missing key", acp("env: { KEY: '${file:no.key}' }"), `no.key, which does not exist`},
		{"preload of the relay's", acp("env_from: [LD_PRELOAD]"), `agents.a.env_from[0]: may not be set`},
		{"HOME of the relay's", acp("env_from: [HOME]"), `agents.a.env_from[0]: is chosen by the relay`},
		{"bypass of the relay's", acp("env_from: [GOOSE_MODE]"), `agents.a.env_from[0]: lets the agent act without asking`},
		{"variable twice", acp("env: { NAME: a }, env_from: [NAME]"), `agents.a.env_from: "NAME": is set twice, in env: and env_from: or in env_from: alone; remove one of them`},
		{"variable of no name", acp("env_from: [a b]"), `agents.a.env_from[0]: is not a variable name`},
		{"variables without a list", acp("env_from: NAME"), `agents.a.env_from: "NAME": is not a list`},
		{"tool that is relative", acp("") + "tools: { path: [bin] }\n", `tools.path[0]: "bin": is not an absolute path`},
		{"tool that is a file", acp("") + "tools: { path: [DIR/bin/opencode] }\n", `tools.path: "DIR/bin/opencode": is not a folder`},
		{"tools that others write", acp("") + "tools: { path: [DIR/open] }\n", `DIR/open can be written by everybody`},
		{"tools with the relay's keys", acp("") + "tools: { read: [DIR] }\n", `tools.read[0]: "DIR": holds the folder of relay.yaml, so agents could read the relay's keys`},
		{"tools among the workspaces", acp("") + "tools: { path: [DIR/workspaces] }\n", `or the workspace of an agent; remove it`},
		{"tools that an agent writes", "agents: { a: { kind: acp, argv: [/bin/cat], sandbox: { write: [CLONE] } } }\ntools: { path: [CLONE/.git] }\n", `overlaps CLONE/.git, a folder of tools: from which all agents run programs`},
		{"part of the tools that an agent writes", "agents: { a: { kind: acp, argv: [/bin/cat], sandbox: { write: [CLONE/.git] } } }\ntools: { read: [CLONE] }\n", `overlaps CLONE, a folder of tools: from which all agents run programs`},
		{"PATH of the relay's", acp("env_from: [PATH]"), `agents.a.env_from[0]: cannot be in env_from; list the folders below tools: path:`},
		{"tools of the whole home", acp("") + "tools: { read: [/] }\n", `tools: "/": holds your home folder, so all agents could read it`},
		{"PATH of tools", acp("") + "tools: { env: { PATH: /bin } }\n", `tools.env.PATH: cannot be set for all agents; list the folders below tools: path:`},
		{"bypass of all", acp("") + "tools: { env: { GOOSE_MODE: auto } }\n", `tools.env.GOOSE_MODE: lets the agent act without asking`},
		{"setup of no program", acp("") + "repos: { local/a: { clone: CLONE, agents: [a], setup: [A=1, make] } }\n", `repos.local/a.setup: names no program; write setup: [npm, ci]`},
		{"setup that is text", acp("") + "repos: { local/a: { clone: CLONE, agents: [a], setup: npm ci } }\n", `repos.local/a.setup: "npm ci": is not a list`},
		{"setup without a sandbox", "agents: { a: { kind: acp, argv: [DIR/bin/opencode] } }\nrepos: { local/a: { clone: CLONE, agents: [a], setup: [make] } }\n", `repos.local/a.setup: runs code of the repository, and agent a has no sandbox`},
		{"template of acp", acp("format: text, prompt: stdin"), `agents.a.prompt: is a setting of kind: cli`},
		{"shell", "agents: { a: { kind: acp, argv: [/bin/sh, -c, cat], sandbox: {} } }\n", `"/bin/sh -c": gives a command line to a shell`},
		{"unknown without a sandbox", "agents: { a: { kind: acp, argv: [/bin/cat] } }\n", `agents.a: has no sandbox, and this relay does not know how to make this agent ask; add sandbox:`},
		{"bypass in argv", "agents: { a: { kind: acp, argv: [/bin/cat, --yolo], sandbox: {} } }\n", `agents.a: "--yolo": lets the agent act without asking`},
		{"bypass is not for i_know", "agents: { a: { kind: acp, argv: [/bin/cat, --yolo], i_know: true } }\n", `"--yolo": lets the agent act without asking`},
		{"bypass in env", acp("env: { GOOSE_MODE: auto }"), `agents.a.env.GOOSE_MODE: lets the agent act without asking`},
		{"cli asks", cli("permissions: ask, " + whole), `agents.a.permissions: asks a person, and an agent of kind cli cannot ask`},
		{"cli asks for one", cli("permissions: { read: allow, execute: ask }, " + whole), `agents.a.permissions: asks a person`},
		{"cli without a sandbox", cli("prompt: stdin, format: text"), `agents.a.sandbox: is missing`},
		{"cli with i_know and without a sandbox", cli("prompt: stdin, format: text, i_know: true"), `agents.a.sandbox: is missing`},
		{"cli without a format", cli("sandbox: {}, prompt: stdin"), `agents.a.format: is missing; write text, claude-stream-json`},
		{"format", cli("sandbox: {}, prompt: stdin, format: json"), `agents.a.format: "json": is not known`},
		{"prompt nowhere", cli("sandbox: {}, prompt: argument, format: text"), `agents.a.first: holds {prompt} not at all; write it once`},
		{"prompt twice", cli(`first: ["{prompt}", "{prompt}"], prompt: argument, format: text, sandbox: {}`), `agents.a.first: holds {prompt} more than once`},
		{"prompt in stdin and argument", cli(`first: ["{prompt}"], ` + whole), `agents.a.first: holds {prompt} once; remove it`},
		{"resume without a session", cli("resume: [--continue], " + whole), `agents.a.resume: holds {session} not at all`},
		{"resume of text", cli(`resume: ["{session}"], ` + whole), `agents.a.resume: needs the id of the session, which the output of format: text does not contain`},
		{"bypass in a template", cli("first: [--force], " + whole), `agents.a: "--force": lets the agent act without asking`},
		{"mcp nowhere", cli("mcp: argument, " + whole), `agents.a.first: holds {mcp} not at all`},
		{"repository", "actions: {}\nrepos: { gitlab.com/me/app: { clone: /usr, agents: [a] } }\n", `repos: "gitlab.com/me/app": is not the name of a repository`},
		{"repository in capitals", "actions: {}\nrepos: { github.com/Me/app: { clone: /usr, agents: [a] } }\n", `"github.com/Me/app": is not the name of a repository; write github.com/owner/name in lower case`},
		{"repository with .git", "actions: {}\nrepos: { github.com/me/app.git: { clone: /usr, agents: [a] } }\n", `is not the name of a repository`},
		{"repository of dots", "actions: {}\nrepos: { github.com/me/..: { clone: /usr, agents: [a] } }\n", `is not the name of a repository`},
		{"local of a path", "actions: {}\nrepos: { local/a/b: { clone: /usr, agents: [a] } }\n", `is not the name of a repository`},
		{"no repository there", "actions: {}\nrepos: { local/a: { clone: /usr, agents: [a] } }\n", `repos.local/a.clone: "/usr": holds no git repository`},
		{"no clone", "actions: {}\nrepos: { local/a: { agents: [a] } }\n", `repos.local/a.clone: is missing`},
		{"no agents", "actions: {}\nrepos: { local/a: { clone: CLONE, agents: [] } }\n", `repos.local/a.agents: names no agent`},
		{"unlisted agent", "actions: {}\nrepos: { local/a: { clone: CLONE, agents: [b] } }\n", `repos.local/a.agents[0]: "b": is not listed below agents:`},
		{"agent twice", acp("") + "repos: { local/a: { clone: CLONE, agents: [a, a] } }\n", `repos.local/a.agents[1]: "a": is listed twice`},
		{"writes the relay's folder", "agents: { a: { kind: acp, argv: [/bin/cat], sandbox: { write: [DIR] } } }\n", `agents.a.sandbox.write[0]`},
		{"reads the relay's folder", "agents: { a: { kind: acp, argv: [/bin/cat], sandbox: { read: [DIR] } } }\n", `so the agent could read the relay's keys`},
		{"reads the relay's key", "agents: { a: { kind: acp, argv: [/bin/cat], sandbox: { read: [DIR/relay.yaml] } } }\n", `is a file of the relay's`},
		{"reads another's home", "agents: { a: { kind: acp, argv: [/bin/cat], sandbox: { read: [DIR/agents] } } }\n", `the home or the workspace of an agent; remove it`},
		{"writes another's workspace", "agents: { a: { kind: acp, argv: [/bin/cat], sandbox: { write: [DIR/workspaces] } } }\n", `or the workspace of an agent; remove it`},
		{"writes a clone", acp("") + "  b: { kind: acp, argv: [/bin/cat], sandbox: { write: [CLONE] } }\nrepos: { local/a: { clone: CLONE, agents: [a] } }\n", `agents.b.sandbox.write[0]: "CLONE": holds the clone of repository local/a`},
		{"writes its own program", "agents: { a: { kind: acp, argv: [DIR/bin/opencode], sandbox: { write: [DIR/bin] } } }\n", `holds the program of agent a, so the agent could change it`},
		{"an action writes an agent", "agents: { a: { kind: acp, argv: [DIR/bin/opencode] } }\nactions: { x: { argv: [/bin/cat], sandbox: { write: [DIR/bin] } } }\n", `actions.x.sandbox.write[0]: "DIR/bin": holds the program of agent a`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := folderWith(t, "bin/opencode")
			must(t, os.Mkdir(filepath.Join(dir, "agents"), 0o700))
			must(t, os.Mkdir(filepath.Join(dir, "workspaces"), 0o700))
			write(t, filepath.Join(dir, "open.key"), "key", 0o644)
			must(t, os.Mkdir(filepath.Join(dir, "open"), 0o700))
			must(t, os.Chmod(filepath.Join(dir, "open"), 0o777))
			places := strings.NewReplacer("CLONE", dir+"/clone", "DIR", dir)
			env := func(name string) (string, bool) {
				return map[string]string{"NAME": "auto", "HOME": "/root/me", "GOOSE_MODE": "auto"}[name], true
			}
			_, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), "listen: none\n"+places.Replace(tt.text), 0o600), env)
			var problems *settings.Error
			if want := places.Replace(tt.want); !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v\nwant one with %s", err, want)
			}
		})
	}
}

// A switch that makes an agent act without asking is found in each spelling that the agents' own parsers take.
func TestBypassIsRefused(t *testing.T) {
	t.Parallel()
	refused := map[string][]string{
		"claude": {
			"--dangerously-skip-permissions", "--allow-dangerously-skip-permissions", "--dangerously-skip-permissions=true", "--dangerously-skip-perm",
			"--permission-mode bypassPermissions", "--permission-mode=bypassPermissions", "--permissionMode bypass-permissions",
			`--settings {"permissions":{"defaultMode":"bypassPermissions"}}`,
		},
		"codex": {
			"--dangerously-bypass-approvals-and-sandbox", "exec --yolo", "--full-auto", "--sandbox danger-full-access", "--sandbox=danger-full-access", "-s danger-full-access",
			"-sdanger-full-access", `-c sandbox_mode="danger-full-access"`, "-c approval_policy=never", `-c approval_policy="never"`, `--config=approval_policy='never'`,
			"-a never", "-anever", "-a=never", "--ask-for-approval never", "--ask-for-approval=never", "--ask never",
		},
		"gemini":       {"--yolo", "--yol", "-y", "-y=true", "-yp", "--approval-mode yolo", "--approval-mode=yolo", "--approvalMode yolo", "--approval_mode YOLO", `--x={"approvalMode":"yolo"}`},
		"cursor-agent": {"--force", "-f", "-pf", "--for"},
		"opencode":     {"run --auto", "--dangerously-skip-permissions"},
		"copilot":      {"--allow-all-tools", "--allow-all-paths", "--allow-all-t", "--yolo"},
		"kiro-cli":     {"chat --trust-all-tools"},
		"droid":        {"exec --skip-permissions-unsafe"},
		"aider":        {"--yes-always"},
		"npx":          {"@google/gemini-cli -y", "@google/gemini-cli@0.61.0 --yes", "@qwen-code/qwen-code --yolo"},
	}
	allowed := map[string][]string{
		"claude":       {"--print", "--permission-mode default", "--permission-mode=plan", "--allowed-tools Read"},
		"codex":        {"--sandbox workspace-write", "-c approval_policy=on-request", "--ask-for-approval untrusted", "--skip-git-repo-check", "-c model=never"},
		"gemini":       {"--acp", "--approval-mode default", "-p"},
		"cursor-agent": {"--print --output-format stream-json --trust --approve-mcps", "acp"},
		"opencode":     {"acp", "acp --print-logs", "acp --cwd /usr"},
		"npx":          {"-y @agentclientprotocol/claude-agent-acp", "--yes @agentclientprotocol/claude-agent-acp"},
		"node":         {"--force-color=1 script.js", "--no-yolo"},
	}
	try := func(program, args string) error {
		dir := folderWith(t, program)
		quoted := ""
		for _, arg := range strings.Fields(args) {
			quoted += fmt.Sprintf(", '%s'", strings.ReplaceAll(arg, "'", "''"))
		}
		text := "listen: none\nagents: { a: { kind: acp, sandbox: {}, argv: [" + filepath.Join(dir, program) + quoted + "] } }\n"
		_, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), text, 0o600), noEnv)
		return err
	}
	for program, lines := range refused {
		for _, line := range lines {
			if err := try(program, line); err == nil || !strings.Contains(err.Error(), "lets the agent act without asking") {
				t.Errorf("%s %s: %v", program, line, err)
			}
		}
	}
	for program, lines := range allowed {
		for _, line := range lines {
			if err := try(program, line); err != nil {
				t.Errorf("%s %s: %v", program, line, err)
			}
		}
	}
	for line, want := range map[string]bool{
		"exec --json -s danger-full-access": true, "--sandbox=danger-full-access": true, `-c sandbox_mode="danger-full-access"`: true, "-c approval_policy=never": true,
		"--dangerously-bypass-approvals-and-sandbox": false, "--yolo": false, `-c x="bypassPermissions danger-full-access"`: false, "-c x=agent-full-access": false,
	} {
		dir := folderWith(t, "codex")
		quoted := "'" + strings.Join(strings.Fields(line), "', '") + "'"
		text := "listen: none\nagents: { a: { kind: cli, sandbox: {}, prompt: stdin, format: codex-json, argv: [" + filepath.Join(dir, "codex") + "], first: [" + quoted + "] } }\n"
		_, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), text, 0o600), noEnv)
		if (err == nil) != want {
			t.Errorf("kind cli with %s: %v", line, err)
		}
	}
	for mode, want := range map[string]bool{"bypassPermissions": true, "yolo": true, "full-access": true, "agent-full-access": true, "default": false, "plan": false, "acceptEdits": false, "": false} {
		if settings.Bypasses(mode) != want {
			t.Errorf("mode %q bypasses: %t", mode, !want)
		}
	}
}
