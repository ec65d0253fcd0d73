package openai

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"drawbridge/internal/loosejson"
	"drawbridge/openai/upstream"
)

// The bounds of a request. Each has an error of its own.
const (
	maxBody      = 32 << 20
	maxMessages  = 10_000
	maxTools     = 512
	maxArguments = 4 << 20
	maxName      = 200
)

// chatRequest is what the door reads of a chat completion request. Fields that it does not know are ignored, and passed on by backends that pass on.
type chatRequest struct {
	Model          string           `json:"model"`
	Messages       []requestMessage `json:"messages"`
	Stream         bool             `json:"stream"`
	StreamOptions  streamOptions    `json:"stream_options"`
	Tools          []requestTool    `json:"tools"`
	ToolChoice     json.RawMessage  `json:"tool_choice"`
	N              *int             `json:"n"`
	Logprobs       *bool            `json:"logprobs"`
	TopLogprobs    *int             `json:"top_logprobs"`
	Audio          json.RawMessage  `json:"audio"`
	Modalities     []string         `json:"modalities"`
	ResponseFormat json.RawMessage  `json:"response_format"`
	Functions      json.RawMessage  `json:"functions"`
}

// streamOptions only informs.
type streamOptions = loosejson.Value[struct {
	IncludeUsage bool `json:"include_usage"`
}]

type requestMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []requestCall   `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

type requestCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type requestTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string                  `json:"name"`
		Description loosejson.Value[string] `json:"description"`
		Parameters  json.RawMessage         `json:"parameters"`
	} `json:"function"`
}

// asked is a request that was read and checked.
type asked struct {
	body     []byte
	model    string
	messages []upstream.Message
	// tools are those that tool_choice leaves; offered are the names of all.
	tools   []upstream.Tool
	offered map[string]bool
	choice  string
	stream  bool
	usage   bool
	format  json.RawMessage
	// responses is what a request of /v1/responses has besides, nil for others.
	responses *responsesAsked
}

// readChat reads a request of /v1/chat/completions. What it refuses, it refuses before anything is begun.
func readChat(body []byte) (*asked, error) {
	var q chatRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, unreadable(err)
	}
	a := &asked{body: body, model: q.Model, stream: q.Stream, format: q.ResponseFormat}
	a.usage = q.StreamOptions.Is.IncludeUsage
	if err := q.refused(); err != nil {
		return nil, err
	}
	var err error
	if a.messages, err = readMessages(q.Messages); err != nil {
		return nil, err
	}
	if a.tools, err = readTools(q.Tools); err != nil {
		return nil, err
	}
	a.offered = names(a.tools)
	a.choice, a.tools, err = readChoice(q.ToolChoice, a.tools)
	return a, err
}

// unreadable words what is wrong with a body that is not the JSON of a request.
func unreadable(err error) error {
	var field *json.UnmarshalTypeError
	if asType(err, &field) && field.Field != "" {
		return invalid(field.Field, "invalid_type", fmt.Sprintf("%s has the wrong type, a JSON %s; send the type that the API's reference names", field.Field, field.Value))
	}
	return invalid("", "invalid_json", "the body is not JSON: "+err.Error())
}

// refused names what this door does not do, so that no caller believes that it was done.
func (q *chatRequest) refused() error {
	switch {
	case q.Model == "":
		return invalid("model", "missing_required_parameter", "model is missing; GET /v1/models lists the names")
	case len(q.Messages) == 0:
		return invalid("messages", "missing_required_parameter", "messages is missing or empty; send at least one message")
	case len(q.Messages) > maxMessages:
		return invalid("messages", "array_above_max_length", fmt.Sprintf("messages has %d entries, and at most %d are allowed; shorten the history", len(q.Messages), maxMessages))
	case q.N != nil && *q.N != 1:
		return invalid("n", "unsupported_parameter", "n other than 1 is not supported; send one request for each answer")
	case q.Logprobs != nil && *q.Logprobs, q.TopLogprobs != nil && *q.TopLogprobs > 0:
		return invalid("logprobs", "unsupported_parameter", "logprobs is not supported; leave it out")
	case !isNull(q.Audio), slices.Contains(q.Modalities, "audio"):
		return invalid("audio", "unsupported_parameter", "audio is not supported; ask for text")
	case !isNull(q.Functions):
		return invalid("functions", "unsupported_parameter", "functions is the API's old form; send tools")
	}
	return nil
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// roles are those of messages, and what the door makes of them.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}

func readMessages(list []requestMessage) ([]upstream.Message, error) {
	out := make([]upstream.Message, len(list))
	for i, m := range list {
		at := fmt.Sprintf("messages[%d]", i)
		role, known := roles[m.Role]
		if !known {
			return nil, invalid(at+".role", "invalid_value", fmt.Sprintf("%s.role is %q; use system, developer, user, assistant or tool", at, m.Role))
		}
		o := upstream.Message{Role: role, CallID: m.ToolCallID}
		var err error
		if o.Text, o.Images, err = readContent(at, m.Content); err != nil {
			return nil, err
		}
		if role == "tool" && m.ToolCallID == "" {
			return nil, invalid(at+".tool_call_id", "missing_required_parameter", at+" has the role tool but no tool_call_id; set it to the id of the call that it answers")
		}
		for n, c := range m.ToolCalls {
			where := fmt.Sprintf("%s.tool_calls[%d]", at, n)
			if c.Function.Name == "" || c.ID == "" {
				return nil, invalid(where, "missing_required_parameter", where+" lacks its id or the name of its function; send both")
			}
			o.Calls = append(o.Calls, upstream.Call{ID: c.ID, Name: c.Function.Name, Arguments: argumentsOf(argumentText(c.Function.Arguments))})
		}
		out[i] = o
	}
	return out, nil
}

// argumentText is the arguments of a call as the API writes them, in a string. Some clients write the object itself.
func argumentText(raw json.RawMessage) (text string) {
	if isNull(raw) || json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// argumentsOf is what a call was asked with: JSON as it came, {} for nothing, and for text that is not JSON a string of JSON.
func argumentsOf(text string) json.RawMessage {
	switch {
	case strings.TrimSpace(text) == "":
		return json.RawMessage("{}")
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return mustJSON(text)
}

// part is one part of a message's content.
type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL *struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

// readContent reads a message's content: a string, parts, or null.
func readContent(at string, raw json.RawMessage) (text string, images []upstream.Image, err error) {
	if isNull(raw) {
		return "", nil, nil
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, nil, nil
	}
	var parts []part
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", nil, invalid(at+".content", "invalid_type", at+".content must be a string or a list of parts")
	}
	var texts []string
	for i, p := range parts {
		switch {
		case p.Type == "text", p.Type == "input_text", p.Type == "output_text":
			texts = append(texts, p.Text)
		case p.Type == "refusal":
			texts = append(texts, p.Refusal)
		case p.Type == "image_url" && p.ImageURL != nil:
			image, err := readImage(fmt.Sprintf("%s.content[%d].image_url.url", at, i), p.ImageURL.URL)
			if err != nil {
				return "", nil, err
			}
			images = append(images, image)
		default:
			return "", nil, invalid(fmt.Sprintf("%s.content[%d].type", at, i), "unsupported_value", fmt.Sprintf("parts of type %q are not supported; send text and image_url", p.Type))
		}
	}
	return strings.Join(texts, "\n"), images, nil
}

var dataURL = regexp.MustCompile(`^data:([a-z0-9.+/-]+);base64,`)

func readImage(at, address string) (upstream.Image, error) {
	if m := dataURL.FindStringSubmatch(address); m != nil {
		data, err := base64.StdEncoding.DecodeString(address[len(m[0]):])
		if err != nil {
			return upstream.Image{}, invalid(at, "invalid_value", at+" has no valid base64 after its comma")
		}
		return upstream.Image{MIME: m[1], Data: data}, nil
	}
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return upstream.Image{}, invalid(at, "invalid_value", at+" must be an https:// or http:// address, or data:TYPE;base64,DATA")
	}
	return upstream.Image{URL: address}, nil
}

func readTools(list []requestTool) ([]upstream.Tool, error) {
	if len(list) > maxTools {
		return nil, invalid("tools", "array_above_max_length", fmt.Sprintf("tools has %d entries, and at most %d are allowed; send fewer", len(list), maxTools))
	}
	var out []upstream.Tool
	for i, t := range list {
		at := fmt.Sprintf("tools[%d]", i)
		switch {
		case t.Type != "function":
			return nil, invalid(at+".type", "unsupported_value", fmt.Sprintf("%s.type is %q; only function is supported", at, t.Type))
		case t.Function.Name == "" || len(t.Function.Name) > maxName:
			return nil, invalid(at+".function.name", "invalid_value", fmt.Sprintf("%s.function.name has %d bytes; a name has 1 to %d", at, len(t.Function.Name), maxName))
		case slices.ContainsFunc(out, func(o upstream.Tool) bool { return o.Name == t.Function.Name }):
			return nil, invalid(at+".function.name", "invalid_value", fmt.Sprintf("two tools are named %q; rename one", t.Function.Name))
		}
		parameters := t.Function.Parameters
		if isNull(parameters) {
			parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, upstream.Tool{Name: t.Function.Name, Description: t.Function.Description.Is, Parameters: parameters})
	}
	return out, nil
}

// toolName names a tool in tool_choice.
type toolName struct {
	Name     string                `json:"name"`
	Function struct{ Name string } `json:"function"`
}

// readChoice reads tool_choice: a word, the name of one tool that is there, or a word and the tools that it is about. It returns the word or
// the name, and the tools that are left.
func readChoice(raw json.RawMessage, tools []upstream.Tool) (string, []upstream.Tool, error) {
	if isNull(raw) {
		return "", tools, nil
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if word == "auto" || word == "none" || word == "required" {
			return word, tools, nil
		}
		return "", nil, invalid("tool_choice", "invalid_value", fmt.Sprintf("tool_choice is %q; use auto, none, required, or name a tool", word))
	}
	var named struct {
		toolName
		Allowed *struct {
			Mode  string     `json:"mode"`
			Tools []toolName `json:"tools"`
		} `json:"allowed_tools"`
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", nil, invalid("tool_choice", "invalid_type", "tool_choice must be a word or an object; use auto, none, required, or name a tool")
	}
	if named.Allowed == nil {
		at, err := named.in(tools)
		if err != nil {
			return "", nil, err
		}
		return tools[at].Name, tools, nil
	}
	if mode := named.Allowed.Mode; mode != "auto" && mode != "required" {
		return "", nil, invalid("tool_choice", "invalid_value", fmt.Sprintf("the mode of allowed_tools is %q; use auto or required", mode))
	}
	var left []upstream.Tool
	for _, t := range named.Allowed.Tools {
		at, err := t.in(tools)
		if err != nil {
			return "", nil, err
		}
		left = append(left, tools[at])
	}
	return named.Allowed.Mode, left, nil
}

// in is the place of the tool in a list.
func (t toolName) in(tools []upstream.Tool) (int, error) {
	name := cmp.Or(t.Function.Name, t.Name)
	at := slices.IndexFunc(tools, func(o upstream.Tool) bool { return o.Name == name })
	if at < 0 {
		return 0, invalid("tool_choice", "invalid_value", fmt.Sprintf("tool_choice names %q, which is not among tools; name one of those", name))
	}
	return at, nil
}
