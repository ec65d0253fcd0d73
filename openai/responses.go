package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"drawbridge/internal/loosejson"
	"drawbridge/openai/upstream"
)

// responsesRequest is what the door reads of a request of /v1/responses. It becomes a chat completion request, so that all backends take it.
// Fields that the door does not know are ignored.
type responsesRequest struct {
	Model              string            `json:"model"`
	Input              json.RawMessage   `json:"input"`
	Instructions       json.RawMessage   `json:"instructions"`
	Stream             bool              `json:"stream"`
	Store              *bool             `json:"store"`
	PreviousResponseID string            `json:"previous_response_id"`
	Tools              []json.RawMessage `json:"tools"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	Background         *bool             `json:"background"`
	Conversation       json.RawMessage   `json:"conversation"`
	Prompt             json.RawMessage   `json:"prompt"`
	TopLogprobs        *int              `json:"top_logprobs"`
	Reasoning          *struct {
		Effort json.RawMessage `json:"effort"`
	} `json:"reasoning"`
	Text *struct {
		Format    json.RawMessage `json:"format"`
		Verbosity json.RawMessage `json:"verbosity"`
	} `json:"text"`
}

// sameFields are fields that a chat completion request has, too, and renamed those that have another name there.
var (
	sameFields    = []string{"temperature", "top_p", "parallel_tool_calls", "user", "service_tier", "prompt_cache_key", "safety_identifier"}
	renamedFields = map[string]string{"max_output_tokens": "max_completion_tokens"}
)

// responsesAsked is what a request of /v1/responses has besides the chat completion request that it became.
type responsesAsked struct {
	fields map[string]json.RawMessage
	tools  responsesTools
	// history are the messages without the instructions, which count for one request alone; nil when nothing is kept.
	history []byte
}

// The prefixes of ids. A turn's id and that of its response differ in the prefix alone.
const (
	turnPrefix     = "chatcmpl-"
	responsePrefix = "resp_"
)

func responseID(turn string) string { return responsePrefix + strings.TrimPrefix(turn, turnPrefix) }

// historyKey is the key in a session's State of what a response goes on with.
func historyKey(turn string) string { return upstream.TurnKeys + "history " + turn }

// maxHistory is the longest history that is kept, in bytes: the bound of a value in State.
const maxHistory = 8 << 20

// responses takes a request of /v1/responses.
func (d *Door) responses(w http.ResponseWriter, r *http.Request, t Token) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	a, err := d.readResponses(r.Context(), t, body)
	if err != nil {
		return err
	}
	// What clients write about themselves, such as the time, is no part of the chat completion request. So a repeat has the same body.
	sum := sumOf(append([]byte("responses\n"), a.body...))
	l, release, err := d.take(r, t, a, sum)
	if err != nil {
		d.refuse(t.Name, sum, err)
		return err
	}
	if a.responses.history != nil {
		if err := d.o.Records.SetState(r.Context(), l.session, historyKey(l.id), a.responses.history); err != nil {
			d.o.Log.Warn().Err(err).Str("turn", l.id).Msg("previous_response_id cannot name this response; its history is not recorded")
		}
	}
	d.answer(w, r, reader{leg: l, release: release, stream: a.stream, voice: newResponsesVoice(l, a.responses)})
	return nil
}

// readResponses reads a request of /v1/responses, and what its previous_response_id names.
func (d *Door) readResponses(ctx context.Context, t Token, body []byte) (*asked, error) {
	var q responsesRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, unreadable(err)
	}
	more := &responsesAsked{}
	if err := json.Unmarshal(body, &more.fields); err != nil {
		return nil, unreadable(err)
	}
	if err := q.refused(); err != nil {
		return nil, err
	}
	history, err := d.before(ctx, t, q.PreviousResponseID)
	if err != nil {
		return nil, err
	}
	items, err := readInput(q.Input)
	if err != nil {
		return nil, err
	}
	joined := joiner{messages: history}
	for i, item := range items {
		if err := joined.add(fmt.Sprintf("input[%d]", i), item); err != nil {
			return nil, err
		}
	}
	history = joined.messages
	if q.Store == nil || *q.Store {
		if raw := mustJSON(history); len(raw) <= maxHistory {
			more.history = raw
		}
	}
	messages := history
	if system, err := instructions(q.Instructions); err != nil {
		return nil, err
	} else if system != nil {
		messages = append([]chatMessage{*system}, history...)
	}
	chat := map[string]any{"model": q.Model, "stream": q.Stream, "messages": messages}
	if err := q.settings(chat, more); err != nil {
		return nil, err
	}
	a, err := readChat(mustJSON(chat))
	if err != nil {
		return nil, err
	}
	a.responses = more
	return a, nil
}

// refused names what this door does not do, so that no caller believes that it was done.
func (q *responsesRequest) refused() error {
	switch {
	case q.Background != nil && *q.Background:
		return invalid("background", "unsupported_parameter", "background is not supported; read the answer as a stream")
	case !isNull(q.Conversation):
		return invalid("conversation", "unsupported_parameter", "conversation is not supported; send previous_response_id, or the whole input")
	case !isNull(q.Prompt):
		return invalid("prompt", "unsupported_parameter", "prompt is not supported; send instructions and input")
	case q.TopLogprobs != nil && *q.TopLogprobs > 0:
		return invalid("top_logprobs", "unsupported_parameter", "top_logprobs is not supported; leave it out")
	case isNull(q.Input):
		return invalid("input", "missing_required_parameter", "input is missing; send a text or a list of items")
	}
	return nil
}

// settings adds to a chat completion request what a request says besides its messages.
func (q *responsesRequest) settings(chat map[string]any, more *responsesAsked) (err error) {
	put := func(name string, raw json.RawMessage) {
		if !isNull(raw) {
			chat[name] = raw
		}
	}
	for _, name := range sameFields {
		put(name, more.fields[name])
	}
	for from, to := range renamedFields {
		put(to, more.fields[from])
	}
	if q.Reasoning != nil {
		put("reasoning_effort", q.Reasoning.Effort)
	}
	if q.Text != nil {
		put("verbosity", q.Text.Verbosity)
		format, err := responseFormat(q.Text.Format)
		if err != nil {
			return err
		}
		put("response_format", format)
	}
	functions, err := more.tools.read(q.Tools)
	if err != nil {
		return err
	}
	choice, err := more.tools.choice(q.ToolChoice)
	if err != nil || len(functions) == 0 {
		return err
	}
	chat["tools"] = functions
	put("tool_choice", choice)
	return nil
}

// responseFormat is text.format in the form of a chat completion request; nil for plain text.
func responseFormat(raw json.RawMessage) (json.RawMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil, invalid("text.format", "invalid_type", "text.format is not an object; send one with a type")
	}
	switch kind := textOf(all["type"]); kind {
	case "text":
		return nil, nil
	case "json_object":
		return raw, nil
	case "json_schema":
		delete(all, "type")
		return mustJSON(map[string]any{"type": kind, kind: all}), nil
	default:
		return nil, invalid("text.format.type", "unsupported_value", fmt.Sprintf("text.format.type is %q; use text, json_object or json_schema", kind))
	}
}

// textOf is a JSON string's text, "" for what is none.
func textOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text) // its zero value says it
	return text
}

// before are the messages that a response goes on with: those of the response that it names, and that one's answer.
func (d *Door) before(ctx context.Context, t Token, id string) (messages []chatMessage, err error) {
	if id == "" {
		return nil, nil
	}
	gone := failure(http.StatusNotFound, typeInvalid, "previous_response_not_found", "the bridge has no response "+quoted(id)+" for this token; send the whole input without previous_response_id")
	rest, ours := strings.CutPrefix(id, responsePrefix)
	if !ours {
		return nil, gone
	}
	f, err := d.o.Records.Look(ctx, Query{Token: t.Name, Turn: turnPrefix + rest})
	if err != nil {
		return nil, err
	}
	if len(f.Turns) == 0 || f.Turns[0].Token != t.Name {
		return nil, gone
	}
	row := f.Turns[0]
	raw, err := d.o.Records.State(ctx, row.Session, historyKey(row.ID))
	if err != nil {
		return nil, err
	}
	var said answer
	if len(raw) == 0 || len(row.Answer) == 0 || json.Unmarshal(raw, &messages) != nil || json.Unmarshal(row.Answer, &said) != nil || said.Error != nil {
		return nil, gone
	}
	m := chatMessage{Role: "assistant"}
	if said.Text != "" {
		m.Content = said.Text
	}
	for _, c := range said.Calls {
		m.ToolCalls = append(m.ToolCalls, chatCallOf(c.ID, c.Name, c.Arguments))
	}
	return append(messages, m), nil
}

// instructions are a request's own system message; nil without one.
func instructions(raw json.RawMessage) (*chatMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, invalid("instructions", "invalid_type", "instructions must be a text")
	}
	if text == "" {
		return nil, nil
	}
	return &chatMessage{Role: "system", Content: text}, nil
}

// readInput reads input: a text of the user, or items.
func readInput(raw json.RawMessage) (items []inputItem, err error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []inputItem{{Role: "user", Content: raw}}, nil
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, invalid("input", "invalid_type", "input must be a text or a list of items")
	}
	if len(items) > maxMessages {
		return nil, invalid("input", "array_above_max_length", fmt.Sprintf("input has %d items, and at most %d are allowed; shorten the history", len(items), maxMessages))
	}
	return items, nil
}

// inputItem is one item of input.
type inputItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments json.RawMessage `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
}

// chatMessage is a message of a chat completion request.
type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func chatCallOf(id, name, arguments string) chatCall {
	return chatCall{id, "function", chatFunction{name, arguments}}
}

// joiner makes messages of items. What an assistant said and the calls of the same answer are one message, as this door's answers are.
type joiner struct{ messages []chatMessage }

// turnOf is the turn that an id of one of this door's calls names; "" for another id.
func turnOf(call string) string {
	rest, ours := strings.CutPrefix(call, "call_")
	at := strings.LastIndexByte(rest, '_')
	if !ours || at < 0 {
		return ""
	}
	return rest[:at]
}

func (j *joiner) add(at string, i inputItem) error {
	switch i.Type {
	case "", "message":
		return j.message(at, i)
	case "function_call":
		return j.call(at, i.CallID, flatName(i.Namespace, i.Name), argumentText(i.Arguments))
	case "custom_tool_call":
		return j.call(at, i.CallID, i.Name, string(mustJSON(map[string]string{customInput: i.Input})))
	case "function_call_output", "custom_tool_call_output":
		content, err := contentParts(at+".output", i.Output)
		if err == nil && i.CallID == "" {
			err = invalid(at+".call_id", "missing_required_parameter", at+" has no call_id; send the id of the call that it answers")
		}
		j.messages = append(j.messages, chatMessage{Role: "tool", ToolCallID: i.CallID, Content: content})
		return err
	case "reasoning", "compaction", "web_search_call":
		return nil // nothing that a backend could read
	}
	return invalid(at+".type", "unsupported_value", fmt.Sprintf("items of type %q are not supported; send messages, function calls and their outputs", i.Type))
}

func (j *joiner) message(at string, i inputItem) error {
	content, err := contentParts(at+".content", i.Content)
	if err != nil {
		return err
	}
	if i.Role == "developer" { // many endpoints know no such role
		i.Role = "system"
	}
	if last := len(j.messages) - 1; i.Role == "assistant" && last >= 0 && j.messages[last].Role == "assistant" {
		if said, is := j.messages[last].Content.(string); is || j.messages[last].Content == nil {
			if more, is := content.(string); is {
				j.messages[last].Content = said + more
				return nil
			}
		}
	}
	j.messages = append(j.messages, chatMessage{Role: i.Role, Content: content})
	return nil
}

// call adds a call to the answer that it belongs to. Clients that run calls one after the other write each output behind its call.
func (j *joiner) call(at, id, name, arguments string) error {
	if id == "" || name == "" {
		return invalid(at, "missing_required_parameter", at+" lacks its call_id or its name; send both")
	}
	if turnOf(id) != "" && slices.ContainsFunc(j.messages, func(m chatMessage) bool {
		return slices.ContainsFunc(m.ToolCalls, func(c chatCall) bool { return c.ID == id })
	}) {
		return nil // previous_response_id brought it already
	}
	to := -1
	for n := len(j.messages) - 1; n >= 0 && j.messages[n].Role != "user" && j.messages[n].Role != "system"; n-- {
		if m := j.messages[n]; m.Role == "assistant" {
			before := slices.ContainsFunc(m.ToolCalls, func(c chatCall) bool { return turnOf(c.ID) != "" && turnOf(c.ID) == turnOf(id) })
			if n == len(j.messages)-1 || before {
				to = n
			}
			break
		}
	}
	if to < 0 {
		j.messages = append(j.messages, chatMessage{Role: "assistant"})
		to = len(j.messages) - 1
	}
	j.messages[to].ToolCalls = append(j.messages[to].ToolCalls, chatCallOf(id, name, arguments))
	return nil
}

// contentParts is the content of a message or of an output: a text, or parts if there are pictures.
func contentParts(at string, raw json.RawMessage) (any, error) {
	var text string
	if isNull(raw) || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type     string                  `json:"type"`
		Text     string                  `json:"text"`
		Refusal  string                  `json:"refusal"`
		ImageURL string                  `json:"image_url"`
		Detail   loosejson.Value[string] `json:"detail"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, invalid(at, "invalid_type", at+" must be a text or a list of parts")
	}
	var texts []string
	var out []any
	pictures := false
	for i, p := range parts {
		switch {
		case p.Type == "input_image" && p.ImageURL != "":
			image := map[string]string{"url": p.ImageURL}
			if p.Detail.Is != "" {
				image["detail"] = p.Detail.Is
			}
			out, pictures = append(out, map[string]any{"type": "image_url", "image_url": image}), true
		case slices.Contains([]string{"input_text", "output_text", "text", "summary_text", "refusal"}, p.Type):
			texts = append(texts, p.Text+p.Refusal)
			out = append(out, map[string]any{"type": "text", "text": p.Text + p.Refusal})
		default:
			return nil, invalid(fmt.Sprintf("%s[%d].type", at, i), "unsupported_value", fmt.Sprintf("parts of type %q are not supported; send input_text, and input_image with an image_url", p.Type))
		}
	}
	if pictures {
		return out, nil
	}
	return strings.Join(texts, "\n"), nil
}
