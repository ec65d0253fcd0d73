//go:build deep

package clients_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"drawbridge/openai/passthrough"
)

var update = flag.Bool("update", false, "write what the clients did into the table")

// table says which client repeats a request by itself after which answer: status, a header, the body, then a column for each client with
// yes, no, or - for what was not run.
const table = "../../openai/testdata/repeats.tsv"

// refuser answers each question with the error of its row, and counts how often each question came.
type refuser struct {
	rows  [][]string
	mu    sync.Mutex
	asked map[int]int
	// again is called when a question comes a second time; nil for nothing.
	again func()
}

// questionOf finds the number of a row in a question.
var questionOf = regexp.MustCompile(`Case ([a-z]+) begins`)

// named writes a number in letters: a digit in a question could be taken for a status.
func named(row int) string { return strings.Repeat("x", row/26) + string(rune('a'+row%26)) }

func (f *refuser) question(row int) string { return "Case " + named(row) + " begins" }

func (f *refuser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.HasSuffix(r.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"scripted","object":"model"}]}`)
		return
	}
	found := questionOf.FindAllSubmatch(body, -1)
	if found == nil || strings.Contains(string(body), "title generator") { // OpenCode asks for a title beside
		http.NotFound(w, r)
		return
	}
	name := string(found[len(found)-1][1])
	for row, cells := range f.rows {
		if named(row) != name {
			continue
		}
		f.mu.Lock()
		f.asked[row]++
		if f.asked[row] > 1 && f.again != nil {
			f.again()
		}
		f.mu.Unlock()
		if header, value, is := strings.Cut(cells[1], ": "); is {
			w.Header().Set(header, value)
		}
		if cells[0] == "cut" { // an answer that ends in its middle
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":null}]}`+"\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		var status int
		_, _ = fmt.Sscan(cells[0], &status)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, cells[2])
		return
	}
	http.NotFound(w, r)
}

// said is whether each question came again.
func (f *refuser) said() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]string, len(f.rows))
	for row := range f.rows {
		out[row] = map[bool]string{true: "yes", false: "no"}[f.asked[row] > 1]
		if f.asked[row] == 0 {
			out[row] = "-"
		}
	}
	return out
}

// runBy reports whether a row is run with a coding agent, which takes seconds to start.
func runBy(agent string, cells []string) bool {
	switch cells[0] {
	case "400", "409", "422", "424", "429", "500", "503":
		return !strings.HasPrefix(cells[1], "X-") && !strings.Contains(cells[2], "api_error")
	}
	return agent == "codex"
}

// TestRepeats: after each answer of the table, each client repeats its request or does not, as the table has it. The requests are counted where
// they arrive. openai's tests hold the door's answers against the table.
func TestRepeats(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		rows = append(rows, strings.Split(line, "\t"))
	}
	head, rows := rows[0], rows[1:]
	columns := map[string][]string{}
	for _, library := range []string{"openai", "aisdk", "langchain"} {
		columns[library] = libraryRepeats(t, library, rows, false)
	}
	for _, name := range []string{"opencode", "continue", "codex"} {
		columns[name] = agentRepeats(t, name, rows, false)
	}
	clients := []string{"openai", "aisdk", "langchain", "opencode", "continue", "codex"}
	if *update {
		out := strings.Join(append(head[:3:3], clients...), "\t") + "\n"
		for n, cells := range rows {
			line := cells[:3:3]
			for _, client := range clients {
				line = append(line, columns[client][n])
			}
			out += strings.Join(line, "\t") + "\n"
		}
		if err := os.WriteFile(table, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for n, cells := range rows {
		for at, client := range head[3:] {
			if got := columns[client][n]; got != cells[3+at] {
				t.Errorf("%s repeats after %s %s %s: %s, and the table says %s", client, cells[0], cells[1], cells[2], got, cells[3+at])
			}
		}
	}
}

// failures are answers of an endpoint after which something may have happened, in the columns of the table.
var failures = [][]string{
	{"500", "", `{"error":{"message":"500 Internal Server Error: overloaded, please try again later","type":"server_error"}}`},
	{"502", "", "<html>502 Bad Gateway</html>"},
	{"504", "Retry-After: 1", `{"error":{"message":"upstream timed out: ECONNRESET","type":"server_error"}}`},
	{"500", "X-Should-Retry: true", `{"error":{"message":"rate limit exceeded, try again in 1s","type":"rate_limit_exceeded","code":"rate_limit_exceeded"}}`},
	{"cut", "", ""},
}

// TestEndpointIsAskedOnce: behind door and client, an endpoint that failed when something may have happened gets no second request.
func TestEndpointIsAskedOnce(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"openai", "aisdk", "langchain"} {
		askedOnce(t, library, libraryRepeats(t, library, failures, true))
	}
	for _, name := range []string{"opencode", "continue", "codex"} {
		askedOnce(t, name, agentRepeats(t, name, failures, true))
	}
}

func askedOnce(t *testing.T, client string, repeated []string) {
	t.Helper()
	for row, was := range repeated {
		if was != "no" {
			t.Errorf("%s repeats at the endpoint after %q: %s", client, failures[row], was)
		}
	}
}

// front is the address that a client gets: the refuser's own, or that of a door with the refuser as its endpoint.
func front(t *testing.T, f *refuser, door bool) (url, token string) {
	t.Helper()
	web := httptest.NewServer(f)
	t.Cleanup(web.Close)
	if !door {
		return web.URL + "/v1", "none"
	}
	p, err := passthrough.New(passthrough.Options{Name: "sim", URL: web.URL + "/v1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return open(t, "", p, func(h http.Handler) http.Handler { return h })
}

// libraryRepeats lets a library ask all questions side by side.
func libraryRepeats(t *testing.T, library string, rows [][]string, door bool) []string {
	t.Helper()
	home, node := clientHome(t, library)
	text, err := os.ReadFile(filepath.Join("npm", "repeats.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(home, "drawbridge-repeats.mjs")
	if err := os.WriteFile(program, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &refuser{rows: rows, asked: map[int]int{}}
	url, token := front(t, f, door)
	args := []string{program, library, url, token}
	for row := range rows {
		args = append(args, f.question(row))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", library, err, out)
	}
	return f.said()
}

// agentRepeats starts a coding agent for each question, and ends it when the question comes again.
func agentRepeats(t *testing.T, name string, rows [][]string, door bool) []string {
	t.Helper()
	out := make([]string, len(rows))
	for row, cells := range rows {
		out[row] = "-"
		if !door && !runBy(name, cells) {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		f := &refuser{rows: rows, asked: map[int]int{}, again: cancel}
		url, token := front(t, f, door)
		said, err := agents[name].run(ctx, t, name, f.question(row), t.TempDir(), url, token)
		cancel()
		if out[row] = f.said()[row]; out[row] == "-" {
			t.Errorf("%s never asked: %v\n%s", name, err, said)
		}
	}
	return out
}
