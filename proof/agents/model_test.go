//go:build deep

package agents_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
)

// step is one call that the scripted model makes. In its arguments a text such as
// "$remind cmd_" stands for the first such id in what that tool returned before.
type step struct {
	tool string
	args map[string]any
}

// model is an endpoint of OpenAI's Responses API that plays a script: one tool call
// an answer, then the words "All done.".
type model struct {
	*httptest.Server
	steps []step

	mu sync.Mutex // guards the fields below
	// offered are the tools of the namespace in the last request.
	offered []string
	faults  []string
}

// namespace is how Codex names the tools of the server drawbridge.
const namespace = "mcp__drawbridge"

func newModel(steps []step) *model {
	m := &model{steps: steps}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	return m
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":[],"models":[]}`)
		return
	}
	var request struct {
		Input []struct {
			Type   string          `json:"type"`
			CallID string          `json:"call_id"`
			Output json.RawMessage `json:"output"`
		} `json:"input"`
		Tools []struct {
			Name  string `json:"name"`
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"tools"`
	}
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.faults = append(m.faults, err.Error())
	}
	for _, t := range request.Tools {
		if t.Name != namespace {
			continue
		}
		m.offered = nil
		for _, tool := range t.Tools {
			m.offered = append(m.offered, tool.Name)
		}
	}
	returned := map[string]string{}
	done := 0
	for _, item := range request.Input {
		if item.Type == "function_call_output" && done < len(m.steps) {
			returned[m.steps[done].tool] = string(item.Output)
			done++
		}
	}
	m.answer(w, done, returned)
}

// answer streams one answer as the API does: Codex takes nothing from the last event but the usage.
func (m *model) answer(w http.ResponseWriter, n int, returned map[string]string) {
	item := map[string]any{"type": "message", "id": fmt.Sprint("msg_", n), "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": "All done.", "annotations": []any{}}}}
	if n < len(m.steps) {
		args, err := json.Marshal(m.fill(m.steps[n].args, returned))
		if err != nil {
			m.faults = append(m.faults, err.Error())
		}
		item = map[string]any{"type": "function_call", "id": fmt.Sprint("fc_", n), "call_id": fmt.Sprint("call_", n), "status": "completed",
			"namespace": namespace, "name": m.steps[n].tool, "arguments": string(args)}
	}
	response := map[string]any{"id": fmt.Sprint("resp_", n), "object": "response", "status": "completed", "output": []any{item}, "usage": map[string]any{
		"input_tokens": 1, "input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens": 1, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 2}}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []map[string]any{
		{"type": "response.created", "response": map[string]any{"id": response["id"], "object": "response", "status": "in_progress", "output": []any{}}},
		{"type": "response.output_item.added", "output_index": 0, "item": item},
		{"type": "response.output_item.done", "output_index": 0, "item": item},
		{"type": "response.completed", "response": response},
	} {
		data, err := json.Marshal(event)
		if err != nil {
			m.faults = append(m.faults, err.Error())
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], data)
	}
}

// earlier is a reference to what a tool returned before, and the prefix of the id that is meant.
var earlier = regexp.MustCompile(`^\$(\w+) (\w+_)$`)

// fill replaces the references in arguments.
func (m *model) fill(args map[string]any, returned map[string]string) map[string]any {
	out := map[string]any{}
	for name, value := range args {
		out[name] = value
		text, _ := value.(string)
		if ref := earlier.FindStringSubmatch(text); ref != nil {
			id := regexp.MustCompile(ref[2] + `[0-9a-z]+`).FindString(returned[ref[1]])
			if id == "" {
				m.faults = append(m.faults, fmt.Sprintf("%s returned nothing that begins with %s: %.300s", ref[1], ref[2], returned[ref[1]]))
			}
			out[name] = id
		}
	}
	return out
}
