package settings

import "slices"

// login is how a person logs an agent in.
type login struct {
	programs []string
	// args follow the agent's own program. With another program they follow that one.
	args []string
	// other is the program that logs in where the agent's own cannot, "" where it can.
	other string
}

// logins are the commands that the agents' own pages name. An agent without arguments asks for its login when it starts.
var logins = []login{
	{programs: []string{"opencode", "opencode-ai"}, args: []string{"auth", "login"}},
	{programs: []string{"claude-agent-acp", "@agentclientprotocol/claude-agent-acp", "claude-code-acp", "@zed-industries/claude-code-acp"}, other: "claude", args: []string{"/login"}},
	{programs: []string{"claude", "@anthropic-ai/claude-code"}, args: []string{"/login"}},
	{programs: []string{"codex-acp", "@zed-industries/codex-acp"}, other: "codex", args: []string{"login"}},
	{programs: []string{"codex", "@openai/codex"}, args: []string{"login"}},
	{programs: []string{"gemini", "@google/gemini-cli", "qwen", "@qwen-code/qwen-code"}},
	{programs: []string{"cursor-agent"}, args: []string{"login"}},
	{programs: []string{"goose"}, args: []string{"configure"}},
}

// LoginCommand returns the command with which a person logs in, for agents whose command is known. Its first word is a path, or a bare name
// where another program than the agent's own does it.
func (a Agent) LoginCommand() (argv []string, known bool) {
	for _, l := range logins {
		k := Known{programs: l.programs}
		at := slices.IndexFunc(a.Argv, func(word string) bool { return k.starts(word) || k.starts(unversioned(word)) })
		switch {
		case at < 0:
		case l.other != "":
			return append([]string{l.other}, l.args...), true
		default:
			return slices.Concat(a.Argv[:at+1], l.args), true
		}
	}
	return nil, false
}
