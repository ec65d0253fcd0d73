package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// clientsKey is where a script keeps its MCP clients.
type clientsKey struct{}

// agentHeaders sends an agent's token.
type agentHeaders string

// RoundTrip implements http.RoundTripper.
func (h agentHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(h))
	return http.DefaultTransport.RoundTrip(r)
}

// openClient is "open <name> http|old|stdio <agent> [toolset or flag]...": the SDK's own client at the door, over HTTP in the protocol of
// today or in one with sessions, with the token in the file <agent>.token; or over drawbridge mcp. With ! the door must stay shut.
func openClient(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: open <name> http|old|stdio <agent> [toolset or flag]...")
	}
	name, way, agent := args[0], args[1], args[2]
	// The name and the arguments of the SDK's transports differ, nothing else does.
	var transport mcp.Transport
	era := "2026-07-28"
	switch way {
	case "stdio":
		programs, _, _ := strings.Cut(ts.Getenv("PATH"), string(filepath.ListSeparator))
		cmd := exec.Command(filepath.Join(programs, "drawbridge"), append([]string{"mcp", "--agent", agent}, args[3:]...)...)
		cmd.Dir = ts.MkAbs(".")
		for _, name := range []string{"PATH", "HOME", "TMPDIR", "DRAWBRIDGE_URL", "DRAWBRIDGE_TOKEN", "DRAWBRIDGE_AGENT_TOKEN", "GORACE"} {
			if value := ts.Getenv(name); value != "" {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
		}
		transport, era = &mcp.CommandTransport{Command: cmd}, "2025-11-25"
	default:
		if way == "old" {
			era = "2025-11-25"
		}
		url := ts.Getenv("BRIDGE") + "/mcp"
		if len(args) > 3 {
			url += "/" + args[3]
		}
		transport = &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1, HTTPClient: &http.Client{Transport: agentHeaders(strings.TrimSpace(ts.ReadFile(agent + ".token")))}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "script", Version: "1"}, nil).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if (err != nil) != neg {
		ts.Fatalf("open %s: %v", name, err)
	}
	if err != nil {
		fmt.Fprintln(ts.Stdout(), err)
		return
	}
	clients(ts)[name] = s
	ts.Defer(func() { _ = s.Close() }) // closed already unless the script failed
	fmt.Fprintln(ts.Stdout(), s.InitializeResult().ProtocolVersion, s.InitializeResult().Instructions)
}

func clients(ts *testscript.TestScript) map[string]*mcp.ClientSession {
	return ts.Value(clientsKey{}).(map[string]*mcp.ClientSession)
}

// callTool is "tool <client> <name> [arguments]": it calls a tool and prints what it answers, twice: as text and as
// structured content. With ! the answer must be an error. "tool <client>" alone lists the tools.
func callTool(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 || clients(ts)[args[0]] == nil {
		ts.Fatalf("usage: tool <client> [name [arguments]]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := clients(ts)[args[0]]
	if len(args) == 1 {
		listed, err := s.ListTools(ctx, nil)
		ts.Check(err)
		for _, t := range listed.Tools {
			fmt.Fprintln(ts.Stdout(), t.Name)
		}
		return
	}
	call := &mcp.CallToolParams{Name: args[1]}
	if len(args) > 2 {
		call.Arguments = json.RawMessage(args[2])
	}
	r, err := s.CallTool(ctx, call)
	if err != nil {
		if !neg {
			ts.Fatalf("%v", err)
		}
		fmt.Fprintln(ts.Stdout(), err)
		return
	}
	for _, c := range r.Content {
		fmt.Fprintln(ts.Stdout(), c.(*mcp.TextContent).Text)
	}
	data, err := json.Marshal(r.StructuredContent)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s\n", data)
	if r.IsError != neg {
		ts.Fatalf("the tool's answer is an error: %v", r.IsError)
	}
}

// closeClient is "close <client>".
func closeClient(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: close <client>")
	}
	ts.Check(clients(ts)[args[0]].Close())
	delete(clients(ts), args[0])
}
