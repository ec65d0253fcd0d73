package chatmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/completions"
	"drawbridge/internal/loosejson"
)

// The bounds of one answer: its bytes on the wire, those of its text and arguments, and its tool calls.
const (
	maxBody   = 4 << 20
	maxAnswer = 256 << 10
	maxCalls  = 64
)

// request is the body of a chat completion, as OpenAI's API has it. Nothing is streamed.
type request struct {
	Model     string    `json:"model"`
	Messages  []message `json:"messages"`
	Tools     []offered `json:"tools,omitempty"`
	MaxTokens int       `json:"max_tokens,omitempty"`
	Stream    bool      `json:"stream"`
}

// message is one of a request. Content is null only beside tool calls.
type message struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"`
	Calls   []wireCall `json:"tool_calls,omitempty"`
	CallID  string     `json:"tool_call_id,omitempty"`
}

type wireCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type offered struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// tools renders an offer.
func tools(all []bridge.ToolOffer) []offered {
	out := make([]offered, len(all))
	for i, t := range all {
		out[i].Type = "function"
		out[i].Function.Name, out[i].Function.Description, out[i].Function.Parameters = t.Name, t.About, t.Schema
	}
	return out
}

// response is what is read of an answer. Endpoints add much and leave much out. Fields that only inform may have any form.
type response struct {
	Model   loosejson.Value[string] `json:"model"`
	Choices []struct {
		Message struct {
			Content json.RawMessage         `json:"content"`
			Refusal loosejson.Value[string] `json:"refusal"`
			Calls   []struct {
				Function struct {
					Name      string          `json:"name"`
					Arguments json.RawMessage `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
		Finish loosejson.Value[string] `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// errGarbage is an answer that is not a chat completion. The endpoint may do better the next time.
var errGarbage = errors.New("the endpoint's answer is not a chat completion")

// readAnswer judges the body of a 200.
func readAnswer(body []byte) (a answer, err error) {
	var r response
	if err := json.Unmarshal(body, &r); err != nil {
		return a, fmt.Errorf("%w: it is not the JSON that was expected", errGarbage)
	}
	switch {
	case loosejson.Said(r.Error):
		return a, fmt.Errorf("%w: it says %s", errGarbage, readError(body))
	case len(r.Choices) == 0:
		return a, fmt.Errorf("%w: it has no choices", errGarbage)
	}
	c := r.Choices[0]
	word := c.Finish.Is
	a = answer{Finish: completions.Finish(word), Model: r.Model.Is}
	if a.Finish == "" {
		return a, fmt.Errorf("%w: its finish_reason %q does not mark a whole answer", errGarbage, words.SafeWord(word))
	}
	if a.Text, err = readText(c.Message.Content); err != nil {
		return a, err
	}
	if refusal := c.Message.Refusal.Is; refusal != "" {
		a.Text = strings.TrimLeft(a.Text+"\n", "\n") + refusal
	}
	size := len(a.Text)
	for _, k := range c.Message.Calls {
		args := readArgs(k.Function.Arguments)
		size += len(args) + len(k.Function.Name)
		a.Calls = append(a.Calls, call{Name: clean(k.Function.Name), Args: clean(args)})
	}
	a.Text = clean(a.Text)
	if size > maxAnswer || len(a.Calls) > maxCalls {
		return a, fmt.Errorf("%w: it has %d bytes and %d tool calls; at most %d and %d are read", errGarbage, size, len(a.Calls), maxAnswer, maxCalls)
	}
	if u := completions.ReadUsage(r.Usage); u != nil && u.Prompt != nil && u.Completion != nil {
		a.Metered, a.Input, a.Output = true, *u.Prompt, *u.Completion
		if u.Cached != nil {
			a.Cached = min(*u.Cached, a.Input)
		}
	}
	return a, nil
}

// readText reads content: a string, null, nothing, or parts.
func readText(raw json.RawMessage) (string, error) {
	var text *string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		if text == nil {
			return "", nil
		}
		return *text, nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", fmt.Errorf("%w: its content is neither a text nor a list of parts", errGarbage)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

// readArgs reads arguments: JSON within a string, or, from some endpoints, JSON itself.
func readArgs(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// clean keeps what a database can keep.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// readError finds the words of an error in a body, in the shapes that endpoints use.
func readError(body []byte) string {
	var whole struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &whole) != nil {
		return ""
	}
	var plain string
	for _, raw := range []json.RawMessage{whole.Error, whole.Detail} {
		var one struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(raw, &plain) == nil && plain != "" {
			return plain
		}
		if json.Unmarshal(raw, &one) == nil && one.Message != "" {
			return one.Message
		}
	}
	return whole.Message
}

func text(s string) *string { return &s }

// The bounds of what a model is shown of its own tool calls in a turn, in bytes: of one return, and of all together, the newest
// first. What does not fit is shortened.
const (
	maxReturn  = 32 << 10
	maxReturns = 192 << 10
	shortened  = 300
)

// messages is the whole conversation of a run, as the next call of the model has it.
func (n *run) messages() []message {
	all := []message{{Role: "system", Content: text(n.opening.System)}, {Role: "user", Content: text(n.opening.User)}}
	bounds := n.bounds()
	for i, s := range n.steps {
		m := message{Role: "assistant", Content: text(s.Text)}
		if s.Text == "" && len(s.Calls) > 0 {
			m.Content = nil
		}
		for k, c := range s.Calls {
			m.Calls = append(m.Calls, wireCall{ID: toolID(i+1, k+1), Type: "function", Function: wireFunction{Name: wireName(c.Name), Arguments: wireArgs(c.Args)}})
		}
		all = append(all, m)
		for k, payload := range s.returned {
			all = append(all, message{Role: "tool", Content: text(shorten(payload, bounds[i][k])), CallID: toolID(i+1, k+1)})
		}
	}
	return all
}

// bounds says how many bytes of each return are shown.
func (n *run) bounds() [][]int {
	room, out := maxReturns, make([][]int, len(n.steps))
	for i := len(n.steps) - 1; i >= 0; i-- {
		out[i] = make([]int, len(n.steps[i].returned))
		for k, payload := range n.steps[i].returned {
			out[i][k] = min(len(payload), maxReturn)
			if out[i][k] > room {
				out[i][k] = shortened
			}
			room -= min(out[i][k], room)
		}
	}
	return out
}

func shorten(payload string, limit int) string {
	if len(payload) <= limit {
		return payload
	}
	return fmt.Sprintf("%s… (%d bytes in all; the rest is left out)", strings.ToValidUTF8(payload[:limit], ""), len(payload))
}

// notInName is what endpoints refuse in the name of a function.
var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// wireName is a name that a model made up, as endpoints take it back.
func wireName(name string) string {
	name = notInName.ReplaceAllString(name, "_")
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), 64)]
}

// wireArgs are a model's arguments as endpoints take them back: some refuse what is not a JSON object.
func wireArgs(args string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &object) != nil || object == nil {
		return "{}"
	}
	return args
}
