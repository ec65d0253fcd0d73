//go:build deep

package agents_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// chat is a model behind OpenAI's chat completions and responses, Anthropic's messages, and Google's contents. It plays what the last words of the user ask for: a line
// "RUN: command" becomes a call of the agent's shell, a line "TOOL: name {arguments}" a call of that tool, and the result of a call the words "The tool
// answered.". Anything else is answered with "All done.".
type chat struct {
	*httptest.Server

	mu sync.Mutex // guards the fields below
	// heard are the last words of the user in each request that offers tools: how often a prompt was put to the model.
	heard  []string
	faults []string
	// said is, for each mark such as "[turn 1]", in how many messages of the user one conversation had it at most.
	said map[string]int
	// hold, if set, keeps an answer back until it is closed.
	hold chan struct{}
	// asides says that the agent asks the model things of its own, with the conversation before them.
	asides bool
	// escalate makes calls of Codex's shell ask to run outside of Codex's own sandbox, as a model does where that sandbox cannot be made.
	escalate bool
	// returned is the last result of a tool. status, if set, is how every request is refused, with body.
	returned, body string
	status         int
}

// refuse makes the model refuse every request with a status; 0 ends that.
func (c *chat) refuse(status int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.body = status, body
}

// holds makes the model keep its answers back until release is called.
func (c *chat) holds() (release func()) {
	hold := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = hold
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hold = nil
		close(hold)
	}
}

// result is what the last tool returned.
func (c *chat) result() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.returned
}

// asked is a request of either interface, as far as the script needs it.
type asked struct {
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Tools  []json.RawMessage
	Stream bool
	// Contents are the messages of Google's interface.
	Contents []struct {
		Role  string
		Parts []struct {
			Text             string
			FunctionResponse json.RawMessage
		}
	}
	// Input are the messages of OpenAI's responses.
	Input []struct {
		Type, Role      string
		Content, Output json.RawMessage
	}
}

func newChat() *chat {
	c := &chat{said: map[string]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	return c
}

// newChatFor returns a model for one of locals.
func newChatFor(name string) *chat {
	c := newChat()
	c.escalate, c.asides = name == "codex-acp", name == "qwen"
	return c
}

func (c *chat) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	google := strings.Contains(r.URL.Path, ":") && strings.HasSuffix(strings.ToLower(r.URL.Path), "generatecontent")
	anthropic, responses := strings.HasSuffix(r.URL.Path, "/messages"), strings.HasSuffix(r.URL.Path, "/responses") && r.Method == http.MethodPost
	if !google && !anthropic && !responses && !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[],"input_tokens":1}`)
		return
	}
	var q asked
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	words, result := q.last(c.asides)
	command := ""
	for line := range strings.Lines(words) {
		for _, order := range []string{"RUN: ", toolOrder} {
			if rest, found := strings.CutPrefix(strings.TrimSpace(line), order); found && len(q.Tools) > 0 && !result {
				command = strings.TrimPrefix(order, "RUN: ") + rest
			}
		}
	}
	c.mu.Lock()
	if err != nil {
		c.faults = append(c.faults, err.Error())
	}
	if c.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(c.status)
		_, _ = io.WriteString(w, c.body)
		c.mu.Unlock()
		return
	}
	if result {
		c.returned = q.returned()
	}
	if len(q.Tools) > 0 && !result && words != "" {
		c.heard = append(c.heard, words)
	}
	c.count(q)
	hold := c.hold
	c.mu.Unlock()
	if hold != nil && len(q.Tools) > 0 {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	text := "All done."
	if result {
		text = "The tool answered."
	}
	w.Header().Set("Content-Type", "text/event-stream")
	switch {
	case anthropic:
		messages(w, text, command)
	case responses:
		respond(w, c.escalate, text, command)
	case google:
		generate(w, text, command)
	default:
		shell := "bash"
		if strings.Contains(string(body), `"name":"run_shell_command"`) {
			shell = "run_shell_command"
		}
		completions(w, shell, text, command)
	}
}

// toolOrder begins a line that names a tool to call.
const toolOrder = "TOOL: "

// toolCall reads a line that names a tool to call, and its arguments as JSON.
func toolCall(command string) (name, args string, ok bool) {
	rest, ok := strings.CutPrefix(command, toolOrder)
	name, args, _ = strings.Cut(rest, " ")
	return name, cmp.Or(args, "{}"), ok
}

// returned is the last result of a tool, as it came.
func (q asked) returned() string {
	if n := len(q.Messages); n > 0 {
		return string(q.Messages[n-1].Content)
	}
	if n := len(q.Contents); n > 0 {
		for _, part := range q.Contents[n-1].Parts {
			if part.FunctionResponse != nil {
				return string(part.FunctionResponse)
			}
		}
	}
	for _, item := range slices.Backward(q.Input) {
		if strings.HasSuffix(item.Type, "_output") {
			return string(item.Output)
		}
	}
	return ""
}

// item is a message of a conversation: the user's words, or the result of a tool with what the agent says beside it. Other items are neither.
type item struct {
	user, result bool
	text         string
}

// items returns the conversation in the form that all interfaces share.
func (q asked) items() (all []item) {
	for _, in := range q.Input {
		text, _ := texts(in.Content)
		all = append(all, item{user: in.Role == "user", result: strings.HasSuffix(in.Type, "_output"), text: text})
	}
	for _, m := range q.Contents {
		i := item{user: m.Role == "user"}
		for _, part := range m.Parts {
			i.result = i.result || part.FunctionResponse != nil
			i.text += part.Text + "\n"
		}
		all = append(all, i)
	}
	for _, m := range q.Messages {
		text, result := texts(m.Content)
		all = append(all, item{user: m.Role == "user", result: result || m.Role == "tool", text: text})
	}
	return all
}

// texts reads the words of a message: one text, or blocks of which some may be the result of a tool.
func texts(content json.RawMessage) (text string, result bool) {
	var blocks []struct{ Type, Text string }
	if json.Unmarshal(content, &text) != nil && json.Unmarshal(content, &blocks) == nil {
		for _, b := range blocks {
			result = result || b.Type == "tool_result"
			text += b.Text + "\n"
		}
	}
	return text, result
}

// last returns the last words of the user, and whether the result of a tool came after them. Where
// asides is set, words of the user behind them make it a question of the agent's own, as Qwen asks for the next prompt: it returns no words.
func (q asked) last(asides bool) (words string, result bool) {
	for _, i := range q.items() {
		switch {
		case i.result: // beside the result the agent may put words of its own, as if the user had said them
			result = true
		case i.user && strings.Contains(i.text, "[turn "):
			words, result = i.text, false
		case i.user && asides:
			words, result = "", false
		}
	}
	return words, result
}

// completions streams one answer of OpenAI's interface.
func completions(w io.Writer, shell, text, command string) {
	delta, reason := map[string]any{"role": "assistant", "content": text}, "stop"
	if command != "" {
		text, _ := json.Marshal(map[string]string{"command": command, "description": "as the script says"})
		name, args := shell, string(text)
		if tool, given, ok := toolCall(command); ok {
			name, args = tool, given
		}
		delta, reason = map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprint("call_", time.Now().UnixNano()), "type": "function", "function": map[string]any{"name": name, "arguments": args},
		}}}, "tool_calls"
	}
	for _, choice := range []map[string]any{{"index": 0, "delta": delta}, {"index": 0, "delta": map[string]any{}, "finish_reason": reason}} {
		event, _ := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{choice}, "usage": map[string]int{"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
		fmt.Fprintf(w, "data: %s\n\n", event)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// generate streams one answer of Google's interface.
func generate(w io.Writer, text, command string) {
	part := map[string]any{"text": text}
	if tool, args, ok := toolCall(command); ok {
		part = map[string]any{"functionCall": map[string]any{"name": tool, "args": json.RawMessage(args)}}
	} else if command != "" {
		part = map[string]any{"functionCall": map[string]any{"name": "run_shell_command", "args": map[string]string{"command": command}}}
	}
	event, _ := json.Marshal(map[string]any{
		"candidates":    []any{map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP"}},
		"usageMetadata": map[string]int{"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
	})
	fmt.Fprintf(w, "data: %s\n\n", event)
}

// respond streams one answer of OpenAI's responses, as Codex reads them.
func respond(w io.Writer, escalate bool, text, command string) {
	id := fmt.Sprint(time.Now().UnixNano())
	item := map[string]any{"type": "message", "id": "msg_" + id, "role": "assistant", "status": "completed", "content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}
	if tool, args, ok := toolCall(command); ok {
		server, name, _ := strings.Cut(tool, ".")
		item = map[string]any{"type": "function_call", "id": "fc_" + id, "call_id": "call_" + id, "status": "completed", "namespace": server, "name": name, "arguments": args}
	} else if command != "" {
		call := map[string]string{"cmd": command}
		if escalate {
			call["sandbox_permissions"], call["justification"] = "require_escalated", "as the script says"
		}
		args, _ := json.Marshal(call)
		item = map[string]any{"type": "function_call", "id": "fc_" + id, "call_id": "call_" + id, "status": "completed", "name": "exec_command", "arguments": string(args)}
	}
	thought := map[string]any{"type": "reasoning", "id": "rs_" + id, "summary": []any{map[string]any{"type": "summary_text", "text": "I think."}}}
	usage := map[string]any{"input_tokens": 3, "input_tokens_details": map[string]any{"cached_tokens": 1}, "output_tokens": 2, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 5}
	for _, event := range []map[string]any{
		{"type": "response.created", "response": map[string]any{"id": "resp_" + id, "object": "response", "status": "in_progress", "output": []any{}}},
		{"type": "response.output_item.done", "output_index": 0, "item": thought},
		{"type": "response.output_item.done", "output_index": 1, "item": item},
		{"type": "response.completed", "response": map[string]any{"id": "resp_" + id, "object": "response", "status": "completed", "output": []any{item}, "usage": usage}},
	} {
		data, _ := json.Marshal(event)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], data)
	}
}

// messages streams one answer of Anthropic's interface.
func messages(w io.Writer, text, command string) {
	block, delta, reason := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": text}, "end_turn"
	if command != "" {
		args, _ := json.Marshal(map[string]string{"command": command, "description": "as the script says"})
		block = map[string]any{"type": "tool_use", "id": fmt.Sprint("toolu_", time.Now().UnixNano()), "name": "Bash", "input": map[string]any{}}
		delta, reason = map[string]any{"type": "input_json_delta", "partial_json": string(args)}, "tool_use"
	}
	if tool, args, ok := toolCall(command); ok {
		block["name"], delta["partial_json"] = tool, args
	}
	usage := map[string]int{"input_tokens": 3, "output_tokens": 2}
	for _, event := range []map[string]any{
		{"type": "message_start", "message": map[string]any{"id": fmt.Sprint("msg_", time.Now().UnixNano()), // an agent joins messages of one id
			"type": "message", "role": "assistant", "model": "claude-scripted", "content": []any{}, "stop_reason": nil, "usage": usage}},
		{"type": "content_block_start", "index": 0, "content_block": block},
		{"type": "content_block_delta", "index": 0, "delta": delta},
		{"type": "content_block_stop", "index": 0},
		{"type": "message_delta", "delta": map[string]any{"stop_reason": reason}, "usage": usage},
		{"type": "message_stop"},
	} {
		data, _ := json.Marshal(event)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], data)
	}
}

// turnMark is what the tests put into the words of a turn.
var turnMark = regexp.MustCompile(`\[turn \d+\]`)

// count notes how often the conversation of a request has each mark. The caller holds the mutex.
func (c *chat) count(q asked) {
	n := map[string]int{}
	for _, i := range q.items() {
		if m := turnMark.FindString(i.text); m != "" && i.user && !i.result {
			n[m]++
		}
	}
	for m := range n {
		c.said[m] = max(c.said[m], n[m])
	}
}

// repeated returns how often one conversation had a mark at most.
func (c *chat) repeated(mark string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said[mark]
}

// times counts how often words that hold a mark were put to the model as the last of the user's.
func (c *chat) times(mark string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, words := range c.heard {
		if strings.Contains(words, mark) {
			n++
		}
	}
	return n
}
