package config

import (
	"time"

	"drawbridge/internal/yamlconf"
)

// Secret is a value that prints as [redacted]; Reveal returns it.
type Secret = yamlconf.Secret

// Problem is one thing wrong with a file; String gives file, line, key, value and remedy.
type Problem = yamlconf.Problem

// Source is a configuration file as read, for ParseBridge and ParseAllowlist.
type Source = yamlconf.Source

// Bridge is bridge.yaml. docs/reference/bridge-yaml.md has every key with its default and its bounds.
//
// A Secret comes by reference, ${VAR} or ${file:path}: one that stands in the file itself is a problem. Values elsewhere may hold references, too.
type Bridge struct {
	// Listen is the address for agents' door, webhooks and relays. It serves the operator, too, unless Operator.Listen does.
	Listen string `yaml:"listen"`
	// PublicURL is where the world reaches Listen, without a slash at the end; ""
	// when it does not, and then v0 launches carry no webhook.
	PublicURL string   `yaml:"public_url"`
	Operator  Operator `yaml:"operator"`
	// Token is the bearer token of the operator who may do everything.
	Token Secret `yaml:"token"`
	// Operators are further people, by name.
	Operators map[string]Person `yaml:"operators"`
	// Key derives operation keys and webhook secrets. OldKeys are earlier ones,
	// whose webhooks are still accepted.
	Key     Secret   `yaml:"key"`
	OldKeys []Secret `yaml:"old_keys"`
	// Database is a path or a PostgreSQL address, which may hold a password and is
	// never shown. Paths, Allowlist too, are made absolute against the file's folder.
	Database  string `yaml:"database"`
	Allowlist string `yaml:"allowlist"`
	// Files is the folder for what agents hand to each other; "" takes none.
	Files         string         `yaml:"files"`
	Cursor        Cursor         `yaml:"cursor"`
	Poll          Poll           `yaml:"poll"`
	Orchestrators []Orchestrator `yaml:"orchestrators"`
	// Runtimes are what executes agents besides the Cloud Agents API, by name.
	Runtimes map[string]Runtime `yaml:"runtimes"`
	Mail     Mail               `yaml:"mail"`
	Tools    Tools              `yaml:"tools"`
	Chat     Chat               `yaml:"chat"`
	OpenAI   OpenAI             `yaml:"openai"`
	Relays   map[string]Relay   `yaml:"relays"`
	Alerts   Alerts             `yaml:"alerts"`
	Parser   Parser             `yaml:"parser"`
	Metrics  Metrics            `yaml:"metrics"`
	Log      Log                `yaml:"log"`

	file *yamlconf.File
	// digest is the SHA-256 of the file's text.
	digest [32]byte
}

// Person is somebody who may use the operator's API and the page.
type Person struct {
	// Token is the person's own bearer token.
	Token Secret `yaml:"token"`
	// Role is "viewer" (sees everything), "approver" (also answers what waits, and stops agents) or "admin".
	Role string `yaml:"role" oneof:"viewer approver admin"`
}

// Cursor is how the Cloud Agents API is reached.
type Cursor struct {
	// Key is empty when the file has none; see Bridge.CloudOff.
	Key Secret `yaml:"key"`
	// API is "v1" or "v0", the version for repositories whose rule names none.
	API string `yaml:"api" oneof:"v1 v0"`
	// URL has no slash at the end.
	URL string `yaml:"url"`
	// Model is "" for the account's default.
	Model string `yaml:"model"`
	// Timeout bounds one request.
	Timeout time.Duration `yaml:"timeout"`
	// V0Settle is after how long without a sign a v0 launch in doubt counts as not
	// launched; 0 is never.
	V0Settle time.Duration `yaml:"v0_settle"`
}

// Metrics is who may read /metrics besides the operator.
type Metrics struct {
	// Token reads /metrics and nothing else; empty means that the operator's alone does.
	Token Secret `yaml:"token"`
}

// Poll is how often a run is asked for: at Min first, backing off to Max.
type Poll struct {
	Min time.Duration `yaml:"min"`
	Max time.Duration `yaml:"max"`
}

// Orchestrator is a root agent that the operator may start.
type Orchestrator struct {
	Name string `yaml:"name"`
	// Repo is canonical, github.com/owner/name.
	Repo string `yaml:"repo"`
	// Ref is "" for the default branch.
	Ref string `yaml:"ref"`
	// Join says how the results of subagents that one turn launched come back:
	// "each" by itself (so is ""), "all" or "any" or so many of them as one turn.
	// JoinDeadline bounds the wait; 0 is an hour.
	Join         string        `yaml:"join"`
	JoinDeadline time.Duration `yaml:"join_deadline"`
	// Workspace is the folder in which its agents work, where that is on this
	// machine; "" when it is not.
	Workspace string `yaml:"workspace"`
	// Toolsets are what its agents are offered at the MCP door, in order; none is [bridge].
	Toolsets []string `yaml:"toolsets"`
	// Spawn is "own" where the orchestrator and its subagents may launch agents on Repo itself; "" keeps that to the operator.
	Spawn string `yaml:"spawn" oneof:"own"`
	// Runtime names the one of Runtimes in which its agents live, and all below them;
	// "" is the Cloud Agents API, which the file may also call cursor.
	Runtime string `yaml:"runtime"`
	// Blocks are the first memory blocks of its root agents, by label. They are written when the agent is launched, and never again.
	Blocks map[string]string `yaml:"blocks"`
}

// Runtime is what executes agents besides the Cloud Agents API.
type Runtime struct {
	// Kind is "relay", for agents that a relay hosts, "chat", for chat models, or "scripted": a stand-in that follows a script.
	Kind string `yaml:"kind" oneof:"relay chat scripted"`
	// Relay is the relay that hosts the agents, and Agent the entry in its file.
	Relay string `yaml:"relay"`
	Agent string `yaml:"agent"`
	// ToolCap is how many tools the program of the agents takes, of all its servers together; 0 for any number. It is of kind relay.
	ToolCap int `yaml:"tool_cap"`
	// Toolsets are what its agents are offered at the MCP door, in order, where no orchestrator says it.
	Toolsets []string `yaml:"toolsets"`
	// URL to Parallel are of a chat model. URL is the endpoint's base, in front of /chat/completions, without a slash at the end.
	URL   string `yaml:"url"`
	Model string `yaml:"model"`
	// Key is sent as a bearer token; empty for an endpoint that asks for none.
	Key Secret `yaml:"key"`
	// Steps bounds how often one turn asks the model, TurnTimeout how long the model may work in one turn.
	Steps       int           `yaml:"steps"`
	TurnTimeout time.Duration `yaml:"turn_timeout"`
	// MaxTokens bounds one answer; 0 leaves it to the endpoint.
	MaxTokens int `yaml:"max_tokens"`
	// Parallel bounds how many calls of the model one bridge makes at a time.
	Parallel int `yaml:"parallel"`

	// Script and Dir are of the stand-in.
	Script string `yaml:"script"`
	// Dir keeps what its agents know; one process alone may use it.
	Dir string `yaml:"dir"`
}

// Mail bounds what agents may send each other.
type Mail struct {
	// PerMinute is how many messages one agent may write to another, or into one conversation.
	PerMinute int `yaml:"per_minute"`
	// MaxFile bounds one file in bytes.
	MaxFile int64 `yaml:"max_file"`
	// ChainDepth is how long a chain of DMs that wake may be; see mail.Options.
	ChainDepth int `yaml:"chain_depth"`
}

// Tools bounds what agents may call at the MCP door.
type Tools struct {
	// PerMinute is how many tools one agent may call in any minute, whichever they are.
	PerMinute int `yaml:"per_minute"`
	// Remind offers the tools remind and cancel_reminder. The line REMIND has a
	// setting of its own, Parser.Remind.
	Remind bool `yaml:"remind"`
}

// Chat is the /chat surface.
type Chat struct {
	// Orchestrator is what each user gets; "" when the file defines none.
	Orchestrator string `yaml:"orchestrator"`
	// PerMinute is how many requests a user may make a minute.
	PerMinute int `yaml:"per_minute"`
	// Wait is how long a request waits for the reply.
	Wait time.Duration `yaml:"wait"`
}

// Relay is a relay that the bridge calls.
type Relay struct {
	// URL has no slash at the end.
	URL   string `yaml:"url"`
	Token Secret `yaml:"token"`
}

// Parser is what agents' text may hold.
type Parser struct {
	// Fenced is "ignore" or "run": what becomes of commands in code fences.
	Fenced string `yaml:"fenced" oneof:"ignore run"`
	// Remind and WebhookResult enable the optional commands.
	Remind        bool `yaml:"remind"`
	WebhookResult bool `yaml:"webhook_result"`
}

// Log is how the log is written: Level as zerolog names it, Format as package logs does.
type Log struct {
	Level  string `yaml:"level" oneof:"trace debug info warn error"`
	Format string `yaml:"format" oneof:"auto json console"`
}

// defaults are those of the page.
func defaults() Bridge {
	return Bridge{
		Listen:    "127.0.0.1:7410",
		Database:  "drawbridge.db",
		Allowlist: "allowlist.yaml",
		Files:     "files",
		Cursor:    Cursor{API: "v1", URL: "https://api.cursor.com", Timeout: 150 * time.Second},
		Poll:      Poll{Min: 10 * time.Second, Max: time.Minute},
		Mail:      Mail{PerMinute: 10, MaxFile: 32 << 20, ChainDepth: 3},
		Tools:     Tools{PerMinute: 6000, Remind: true},
		Chat:      Chat{PerMinute: 20, Wait: 300 * time.Second},
		OpenAI:    OpenAI{ParkTimeout: 15 * time.Minute},
		Parser:    Parser{Fenced: "ignore"},
		Log:       Log{Level: "info", Format: "auto"},
	}
}
