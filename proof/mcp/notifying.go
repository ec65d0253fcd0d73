//go:build conformance

//lint:file-ignore SA1019 the suite calls what newer versions of the protocol have deprecated

package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/internal/pause"
)

// step is the pause that the suite asks for between two notifications, so that
// they come one by one.
const step = 50 * time.Millisecond

// paced calls each of three steps, with pauses between them.
func paced(ctx context.Context, do func(i int) error) error {
	for i := range 3 {
		if i > 0 {
			if err := pause.For(ctx, step); err != nil {
				return err
			}
		}
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

func logged(ctx context.Context, s *mcp.ServerSession, line string) error {
	return s.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: "conformance", Data: line})
}

// addNotifying adds the tools that send something before they answer, or beside it.
func addNotifying(s *mcp.Server) {
	add(s, "test_tool_with_logging", "Sends three log messages.", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		lines := []string{"Tool execution started", "Tool processing data", "Tool execution completed"}
		if err := paced(ctx, func(i int) error { return logged(ctx, r.Session, lines[i]) }); err != nil {
			return nil, err
		}
		return said("three lines logged")
	})
	add(s, "test_logging_tool", "Sends a log message to those who asked for some.", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := logged(ctx, r.Session, "called"); err != nil {
			return nil, err
		}
		return said("one line logged")
	})
	add(s, "test_tool_with_progress", "Reports its progress in three steps.", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := r.Params.GetProgressToken()
		err := paced(ctx, func(i int) error {
			if token == nil {
				return nil
			}
			return r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(50 * i), Total: 100})
		})
		if err != nil {
			return nil, err
		}
		return said("100 of 100")
	})
	add(s, "test_streaming_elicitation", "Answers on its stream, where no request may come.", says(text("no request of mine came before this")))
	add(s, "test_reconnection", "Closes its stream and answers to who comes back for it (SEP-1699).", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if end := r.Extra.CloseSSEStream; end != nil {
			end(mcp.CloseSSEStreamArgs{RetryAfter: 2 * step})
		}
		return said("you came back") // kept for the client until it does
	})
	add(s, "test_missing_capability", "Is only for clients that can sample (SEP-2575).", needsSampling)
	// A tool or a prompt that is put in its own place again is a change of the list.
	add(s, "test_trigger_tool_change", "Changes the list of tools.", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add(s, "test_changing_tool", "Comes with a change.", says())
		return said("tools changed")
	})
	add(s, "test_trigger_prompt_change", "Changes the list of prompts.", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddPrompt(&mcp.Prompt{Name: "test_changing_prompt", Description: "Comes with a change."}, prompts(text("changed")))
		return said("prompts changed")
	})
}

func needsSampling(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if c := r.ClientCapabilities(); c != nil && c.Sampling != nil {
		return said("you can sample")
	}
	data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{RequiredCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}}})
	if err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "this tool needs a client that can sample", Data: data}
}
