//go:build conformance

//lint:file-ignore SA1019 the suite calls what newer versions of the protocol have deprecated

package mcp

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Extend makes a server of the door say everything that the protocol knows, as
// its options allow when they are still to be read, and returns what puts the
// fixtures on it. Safe for concurrent use.
func Extend(o *mcp.ServerOptions) func(*mcp.Server) {
	o.Capabilities = nil // the SDK infers them all from what is registered
	o.CompletionHandler = func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
	}
	// Who subscribed to what is kept by the SDK.
	o.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
	o.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	return func(s *mcp.Server) {
		addContent(s)
		addNotifying(s)
		addQuestions(s)
		addRounds(s)
		addResources(s)
		addPrompts(s)
	}
}

// handler is what a fixture does with a call.
type handler func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)

// noArguments is the schema of a tool that takes none.
var noArguments = json.RawMessage(`{"type":"object"}`)

func add(s *mcp.Server, name, about string, h handler) {
	s.AddTool(&mcp.Tool{Name: name, Description: about, InputSchema: noArguments}, mcp.ToolHandler(h))
}

// says answers every call with the same content.
func says(content ...mcp.Content) handler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	}
}

func text(s string) *mcp.TextContent { return &mcp.TextContent{Text: s} }

func said(s string) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{text(s)}}, nil
}

// argument reads one string of a call's arguments; "" when it is none.
func argument(r *mcp.CallToolRequest, name string) string {
	var all map[string]any
	_ = json.Unmarshal(r.Params.Arguments, &all) // the suite may send nonsense; it gets the empty word
	value, _ := all[name].(string)
	return value
}
