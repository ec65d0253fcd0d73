package cli

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/runner/settings"
)

// maxArgument bounds one argument, in bytes: Linux takes 128 KiB with the NUL at its end, and macOS 1 MiB for all of them with the environment.
func maxArgument() int {
	if runtime.GOOS == "linux" {
		return 128<<10 - 1
	}
	return 256 << 10
}

// places are what a template's places stand for.
type places struct {
	prompt, session string
	// resume is true for a later turn of a session.
	resume  bool
	servers []acp.MCPServer
}

// started is how the program is started: the arguments behind those of argv, and its input.
type started struct {
	args  []string
	input []byte
}

// command puts the words of a turn into the template.
func command(t *settings.Template, w places) (started, *agents.Error) {
	args := t.First
	if w.resume {
		args = t.Resume
	}
	s := started{args: slices.Clone(args)}
	place := map[string]string{settings.SessionPlace: w.session}
	if t.Prompt == settings.ByStdin {
		s.input = []byte(w.prompt)
	} else {
		prompt, why := argument(w.prompt)
		if why != nil {
			return started{}, why
		}
		place[settings.PromptPlace] = prompt
	}
	if t.MCP == settings.ByArgument {
		place[settings.MCPPlace] = serversArgument(t.Format, w.servers)
	}
	for i, arg := range s.args {
		if value, found := place[arg]; found {
			s.args[i] = value
		}
	}
	return s, nil
}

// argument makes a prompt an argument that no program reads as an option.
func argument(prompt string) (string, *agents.Error) {
	switch {
	case strings.ContainsRune(prompt, 0):
		return "", crashed("the turn's text holds a NUL character, which cannot be an argument; write prompt: stdin in the agent's entry")
	case len(prompt) >= maxArgument():
		return "", crashed("the turn's text has %d bytes, and an argument can have %d at most; write prompt: stdin in the agent's entry", len(prompt), maxArgument()-1)
	case strings.HasPrefix(prompt, "-"):
		// A program may read even the argument behind -- or -p as an option. A text that begins with a line break is none.
		return "\n" + prompt, nil
	}
	return prompt, nil
}

// sessionForm is what a session's id may look like: it becomes an argument.
var sessionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$`)

func validSession(id string) bool { return sessionForm.MatchString(id) }

// newSession returns the id of the session that goes on, or for a template that wants one a new id in the form of a UUID.
func newSession(t *settings.Template, resume string) string {
	if resume != "" || !slices.Contains(t.First, settings.SessionPlace) {
		return resume
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// mcpServer is a server as agents read it from JSON.
type mcpServer struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
}

// serversJSON writes servers as Cursor, Claude Code and others read them.
func serversJSON(list []acp.MCPServer) []byte {
	servers := map[string]mcpServer{}
	for _, s := range list {
		servers[s.Name] = mcpServer{Command: s.Command, Args: append([]string{}, s.Args...), Env: s.Env}
	}
	text, _ := json.Marshal(map[string]any{"mcpServers": servers}) // strings alone
	return text
}

// serversArgument writes servers as one argument: for Codex a setting in TOML for -c, for any other program JSON.
func serversArgument(format string, list []acp.MCPServer) string {
	if format != settings.FormatCodex {
		return string(serversJSON(list))
	}
	tables := []string{}
	for _, s := range list {
		table := fmt.Sprintf("%s={command=%s,args=%s", tomlString(s.Name), tomlString(s.Command), tomlList(s.Args))
		if len(s.Env) > 0 {
			pairs := []string{}
			for name, value := range s.Env {
				pairs = append(pairs, tomlString(name)+"="+tomlString(value))
			}
			slices.Sort(pairs)
			table += ",env={" + strings.Join(pairs, ",") + "}"
		}
		tables = append(tables, table+`,default_tools_approval_mode="approve"}`)
	}
	return "mcp_servers={" + strings.Join(tables, ",") + "}"
}

func tomlList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = tomlString(s)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// tomlString quotes a text. JSON's form is also TOML's, for all but the delete character.
func tomlString(s string) string {
	text, _ := json.Marshal(s) // a string
	return strings.ReplaceAll(string(text), "\x7f", `\u007f`)
}
