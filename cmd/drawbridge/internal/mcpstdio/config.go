package mcpstdio

import (
	"encoding/json"
	"io"
)

// Config is what an agent's .cursor/mcp.json says of the bridge.
type Config struct {
	// Base is the bridge's address; Set is empty for all toolsets of the agent.
	Base, Set string
	Agent     string
	// Token is the agent's, or a reference to one; Variable is where the stdio form looks for it.
	Token, Variable string
	Stdio           bool
}

// entry is one server in the file (facts: 8.3 MCP).
type entry struct {
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// WriteConfig writes the whole file.
func WriteConfig(w io.Writer, c Config) error {
	e := entry{URL: Endpoint(c.Base, c.Set), Headers: map[string]string{"Authorization": "Bearer " + c.Token}}
	if c.Stdio {
		e = entry{Command: "drawbridge", Args: []string{"mcp", "--agent", c.Agent, "--url", c.Base}, Env: map[string]string{c.Variable: c.Token}}
		if c.Set != "" {
			e.Args = append(e.Args, "--set", c.Set)
		}
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(map[string]map[string]entry{"mcpServers": {"drawbridge": e}})
}
