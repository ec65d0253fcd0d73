package chatsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// Request is what a client sent, once it was checked.
type Request struct {
	Model       string          `json:"model"`
	Messages    []Message       `json:"messages"`
	Tools       []Tool          `json:"tools"`
	ToolChoice  json.RawMessage `json:"tool_choice"`
	MaxTokens   *int            `json:"max_tokens"`
	Completion  *int            `json:"max_completion_tokens"`
	Temperature *float64        `json:"temperature"`
	Parallel    *bool           `json:"parallel_tool_calls"`
	Stream      bool            `json:"stream"`
	User        string          `json:"user"`
	// Options are stream_options; Raw is the body as it came. Only an endpoint that streams reads them.
	Options *struct {
		Usage bool `json:"include_usage"`
	} `json:"-"`
	Raw json.RawMessage `json:"-"`
}

// Message is one of a Request. Content is nil for null.
type Message struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"`
	Calls   []ToolCall `json:"tool_calls"`
	CallID  string     `json:"tool_call_id"`
	Name    string     `json:"name"`
	// Refusal is sent back by clients that repeat an assistant message as they got it.
	Refusal *string `json:"refusal"`
}

// ToolCall is a call of a function.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is a name and arguments, which are JSON within a string.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Tool is a tool that a client offers.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"function"`
}

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Check reads a request and says what is wrong with it. Unlike some endpoints it refuses keys that it does not know: the client
// under test sends none by mistake.
func Check(body []byte) (r Request, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("the body is not a chat completion request: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("there is something behind the request")
	}
	if r.Stream {
		return r, errors.New("this endpoint does not stream")
	}
	for i, t := range r.Tools {
		if len(t.Function.Description) > 1024 {
			return r, fmt.Errorf("tools[%d].function.description is longer than 1024", i)
		}
	}
	return r, r.check()
}

// CheckLoosely reads a request as most endpoints do: fields that it does not know are ignored, descriptions of tools may have any length,
// and it may ask for a stream.
func CheckLoosely(body []byte) (r Request, err error) {
	var loose struct {
		Options json.RawMessage `json:"stream_options"`
	}
	if err := errors.Join(json.Unmarshal(body, &r), json.Unmarshal(body, &loose)); err != nil {
		return r, fmt.Errorf("the body is not a chat completion request: %w", err)
	}
	r.Raw = body
	if loose.Options != nil {
		if err := json.Unmarshal(loose.Options, &r.Options); err != nil {
			return r, fmt.Errorf("stream_options: %w", err)
		}
	}
	return r, r.check()
}

func (r Request) check() error {
	switch {
	case r.Model == "":
		return errors.New("you must provide a model parameter")
	case len(r.Messages) == 0:
		return errors.New("[] is too short - 'messages'")
	case r.MaxTokens != nil && *r.MaxTokens < 1:
		return errors.New("max_tokens must be at least 1")
	}
	return errors.Join(checkTools(r.Tools), checkMessages(r.Messages))
}

func checkTools(tools []Tool) error {
	seen := map[string]bool{}
	for i, t := range tools {
		name := t.Function.Name
		var schema struct {
			Type       string                     `json:"type"`
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
		}
		switch {
		case t.Type != "function":
			return fmt.Errorf("tools[%d].type is %q, not function", i, t.Type)
		case !functionName.MatchString(name):
			return fmt.Errorf("invalid 'tools[%d].function.name': %q does not match %s", i, name, functionName)
		case seen[name]:
			return fmt.Errorf("tool names must be unique: %q", name)
		case json.Unmarshal(t.Function.Parameters, &schema) != nil || schema.Type != "object":
			return fmt.Errorf("invalid schema for function %q: schema must be a JSON Schema of type object", name)
		}
		for _, p := range schema.Required {
			if schema.Properties[p] == nil {
				return fmt.Errorf("invalid schema for function %q: required %q is not among its properties", name, p)
			}
		}
		seen[name] = true
	}
	return nil
}

// checkMessages checks the order: system messages first, and behind each assistant message with tool calls one answer for each.
func checkMessages(all []Message) error {
	var open []string
	ids, begun := map[string]bool{}, false
	for i, m := range all {
		if len(open) > 0 && m.Role != "tool" {
			return fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'; messages[%d] is %s and %q did not have response messages", i, m.Role, open)
		}
		switch m.Role {
		case "system":
			if begun {
				return fmt.Errorf("messages[%d]: a system message must be at the beginning", i)
			}
		case "user":
		case "assistant":
			var err error
			if open, err = checkCalls(m.Calls, ids); err != nil {
				return fmt.Errorf("messages[%d]: %w", i, err)
			}
		case "tool":
			if len(open) == 0 || m.CallID != open[0] {
				return fmt.Errorf("messages[%d]: a tool message with tool_call_id %q must answer the next of %q", i, m.CallID, open)
			}
			open = open[1:]
		default:
			return fmt.Errorf("messages[%d]: the role %q does not exist", i, m.Role)
		}
		begun = begun || m.Role != "system"
		switch {
		case m.Content == nil && len(m.Calls) == 0:
			return fmt.Errorf("invalid value for 'content' of messages[%d]: expected a string, got null", i)
		case m.Role != "assistant" && len(m.Calls) > 0, m.Role != "tool" && m.CallID != "":
			return fmt.Errorf("messages[%d]: role %s has tool calls or a tool_call_id", i, m.Role)
		case m.Role == "user" && *m.Content == "":
			return fmt.Errorf("messages[%d]: the content is empty", i)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages; %q did not have response messages", open)
	}
	if last := all[len(all)-1].Role; last != "user" && last != "tool" {
		return fmt.Errorf("the last message is of the role %s", last)
	}
	return nil
}

func checkCalls(calls []ToolCall, ids map[string]bool) (open []string, err error) {
	for _, c := range calls {
		var object map[string]json.RawMessage
		switch {
		case c.ID == "" || len(c.ID) > 40 || ids[c.ID]:
			return nil, fmt.Errorf("the id %q of a tool call is empty, longer than 40 or not unique", c.ID)
		case c.Type != "function":
			return nil, fmt.Errorf("the type of tool call %q is %q, not function", c.ID, c.Type)
		case !functionName.MatchString(c.Function.Name):
			return nil, fmt.Errorf("the function name %q of tool call %q does not match %s", c.Function.Name, c.ID, functionName)
		case json.Unmarshal([]byte(c.Function.Arguments), &object) != nil || object == nil:
			return nil, fmt.Errorf("the arguments of tool call %q are not a JSON object", c.ID)
		}
		ids[c.ID] = true
		open = append(open, c.ID)
	}
	return open, nil
}
