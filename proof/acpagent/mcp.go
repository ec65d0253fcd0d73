package acpagent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// server is an MCP server that a session was opened with.
type server struct {
	command string
	args    []string
	env     []string
}

// mcp starts the session's first MCP server, calls one tool with JSON arguments, says what the tool answered, and ends the server.
func (t *play) mcp(rest string) {
	if len(t.session.servers) == 0 {
		t.say("the session has none of the MCP servers")
		return
	}
	name, args, _ := strings.Cut(rest, " ")
	if args == "" {
		args = "{}"
	}
	said, err := t.session.servers[0].call(t, name, args)
	if err != nil {
		said = "mcp: " + err.Error()
	}
	t.say(said)
}

// call is one tool call, from the start of the server to its end.
func (s server) call(t *play, name, args string) (string, error) {
	cmd := exec.CommandContext(t.ctx, s.command, s.args...)
	cmd.Env = append(os.Environ(), s.env...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	answer, err := converse(in, bufio.NewReader(out), name, args)
	_ = in.Close()
	if wait := cmd.Wait(); err != nil && wait != nil {
		return "", fmt.Errorf("%w: %w: %s", err, wait, complaint.String())
	}
	return answer, err
}

func converse(in io.Writer, out *bufio.Reader, name, args string) (string, error) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"acpagent","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + `}}`,
	} {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			return "", err
		}
	}
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return "", err
		}
		var m struct {
			ID     int
			Result struct{ Content []struct{ Text string } }
			Error  *struct{ Message string }
		}
		switch err := json.Unmarshal(line, &m); {
		case err != nil:
			return "", fmt.Errorf("the server wrote %q: %w", line, err)
		case m.Error != nil:
			return "", fmt.Errorf("request %d: %s", m.ID, m.Error.Message)
		case m.ID == 2 && len(m.Result.Content) > 0:
			return m.Result.Content[0].Text, nil
		}
	}
}

// variables tell a script of the order sh how the session's first MCP server is started.
func (s *session) variables() []string {
	if len(s.servers) == 0 {
		return nil
	}
	first := s.servers[0]
	return append([]string{"ACPAGENT_MCP=" + strings.Join(append([]string{first.command}, first.args...), " ")}, first.env...)
}
