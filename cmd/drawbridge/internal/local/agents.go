// Package local sets up one machine for agents of its own: it looks for installed agents, writes and extends the configuration of a bridge
// and a relay, and keeps both running as processes.
//
// It judges no command and speaks to no agent: bridge and relay do. Rule of thumb: it writes files that are missing, adds single lines to those
// that are there, and checks each file before it is written.
package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drawbridge/internal/trust"
	"drawbridge/relay/agents/toolchain"
	"drawbridge/relay/runner/settings"
)

// kind is an agent that may be installed here.
type kind struct {
	name string
	// commands are ways to start it over the Agent Client Protocol; the first that is installed counts.
	commands [][]string
	// cli is the entry for one process a turn, with %s for its program; used where no command is installed.
	program, cli string
	// better is what to install so that the agent can ask, where only its cli was found.
	better string
	// env are variables of its entry beside PATH.
	env string
	// install is the command that installs what is missing.
	install string
}

var kinds = []kind{
	{name: "opencode", commands: [][]string{{"opencode", "acp"}}, install: "npm install -g opencode-ai"},
	{name: "claude", commands: [][]string{{"claude-agent-acp"}, {"claude-code-acp"}}, program: "claude", cli: claudeEntry,
		better: "npm install -g @agentclientprotocol/claude-agent-acp", install: "npm install -g @anthropic-ai/claude-code @agentclientprotocol/claude-agent-acp"},
	{name: "codex", commands: [][]string{{"codex-acp"}}, install: "npm install -g @openai/codex", program: "codex", cli: codexEntry},
	{name: "gemini", commands: [][]string{{"gemini", "--acp"}}, install: "npm install -g @google/gemini-cli"},
	{name: cursorName, install: "curl https://cursor.com/install -fsS | bash", program: "cursor-agent", cli: cursorEntry},
	{name: "goose", commands: [][]string{{"goose", "acp"}}, env: "GOOSE_MODE: approve", install: "see https://block.github.io/goose"},
	{name: "qwen", commands: [][]string{{"qwen", "--acp"}}, install: "npm install -g @qwen-code/qwen-code"},
}

// cursorTools is how many tools Cursor's CLI takes of all its servers together, as cursorEntry says, too.
const cursorName, cursorTools = "cursor", 40

const (
	codexEntry = `    kind: cli # one process for each turn; it cannot ask, so that its sandbox alone limits it
    argv: [%s, exec, --skip-git-repo-check, --sandbox, danger-full-access] # its own sandbox does not work within the relay's
    first: [--json, -c, "{mcp}", "-"]
    resume: [resume, --json, -c, "{mcp}", "{session}", "-"]
    prompt: stdin
    mcp: argument
    format: codex-json
`
	claudeEntry = `    kind: cli # one process for each turn; it cannot ask, so that its sandbox alone limits it
    argv: [%s, --print, --verbose, --output-format, stream-json, --allowedTools, "Bash,Edit,Write,mcp__drawbridge"]
    first: [--mcp-config, "{mcp}"]
    resume: [--mcp-config, "{mcp}", --resume, "{session}"]
    prompt: stdin
    mcp: argument
    format: claude-stream-json
`
	cursorEntry = `    kind: cli # one process for each turn; it cannot ask, so that its sandbox alone limits it
    argv: [%s, --print, --output-format, stream-json, --trust, --approve-mcps]
    first: ["--", "{prompt}"]
    resume: [--resume, "{session}", "--", "{prompt}"]
    prompt: argument
    mcp: file
    format: cursor-stream-json
    tool_cap: 40
`
)

// Agent is an agent that was found.
type Agent struct {
	// Name is what relay.yaml calls it.
	Name string
	// Program is the absolute path of what is started.
	Program string
	// Entry is its entry of relay.yaml, indented by two.
	Entry string
}

// Machine is what a look for agents depends on.
type Machine struct {
	// Path is the list of folders that are searched, as in PATH.
	Path string
	// Sandbox is true where this machine limits which files a program reaches.
	Sandbox bool
	// Own is the folder of the configuration, which no agent may read, and Home the person's, both without links.
	Own, Home string
	// Getenv reads the person's environment.
	Getenv func(name string) (string, bool)
}

// Names returns the names of all agents that are looked for, in the order in which they are shown.
func Names() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// Installs returns one line for each agent that says how it is installed.
func Installs() (lines []string) {
	for _, k := range kinds {
		lines = append(lines, fmt.Sprintf("%-9s %s", k.name, k.install))
	}
	return lines
}

// Look returns the agents that are installed, and a sentence for each that is there and cannot be used.
func (m Machine) Look() (found []Agent, notes []string) {
	for _, k := range kinds {
		a, note := m.one(k)
		if a != nil {
			found = append(found, *a)
		}
		if note != "" {
			notes = append(notes, k.name+": "+note)
		}
	}
	return found, notes
}

func (m Machine) one(k kind) (*Agent, string) {
	for _, c := range k.commands {
		if path := toolchain.Find(m.Path, c[0]); path != "" {
			return m.entry(k, path, fmt.Sprintf("    kind: acp\n    argv: %s\n", list(append([]string{path}, c[1:]...))))
		}
	}
	if path := toolchain.Find(m.Path, k.program); path != "" {
		a, note := m.entry(k, path, fmt.Sprintf(k.cli, text(path)))
		if k.better != "" {
			note = strings.TrimPrefix(note+"; ", "; ") + "without its adapter, the agent cannot ask you before it acts; to install the adapter: " + k.better
		}
		return a, note
	}
	return nil, ""
}

// entry judges a program and completes its entry.
func (m Machine) entry(k kind, path, head string) (*Agent, string) {
	if err := trust.Executable(path); err != nil {
		return nil, fmt.Sprintf("%s is not listed: %v", path, err)
	}
	a := &Agent{Name: k.name, Program: path}
	_, forced := settings.Agent{Kind: settings.AgentACP, Argv: []string{path}}.Forced()
	cli := strings.Contains(head, "kind: cli")
	if !m.Sandbox && (cli || !forced) {
		return nil, fmt.Sprintf("%s is not listed: this machine has no sandbox, and the relay cannot make this agent ask before it acts. To run the agent without both, write an entry with i_know: true into relay.yaml", path)
	}
	env, read := m.needs(path)
	a.Entry = "  " + k.name + ":\n" + head
	variables := []string{k.env}
	if env != "" {
		variables = append(variables, "PATH: "+text(env))
	}
	if set := strings.TrimPrefix(strings.Join(variables, ", "), ", "); set != "" {
		a.Entry += fmt.Sprintf("    env: { %s }\n", set)
	}
	a.Entry += "    slots: 2\n"
	if m.Sandbox {
		a.Entry += fmt.Sprintf("    sandbox: { read: %s, network: true } # its home and its workspace are added\n", list(read))
	}
	if !cli {
		a.Entry += "    permissions: { read: allow, edit: allow, execute: ask, fetch: ask, other: ask }\n    approve_by: either # you answer at this machine or at the bridge\n"
	}
	return a, ""
}

// system are folders of programs; those that exist are read, beside what every sandbox has.
var system = []string{"/usr", "/opt"}

// needs returns the PATH of an agent, "" for the usual one, and what it reads: the system, its own package, and the interpreter of its script.
func (m Machine) needs(path string) (env string, read []string) {
	for _, dir := range system {
		if _, err := os.Stat(dir); err == nil && !trust.Within(m.Own, dir) {
			read = append(read, dir)
		}
	}
	usual := filepath.SplitList(settings.DefaultPath)
	dirs := usual
	for _, name := range []string{path, toolchain.Find(m.Path, interpreter(path)), toolchain.Find(m.Path, "git")} {
		if name == "" {
			continue
		}
		if dir := filepath.Dir(name); !slices.Contains(dirs, dir) {
			dirs = append([]string{dir}, dirs...)
		}
		for _, folder := range []string{name, m.home(name)} {
			if !trust.Within(m.Own, folder) && !slices.ContainsFunc(read, func(dir string) bool { return trust.Within(folder, dir) }) {
				read = append(read, folder)
			}
		}
	}
	if len(dirs) > len(usual) {
		env = strings.Join(dirs, string(filepath.ListSeparator))
	}
	return env, read
}

// interpreter returns the name of the program that runs a script by #!/usr/bin/env, "" for another file.
func interpreter(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, 128)
	n, _ := file.Read(head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	rest, ok := strings.CutPrefix(line, "#!/usr/bin/env ")
	if !ok {
		return ""
	}
	for _, word := range strings.Fields(rest) {
		if !strings.HasPrefix(word, "-") {
			return word
		}
	}
	return ""
}

// home returns the folder that a program brings along: the outermost node_modules that holds it, the folder above its bin unless the person keeps more there, or the file
// alone.
func (m Machine) home(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	if before, _, found := strings.Cut(real, "/node_modules/"); found {
		return before + "/node_modules"
	}
	dir := filepath.Dir(real)
	above := filepath.Dir(dir)
	hidden := filepath.Dir(above) == m.Home && strings.HasPrefix(filepath.Base(above), ".") // such as .cargo and .docker, with the person's tokens
	if filepath.Base(dir) == "bin" && !hidden && (m.Home == "" || !trust.Within(m.Home, above)) {
		return above
	}
	return real
}
