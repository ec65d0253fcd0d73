//go:build conformance

//lint:file-ignore SA1019 the suite calls what newer versions of the protocol have deprecated

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A question is put into the result of a call, which is the way of the newer era
// (SEP-2322). For a client of the older one the SDK asks it by a request instead
// and makes the call again, so that each fixture here is written once.

// form asks a person; schema is that of the answer.
func form(message, schema string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)}
}

// sample asks the client's model.
func sample(prompt string, tokens int64) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{Messages: []*mcp.SamplingMessage{{Role: "user", Content: text(prompt)}}, MaxTokens: tokens}
}

// asks returns a result that is none yet.
func asks(state string, questions mcp.InputRequestMap) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{InputRequests: questions, RequestState: state}, nil
}

// filled returns what a person put into a form, and whether they did.
func filled(answers mcp.InputResponseMap, key string) (map[string]any, bool) {
	r, ok := answers[key].(*mcp.ElicitResult)
	if !ok || r.Action != "accept" {
		return nil, false
	}
	return r.Content, true
}

// word returns one word of a form; "" when it is not there.
func word(answers mcp.InputResponseMap, key, field string) string {
	content, _ := filled(answers, key)
	value, _ := content[field].(string)
	return value
}

// sampled returns what the client's model said.
func sampled(answers mcp.InputResponseMap, key string) (string, bool) {
	r, ok := answers[key].(*mcp.CreateMessageWithToolsResult)
	if !ok {
		return "", false
	}
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String(), true
}

// roots returns the client's roots.
func roots(answers mcp.InputResponseMap, key string) ([]string, bool) {
	r, ok := answers[key].(*mcp.ListRootsResult)
	if !ok {
		return nil, false
	}
	var uris []string
	for _, root := range r.Roots {
		uris = append(uris, root.URI)
	}
	return uris, true
}

// defaults has one of each primitive, with a default (SEP-1034).
const defaults = `{"type": "object", "properties": {
	"name": {"type": "string", "default": "John Doe"}, "age": {"type": "integer", "default": 30}, "score": {"type": "number", "default": 95.5},
	"status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}, "verified": {"type": "boolean", "default": true}
}}`

// enums has every form of a choice (SEP-1330).
const enums = `{"type": "object", "properties": {
	"untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
	"titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}, {"const": "value3", "title": "Third"}]},
	"legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
	"untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
	"titledMulti": {"type": "array", "items": {"anyOf": [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}, {"const": "value3", "title": "Third"}]}}
}}`

// contact is what test_elicitation wants to know.
const contact = `{"type": "object", "properties": {"username": {"type": "string"}, "email": {"type": "string"}}, "required": ["username", "email"]}`

// addQuestions adds the tools of the older era that ask the client something.
func addQuestions(s *mcp.Server) {
	prompted := json.RawMessage(`{"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}`)
	s.AddTool(&mcp.Tool{Name: "test_sampling", Description: "Asks the client's model.", InputSchema: prompted}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if got, ok := sampled(r.Params.InputResponses, "completion"); ok {
			return said("LLM response: " + got)
		}
		return asks("", mcp.InputRequestMap{"completion": sample(argument(r, "prompt"), 100)})
	})
	told := json.RawMessage(`{"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}`)
	s.AddTool(&mcp.Tool{Name: "test_elicitation", Description: "Asks a person.", InputSchema: told}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return elicited(r, argument(r, "message"), contact)
	})
	for name, schema := range map[string]string{"test_elicitation_sep1034_defaults": defaults, "test_elicitation_sep1330_enums": enums} {
		add(s, name, "Asks a person with a form of its own.", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return elicited(r, "Please fill this in.", schema)
		})
	}
}

// elicited asks one question and tells what was answered, also a refusal.
func elicited(r *mcp.CallToolRequest, message, schema string) (*mcp.CallToolResult, error) {
	got, ok := r.Params.InputResponses["form"].(*mcp.ElicitResult)
	if !ok {
		return asks("", mcp.InputRequestMap{"form": form(message, schema)})
	}
	content, err := json.Marshal(got.Content)
	if err != nil {
		return nil, err
	}
	return said(fmt.Sprintf("Elicitation completed: action=%s, content=%s", got.Action, content))
}
