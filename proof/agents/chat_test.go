package agents_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// chat is a model behind OpenAI's chat completions and Anthropic's messages. It plays what the last words of the user ask for: a line
// "RUN: command" becomes a call of the agent's shell, and the result of a call the words "The tool answered.". Anything else is answered with "All done.".
type chat struct {
	*httptest.Server

	mu sync.Mutex // guards the fields below
	// heard are the last words of the user in each request that offers tools: how often a prompt was put to the model.
	heard  []string
	faults []string
	// hold, if set, keeps an answer back until it is closed.
	hold chan struct{}
}

// asked is a request of either interface, as far as the script needs it.
type asked struct {
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Tools  []json.RawMessage
	Stream bool
}

func newChat() *chat {
	c := &chat{}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	return c
}

func (c *chat) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	anthropic := strings.HasSuffix(r.URL.Path, "/messages")
	if !anthropic && !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[],"input_tokens":1}`)
		return
	}
	var q asked
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	words, result := q.last()
	command := ""
	for line := range strings.Lines(words) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), "RUN: "); found && len(q.Tools) > 0 && !result {
			command = rest
		}
	}
	c.mu.Lock()
	if err != nil {
		c.faults = append(c.faults, err.Error())
	}
	if len(q.Tools) > 0 && !result {
		c.heard = append(c.heard, words)
	}
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
	if anthropic {
		messages(w, text, command)
	} else {
		completions(w, text, command)
	}
}

// last returns the last words of the user, and whether the result of a tool came after them.
func (q asked) last() (words string, result bool) {
	for _, m := range q.Messages {
		var text string
		var blocks []struct{ Type, Text string }
		answered := m.Role == "tool"
		if json.Unmarshal(m.Content, &text) != nil && json.Unmarshal(m.Content, &blocks) == nil {
			for _, b := range blocks {
				answered = answered || b.Type == "tool_result"
				text += b.Text + "\n"
			}
		}
		switch {
		case answered:
			// Beside the result the agent may put words of its own, as if the user had said them.
			result = true
		case m.Role == "user" && strings.Contains(text, "[turn "):
			words, result = text, false
		}
	}
	return words, result
}

// completions streams one answer of OpenAI's interface.
func completions(w io.Writer, text, command string) {
	delta, reason := map[string]any{"role": "assistant", "content": text}, "stop"
	if command != "" {
		args, _ := json.Marshal(map[string]string{"command": command, "description": "as the script says"})
		delta, reason = map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprint("call_", time.Now().UnixNano()), "type": "function", "function": map[string]any{"name": "bash", "arguments": string(args)},
		}}}, "tool_calls"
	}
	for _, choice := range []map[string]any{{"index": 0, "delta": delta}, {"index": 0, "delta": map[string]any{}, "finish_reason": reason}} {
		event, _ := json.Marshal(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{choice}, "usage": map[string]int{"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
		fmt.Fprintf(w, "data: %s\n\n", event)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// messages streams one answer of Anthropic's interface.
func messages(w io.Writer, text, command string) {
	block, delta, reason := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": text}, "end_turn"
	if command != "" {
		args, _ := json.Marshal(map[string]string{"command": command, "description": "as the script says"})
		block = map[string]any{"type": "tool_use", "id": fmt.Sprint("toolu_", time.Now().UnixNano()), "name": "Bash", "input": map[string]any{}}
		delta, reason = map[string]any{"type": "input_json_delta", "partial_json": string(args)}, "tool_use"
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
