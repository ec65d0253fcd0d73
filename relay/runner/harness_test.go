package runner_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"drawbridge/relay/runner"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

const token = "0123456789abcdef0123456789abcdef-test"

func TestMain(m *testing.M) {
	keeper.Main()
	if os.Getenv("RELAY_MAIN") != "" {
		os.Exit(relayMain())
	}
	// Temporary folders of a process with a lax umask would be refused.
	syscall.Umask(0o077)
	goleak.VerifyTestMain(m)
}

func noEnv(string) (string, bool) { return "", false }

// write puts text into a new file that only we can write.
func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// load reads a relay.yaml of the given actions on a port of the system's choice.
func load(t *testing.T, actions string) settings.Config {
	t.Helper()
	text := "listen: 127.0.0.1:0\ntoken: " + token + "\n" + actions
	config, err := settings.Load(write(t, filepath.Join(t.TempDir(), "relay.yaml"), text, 0o600), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// shell is an action that runs a script, for tests only.
func shell(id, script string, settings ...string) string {
	quoted, _ := json.Marshal(script)
	action := "  " + id + ": { argv: [/bin/sh, -c, " + string(quoted) + "], i_know: true"
	for _, setting := range settings {
		action += ", " + setting
	}
	return action + " }\n"
}

// testRelay is a relay that serves until the test ends or stop is called.
type testRelay struct {
	t    *testing.T
	addr string
	log  *strings.Builder
	stop func()
}

// newPool is a pool that is closed after everything that the test starts later.
func newPool(t *testing.T, cgroups bool) *keeper.Pool {
	t.Helper()
	pool, err := keeper.NewPool(cgroups)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func serve(t *testing.T, o runner.Options) testRelay {
	t.Helper()
	var log strings.Builder
	o.Log = zerolog.New(zerolog.SyncWriter(&log))
	if o.Executor == nil {
		o.Executor = newPool(t, true)
	}
	relay, err := runner.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- relay.Serve(ctx) }()
	stopped := false
	stop := func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return testRelay{t: t, addr: relay.Addr(), log: &log, stop: stop}
}

func serveActions(t *testing.T, actions string) testRelay {
	t.Helper()
	return serve(t, runner.Options{Config: load(t, "actions:\n"+actions)})
}

// call is one request; the zero fields mean what a good client sends.
type call struct {
	method, path, body string
	header             http.Header
	host               string
}

type result struct {
	status int
	header http.Header
	answer wire.Answer
	body   string
}

func (r testRelay) do(ctx context.Context, c call) (result, error) {
	if c.method == "" {
		c.method = http.MethodPost
	}
	if c.path == "" {
		c.path = wire.RunPath
	}
	req, err := http.NewRequestWithContext(ctx, c.method, "http://"+r.addr+c.path, strings.NewReader(c.body))
	if err != nil {
		return result{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Host = c.host
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(req)
	if err != nil {
		return result{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return result{}, err
	}
	out := result{status: response.StatusCode, header: response.Header, body: string(body)}
	return out, json.Unmarshal(body, &out.answer)
}

func (r testRelay) call(c call) result {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	out, err := r.do(ctx, c)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// run asks for an action under a request id, or under none.
func (r testRelay) run(action, id string) result {
	r.t.Helper()
	return r.call(runCall(action, id))
}

func runCall(action, id string) call {
	body, _ := json.Marshal(wire.Body{Action: action})
	c := call{body: string(body), header: http.Header{}}
	if id != "" {
		c.header.Set(wire.RequestIDHeader, id)
	}
	return c
}

// fifo makes a named pipe, by which a test and an action wait for each other.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// watched is a pipe that an action holds open for writing.
type watched struct {
	path string
	// begun is closed when a first line was written, gone when nobody holds the pipe any more.
	begun, gone chan struct{}
}

func watch(t *testing.T) watched {
	t.Helper()
	w := watched{path: fifo(t), begun: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(w.gone)
		pipe, err := os.Open(w.path)
		if err != nil {
			t.Errorf("open pipe: %v", err)
			return
		}
		defer pipe.Close()
		lines := bufio.NewReader(pipe)
		if _, err := lines.ReadString('\n'); err != nil {
			t.Errorf("read pipe: %v", err)
		}
		close(w.begun)
		_, _ = io.Copy(io.Discard, lines)
	}()
	return w
}

// relayMain is this test binary as a relay process.
func relayMain() int {
	if most, err := strconv.ParseUint(os.Getenv("RELAY_FILE_SIZE"), 10, 64); err == nil {
		// Files that may not grow stand for a full disk; the signal would end the process before the error shows.
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := runner.Main(ctx, runner.MainOptions{ConfigPath: os.Getenv("RELAY_MAIN"), Env: os.LookupEnv, Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func chmod(name string, mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, name), mode)) }
}
