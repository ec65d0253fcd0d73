//go:build deep

package clients_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"drawbridge/openai/passthrough"
	"drawbridge/proof/chatsim"
)

var update = flag.Bool("update", false, "write what the clients did into the table of repeats")

// table says which client repeats a request by itself after which answer: status, a header, the body, then a column for each client with
// yes, no, or - for what was not run.
const table = "../../openai/testdata/repeats.tsv"

// everyone are all clients, in the order of the table.
var everyone = append(slices.Clone(libraries), "opencode", "continue", "codex")

// asking is where a client asks a question that fails, and how many requests came there so far.
type asking struct {
	url   string
	asked func() int
	// shows is what a coding agent must show of the failure.
	shows string
	// again is closed when a question came a second time; nil where nobody says so.
	again chan struct{}
}

// ask lets a client ask the question at each place, and returns how many requests came of it.
func ask(t *testing.T, client, token string, at []asking) []int {
	t.Helper()
	out := make([]int, len(at))
	for n, a := range at {
		out[n] = -a.asked()
	}
	if slices.Contains(libraries, client) { // all side by side
		args := []string{client, question, token}
		for _, a := range at {
			args = append(args, a.url)
		}
		if said, err := program(t, client, "repeats.mjs", args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", client, err, said)
		}
	} else {
		for _, a := range at {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { // a coding agent that asks again may do so for minutes
				select {
				case <-a.again:
					cancel()
				case <-ctx.Done():
				}
			}()
			before := a.asked()
			said, err := agents[client].run(ctx, t, client, question, t.TempDir(), a.url, token)
			cancel()
			if a.asked() == before || !strings.Contains(string(said), a.shows) {
				t.Fatalf("%s asked %d times: %v\n%s", client, a.asked()-before, err, said)
			}
		}
	}
	for n, a := range at {
		out[n] += a.asked()
	}
	return out
}

// isQuestion reports whether a request asks the question. OpenCode asks for a title beside.
func isQuestion(body []byte) bool {
	return bytes.Contains(body, []byte(question)) && !bytes.Contains(body, []byte("title generator"))
}

// refuse is an endpoint that answers the question with an error. chatsim cannot stand here, because Codex asks /v1/responses.
func refuse(t *testing.T, status, header, body string) asking {
	t.Helper()
	code, err := strconv.Atoi(status)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	again := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		if !isQuestion(request) {
			http.NotFound(w, r)
			return
		}
		if asked.Add(1) == 2 {
			close(again)
		}
		if name, value, is := strings.Cut(header, ": "); is {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(web.Close)
	return asking{url: web.URL + "/v1", asked: func() int { return int(asked.Load()) }, again: again}
}

// isRun reports whether a row of the table is run with a client. A coding agent takes seconds to start.
func isRun(client string, cells []string) bool {
	switch cells[0] {
	case "400", "409", "422", "424", "429", "500", "503":
		return slices.Contains(libraries, client) || !strings.HasPrefix(cells[1], "X-") && !strings.Contains(cells[2], "api_error")
	}
	return slices.Contains(libraries, client) || client == "codex"
}

// TestRepeats: after each answer of the table, each client repeats its request or does not, as the table has it. The requests are counted where
// they arrive. openai's tests hold the door's answers against the table.
func TestRepeats(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	was := strings.Split(strings.TrimSpace(string(raw)), "\n")
	rows := make([][]string, len(was))
	for n, line := range was {
		rows[n] = strings.Split(line, "\t")[:3]
	}
	rows[0] = append(rows[0], everyone...)
	for _, client := range everyone {
		var at []asking
		var of []int
		for n, cells := range rows[1:] {
			rows[n+1] = append(cells, "-")
			if isRun(client, cells) {
				at, of = append(at, refuse(t, cells[0], cells[1], cells[2])), append(of, n+1)
			}
		}
		for n, asked := range ask(t, client, "none", at) {
			rows[of[n]][len(rows[of[n]])-1] = map[bool]string{true: "yes", false: "no"}[asked > 1]
		}
	}
	var all strings.Builder
	for n, cells := range rows {
		line := strings.Join(cells, "\t")
		if !*update && line != was[n] {
			t.Errorf("the table has\n%s\nand the clients did\n%s", was[n], line)
		}
		all.WriteString(line + "\n")
	}
	if *update {
		if err := os.WriteFile(table, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEndpointIsAskedOnce: behind client and door, an endpoint that failed when something may have happened gets one request.
func TestEndpointIsAskedOnce(t *testing.T) {
	t.Parallel()
	failures := []chatsim.Answer{
		{Status: http.StatusInternalServerError, Raw: `{"error":{"message":"500 Internal Server Error: overloaded, please try again later","type":"server_error"}}`},
		{Status: http.StatusBadGateway, Raw: "<html>502 Bad Gateway</html>"},
		{Status: http.StatusGatewayTimeout, RetryAfter: "1", Raw: `{"error":{"message":"upstream timed out: ECONNRESET","type":"server_error"}}`},
		{Text: "An answer that ends early", Cut: 200},
		{Text: "An answer that fails", Fail: "rate limit exceeded, try again in 1s"},
	}
	for _, client := range everyone {
		t.Run(client, func(t *testing.T) {
			clientHome(t, client)
			for _, failure := range failures {
				sim := &chatsim.Server{Streams: true, Models: []string{"scripted"}, Answer: func(chatsim.Request, int) chatsim.Answer { return failure }}
				web := httptest.NewServer(sim)
				t.Cleanup(web.Close)
				p, err := passthrough.New(passthrough.Options{Name: "sim", URL: web.URL + "/v1"})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(p.Close)
				url, token := open(t, "", p, func(h http.Handler) http.Handler { return h })
				at := asking{url: url, shows: "the endpoint", asked: func() int {
					return len(slices.DeleteFunc(sim.Log(), func(q chatsim.Request) bool { return !isQuestion(q.Raw) }))
				}}
				if asked := ask(t, client, token, []asking{at}); asked[0] != 1 || len(sim.Refused()) > 0 {
					t.Errorf("after %+v the endpoint got %d requests, and refused %q", failure, asked[0], sim.Refused())
				}
			}
		})
	}
}
