package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/openai/upstream"
)

const (
	// connectFor is how long a server may take to begin and to list its tools.
	connectFor = time.Minute
	// endFor is how long one may take to end, before it is killed.
	endFor = 2 * time.Second
)

// server is an MCP server of a session.
type server struct {
	name    string
	session *mcp.ClientSession
	tools   []*mcp.Tool
}

func (m *server) close() error { return m.session.Close() }

// connect begins the MCP servers of a session. One that does not begin fails the session.
func (s *session) connect(ctx context.Context, servers []acp.McpServer) error {
	ctx, stop := context.WithTimeout(ctx, connectFor)
	defer stop()
	for _, q := range servers {
		name, t := transport(q, s.a.o.Env)
		if t == nil {
			return acp.NewInvalidParams(map[string]any{"error": "this agent takes MCP servers only over stdio and http"})
		}
		c := mcp.NewClient(&mcp.Implementation{Name: "drawbridge acp", Version: cmp.Or(s.a.o.Version, "0")}, nil)
		session, err := c.Connect(ctx, t, nil)
		if err != nil {
			return fmt.Errorf("the MCP server %s does not start: %w", name, err)
		}
		m := &server{name: name, session: session}
		s.servers = append(s.servers, m)
		for tool, err := range session.Tools(ctx, nil) {
			if err != nil {
				return fmt.Errorf("the MCP server %s does not list its tools: %w", name, err)
			}
			m.tools = append(m.tools, tool)
		}
	}
	return nil
}

func transport(q acp.McpServer, env []string) (name string, t mcp.Transport) {
	switch {
	case q.Stdio != nil:
		cmd := exec.Command(q.Stdio.Command, q.Stdio.Args...) //nolint:noctx // it lives as long as the session
		cmd.Env = append([]string{}, env...)
		for _, v := range q.Stdio.Env {
			cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
		}
		return q.Stdio.Name, &mcp.CommandTransport{Command: cmd, TerminateDuration: endFor}
	case q.Http != nil:
		headers := map[string]string{}
		for _, h := range q.Http.Headers {
			headers[h.Name] = h.Value
		}
		return q.Http.Name, &mcp.StreamableClientTransport{Endpoint: q.Http.Url, HTTPClient: &http.Client{Transport: withHeaders(headers)}}
	}
	return "", nil
}

// withHeaders adds headers to each request.
type withHeaders map[string]string

// RoundTrip implements [http.RoundTripper].
func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// tools are those of all servers, under names that say whose they are.
func (s *session) tools() (out []upstream.Tool) {
	for _, m := range s.servers {
		for _, tool := range m.tools {
			out = append(out, upstream.Tool{Name: m.name + "_" + tool.Name, Description: tool.Description, Parameters: object(tool.InputSchema)})
		}
	}
	return out
}

// callAll calls tools of the servers side by side.
func (s *session) callAll(ctx context.Context, calls []upstream.Call) []upstream.Result {
	out := make([]upstream.Result, len(calls))
	var all sync.WaitGroup
	for i, c := range calls {
		all.Go(func() { out[i] = s.call(ctx, c) })
	}
	all.Wait()
	return out
}

// call calls one tool, and shows it to the client.
func (s *session) call(ctx context.Context, c upstream.Call) upstream.Result {
	id, shown := acp.ToolCallId("call_"+uuid.NewString()), context.WithoutCancel(ctx)
	s.update(shown, acp.StartToolCall(id, c.Name, acp.WithStartKind(acp.ToolKindOther), acp.WithStartStatus(acp.ToolCallStatusInProgress), acp.WithStartRawInput(c.Arguments)))
	r := s.callTool(ctx, c)
	r.CallID = c.ID
	status := acp.ToolCallStatusCompleted
	if r.Failed {
		status = acp.ToolCallStatusFailed
	}
	s.update(shown, acp.UpdateToolCall(id, acp.WithUpdateStatus(status), acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolContent(acp.TextBlock(r.Text))})))
	return r
}

func (s *session) callTool(ctx context.Context, c upstream.Call) (r upstream.Result) {
	for _, m := range s.servers {
		for _, tool := range m.tools {
			if m.name+"_"+tool.Name != c.Name {
				continue
			}
			got, err := m.session.CallTool(ctx, &mcp.CallToolParams{Name: tool.Name, Arguments: json.RawMessage(c.Arguments)})
			if err != nil {
				return upstream.Result{Text: err.Error(), Failed: true}
			}
			return result(got)
		}
	}
	return upstream.Result{Text: "there is no tool " + c.Name, Failed: true}
}

func result(got *mcp.CallToolResult) upstream.Result {
	r := upstream.Result{Failed: got.IsError}
	var text []string
	for _, part := range got.Content {
		switch p := part.(type) {
		case *mcp.TextContent:
			text = append(text, p.Text)
		case *mcp.ImageContent:
			r.Images = append(r.Images, upstream.Image{MIME: p.MIMEType, Data: p.Data})
		default:
			text = append(text, string(object(part)))
		}
	}
	r.Text = strings.Join(text, "\n")
	return r
}
