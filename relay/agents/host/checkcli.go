package host

import (
	"path/filepath"
	"slices"
	"strings"

	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
)

// printing is a program that can be an entry of kind cli, as it was seen to work or as its documentation has it.
type printing struct {
	// programs are the names of its program, and format is what it writes.
	programs []string
	format   string
	// needs are words of each command line; one of each list is enough.
	needs [][]string
	// server is needed where the relay writes its MCP servers into a file, "" for none.
	server string
	// keys are variables, and logins files below HOME, with which it is logged in.
	keys, logins []string
	// cap is how many tools of all servers together it takes, 0 for any number.
	cap int
}

var printings = []printing{
	{
		programs: []string{"claude"}, format: settings.FormatClaudeStream,
		needs: [][]string{{"--print", "-p"}, {"stream-json", "--output-format=stream-json"}, {"--verbose"}},
		keys:  []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}, logins: []string{".claude/.credentials.json"},
	},
	{
		programs: []string{"codex"}, format: settings.FormatCodex, needs: [][]string{{"exec"}, {"--json"}},
		keys: []string{"OPENAI_API_KEY", "CODEX_API_KEY"}, logins: []string{".codex/auth.json"},
	},
	{
		programs: []string{"cursor-agent", "agent"}, format: settings.FormatCursorStream,
		needs:  [][]string{{"--print", "-p"}, {"stream-json", "--output-format=stream-json"}, {"--trust"}},
		server: "--approve-mcps", keys: []string{"CURSOR_API_KEY"}, cap: 40,
	},
}

// printingOf finds a program among them by the name of its file, or of what a link leads to.
func printingOf(path string) (p printing, known bool) {
	names := []string{filepath.Base(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		names = append(names, filepath.Base(real))
	}
	for _, p := range printings {
		if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(p.programs, name) }) {
			return p, true
		}
	}
	return printing{}, false
}

// checkTemplate says what of an entry of kind cli works and what will not.
func (h *Host) checkTemplate(r *Report, a settings.Agent) {
	t := a.Template
	if t.Resume == nil {
		r.line("sessions", "the agent cannot continue a session; each turn begins with an empty one")
	} else {
		r.line("sessions", "the agent continues a session with the arguments %s", output.Line(strings.Join(t.Resume, " ")))
	}
	if t.Prompt == settings.ByArgument {
		r.line("prompt", "an argument, which cannot hold a turn of more than 128 KiB; with prompt: stdin each turn fits")
	}
	switch t.MCP {
	case "":
		r.line("mcp", "none: the agent has no tools of the bridge; it can give commands only in its text")
	case settings.ByFile:
		r.line("mcp", "the relay writes .cursor/mcp.json and .cursor/rules/drawbridge.mdc into its workspace before each turn")
	default:
		r.line("mcp", "an argument, which other agents on this machine may read in the list of processes")
	}
	if t.Format == settings.FormatText {
		r.line("answer", "all output of the agent; the relay cannot see silence, so a turn that hangs ends only at turn_timeout")
	}
	p, known := printingOf(a.Argv[0])
	if !known {
		r.line("login", "not known: an agent of kind cli shows it only in its first turn")
		return
	}
	h.checkPrinting(r, a, p)
}

// checkPrinting compares an entry with what is known of its program.
func (h *Host) checkPrinting(r *Report, a settings.Agent, p printing) {
	t := a.Template
	if t.Format != p.format {
		r.problem("format: %s is not the output format of %s; write format: %s", t.Format, p.programs[0], p.format)
		return
	}
	lines := map[string][]string{"first": t.First, "resume": t.Resume}
	for _, key := range []string{"first", "resume"} {
		if key == "resume" && t.Resume == nil {
			continue
		}
		for _, one := range p.missing(slices.Concat(a.Argv[1:], lines[key]), t) {
			r.problem("argv and %s have no %s, which %s needs; add it", key, one, p.programs[0])
		}
	}
	if p.cap > 0 && a.ToolCap == 0 {
		r.problem("%s accepts %d tools from all its servers together, but the entry has no tool_cap; write tool_cap: %d here and in its runtime in bridge.yaml", p.programs[0], p.cap, p.cap)
	}
	if p.programs[0] == "codex" && a.Sandbox != nil && !strings.Contains(strings.Join(slices.Concat(a.Argv, t.First), " "), "danger-full-access") {
		r.problem("Codex cannot make its own sandbox inside the relay's sandbox, so its commands fail; add --sandbox danger-full-access to argv. The relay's sandbox stays")
	}
	if by := loggedInBy(a, settings.Known{Keys: p.keys, Logins: p.logins}, h.Config.AgentHome(r.Name)); by != "" {
		r.line("login", "by %s", by)
		return
	}
	r.line("login", "not seen: neither %s below env: nor a login in its home; the agent shows only in its first turn whether it needs a login", strings.Join(p.keys, ", "))
}

// missing are the words that a command line lacks.
func (p printing) missing(line []string, t *settings.Template) (missing []string) {
	needs := p.needs
	if p.server != "" && t.MCP == settings.ByFile {
		needs = append(slices.Clone(needs), []string{p.server})
	}
	for _, need := range needs {
		if !slices.ContainsFunc(need, func(word string) bool { return slices.Contains(line, word) }) {
			missing = append(missing, need[0])
		}
	}
	return missing
}
