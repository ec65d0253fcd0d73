package settings

import "time"

// Kinds of an [Agent].
const (
	// AgentACP speaks the Agent Client Protocol over its standard input and output, and lives longer than one turn.
	AgentACP = "acp"
	// AgentCLI is started once for each turn, from a template.
	AgentCLI = "cli"
)

// What a permission question of a kind leads to.
const (
	PermitAllow = "allow"
	PermitAsk   = "ask"
)

// How a program of kind cli gets its prompt and its MCP servers.
const (
	ByArgument = "argument"
	ByStdin    = "stdin"
	ByFile     = "file"
)

// Formats of what a program of kind cli writes.
const (
	FormatText         = "text"
	FormatClaudeStream = "claude-stream-json"
	FormatCodex        = "codex-json"
	FormatCursorStream = "cursor-stream-json"
)

// Placeholders in the arguments of a [Template]. Each is a whole argument.
const (
	PromptPlace  = "{prompt}"
	SessionPlace = "{session}"
	MCPPlace     = "{mcp}"
)

// BridgeTools is how many tools the bridge's door offers at most, all toolsets together.
const BridgeTools = 40

// Agent is one entry of agents: a program on this machine that takes turns.
type Agent struct {
	// Kind is one of the Agent constants.
	Kind string
	// Argv starts the agent, without a shell; its first element is an absolute path. For cli the template's arguments follow.
	Argv []string
	// Env is the whole environment but for HOME, PATH, TERM, TMPDIR and what [Agent.Forced] adds.
	Env []EnvVar
	// Slots is how many processes of the entry may live at once.
	Slots int
	// StartTimeout is how long a process may take to start and to open its session. Real ones took up to 70 s on a busy machine.
	StartTimeout time.Duration
	// Idle is how long a process without a turn lives.
	Idle time.Duration
	// TurnTimeout bounds a turn. The time in which a person is asked does not count.
	TurnTimeout time.Duration
	// AskHold is how long a process waits with an open question before it is ended.
	AskHold time.Duration
	// SilentAfter is how long a turn may go on without a word before it counts as silent.
	SilentAfter time.Duration
	// Sandbox is nil when the agent may touch whatever its user may; its HOME and its workspace are added to it.
	Sandbox *Sandbox
	// Permissions say what a question of the agent leads to; the zero value asks a person each time.
	Permissions Permissions
	// ApproveBy is one of the At constants: where a person's answer counts.
	ApproveBy string
	// ToolCap is how many tools the agent can hold at most, 0 for any number. `check --agents` compares it with BridgeTools.
	ToolCap int
	// IKnow is the user's word that an agent may start which nothing keeps in bounds.
	IKnow bool
	// Template is nil for acp.
	Template *Template
}

// Permissions are the answers to questions of each kind: PermitAllow, PermitAsk, or "" which means PermitAsk.
type Permissions struct {
	Read, Edit, Execute, Fetch, Other string
	// Commands are what Execute allows while it is not PermitAllow.
	Commands []Command
}

// Template is how a cli agent is started for a turn.
type Template struct {
	// First are the arguments of the first turn of a session, Resume those of later ones; nil Resume means that the agent cannot resume.
	First, Resume []string
	// Prompt is ByArgument, where [PromptPlace] stands in First and Resume, or ByStdin.
	Prompt string
	// MCP is ByArgument, where [MCPPlace] stands in First and Resume, ByFile, or "" for an agent without MCP servers.
	MCP string
	// Format is one of the Format constants.
	Format string
}

// Repo is a clone of the user's that agents may work on, in clones of their own.
type Repo struct {
	// Clone is the absolute folder of the user's clone.
	Clone string
	// Agents are the entries that may work on it.
	Agents []string
	// Setup is a command line that runs once in each workspace, as the agent and in its sandbox, before the agent starts; nil for none.
	Setup []string
}

func newAgent() Agent {
	return Agent{
		Slots: 1, StartTimeout: 3 * time.Minute, Idle: 10 * time.Minute, TurnTimeout: time.Hour, AskHold: 10 * time.Minute, SilentAfter: 5 * time.Minute, ApproveBy: AtMachine,
	}
}
