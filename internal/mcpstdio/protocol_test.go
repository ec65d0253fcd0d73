package mcpstdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"drawbridge/internal/mcpstdio"
)

// talk runs the pipe over some lines against a bridge that answers as serve says,
// and returns what it wrote and what the bridge got.
func talk(t *testing.T, in string, serve http.HandlerFunc) (lines, sent []string) {
	t.Helper()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		sent = append(sent, string(body))
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		serve(w, r)
	}))
	defer server.Close()
	var stdout bytes.Buffer
	err := mcpstdio.Run(t.Context(), mcpstdio.Options{Agent: "main", In: strings.NewReader(in), Out: &stdout, Log: io.Discard,
		Open: func(context.Context) (mcpstdio.Door, error) {
			return mcpstdio.Door{URL: server.URL, Token: "dbt_x"}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return strings.FieldsFunc(stdout.String(), func(r rune) bool { return r == '\n' }), sent
}

// refuse answers everything as the door answers a bad request that it cannot place.
func refuse(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}`)
}

// Each line gets the answer that JSON-RPC has for it, and what is not a message
// stays on this side.
func TestWhatIsNotAMessage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		code int
		id   string
		sent bool
	}{
		`no message at all`:                                {-32700, `null`, false},
		`{"jsonrpc":"2.0","id":1,"method":"ping"`:          {-32700, `null`, false},
		`{"id":1,"method":"ping"}{"id":2,"method":"ping"}`: {-32700, `null`, false},
		`42`:                                {-32600, `null`, false},
		`"ping"`:                            {-32600, `null`, false},
		`null`:                              {-32600, `null`, false},
		`{}`:                                {-32600, `null`, false},
		`{"id":7}`:                          {-32600, `7`, false},
		`{"id":7,"method":8}`:               {-32600, `7`, false},
		`{"id":7,"Method":"ping"}`:          {-32600, `7`, false},
		`{"id":null,"method":"ping"}`:       {-32600, `null`, false},
		`{"id":{"a":1},"method":"ping"}`:    {-32600, `null`, false},
		`{"id":"x","method":"tools/list"}`:  {-32600, `"x"`, true},
		`[{"id":1,"method":"ping"}]`:        {-32600, `null`, true},
		`{"method":"notifications/nosuch"}`: {0, ``, true},
		`{"jsonrpc":"2.0","id":7,"result":{"action":"accept"}}`:                   {0, ``, true},
		`{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"x"}}`:          {0, ``, true},
		`{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("a", 5<<20) + `"}`:  {0, ``, false},
		`{"result":{"x":"` + strings.Repeat("a", 5<<20) + `"},"id":7}`:            {0, ``, false},
		`{"jsonrpc":"2.0","id":7,"method":"` + strings.Repeat("a", 5<<20) + `"}`:  {-32600, `7`, false},
		`{"jsonrpc":"2.0","method":"x","id":7,"a":[` + strings.Repeat("[", 99999): {-32700, `null`, false},
	} {
		lines, sent := talk(t, line+"\n", refuse)
		name := fmt.Sprintf("%.60s", line)
		if (len(sent) > 0) != want.sent {
			t.Errorf("%s: the bridge got %.100q", name, sent)
		}
		if want.code == 0 {
			if len(lines) > 0 {
				t.Errorf("%s was answered: %.200q", name, lines)
			}
			continue
		}
		var got struct {
			ID    json.RawMessage
			Error struct{ Code int }
		}
		if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &got) != nil || got.Error.Code != want.code || string(got.ID) != want.id {
			t.Errorf("%s: %.300q, want code %d under %s", name, lines, want.code, want.id)
		}
	}
}

// A response reaches the bridge, and whatever the bridge says of it is not written.
func TestAResponseIsNotAnswered(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"taken":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"refused":    refuse,
		"not open":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"no session": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"answered": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{}}`)
		},
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		lines, sent := talk(t, `{"jsonrpc":"2.0","id":7,"result":{}}`+"\n", serve)
		if len(lines) != 0 || len(sent) == 0 {
			t.Errorf("%s: wrote %q; the bridge got %q", name, lines, sent)
		}
	}
}
