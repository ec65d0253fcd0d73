package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"drawbridge/internal/trust"
	"drawbridge/relay/wire"
)

// Limits of what agents: and repos: may ask for.
const (
	maxAgents    = 64
	maxSlots     = 64
	maxTools     = 10_000
	maxAgentTime = 24 * time.Hour
	maxRepos     = 256
)

// Folders of agents below the relay's state: their homes, and their workspaces (package workspace).
const (
	agentOwnFolder   = "agents"
	workspacesFolder = "workspaces"
)

// AgentHome returns the HOME of an entry: a folder of its own below the relay's state, which is kept.
func (c Config) AgentHome(name string) string {
	return filepath.Join(resolve(c.State), agentOwnFolder, name, "home")
}

func (r *configReader) agents(n *yaml.Node, at string) {
	r.pairs(n, at, func(key, value *yaml.Node, path string) {
		if !wire.ValidAction(key.Value) {
			r.report(Problem{Line: key.Line, Key: at, Value: key.Value}, trust.Because("is not the name of an agent", actionNameAdvice))
			return
		}
		r.config.Agents[key.Value] = r.agent(value, path)
	})
	if count := len(r.config.Agents); count > maxAgents {
		r.report(Problem{Line: n.Line, Key: at}, trust.Because(fmt.Sprintf("lists %d agents; a relay takes at most %d", count, maxAgents), "remove some"))
	}
}

func (r *configReader) agent(n *yaml.Node, at string) Agent {
	a, t := newAgent(), Template{}
	var from []EnvVar
	span := func(target *time.Duration) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) { *target, _ = r.duration(n, at, maxAgentTime) }
	}
	words := func(target *[]string) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) { *target = r.words(n, at) }
	}
	found := r.mapping(n, at, []setting{
		{"kind", func(n *yaml.Node, at string) { a.Kind = r.oneOf(n, at, AgentACP, AgentCLI) }},
		{"argv", func(n *yaml.Node, at string) { a.Argv = r.argv(n, at, r.agentProgram) }},
		{"env", func(n *yaml.Node, at string) { a.Env = r.agentEnv(n, at) }},
		{"env_from", func(n *yaml.Node, at string) { from = r.envFrom(n, at) }},
		{"slots", func(n *yaml.Node, at string) { a.Slots, _ = r.number(n, at, 1, maxSlots) }},
		{"start_timeout", span(&a.StartTimeout)},
		{"idle", span(&a.Idle)},
		{"turn_timeout", span(&a.TurnTimeout)},
		{"ask_hold", span(&a.AskHold)},
		{"silent_after", span(&a.SilentAfter)},
		{"sandbox", func(n *yaml.Node, at string) { a.Sandbox = r.sandbox(n, at, r.agentPath) }},
		{"permissions", func(n *yaml.Node, at string) { a.Permissions = r.permissions(n, at) }},
		{"approve_by", func(n *yaml.Node, at string) { a.ApproveBy = r.oneOf(n, at, AtMachine, AtBridge, AtEither) }},
		{"tool_cap", func(n *yaml.Node, at string) { a.ToolCap, _ = r.number(n, at, 1, maxTools) }},
		{"i_know", func(n *yaml.Node, at string) { a.IKnow = r.truth(n, at) }},
		{"first", words(&t.First)},
		{"resume", words(&t.Resume)},
		{"prompt", func(n *yaml.Node, at string) { t.Prompt = r.oneOf(n, at, ByArgument, ByStdin) }},
		{"mcp", func(n *yaml.Node, at string) { t.MCP = r.oneOf(n, at, ByArgument, ByFile) }},
		{"format", func(n *yaml.Node, at string) {
			t.Format = r.oneOf(n, at, FormatText, FormatClaudeStream, FormatCodex, FormatCursorStream)
		}},
	})
	a.Env = r.bothEnv(n, at, a.Env, from)
	if a.Kind == AgentCLI {
		a.Template = &t
	}
	r.judgeAgent(n, at, a, found)
	return a
}

// judgeAgent refuses what the settings of an entry mean together.
func (r *configReader) judgeAgent(n *yaml.Node, at string, a Agent, found map[string]bool) {
	refuse := func(key, reason, remedy string) {
		r.report(Problem{Line: n.Line, Key: at + key}, trust.Because(reason, remedy))
	}
	if !found["kind"] {
		refuse(".kind", "is missing", "write kind: acp, or kind: cli for a program without the Agent Client Protocol")
	}
	if !found["argv"] {
		refuse(".argv", "is missing", "write argv: [/path/to/agent, argument]")
	}
	r.startable(n, at, Action{Argv: a.allWords(), Env: a.Env})
	if shell := inlineShell(a.Argv); shell != "" && !a.IKnow {
		r.report(Problem{Line: n.Line, Key: at + ".argv", Value: shell + " -c"}, trust.Because("gives a command line to a shell", "name the program and its arguments, or add i_know: true"))
	}
	if word := bypass(a.allWords(), a.Kind); word != "" {
		r.report(Problem{Line: n.Line, Key: at, Value: word}, trust.Because("lets the agent act without asking", "remove it; the sandbox and permissions: say what it may do"))
	}
	switch a.Kind {
	case AgentACP:
		for _, key := range []string{"first", "resume", "prompt", "mcp", "format"} {
			if found[key] {
				refuse("."+key, "is a setting of kind: cli", "remove it")
			}
		}
		if _, forced := a.Forced(); a.Sandbox == nil && !forced && !a.IKnow {
			refuse("", "has no sandbox, and this relay does not know how to make this agent ask", "add sandbox: { read: [/usr], network: true }, or i_know: true")
		}
		if p := a.Permissions; a.Sandbox == nil && (p.Execute == PermitAllow || p.Other == PermitAllow) {
			refuse(".permissions", "allows every command, and the agent has no sandbox", "add a sandbox, or write execute: ask, other: ask, or execute: [ { program: go, args: [test] } ]")
		}
	case AgentCLI:
		r.judgeTemplate(n, at, a, found)
	}
}

// allWords is everything of a command line that the entry gives.
func (a Agent) allWords() []string {
	if a.Template == nil {
		return a.Argv
	}
	return slices.Concat(a.Argv, a.Template.First, a.Template.Resume)
}

func (r *configReader) judgeTemplate(n *yaml.Node, at string, a Agent, found map[string]bool) {
	refuse := func(key, reason, remedy string) {
		r.report(Problem{Line: n.Line, Key: at + key}, trust.Because(reason, remedy))
	}
	if a.Permissions.asks() {
		refuse(".permissions", "asks a person, and an agent of kind cli cannot ask", "write allow, or remove it; the sandbox says what the agent may do")
	}
	if a.Sandbox == nil {
		refuse(".sandbox", "is missing", "write sandbox: { read: [/usr], network: true }; an agent of kind cli never asks, so only a sandbox limits it")
	}
	for key, advice := range map[string]string{"format": "write text, claude-stream-json, codex-json or cursor-stream-json", "prompt": "write prompt: argument or prompt: stdin"} {
		if !found[key] {
			refuse("."+key, "is missing", advice)
		}
	}
	r.judgePlaces(n, at, a.Template, found)
}

// times are numbers in words. Nothing is written more than once.
var times = []string{"not at all", "once", "more than once"}

// judgePlaces refuses arguments in which what the relay puts in would be missing or stand in the wrong place.
func (r *configReader) judgePlaces(n *yaml.Node, at string, t *Template, found map[string]bool) {
	for key, args := range map[string][]string{"first": t.First, "resume": t.Resume} {
		if key == "resume" && !found[key] {
			continue
		}
		count := map[string]int{}
		for _, arg := range args {
			count[arg]++
		}
		wants := map[string]int{PromptPlace: 0, MCPPlace: 0, SessionPlace: count[SessionPlace]}
		if t.Prompt == ByArgument {
			wants[PromptPlace] = 1
		}
		if t.MCP == ByArgument {
			wants[MCPPlace] = 1
		}
		if key == "resume" {
			wants[SessionPlace] = 1
		}
		for _, place := range []string{PromptPlace, MCPPlace, SessionPlace} {
			remedy := "write it once, as an argument of its own"
			if wants[place] == 0 {
				remedy = "remove it"
			}
			if count[place] != wants[place] {
				r.report(Problem{Line: n.Line, Key: at + "." + key}, trust.Because(fmt.Sprintf("holds %s %s", place, times[min(count[place], 2)]), remedy))
			}
		}
	}
	if found["resume"] && t.Format == FormatText && !slices.Contains(t.First, SessionPlace) {
		r.report(Problem{Line: n.Line, Key: at + ".resume"}, trust.Because("needs the id of the session, which the output of format: text does not contain",
			"add "+SessionPlace+" to first, so that the relay chooses the id, or remove resume"))
	}
}

// words reads a list of arguments.
func (r *configReader) words(n *yaml.Node, at string) []string {
	if n.Kind != yaml.SequenceNode {
		r.reject(n, at, "is not a list", "write [--flag, value], each argument as an element of its own")
		return nil
	}
	list := []string{}
	for i, element := range n.Content {
		place := fmt.Sprintf("%s[%d]", at, i)
		text, ok := r.scalar(element, place)
		if ok && strings.ContainsRune(text, 0) {
			r.reject(element, place, "holds a NUL character", "remove it")
		}
		list = append(list, text)
	}
	return list
}

// agentEnv is env for an agent, whose HOME is the relay's to choose.
func (r *configReader) agentEnv(n *yaml.Node, at string) []EnvVar {
	env := r.env(n, at)
	for _, v := range env {
		r.agentVariable(n, at+"."+v.Name, v)
	}
	return env
}

func (r *configReader) agentVariable(n *yaml.Node, at string, v EnvVar) {
	switch {
	case v.Name == "HOME" || v.Name == "TMPDIR":
		r.report(Problem{Line: n.Line, Key: at}, trust.Because("is chosen by the relay, which keeps a home for each entry", "remove it"))
	case bypassVariable(v):
		r.report(Problem{Line: n.Line, Key: at}, trust.Because("lets the agent act without asking", "remove it; the sandbox and permissions: say what it may do"))
	}
}

// permissions reads a word for each kind of question, or one word for all of them.
func (r *configReader) permissions(n *yaml.Node, at string) (p Permissions) {
	if n.Kind == yaml.ScalarNode {
		word := r.oneOf(n, at, PermitAllow, PermitAsk)
		return Permissions{Read: word, Edit: word, Execute: word, Fetch: word, Other: word}
	}
	word := func(target *string) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) { *target = r.oneOf(n, at, PermitAllow, PermitAsk) }
	}
	execute := func(n *yaml.Node, at string) {
		if n.Kind != yaml.SequenceNode {
			p.Execute = r.oneOf(n, at, PermitAllow, PermitAsk)
			return
		}
		p.Execute, p.Commands = PermitAsk, r.commands(n, at)
	}
	r.mapping(n, at, []setting{
		{"read", word(&p.Read)}, {"edit", word(&p.Edit)}, {"execute", execute}, {"fetch", word(&p.Fetch)}, {"other", word(&p.Other)},
	})
	return p
}

func (p Permissions) asks() bool {
	return slices.Contains([]string{p.Read, p.Edit, p.Execute, p.Fetch, p.Other}, PermitAsk)
}

// repoName is how a repository is written: on GitHub in lower case, or a clone without such a remote under a name of the user's.
var repoName = regexp.MustCompile(`^(github\.com/[a-z0-9][a-z0-9_-]{0,38}/[a-z0-9._-]{1,100}|local/[a-z0-9][a-z0-9_.-]{0,63})$`)

func (r *configReader) repos(n *yaml.Node, at string) {
	r.pairs(n, at, func(key, value *yaml.Node, path string) {
		_, name, _ := lastCut(key.Value, "/")
		if !repoName.MatchString(key.Value) || name == "." || name == ".." || strings.HasPrefix(name, "-") || strings.HasSuffix(name, ".git") || strings.HasSuffix(name, ".wiki") {
			r.report(Problem{Line: key.Line, Key: at, Value: key.Value}, trust.Because("is not the name of a repository", "write github.com/owner/name in lower case, or local/name for a clone without such a remote"))
			return
		}
		r.config.Repos[key.Value] = r.repo(value, path)
	})
	if count := len(r.config.Repos); count > maxRepos {
		r.report(Problem{Line: n.Line, Key: at}, trust.Because(fmt.Sprintf("lists %d repositories; a relay takes at most %d", count, maxRepos), "remove some"))
	}
}

func (r *configReader) repo(n *yaml.Node, at string) (repo Repo) {
	found := r.mapping(n, at, []setting{
		{"clone", func(n *yaml.Node, at string) { repo.Clone = r.clone(n, at) }},
		{"agents", func(n *yaml.Node, at string) { repo.Agents = r.words(n, at) }},
		{"setup", func(n *yaml.Node, at string) { repo.Setup = r.setup(n, at) }},
	})
	if !found["clone"] {
		r.report(Problem{Line: n.Line, Key: at + ".clone"}, trust.Because("is missing", "write clone: /path/to/your/clone"))
	}
	if len(repo.Agents) == 0 {
		r.report(Problem{Line: n.Line, Key: at + ".agents"}, trust.Because("names no agent", "write agents: [name], with names of agents: in this file"))
	}
	return repo
}

// setup reads the command line of a workspace. Its program is found on the agent's PATH, or in the workspace.
func (r *configReader) setup(n *yaml.Node, at string) []string {
	argv := r.words(n, at)
	if n.Kind != yaml.SequenceNode {
		return nil
	}
	if len(argv) == 0 || argv[0] == "" || strings.HasPrefix(argv[0], "-") || strings.Contains(argv[0], "=") {
		r.reject(n, at, "names no program", "write setup: [npm, ci], or remove it")
	}
	return argv
}

func (r *configReader) clone(n *yaml.Node, at string) string {
	path := r.dir(n, at)
	if path == "" || !filepath.IsAbs(path) {
		return path
	}
	for _, name := range []string{".git", "HEAD"} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return path
		}
	}
	r.reject(n, at, "holds no git repository", "name the folder that has .git in it")
	return path
}

// judgeRepos refuses repositories for agents that are not listed, wherever in the file they stand.
func (r *configReader) judgeRepos() {
	for _, name := range sorted(r.config.Repos) {
		agents := r.config.Repos[name].Agents
		for i, agent := range agents {
			place := Problem{Key: fmt.Sprintf("repos.%s.agents[%d]", name, i), Value: agent}
			if _, listed := r.config.Agents[agent]; !listed {
				r.report(place, trust.Because("is not listed below agents:", "add it there, or correct the name"))
			}
			if slices.Contains(agents[:i], agent) {
				r.report(place, trust.Because("is listed twice", "keep one of them"))
			}
			if a := r.config.Agents[agent]; r.config.Repos[name].Setup != nil && a.Argv != nil && a.Sandbox == nil && !a.IKnow {
				r.report(Problem{Key: "repos." + name + ".setup"}, trust.Because("runs code of the repository, and agent "+agent+" has no sandbox to limit it", "add a sandbox to the agent, or remove setup"))
			}
		}
	}
}
