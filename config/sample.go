package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// SampleValues are what drawbridge init fills into the samples. An empty field
// means the value shown behind it.
type SampleValues struct {
	Listen   string // 127.0.0.1:7410
	Operator string // 127.0.0.1:7400, the operator's address
	// PublicURL, when empty, is left out.
	PublicURL string
	// Token, Key, CursorKey and RelayToken are references, never secrets themselves.
	Token     string // ${file:bridge.token}
	Key       string // ${file:bridge.key}
	CursorKey string // ${CURSOR_API_KEY}
	CursorURL string // https://api.cursor.com
	API       string // v1
	// Repo is the orchestrator's repository.
	Repo string // github.com/me/agent-env
	// Relay names the user's machine.
	Relay string // laptop
	// RelayURL is where its relay listens; when empty, it is one that joins and dials in.
	RelayURL   string
	RelayToken string // ${file:relay.token}
	// Repos and Actions are for the allowlist. Nil means the examples; empty and
	// not nil means none.
	Repos   []string // github.com/me/my-app, github.com/acme/*
	Actions []string // backup_script, open_browser
}

func (v SampleValues) withDefaults() SampleValues {
	for _, f := range []struct {
		value *string
		def   string
	}{
		{&v.Listen, "127.0.0.1:7410"},
		{&v.Operator, sampleOperator},
		{&v.Token, "${file:bridge.token}"},
		{&v.Key, "${file:bridge.key}"},
		{&v.CursorKey, "${CURSOR_API_KEY}"},
		{&v.CursorURL, "https://api.cursor.com"},
		{&v.API, "v1"},
		{&v.Repo, "github.com/me/agent-env"},
		{&v.Relay, "laptop"},
		{&v.RelayToken, "${file:relay.token}"},
	} {
		if *f.value == "" {
			*f.value = f.def
		}
	}
	if v.Repos == nil {
		v.Repos = []string{"github.com/me/my-app", "github.com/acme/*"}
	}
	if v.Actions == nil {
		v.Actions = []string{"backup_script", "open_browser"}
	}
	return v
}

const sampleBridge = `# bridge.yaml: how the bridge runs. drawbridge check lists all problems at once.
# Do not write secrets here: use ${VAR} for the environment, ${file:path} for a
# file beside this one.

listen: %s # agents' tools, webhooks and relays; a proxy may show it to the world
%s
operator: { listen: %s } # your own API and metrics; keep it to this machine
token: %s # what you log in with, 32 characters or more
key: %s # derives the ids of operations; keep it, or they change
old_keys: [] # earlier keys whose webhooks are still accepted
database: drawbridge.db
allowlist: allowlist.yaml # what agents may do

cursor:
  key: %s
  api: %s # v1 or v0; only v0 sends webhooks, only v1 can repeat a launch safely
  url: %s
  # model: a name that the account offers; without it the account's default
  timeout: 150s

# How often the bridge looks at a running agent: the shortest and the longest wait.
poll: { min: 10s, max: 60s }

# The root agents. Only you launch on their repositories.
orchestrators:
  - name: main
    repo: %s
    spawn: own # it may launch agents on this repository, too (spawn_agent without a repo); without this line only you may
    # ref: main
    # toolsets: [bridge, team, memory]   # what its agents may call at /mcp; also threads and channels
    # join: all           # results of subagents of one turn come back together: each, all, any or a number
    # join_deadline: 1h   # and no later than this, with what is there

# Agents on your own machines: the relay's name, and the entry below agents in its relay.yaml. An orchestrator lives there
# with runtime: laptop-opencode, and so do subagents on a repository whose rule in allowlist.yaml names it.
# runtimes: { laptop-opencode: { kind: relay, relay: laptop, agent: opencode } }

# What each user of POST /chat talks to.
chat: { orchestrator: main, per_minute: 20, wait: 300s }

%s

# Commands in code fences are ignored and reported to the agent, unless fenced: run.
parser: { fenced: ignore, remind: false, webhook_result: false }

# metrics: { token: "${file:metrics.token}" }   # reads GET /metrics and nothing else, for Prometheus

log: { level: info }
`

const sampleDialIn = `# A machine that runs actions joins by itself: drawbridge relay token laptop.
# List one here only if the bridge has to call it at an address:
# relays: { desk: { url: "https://desk.example.com:7420", token: "${file:desk.token}" } }`

const sampleCalled = `# The machines that run actions and that the bridge calls.
relays:
  %s:
    url: %s # https://, or http:// on this machine
    token: %s`

// SampleBridge returns a bridge.yaml with comments. It loads without problems when
// the references in it lead to secrets of the right length.
func SampleBridge(v SampleValues) string {
	v = v.withDefaults()
	public := "# public_url: https://bridge.example.com # lets v0 launches report by webhook, and v1 launches use the tools at /mcp"
	if v.PublicURL != "" {
		public = "public_url: " + yamlText(v.PublicURL)
	}
	relays := sampleDialIn
	if v.RelayURL != "" {
		relays = fmt.Sprintf(sampleCalled, yamlText(v.Relay), yamlText(v.RelayURL), yamlText(v.RelayToken))
	}
	return fmt.Sprintf(sampleBridge, yamlText(v.Listen), public, yamlText(v.Operator), yamlText(v.Token), yamlText(v.Key), yamlText(v.CursorKey),
		yamlText(v.API), yamlText(v.CursorURL), yamlText(v.Repo), relays)
}

const sampleAllowlist = `# allowlist.yaml: what agents may do. What is not here is refused.
# A change takes effect without a restart; a broken file leaves the old one in force.

# Where agents may launch subagents: github.com/owner/name, or github.com/owner/*.
# An entry may demand a person: { repo: github.com/me/prod, approval: each }
# with never, each or once per 24h; api: v0 or v1 chooses the API for it.
# { repo: local/notes, runtime: laptop-opencode } sends its agents to your machine.
repos:%s

# What agents may run on your machines. The relay has its own list as well.
actions:%s

# Over a cap nothing of a turn runs.
limits:
  commands_per_turn: 10
  launches_per_hour: 20
  open_subagents: 10
  depth: 3
  turns_per_chain: 50
  reminders: 20
  # All agents under one root together; tokens and cost_usd are without a bound unless written.
  tree: { launches: 100, open: 10, turns: 500 }

# Tighter limits for single agents and all that they launch.
agents: {}
#  docs-bot: { repos: [github.com/me/docs], actions: [], tree: { launches: 5 } }
`

// SampleAllowlist returns an allowlist.yaml with comments that loads without
// problems. Actions run on the only relay, or on v.Relay when that is set.
func SampleAllowlist(v SampleValues) string {
	relay := v.Relay
	v = v.withDefaults()
	var repos, actions strings.Builder
	for _, repo := range v.Repos {
		repos.WriteString("\n  - " + yamlText(repo))
	}
	for _, id := range v.Actions {
		actions.WriteString("\n  " + yamlText(id) + ": {")
		if relay != "" {
			actions.WriteString(" relay: " + yamlText(relay) + " ")
		}
		actions.WriteString("}")
	}
	return fmt.Sprintf(sampleAllowlist, orNone(repos.String(), " []"), orNone(actions.String(), " {}"))
}

func orNone(text, none string) string {
	if text == "" {
		return none
	}
	return text
}

// plainText is what YAML reads as this very text without quotes; a digit in front
// could begin a number or a time, a reference is spelt by package yamlconf.
var plainText = regexp.MustCompile(`^(?:[a-zA-Z][a-zA-Z0-9_./*:-]*[a-zA-Z0-9_/*]|\$\{(?:file:)?[A-Za-z0-9_./-]+\})$`)

// yamlText writes a value so that it is read back as this very text.
func yamlText(value string) string {
	switch strings.ToLower(value) {
	case "true", "false", "yes", "no", "on", "off", "null":
		return strconv.QuoteToASCII(value)
	}
	if plainText.MatchString(value) {
		return value
	}
	return strconv.QuoteToASCII(value)
}
