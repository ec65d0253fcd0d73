package openai_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/openai/upstream"
)

// repeats says for each client whether it repeats a request by itself after an answer. testdata/repeats.tsv has what the clients did.
var repeats = map[string]func(status int, h http.Header, body string) bool{
	"openai": func(status int, h http.Header, _ string) bool {
		switch h.Get("X-Should-Retry") {
		case "true":
			return true
		case "false":
			return false
		}
		return slices.Contains([]int{408, 409, 429}, status) || status >= 500
	},
	"aisdk": func(status int, _ http.Header, _ string) bool {
		return slices.Contains([]int{408, 409, 429}, status) || status >= 500
	},
	"langchain": func(status int, h http.Header, _ string) bool {
		if status == 429 {
			return h.Get("Retry-After") != ""
		}
		return !slices.Contains([]int{400, 401, 402, 403, 404, 405, 406, 407, 409, 413}, status)
	},
	"codex": func(status int, h http.Header, _ string) bool {
		return status != 400 && (status != 429 || h.Get("Retry-After") != "")
	},
	"continue": func(status int, _ http.Header, body string) bool {
		return slices.Contains([]int{408, 409, 429}, status) || status >= 500 || continues.MatchString(body)
	},
	"opencode": func(status int, _ http.Header, body string) bool {
		return slices.Contains([]int{408, 409, 429}, status) || status >= 500 || opencode.MatchString(body)
	},
}

// continues finds what Continue 1.5 takes for a fault that passes.
var continues = regexp.MustCompile(`(?i)"server_error"|"rate_limit_exceeded"|premature (close|end)|connection reset|socket hang up|aborted|overloaded|ECONNRESET|ENOTFOUND|ETIMEDOUT|EPIPE|ECONNREFUSED`)

// opencode finds what OpenCode 1.18 looks for in an error's message and body.
var opencode = regexp.MustCompile(`(?i)429|500|502|503|504|524|rate increased too quickly|rate[- _]limit|too[ _]many[ _]requests|overloaded|exhausted|unavailable|internal[ _]error|internal server error|server[- _]error|` +
	`provider[- _]returned[- _]error|terminated|fetch failed|failed to fetch|network[-_ ]error|upstream connect|connection (error|refused|lost)|socket connection was closed|socket hang up|reset before headers|getaddrinfo|enotfound|` +
	`eai_again|econnrefused|econnreset|etimedout|\b(request|response|connection|network|stream|read) (timeout|timed out|time out)\b|(try|retry) your request|\btry again (later|in)\b|(currently|temporarily) at capacity`)

// TestRepeatsAsSeen: repeats says of each answer that the real clients got what they did. proof/clients runs them, and fills the table.
func TestRepeatsAsSeen(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/repeats.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	clients := strings.Split(lines[0], "\t")[3:]
	if len(clients) != len(repeats) || len(lines) < 20 {
		t.Fatalf("%d clients, %d lines", len(clients), len(lines))
	}
	for _, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		status, err := strconv.Atoi(cells[0])
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		if name, value, is := strings.Cut(cells[1], ": "); is {
			h.Set(name, value)
		}
		for n, client := range clients {
			if did := cells[3+n]; did != "-" && repeats[client](status, h, cells[2]) != (did == "yes") {
				t.Errorf("%s after %s %s %s: %s", client, cells[0], cells[1], cells[2], did)
			}
		}
	}
}

// TestNoClientRepeatsWhatMayHaveHappened: whatever a backend says of its failure, no client asks again by itself, and the caller reads the
// backend's words where they are harmless.
func TestNoClientRepeatsWhatMayHaveHappened(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err error
		// want stands in the answer.
		want string
	}{
		"its status":       {&upstream.Error{Status: 503, Message: "the endpoint failed (500)"}, "may have begun"},
		"its words":        {&upstream.Error{Status: 500, Message: "the endpoint failed", Said: "Internal server error. Please try again later."}, "the endpoint failed"},
		"its words, plain": {&upstream.Error{Message: "the endpoint failed", Said: "no GPU left"}, "the endpoint failed: no GPU left"},
		"a lock":           {&upstream.Error{Status: 409, Message: "it is locked"}, "it is locked"},
		"gone":             {&upstream.Error{Status: 410, Message: "it is gone"}, "it is gone"},
		"its type":         {&upstream.Error{Type: "server_error", Param: "error 503", Message: "it failed"}, "it failed"},
		"a number of it":   {&upstream.Error{Message: "it failed", Param: "try again in 4291 ms"}, "it failed"},
		"a network":        {&upstream.Error{Message: "read tcp: connection reset by peer: ECONNRESET"}, "may have begun"},
		"an end of it":     {&upstream.Error{Message: "the endpoint failed", Said: "Premature close; EPIPE; aborted"}, "the endpoint failed"},
		"a proxy's words":  {&upstream.Error{Message: "the endpoint failed", Said: `{"type":"rate_limit_error"}`}, "the endpoint failed"},
		"a tool's name":    {&upstream.Error{Message: `the model called the tool "webfetch"`}, "webfetch"},
		"ours":             {errors.New("sql: database is closed, 500"), "its log says why"},
		"ours, busy":       {bridge.Errorf(bridge.Busy, "the lane is busy"), "the lane is busy"},
		"ours, limited":    {bridge.Errorf(bridge.RateLimited, "too many requests"), "may have begun"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", stream), func(t *testing.T) {
				t.Parallel()
				f := &fake{refuse: tt.err}
				w := newWorld(t, f)
				resp := w.send(t.Context(), "/v1/chat/completions", ask(stream, said("user", "go")))
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode == 200 || !strings.Contains(string(body), tt.want) {
					t.Errorf("%d %s %v, want %s", resp.StatusCode, body, err, tt.want)
				}
				for client, asks := range repeats {
					if asks(resp.StatusCode, resp.Header, string(body)) {
						t.Errorf("%s asks again after %d %s", client, resp.StatusCode, body)
					}
				}
			})
		}
	}
	f := &fake{refuse: &upstream.Error{Status: 503, Message: "not begun", NothingHappened: true}}
	w := newWorld(t, f)
	resp := w.send(t.Context(), "/v1/chat/completions", ask(false, said("user", "go")))
	resp.Body.Close()
	for client, asks := range repeats {
		if !asks(resp.StatusCode, resp.Header, "") {
			t.Errorf("%s does not ask again after %d, though nothing has happened", client, resp.StatusCode)
		}
	}
}
