package mcpstdio

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Config is how a client reaches the bridge.
type Config struct {
	// Client is one of cursor, claude, codex, gemini, opencode and vscode.
	Client string
	// Base is the bridge's address; Set is empty for all toolsets of the agent.
	Base, Set string
	Agent     string
	// Token is the agent's. Empty has the client take it from Variable in its environment.
	Token, Variable string
	// Stdio has the client start Program, the absolute path of this one.
	Stdio   bool
	Program string
}

// flavor is how one client writes its configuration.
type flavor struct {
	// place says where the entry belongs.
	place string
	// reference is how the client refers to a variable of its environment.
	reference func(variable string) string
	write     func(c Config, token string) (any, error)
}

func refer(form string) func(string) string {
	return func(variable string) string { return strings.ReplaceAll(form, "NAME", variable) }
}

// flavors are the clients, each as its own documentation has it and as its own
// `mcp list` reads it (scripts/agents.sh).
var flavors = map[string]flavor{
	"cursor": {"this is .cursor/mcp.json in the project, or ~/.cursor/mcp.json", refer("${env:NAME}"), servers("mcpServers", entry.plain)},
	"claude": {"this is .mcp.json in the project; Claude Code asks once whether it may use it", refer("${NAME}"), servers("mcpServers", entry.plain)},
	"gemini": {"this is .gemini/settings.json in the project, or ~/.gemini/settings.json; the CLI uses it in a trusted folder only", refer("${NAME}"), servers("mcpServers", entry.gemini)},
	"vscode": {"this is .vscode/mcp.json in the workspace; the editor asks for the token once", refer("${input:drawbridge-token}"), vscode},
	"opencode": {"this is opencode.json in the project, or ~/.config/opencode/opencode.json", refer("{env:NAME}"),
		servers("mcp", entry.opencode)},
	"codex": {"append this to ~/.codex/config.toml", nil, nil},
}

// Place says where the entry for a client belongs.
func Place(client string) string { return flavors[client].place }

// WriteConfig writes the whole file, or for codex the part of it.
func WriteConfig(w io.Writer, c Config) error {
	f, ok := flavors[c.Client]
	switch {
	case !ok:
		return fmt.Errorf("no client %q", c.Client)
	case c.Client == "codex":
		return writeCodex(w, c)
	}
	file, err := f.write(c, cmp.Or(c.Token, f.reference(c.Variable)))
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(file)
}

// entry is one server: the address with its headers, or the program with its
// arguments and environment.
type entry struct {
	url, authorization string
	argv               []string
	env                map[string]string
}

func (c Config) entry(token string) entry {
	if !c.Stdio {
		return entry{url: Endpoint(c.Base, c.Set), authorization: "Bearer " + token}
	}
	e := entry{argv: []string{c.Program, "mcp", "--agent", c.Agent, "--url", c.Base}, env: map[string]string{c.Variable: token}}
	if c.Set != "" {
		e.argv = append(e.argv, "--set", c.Set)
	}
	return e
}

// ordered is a JSON object whose keys keep their order, as a person reads it.
type ordered []pair

type pair struct {
	key   string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(p.key) // a text
		value, err := json.Marshal(p.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plain is the form that most clients share.
func (e entry) plain() ordered {
	if e.argv != nil {
		return ordered{{"type", "stdio"}, {"command", e.argv[0]}, {"args", e.argv[1:]}, {"env", e.env}}
	}
	return ordered{{"type", "http"}, {"url", e.url}, {"headers", ordered{{"Authorization", e.authorization}}}}
}

// gemini is the Gemini CLI's form: it finds out by the keys how to connect.
func (e entry) gemini() ordered {
	if e.argv != nil {
		return ordered{{"command", e.argv[0]}, {"args", e.argv[1:]}, {"env", e.env}}
	}
	return ordered{{"httpUrl", e.url}, {"headers", ordered{{"Authorization", e.authorization}}}}
}

// opencode is OpenCode's form. The door has no OAuth, which OpenCode would try first.
func (e entry) opencode() ordered {
	if e.argv != nil {
		return ordered{{"type", "local"}, {"command", e.argv}, {"environment", e.env}}
	}
	return ordered{{"type", "remote"}, {"url", e.url}, {"oauth", false}, {"headers", ordered{{"Authorization", e.authorization}}}}
}

// servers is a file that has the servers by name under a key.
func servers(key string, form func(entry) ordered) func(Config, string) (any, error) {
	return func(c Config, token string) (any, error) {
		return ordered{{key, ordered{{"drawbridge", form(c.entry(token))}}}}, nil
	}
}

// vscode is the form of VS Code, which asks for the token itself and keeps it.
func vscode(c Config, token string) (any, error) {
	file := ordered{{"servers", ordered{{"drawbridge", c.entry(token).plain()}}}}
	if c.Token == "" {
		ask := ordered{{"type", "promptString"}, {"id", "drawbridge-token"}, {"description", "Token of the agent " + c.Agent + " (drawbridge token " + c.Agent + ")"}, {"password", true}}
		file = append(ordered{{"inputs", []ordered{ask}}}, file...)
	}
	return file, nil
}

// codexReason is why the entry for Codex approves the tools.
const codexReason = `# Codex asks a person before a tool that may destroy something or reach the open world, and "codex exec" refuses it,
# because it has no person to ask. launch_agent, spawn_agent, run_local_action, cancel_reminder, update_memory and
# remove_participant_from_thread declare that they may.
# This leaves the decision to Drawbridge. It checks every call against allowlist.yaml, and holds the calls that need
# approval for a person. If you remove the line or write "prompt", Codex also asks before these calls.
`

// writeCodex writes the part of Codex's config.toml.
func writeCodex(w io.Writer, c Config) error {
	var b strings.Builder
	e := c.entry(c.Token)
	b.WriteString("[mcp_servers.drawbridge]\n")
	switch {
	case c.Stdio:
		fmt.Fprintf(&b, "command = %s\nargs = [", tomlText(e.argv[0]))
		for i, arg := range e.argv[1:] {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(tomlText(arg))
		}
		b.WriteString("]\n")
		if c.Token == "" {
			fmt.Fprintf(&b, "env_vars = [%s]\n", tomlText(c.Variable))
		} else {
			fmt.Fprintf(&b, "env = { %s = %s }\n", c.Variable, tomlText(c.Token))
		}
	case c.Token == "":
		fmt.Fprintf(&b, "url = %s\nbearer_token_env_var = %s\n", tomlText(e.url), tomlText(c.Variable))
	default:
		fmt.Fprintf(&b, "url = %s\nhttp_headers = { Authorization = %s }\n", tomlText(e.url), tomlText(e.authorization))
	}
	b.WriteString(codexReason + "default_tools_approval_mode = \"approve\"\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// tomlText quotes a text as TOML does. Names and addresses hold nothing that Go and
// TOML escape differently.
func tomlText(s string) string { return strconv.QuoteToASCII(s) }
