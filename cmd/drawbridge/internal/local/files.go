package local

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Setup is what the files of a machine are written from.
type Setup struct {
	// Relay is what the bridge calls this machine.
	Relay string
	// Listen is the address for relays and agents, Operator that for the operator's API.
	Listen, Operator string
	Agents           []Agent
	// Tools are what all agents may use beside their own.
	Tools Tools
}

const bridgeFile = `# bridge.yaml: how the bridge runs. drawbridge check lists all problems at once.
# Secrets never stand here: write ${VAR} for the environment, ${file:path} for a
# file beside this one.

listen: %s # relays and agents' tools
operator: { listen: %s } # your own API and metrics; keep it to this machine
token: ${file:bridge.token} # what you log in with
key: ${file:bridge.key} # derives the ids of operations; keep it, or they change
database: drawbridge.db
allowlist: allowlist.yaml # what agents may do

# Agents on this machine: each is an entry of agents: in the relay.yaml of the relay. toolsets are the tools that they get of the bridge:
# to launch others (bridge), to speak with them (team, threads, channels), to remember (memory).
runtimes:%s

# Agents of the cloud need a Cursor API key:
# cursor: { key: "${CURSOR_API_KEY}" }

log: { level: info }
`

const relayFile = `# relay.yaml: what may run on this machine. What is not here is refused, whatever the bridge says.
# This file and its folder must be writable by you alone. drawbridge-relay check --agents says what will not work.
listen: none # no port is open here: the relay dials the bridge

%s
# The programs that take turns. Each has a home of its own: drawbridge-relay login NAME logs in there.
agents:%s

# Your clones that agents may work on, each in a clone of its own: drawbridge up adds one.
repos: {}

# What agents may have run on this machine, such as: { backup_script: { argv: [/usr/local/bin/backup, --quick] } }
actions: {}
`

const allowlistFile = `# allowlist.yaml: what agents may do. What is not here is refused.
# A change takes effect without a restart; a broken file leaves the old one in force.

# Where agents may be launched, and in which runtime of bridge.yaml: drawbridge up adds an entry, such as
#   - { repo: local/my-app, runtime: laptop-opencode }
# An entry may demand a person: approval: each
repos: []

# What agents may run on your machines. The relay has its own list as well.
actions: {}

# Over a cap nothing of a turn runs.
limits:
  commands_per_turn: 10
  launches_per_hour: 20
  open_subagents: 10
  depth: 3
  turns_per_chain: 50
  reminders: 20
  tree: { launches: 100, open: 10, turns: 500 }
`

// Files returns the text of each file that a machine begins with, by name; secrets are not among them.
func (s Setup) Files() map[string]string {
	var agents, runtimes strings.Builder
	for _, a := range s.Agents {
		agents.WriteString("\n" + strings.TrimRight(a.Entry, "\n"))
		runtimes.WriteString("\n  " + s.Runtime(a.Name))
	}
	none := func(text string) string {
		if text == "" {
			return " {}"
		}
		return text
	}
	return map[string]string{
		"bridge.yaml":    fmt.Sprintf(bridgeFile, text(s.Listen), text(s.Operator), none(runtimes.String())),
		"relay.yaml":     fmt.Sprintf(relayFile, toolsComment+s.Tools.Block(), none(agents.String())),
		"allowlist.yaml": allowlistFile,
	}
}

// RuntimeName is the runtime of bridge.yaml for an agent of a relay.
func RuntimeName(relay, agent string) string { return relay + "-" + agent }

// Runtime is the entry of bridge.yaml for an agent of the relay.
func (s Setup) Runtime(agent string) string {
	more := ""
	if agent == cursorName {
		more = fmt.Sprintf(", tool_cap: %d", cursorTools)
	}
	return fmt.Sprintf("%s: { kind: relay, relay: %s, agent: %s, toolsets: [bridge, team, threads, memory]%s }", text(RuntimeName(s.Relay, agent)), text(s.Relay), text(agent), more)
}

// plain is what YAML reads as this very text without quotes.
var plain = regexp.MustCompile(`^(?:[a-zA-Z/][a-zA-Z0-9_./=-]*[a-zA-Z0-9_/]|--?[a-z][a-z-]*|[a-z])$`)

// text writes a value so that YAML and the reference reader of relay.yaml read it back as this very text.
func text(value string) string {
	switch strings.ToLower(value) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		return strconv.Quote(value)
	}
	if plain.MatchString(value) {
		return value
	}
	return strings.ReplaceAll(strconv.Quote(value), "${", "$${")
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = text(word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// machineName makes the name of a relay from the name of a machine.
var machineName = regexp.MustCompile(`[^a-z0-9_-]+`)

// RelayName returns what a machine with this host name is called; laptop where nothing of it can stand in a name.
func RelayName(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	name := strings.Trim(machineName.ReplaceAllString(host, "-"), "-_")
	if len(name) > 24 {
		name = strings.TrimRight(name[:24], "-_")
	}
	if name == "" || name == "localhost" {
		return "laptop"
	}
	return name
}
