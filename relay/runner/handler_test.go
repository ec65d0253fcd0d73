package runner_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/runner"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

const hello = "  hello: { argv: [/bin/echo, hi] }\n"

func TestRefusals(t *testing.T) {
	t.Parallel()
	relay := serveActions(t, hello)
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
		}
		return h
	}
	good := `{"action":"hello"}`
	tests := []struct {
		name   string
		call   call
		status int
		says   string
	}{
		{"other host", call{body: good, host: "evil.example"}, 403, "Host"},
		{"other fetch metadata", call{body: good, header: header("Sec-Fetch-Storage-Access", "x")}, 403, "web page"},
		{"web page on health", call{method: "GET", path: "/health", header: header("Origin", "x")}, 403, "web page"},
		{"no token", call{body: good, header: header("Authorization", "")}, 401, "token"},
		{"wrong token", call{body: good, header: header("Authorization", "Bearer "+token+"x")}, 401, "token"},
		{"token prefix", call{body: good, header: header("Authorization", "Bearer "+token[:35])}, 401, "token"},
		{"other scheme", call{body: good, header: header("Authorization", "Basic "+token)}, 401, "token"},
		{"two tokens", call{body: good, header: header("Authorization", "Bearer "+token, "Authorization", "Bearer "+token)}, 401, "token"},
		{"options", call{method: "OPTIONS"}, 405, "POST"},
		{"put", call{method: "PUT", body: good}, 405, "POST"},
		{"post to health", call{path: "/health", body: good}, 405, "GET"},
		{"other path", call{path: "/", body: good}, 404, "/run"},
		{"doubled slash", call{path: "//run", body: good}, 404, "/run"},
		{"dots", call{path: "/x/../run", body: good}, 404, "/run"},
		{"trailing slash", call{path: "/run/", body: good}, 404, "/run"},
		{"encoded path", call{path: "/%72un", body: good}, 404, "/run"},
		{"two content types", call{body: good, header: header("Content-Type", "application/json", "Content-Type", "text/plain")}, 415, "json"},
		{"compressed", call{body: good, header: header("Content-Encoding", "gzip")}, 415, "Content-Encoding"},
		{"large", call{body: `{"action":"` + strings.Repeat("a", 4096) + `"}`}, 413, "4 KiB"},
		{"empty body", call{}, 400, "body"},
		{"null", call{body: `null`}, 400, "missing"},
		{"no action", call{body: `{}`}, 400, "missing"},
		{"empty action", call{body: `{"action":""}`}, 400, "missing"},
		{"action of another type", call{body: `{"action":["hello"]}`}, 400, "body"},
		{"case variant", call{body: `{"Action":"hello"}`}, 400, "unknown key"},
		{"duplicate", call{body: `{"action":"hello","action":"hello"}`}, 400, "repeated"},
		{"duplicate in another case", call{body: `{"action":"hello","ACTION":"hello"}`}, 400, "repeated"},
		{"argument", call{body: `{"action":"hello","args":["x"]}`}, 400, "unknown key"},
		{"trailing data", call{body: good + good}, 400, "body"},
		{"long request id", call{body: good, header: header("Idempotency-Key", strings.Repeat("a", 129))}, 400, "Idempotency-Key"},
		{"request id with blank", call{body: good, header: header("Idempotency-Key", "a b")}, 400, "Idempotency-Key"},
		{"two request ids", call{body: good, header: header("Idempotency-Key", "a", "Idempotency-Key", "b")}, 400, "Idempotency-Key"},
		{"unknown action", call{body: `{"action":"rm"}`}, 403, `action "rm" is not on this relay's list`},
		{"argument in the id", call{body: `{"action":"hello --x"}`}, 403, `action "hello --x" is not on this relay's list`},
		{"case of the id", call{body: `{"action":"Hello"}`}, 403, "not on this relay's list"},
		{"blank after the id", call{body: `{"action":"hello "}`}, 403, "not on this relay's list"},
		{"path as id", call{body: `{"action":"../hello"}`}, 403, "not on this relay's list"},
		{"terminal escape in the id", call{body: `{"action":"\u001b[2J\u202e"}`}, 403, `action "\x1b[2J\u202e" is not`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := relay.call(tt.call)
			if got.status != tt.status || got.answer.Status != wire.StatusRefused || !strings.Contains(got.answer.Error, tt.says) {
				t.Errorf("HTTP %d %s, want %d with %q", got.status, got.body, tt.status, tt.says)
			}
			if got.answer.ExitCode != wire.NoExitCode || got.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("answer %s, header %v", got.body, got.header)
			}
			if tt.status == 405 && got.header.Get("Allow") != tt.says {
				t.Errorf("Allow: %q", got.header.Get("Allow"))
			}
		})
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	relay := serveActions(t, hello)
	got := relay.call(call{method: "GET", path: "/health", header: http.Header{"Authorization": {""}}})
	if got.status != 200 || got.body != "{\"ok\":true}\n" {
		t.Errorf("HTTP %d %s", got.status, got.body)
	}
}

// One wide line a request, with everything that an operator needs and nothing that a log must not hold.
func TestLogLine(t *testing.T) {
	t.Parallel()
	relay := serveActions(t, shell("hello", "echo private-output; echo private-error >&2; exit 3"))
	relay.run("hello", "one")
	relay.stop()
	text := relay.log.String()
	var line map[string]any
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("log %q: %v", text, err)
	}
	for key, want := range map[string]any{
		"level": "info", "message": "request", "method": "POST", "path": "/run", "status": 200.0, "decision": "executed",
		"request": "one", "action": "hello", "exit_code": 3.0, "stdout_bytes": 15.0, "stderr_bytes": 14.0, "replayed": false,
	} {
		if diff := cmp.Diff(want, line[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	if strings.Contains(text, "private-") || strings.Contains(text, token) {
		t.Errorf("log %q", text)
	}
}

func TestSameRequestRunsOnce(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "trace")
	relay := serveActions(t, hello+shell("count", "echo x >>$TRACE; echo counted", "env: { TRACE: "+trace+" }"))
	var group sync.WaitGroup
	answers := make([]result, 8)
	for i := range answers {
		group.Go(func() { answers[i], _ = relay.do(t.Context(), runCall("count", "same")) })
	}
	group.Wait()
	fresh := 0
	for _, got := range answers {
		if got.status != 200 || got.answer.Stdout != "counted\n" {
			t.Errorf("HTTP %d %s", got.status, got.body)
		}
		if got.header.Get(wire.ReplayedHeader) == "" {
			fresh++
		}
	}
	if data, err := os.ReadFile(trace); err != nil || string(data) != "x\n" || fresh != 1 {
		t.Errorf("ran %q times, %d fresh answers, %v", data, fresh, err)
	}
	if got := relay.run("hello", "same"); got.status != 409 || got.answer.Status != wire.StatusRefused {
		t.Errorf("another action under the same id: HTTP %d %s", got.status, got.body)
	}
	relay.run("count", "other")
	relay.run("count", "")
	if data, err := os.ReadFile(trace); err != nil || string(data) != "x\nx\nx\n" {
		t.Errorf("ran %q times, %v", data, err)
	}
}

func TestOneRunOfAnActionAndBoundedQueue(t *testing.T) {
	t.Parallel()
	pipe := watch(t)
	release := fifo(t)
	trace := filepath.Join(t.TempDir(), "trace")
	config := load(t, "limits: { concurrent: 2, queue: 1 }\nactions:\n"+hello+
		shell("hold", "exec 3>$PIPE; echo begun >&3; cat $RELEASE; echo done >>$TRACE", "env: { PIPE: "+pipe.path+", RELEASE: "+release+", TRACE: "+trace+" }"))
	relay := serve(t, runner.Options{Config: config})
	var group sync.WaitGroup
	ask := func(action string) {
		group.Go(func() {
			if got, err := relay.do(t.Context(), runCall(action, "")); err != nil || got.answer.Status != wire.StatusExecuted {
				t.Errorf("%s: HTTP %d %s %v", action, got.status, got.body, err)
			}
		})
	}
	ask("hold")
	<-pipe.begun
	// A busy action does not hold up another one.
	if got := relay.run("hello", ""); got.answer.Status != wire.StatusExecuted {
		t.Errorf("beside a busy action: %s", got.body)
	}
	// Of two more, one waits and one is refused.
	waiting, leave := context.WithCancel(t.Context())
	type end struct {
		result
		err error
	}
	ends := make(chan end, 2)
	for range 2 {
		go func() {
			got, err := relay.do(waiting, runCall("hold", ""))
			ends <- end{got, err}
		}()
	}
	full := <-ends
	if full.err != nil || full.status != 503 || full.header.Get("Retry-After") == "" || full.answer.Status != wire.StatusRefused {
		t.Errorf("full queue: HTTP %d %v %s %v", full.status, full.header, full.body, full.err)
	}
	// Who leaves the queue is never run.
	leave()
	if abandoned := <-ends; abandoned.err == nil {
		t.Errorf("an abandoned request was answered: %s", abandoned.body)
	}
	free, err := os.OpenFile(release, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	group.Wait()
	relay.stop()
	if data, err := os.ReadFile(trace); err != nil || string(data) != "done\n" {
		t.Errorf("hold ran to its end %q, %v", data, err)
	}
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestPerMinute(t *testing.T) {
	t.Parallel()
	c := &clock{now: time.Now()}
	relay := serve(t, runner.Options{Config: load(t, "limits: { per_minute: 2 }\nactions:\n"+hello), Now: c.Now})
	expect := func(id string, status int, retry string) {
		t.Helper()
		if got := relay.run("hello", id); got.status != status || got.header.Get("Retry-After") != retry {
			t.Errorf("%s: HTTP %d, Retry-After %q, want %d, %q", id, got.status, got.header.Get("Retry-After"), status, retry)
		}
	}
	expect("a", 200, "")
	c.pass(20 * time.Second)
	expect("b", 200, "")
	expect("c", 429, "40")
	expect("a", 200, "")
	c.pass(39*time.Second + 500*time.Millisecond)
	expect("c", 429, "1")
	c.pass(time.Second)
	expect("c", 200, "")
	expect("d", 429, "20")
	if got := relay.run("rm", ""); got.status != 403 {
		t.Errorf("an unknown action over the rate: HTTP %d", got.status)
	}
}

// What waits is refused at once; what runs longer than the grace period is ended.
func TestStop(t *testing.T) {
	t.Parallel()
	pipe := watch(t)
	config := load(t, "limits: { queue: 1 }\nactions:\n"+
		shell("hold", "exec 3>$PIPE; echo some; echo begun >&3; exec sleep 300", "env: { PIPE: "+pipe.path+" }"))
	relay := serve(t, runner.Options{Config: config, Grace: 300 * time.Millisecond})
	ask := func(answers chan<- result, id string) {
		got, err := relay.do(t.Context(), runCall("hold", id))
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		answers <- got
	}
	running, others := make(chan result, 1), make(chan result, 2)
	go ask(running, "x")
	<-pipe.begun
	go ask(others, "y")
	go ask(others, "z")
	// One of the two waits as soon as the other one is refused.
	if full := <-others; full.status != http.StatusServiceUnavailable {
		t.Errorf("full queue: HTTP %d %s", full.status, full.body)
	}
	relay.stop()
	want := wire.Answer{
		Action: "hold", Status: wire.StatusFailed, ExitCode: wire.NoExitCode, Stdout: "some\n",
		Error: "ended because the relay is stopping",
	}
	if diff := cmp.Diff(want, (<-running).answer, ignoreDuration); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := <-others; got.status != http.StatusServiceUnavailable || got.answer.Error != "the relay is stopping" {
		t.Errorf("queued request: HTTP %d %s", got.status, got.body)
	}
	<-pipe.gone
}

func TestRunningActionFinishesWithinGrace(t *testing.T) {
	t.Parallel()
	pipe := watch(t)
	config := load(t, "actions:\n"+shell("short", "exec 3>$PIPE; echo begun >&3; sleep 0.5; echo finished", "env: { PIPE: "+pipe.path+" }"))
	relay := serve(t, runner.Options{Config: config, Grace: time.Minute})
	answers := make(chan result, 1)
	go func() {
		got, _ := relay.do(t.Context(), runCall("short", ""))
		answers <- got
	}()
	<-pipe.begun
	relay.stop()
	if got := <-answers; got.answer.Status != wire.StatusExecuted || got.answer.Stdout != "finished\n" {
		t.Errorf("HTTP %d %s", got.status, got.body)
	}
}

// A caller that hangs up does not leave half an action behind, and finds the whole result later.
func TestCallerLeavesRunningAction(t *testing.T) {
	t.Parallel()
	pipe := watch(t)
	relay := serveActions(t, shell("slow", "exec 3>$PIPE; echo begun >&3; sleep 0.5; echo finished", "env: { PIPE: "+pipe.path+" }"))
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = relay.do(ctx, runCall("slow", "x"))
	}()
	<-pipe.begun
	leave()
	<-left
	if got := relay.run("slow", "x"); got.answer.Stdout != "finished\n" || got.header.Get(wire.ReplayedHeader) != "true" {
		t.Errorf("HTTP %d %v %s", got.status, got.header, got.body)
	}
}

func TestTakenPortIsAnErrorAtStart(t *testing.T) {
	t.Parallel()
	relay := serveActions(t, hello)
	text := "listen: " + relay.addr + "\ntoken: " + token + "\nactions: {}\n"
	config, err := settings.Load(write(t, filepath.Join(t.TempDir(), "relay.yaml"), text, 0o600), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runner.Listen(t.Context(), runner.Options{Config: config}); err == nil {
		t.Error("a taken port was opened")
	}
	if _, err := runner.Listen(t.Context(), runner.Options{}); err == nil {
		t.Error("the zero Config was opened")
	}
}

// A body that is accepted is an object with one key, "action", and means the same to any reader.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{`{"action":"a"}`, `{"action":"a","Action":"b"}`, ` {"\u0061ction" : "x"} `, `{"action":null}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request, err := runner.DecodeRequest(body)
		if err != nil {
			return
		}
		var standard map[string]any
		if err := json.Unmarshal(body, &standard); err != nil {
			t.Fatal(err)
		}
		if len(standard) != 1 || standard["action"] != request.Action || request.Action == "" {
			t.Fatalf("%q read as %+v", body, request)
		}
	})
}
