package settings

import (
	"path/filepath"
	"slices"
	"strings"
)

// Known is what we know of an agent that was tried: how it is made to ask before it acts.
type Known struct {
	// Name is for people.
	Name string
	// Env are variables that make it ask. They replace those of the entry.
	Env []EnvVar
	// Mode is the mode of its sessions in which it asks, or "".
	Mode string
	// Meta are options of the agent's own that each session is opened with, nil for none.
	Meta map[string]any
	// Keys are the variables and Logins the files below HOME with which it is logged in; one of them is enough. Without any of both the
	// agent itself says whether it wants a login.
	Keys, Logins []string

	// Partly says that settings in its home or in the repository may still let it act without asking. Such an agent needs a sandbox, or
	// its user's word, and an older version of it without any modes is borne.
	Partly bool

	programs []string
}

// openCodeAsks makes OpenCode ask for each of its tools. Each is named, because a rule for one tool in a file of the repository would else
// stay in force beside the rule for all.
const openCodeAsks = `{"*":"ask","bash":"ask","codesearch":"ask","doom_loop":"ask","edit":"ask","external_directory":"ask","glob":"ask",` +
	`"grep":"ask","list":"ask","lsp":"ask","question":"ask","read":"ask","skill":"ask","task":"ask","todoread":"ask","todowrite":"ask","webfetch":"ask","websearch":"ask"}`

// claudeAsks makes Claude Code ask, whatever the settings in its home and in the repository allow: there a rule to ask counts before one to
// allow. Hooks of those settings would run programs, and could say yes in a person's place.
var claudeAsks = map[string]any{"claudeCode": map[string]any{"options": map[string]any{"settings": map[string]any{
	"permissions":     map[string]any{"ask": []string{"Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "WebSearch"}, "disableBypassPermissionsMode": "disable"},
	"disableAllHooks": true,
}}}}

// known are the agents that were tried. An agent that is not here needs a sandbox, or its user's word.
var known = []Known{
	{
		Name: "OpenCode", programs: []string{"opencode"},
		Env: []EnvVar{{"OPENCODE_PERMISSION", openCodeAsks}, {"OPENCODE_DISABLE_PROJECT_CONFIG", "true"}},
	},
	{
		Name: "Claude Code by its ACP adapter", programs: []string{"claude-agent-acp", "@agentclientprotocol/claude-agent-acp"}, Mode: "default", Meta: claudeAsks,
		Logins: []string{".claude/.credentials.json"},
		Keys: []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
		},
	},
	{Name: "Codex by its ACP adapter", programs: []string{"codex-acp", "@agentclientprotocol/codex-acp"}, Mode: "read-only", Partly: true},
	{Name: "Gemini CLI", programs: []string{"gemini", "@google/gemini-cli"}, Mode: "default", Partly: true},
	{Name: "Qwen Code", programs: []string{"qwen", "@qwen-code/qwen-code"}, Mode: "default", Partly: true},
}

// Forced returns what is forced on the agent so that it asks. ok is false for an agent that may act without asking all the same, known or not.
func (a Agent) Forced() (k Known, ok bool) {
	if a.Kind != AgentACP {
		return Known{}, false
	}
	for _, k := range known {
		if slices.ContainsFunc(a.Argv, k.starts) {
			return k, !k.Partly
		}
	}
	return Known{}, false
}

// starts reports whether a word of a command line names the agent: its program, a link to it, its package, or a script in its package.
func (k Known) starts(word string) bool {
	names := []string{word}
	if filepath.IsAbs(word) {
		names = append(names, filepath.Base(word))
		if real, err := filepath.EvalSymlinks(word); err == nil {
			names = append(names, filepath.Base(real), packageOf(real))
		}
		names = append(names, packageOf(word))
	}
	return slices.ContainsFunc(names, func(name string) bool { return name != "" && slices.Contains(k.programs, name) })
}

// packageOf returns the npm package that a file belongs to, or "".
func packageOf(path string) string {
	_, after, found := lastCut(path, "/node_modules/")
	if !found {
		return ""
	}
	parts := strings.SplitN(after, "/", 3)
	if strings.HasPrefix(parts[0], "@") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func lastCut(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}
