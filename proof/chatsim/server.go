package chatsim

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Answer is what the endpoint does with one request. The zero Answer is a text "ok".
type Answer struct {
	Text  string     `json:"text"`
	Calls []Function `json:"calls"`
	// Finish is stop or tool_calls unless it is set.
	Finish string `json:"finish"`
	// Status other than 0 is an error; RetryAfter is the header.
	Status     int    `json:"status"`
	RetryAfter string `json:"retry_after"`
	// Raw replaces the whole body of the answer.
	Raw string `json:"raw"`
	// Hang keeps the request open until the client is gone.
	Hang bool `json:"hang"`
	// Location is the header of a redirect.
	Location string `json:"location"`
	// Reasoning are thoughts before the text, in a stream alone.
	Reasoning string `json:"reasoning"`
	// Cut other than 0 ends the connection after so many bytes of a stream.
	Cut int `json:"cut"`
	// Fail is an error in the stream, before its end.
	Fail string `json:"fail"`
	// Hold is how many times a script lets this answer hang before it gives it.
	Hold int `json:"hold"`
}

// Server is the endpoint. Its fields are set before it serves.
type Server struct {
	// Key is the bearer token that it asks for; "" asks for none.
	Key string
	// Models are those that it has; none means any.
	Models []string
	// Streams makes it stream when it is asked to, and ignore fields that it does not know, as most endpoints do.
	Streams bool
	// Answer says what it answers to a request that is right. n counts the requests from 1.
	Answer func(r Request, n int) Answer

	// hung counts the requests that were left without an answer.
	hung atomic.Int64

	mu sync.Mutex // guards the fields below
	// log is what was asked, in order; refused is why requests were refused.
	log     []Request
	refused []string
}

// Log returns the requests that were right.
func (s *Server) Log() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.log...)
}

// Refused returns why requests were refused.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// ServeHTTP implements http.Handler for /v1/chat/completions, and shows what was asked at /_log.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/_log" {
		asked := s.Log()
		for i := range asked {
			asked[i].Tools = nil // they are long, and the same each time
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"requests": append([]Request{}, asked...), "refused": append([]string{}, s.Refused()...), "hung": s.hung.Load()})
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	if r.URL.Path == "/v1/models" && s.Streams {
		s.list(w)
		return
	}
	q, status, why := s.judge(r, body)
	if why != "" {
		s.mu.Lock()
		s.refused = append(s.refused, why)
		s.mu.Unlock()
		fail(w, status, why)
		return
	}
	s.mu.Lock()
	s.log = append(s.log, q)
	n := len(s.log)
	s.mu.Unlock()
	a := s.Answer(q, n)
	if a.Hang {
		s.hung.Add(1)
		<-r.Context().Done()
		return
	}
	if q.Stream && a.Raw == "" && a.Status == 0 {
		stream(w, q, a, n)
		return
	}
	respond(w, q, a, n)
}

// list answers with the models, each with the length of its context in a field of some maker.
func (s *Server) list(w http.ResponseWriter) {
	var data []any
	for i, m := range s.Models {
		data = append(data, map[string]any{"id": m, "object": "model", "created": 1700000000, "owned_by": "sim", []string{"context_length", "max_model_len"}[i%2]: 8192})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data})
}

func (s *Server) read(body []byte) (Request, error) {
	if !s.Streams {
		return Check(body)
	}
	return CheckLoosely(body)
}

func (s *Server) judge(r *http.Request, body []byte) (q Request, status int, why string) {
	switch {
	case r.URL.Path != "/v1/chat/completions":
		return q, http.StatusNotFound, "unknown path " + r.URL.Path
	case r.Method != http.MethodPost:
		return q, http.StatusMethodNotAllowed, "not a POST"
	case s.Key != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.Key)) != 1:
		// As OpenAI does, it repeats what it got.
		return q, http.StatusUnauthorized, "Incorrect API key provided: " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		return q, http.StatusUnsupportedMediaType, "the Content-Type is not application/json"
	}
	q, err := s.read(body)
	if err != nil {
		return q, http.StatusBadRequest, err.Error()
	}
	for _, m := range s.Models {
		if m == q.Model {
			return q, 0, ""
		}
	}
	if len(s.Models) > 0 {
		return q, http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist", q.Model)
	}
	return q, 0, ""
}

func fail(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": why, "type": "invalid_request_error", "param": nil, "code": nil}})
}

func respond(w http.ResponseWriter, q Request, a Answer, n int) {
	if a.RetryAfter != "" {
		w.Header().Set("Retry-After", a.RetryAfter)
	}
	if a.Location != "" {
		w.Header().Set("Location", a.Location)
	}
	switch {
	case a.Raw != "":
		w.WriteHeader(max(a.Status, http.StatusOK))
		_, _ = io.WriteString(w, a.Raw)
		return
	case a.Status != 0 && a.Status != http.StatusOK:
		fail(w, a.Status, "the script says so")
		return
	}
	message := map[string]any{"role": "assistant", "content": a.Text, "refusal": nil}
	finish := "stop"
	if len(a.Calls) > 0 {
		finish = "tool_calls"
		var calls []ToolCall
		for i, f := range a.Calls {
			if f.Arguments == "" {
				f.Arguments = "{}"
			}
			calls = append(calls, ToolCall{ID: fmt.Sprintf("call_%d", i), Type: "function", Function: f}) // as Ollama: not unique in a turn
		}
		message["tool_calls"] = calls
		if a.Text == "" {
			message["content"] = nil
		}
	}
	if a.Finish != "" {
		finish = a.Finish
	}
	if a.Text == "" && len(a.Calls) == 0 {
		message["content"] = "ok"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", n), "object": "chat.completion", "created": time.Now().Unix(), "model": q.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish, "logprobs": nil}},
		"usage":   map[string]any{"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "prompt_tokens_details": map[string]any{"cached_tokens": 4}},
	})
}
