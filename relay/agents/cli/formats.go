package cli

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"drawbridge/internal/loosejson"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/wire"
)

// textFormat is a program that prints its answer and nothing else.
type textFormat struct {
	steps
	text strings.Builder
}

// add takes a piece; ok is false when it is too much.
func (f *textFormat) add(p []byte) (ok bool) {
	if f.text.Len()+len(p) > maxText {
		return false
	}
	f.text.Write(p)
	f.lines.Add(string(p))
	return true
}

// controls are the codes with which programs color what they print.
var controls = regexp.MustCompile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\))")

// outcome is the text. A program that ended well printed its answer.
func (f *textFormat) outcome(end host.OnceEnd) outcome {
	text := strings.ToValidUTF8(strings.ReplaceAll(controls.ReplaceAllString(f.text.String(), ""), "\r\n", "\n"), "\ufffd")
	out := outcome{text: strings.TrimRight(text, "\n"), answered: end.Ran && end.Lost == nil}
	if !out.answered && end.Ran {
		out.failed = &failure{words: lastWords(out.text), beside: true}
	}
	return out
}

// lastWords are the last 2,000 bytes of a text, where a program that fails says why.
func lastWords(text string) string {
	const most = 2000
	return strings.ToValidUTF8(text[max(0, len(text)-most):], "")
}

// claude reads what Claude Code writes with --output-format stream-json --verbose (2.1.330).
type claude struct {
	steps
	id, model string
	result    *claudeResult
	// denied is when the limit ends that the last event about limits named, said is the text of the last message, and apiError is
	// true when that message is Claude Code's own about an error of its model's.
	denied   time.Time
	said     string
	apiError bool
	// after is what the agent says behind its result.
	after string
}

type claudeResult struct {
	Subtype    string          `json:"subtype"`
	IsError    json.RawMessage `json:"is_error"`
	Result     *string         `json:"result"`
	Errors     json.RawMessage `json:"errors"`
	Status     int             `json:"api_error_status"`
	Kind       string          `json:"api_error_type"`
	StopReason string          `json:"stop_reason"`
	Usage      json.RawMessage `json:"usage"`
}

type claudeEvent struct {
	Type    string `json:"type"`
	Session string `json:"session_id"`
	Parent  string `json:"parent_tool_use_id"`
	Error   string `json:"error"`
	// Model is in the first event, and only informs.
	Model   loosejson.Value[string] `json:"model"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Limit struct {
		Status   string `json:"status"`
		ResetsAt int64  `json:"resetsAt"`
	} `json:"rate_limit_info"`
}

// block is a part of a message.
type block struct {
	Type, ID  string
	Text      json.RawMessage
	ToolUseID string                  `json:"tool_use_id"`
	Name      loosejson.Value[string] `json:"name"`
	Input     json.RawMessage         `json:"input"`
	IsError   loosejson.Value[bool]   `json:"is_error"`
}

// tokens reads what a turn took, nil where the program does not say it in numbers. caches are the names of what was read from and written to a
// cache, beside the input; they may be absent.
func tokens(raw json.RawMessage, input, output string, caches ...string) *wire.Tokens {
	said, _ := loosejson.Object(raw)
	in, out := loosejson.Number(said[input]), loosejson.Number(said[output])
	if in == nil || out == nil {
		return nil
	}
	t := &wire.Tokens{Input: *in, Output: *out}
	for i, into := range []*int64{&t.CacheRead, &t.CacheWrite}[:len(caches)] {
		if n := loosejson.Number(said[caches[i]]); n != nil {
			*into = *n
		}
	}
	return t
}

// blocks reads the parts of a message. A field of another form leaves the other fields as they are.
func blocks(raw json.RawMessage) (list []block) {
	_ = json.Unmarshal(raw, &list)
	return list
}

// fine reports whether a result does not say that it is an error. What cannot be read counts as one.
func fine(isError json.RawMessage) bool {
	return !loosejson.Said(isError) || string(isError) == "false"
}

func (f *claude) session() string { return f.id }

func (f *claude) event(line []byte) (known, final bool) {
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(line, &head) != nil || head.Type == "" {
		return false, false
	}
	var e claudeEvent
	// A field of another shape leaves the others as they are.
	_ = json.Unmarshal(line, &e)
	if f.id == "" && (head.Type == "system" || head.Type == "assistant" || head.Type == "result") {
		f.id = e.Session
	}
	switch head.Type {
	case "system":
		f.model = cmp.Or(e.Model.Is, f.model)
	case "assistant":
		f.message(e)
	case "user":
		for _, b := range blocks(e.Message.Content) {
			f.stop(b.ToolUseID, b.IsError.Is)
		}
	case "rate_limit_event":
		if e.Limit.Status == "rejected" && e.Limit.ResetsAt > 0 {
			f.denied = time.Unix(e.Limit.ResetsAt, 0)
		}
	case "result":
		var r claudeResult
		_ = json.Unmarshal(line, &r)
		f.result = &r
		clear(f.tools)
		return true, true
	}
	return true, false
}

func (f *claude) message(e claudeEvent) {
	text := ""
	for _, b := range blocks(e.Message.Content) {
		switch b.Type {
		case "tool_use":
			f.start(b.ID, agents.Uses(b.Name.Is, b.Input))
		case "text":
			said := loosejson.Text(b.Text)
			text += said
			if e.Parent == "" {
				f.steps.message(said)
			}
		}
	}
	switch {
	case e.Parent != "" || text == "":
	case f.result != nil:
		f.after += "\n" + text
	default:
		f.said, f.apiError = text, e.Error != ""
	}
}

func (f *claude) outcome() outcome {
	out := outcome{spent: wire.Spent{Model: f.model}}
	if !f.apiError {
		out.text = f.said
	}
	r := f.result
	if r == nil {
		if f.apiError {
			out.failed = &failure{words: f.said, until: f.denied}
		}
		return out
	}
	out.spent.Tokens = tokens(r.Usage, "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
	text := ""
	if r.Result != nil {
		text = *r.Result
	}
	if fine(r.IsError) && !f.apiError && r.Subtype == "success" {
		switch r.StopReason {
		case "refusal":
			out.failed = &failure{cause: agents.Refused, words: "the agent refused to go on"}
		case "max_tokens", "model_context_window_exceeded":
			out.failed = &failure{cause: agents.Refused, words: "the agent reached its limit of tokens; its answer is incomplete"}
		default:
			out.answered, out.text = true, text+f.after
		}
		return out
	}
	out.failed = f.failure(r, text)
	return out
}

// failure is what a result says that is not an answer.
func (f *claude) failure(r *claudeResult, text string) *failure {
	var list []string
	if json.Unmarshal(r.Errors, &list) == nil && len(list) > 0 {
		text = strings.TrimSpace(text + " " + strings.Join(list, "; "))
	}
	if text == "" {
		text = strings.TrimSpace(f.said + " " + r.Subtype)
	}
	fail := &failure{words: text, until: f.denied}
	switch {
	case strings.HasPrefix(r.Subtype, "error_max_"):
		fail.cause, fail.words = agents.Refused, "the agent stopped at its own limit ("+r.Subtype+"); its answer is incomplete"
	case r.Status == 429 || r.Status == 529:
		fail.cause = agents.Limited
	case r.Status == 401 || r.Kind == "authentication_error":
		fail.cause = agents.LoginMissing
	}
	return fail
}

// codex reads what codex exec writes with --json (0.169.0).
type codex struct {
	steps
	id   string
	said string
	done bool
	// tokens are those of the whole session: it says no others.
	tokens *wire.Tokens
	reason string
	failed bool
}

type codexEvent struct {
	Type   string `json:"type"`
	Thread string `json:"thread_id"`
	Item   struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Old  string `json:"item_type"`
		Text string `json:"text"`
		codexTool
	} `json:"item"`
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Usage json.RawMessage `json:"usage"`
}

// codexTool is what an item says of a tool. It only informs.
type codexTool struct {
	Status    loosejson.Value[string] `json:"status"`
	Command   loosejson.Value[string] `json:"command"`
	Tool      loosejson.Value[string] `json:"tool"`
	Arguments json.RawMessage         `json:"arguments"`
	Query     loosejson.Value[string] `json:"query"`
	Changes   loosejson.Value[[]struct {
		Path loosejson.Value[string] `json:"path"`
	}] `json:"changes"`
}

// step is the step of a tool, empty for an item that is not one.
func (t codexTool) step(kind string) agents.Step {
	switch kind {
	case "command_execution", "web_search":
		if t.Command.Is == "" && t.Query.Is == "" { // the end says it
			return agents.Step{}
		}
		return agents.Uses(kind, nil, t.Command.Is, t.Query.Is)
	case "mcp_tool_call":
		return agents.Uses(t.Tool.Is, t.Arguments)
	case "file_change":
		var paths []string
		for _, c := range t.Changes.Is {
			paths = append(paths, c.Path.Is)
		}
		return agents.Uses(kind, nil, strings.Join(paths, " "))
	}
	return agents.Step{}
}

func (f *codex) session() string { return f.id }

func (f *codex) event(line []byte) (known, final bool) {
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(line, &head) != nil || head.Type == "" {
		return false, false
	}
	var e codexEvent
	_ = json.Unmarshal(line, &e)
	switch head.Type {
	case "thread.started", "session.created":
		if f.id == "" {
			f.id = e.Thread
		}
	case "turn.started":
		f.done, f.failed = false, false
	case "item.started":
		f.start(e.Item.ID, e.Item.step(e.Item.Type+e.Item.Old))
	case "item.completed":
		f.item(e)
	case "error":
		f.reason = e.Message
	case "turn.completed":
		f.done, f.failed = true, false
		if t := tokens(e.Usage, "input_tokens", "output_tokens", "cached_input_tokens"); t != nil {
			t.Input = max(0, t.Input-t.CacheRead) // it counts what came from a cache as input, too
			f.tokens = t
		}
		clear(f.tools)
		return true, true
	case "turn.failed":
		f.done, f.failed, f.reason = false, true, e.Error.Message
		clear(f.tools)
		return true, true
	}
	return true, false
}

func (f *codex) item(e codexEvent) {
	kind := e.Item.Type + e.Item.Old
	if begun := f.tools[e.Item.ID]; begun == (agents.Step{}) {
		f.tell(e.Item.step(kind))
	}
	f.stop(e.Item.ID, e.Item.Status.Is == "failed")
	switch kind {
	case "agent_message", "assistant_message":
		if f.done { // behind the end, but of this turn
			f.said += "\n" + e.Item.Text
		} else {
			f.said = e.Item.Text
		}
		f.message(e.Item.Text)
	}
}

func (f *codex) outcome() outcome {
	out := outcome{text: f.said, answered: f.done, total: wire.Spent{Tokens: f.tokens}}
	if !f.done && (f.failed || f.reason != "") {
		out.failed = &failure{words: f.reason}
	}
	return out
}

// cursor reads what cursor-agent writes with --print --output-format stream-json, as its documentation has it.
type cursor struct {
	steps
	id, model string
	// said are the messages since the last tool call; partial is true for pieces of one.
	said    []string
	partial bool
	// pieces joins the pieces.
	pieces loosejson.Joiner
	size   int
	result *cursorResult
}

type cursorResult struct {
	Subtype string          `json:"subtype"`
	IsError json.RawMessage `json:"is_error"`
	Result  *string         `json:"result"`
	Error   string          `json:"error"`
	Usage   json.RawMessage `json:"usage"`
}

type cursorEvent struct {
	Session string `json:"session_id"`
	// Model is in the first event, and only informs.
	Model   loosejson.Value[string] `json:"model"`
	Subtype string                  `json:"subtype"`
	CallID  string                  `json:"call_id"`
	At      json.RawMessage         `json:"timestamp_ms"`
	// Call has one field, whose name says what tool it is. It only informs.
	Call    json.RawMessage `json:"tool_call"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

func (f *cursor) session() string { return f.id }

func (f *cursor) event(line []byte) (known, final bool) {
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(line, &head) != nil || head.Type == "" {
		return false, false
	}
	var e cursorEvent
	_ = json.Unmarshal(line, &e)
	if f.id == "" {
		f.id = e.Session
	}
	switch head.Type {
	case "system":
		f.model = cmp.Or(e.Model.Is, f.model)
	case "assistant":
		f.message(e)
	case "tool_call":
		f.said, f.size, f.partial, f.pieces = nil, 0, false, loosejson.Joiner{}
		if e.Subtype == "started" {
			step, _ := cursorTool(e.Call)
			f.start(e.CallID, step)
		} else {
			_, failed := cursorTool(e.Call)
			f.stop(e.CallID, failed)
		}
	case "result":
		var r cursorResult
		_ = json.Unmarshal(line, &r)
		f.result = &r
		clear(f.tools)
		return true, true
	}
	return true, false
}

// cursorTool reads a tool call, and whether it failed.
func cursorTool(raw json.RawMessage) (step agents.Step, failed bool) {
	calls, _ := loosejson.Object(raw)
	for name, call := range calls {
		name, is := strings.CutSuffix(name, "ToolCall")
		if !is {
			continue
		}
		fields, _ := loosejson.Object(call)
		result, ended := loosejson.Object(fields["result"])
		return agents.Uses(name, fields["args"]), ended && len(result) > 0 && result["success"] == nil
	}
	return agents.Step{}, false
}

// message adds a message, or with --stream-partial-output a piece of one. Behind the pieces the whole message comes once more.
func (f *cursor) message(e cursorEvent) {
	text := ""
	for _, b := range blocks(e.Message.Content) {
		switch {
		case b.Type != "text":
		case len(e.At) > 0:
			text += f.pieces.Add(b.Text)
		default:
			text += loosejson.Text(b.Text)
		}
	}
	if text == "" || f.size > maxText {
		return
	}
	if f.partial && strings.Join(f.said, "") == text {
		f.said, f.size, f.partial = []string{text}, len(text), false
		f.lines.End()
		return
	}
	f.lines.Add(text)
	if f.partial = len(e.At) > 0; !f.partial {
		f.lines.End()
	}
	f.said, f.size = append(f.said, text), f.size+len(text)
}

// answer is the text after the last tool call. The text of the result glues all messages of the turn together.
func (f *cursor) answer() string {
	if f.partial {
		return strings.Join(f.said, "")
	}
	return strings.Join(f.said, "\n")
}

func (f *cursor) outcome() outcome {
	out, r := outcome{text: f.answer(), spent: wire.Spent{Model: f.model}}, f.result
	if r == nil {
		return out
	}
	out.spent.Tokens = tokens(r.Usage, "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
	text := ""
	if r.Result != nil {
		text = *r.Result
	}
	if fine(r.IsError) && r.Subtype == "success" {
		if out.answered = true; len(f.said) == 0 {
			out.text = text
		}
		return out
	}
	out.failed = &failure{words: strings.TrimSpace(text + " " + r.Error)}
	return out
}
