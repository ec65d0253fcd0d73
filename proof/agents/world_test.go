//go:build deep

package agents_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"drawbridge/internal/freeport"
	"drawbridge/proof/gobuild"
	"drawbridge/relay/runner/keeper"
)

// patience bounds what happens by itself, on a machine that does much besides.
const patience = 2 * time.Minute

// tokenVariable is where the clients take the agent's token from.
const tokenVariable = "DRAWBRIDGE_AGENT_TOKEN"

// world is a bridge with the simulated cloud, on loopback and in a folder of its own.
type world struct {
	*testing.T
	dir, program, url, operator string
	log                         *output
	// crash kills the program that start started last, and waits until it is dead.
	crash func()
}

// output keeps what a program writes.
type output struct {
	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// agentsHome is where scripts/agents.sh put the agents; a test that needs one which is not there is left out.
func agentsHome(t *testing.T, name string) string {
	t.Helper()
	home := os.Getenv("DRAWBRIDGE_AGENTS")
	if home == "" || !slices.Contains(strings.Fields(os.Getenv("DRAWBRIDGE_AGENT_NAMES")), name) {
		t.Skip("SKIPPED: no CLI agent is installed; run scripts/agents.sh, or make agents")
	}
	return filepath.Join(home, name, "node_modules")
}

// build builds the program once.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "drawbridge-agents")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "drawbridge"), gobuild.Into(dir, "", "drawbridge/cmd/drawbridge")
})

func TestMain(m *testing.M) {
	keeper.Main()
	code := m.Run()
	if os.Getenv("DRAWBRIDGE_AGENTS") != "" {
		for _, b := range []func() (string, error){build, buildRelay} {
			if program, err := b(); err == nil {
				_ = os.RemoveAll(filepath.Dir(program))
			}
		}
	}
	os.Exit(code)
}

const allowlist = `repos: [github.com/me/my-app, github.com/me/agent-env]
actions: { backup: {} }
`

// newWorld starts the cloud and the bridge and launches the agent main.
func newWorld(t *testing.T) *world {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	port, release, err := freeport.Hold()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: t.TempDir(), program: program, url: "http://127.0.0.1:" + port, operator: rand.Text() + rand.Text()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the bridge's log, but for its info lines:\n%s", regexp.MustCompile(`(?m)^\{"level":"info".*\n`).ReplaceAllString(w.log.String(), ""))
		}
		_ = release()
	})
	cloud, _ := w.start(regexp.MustCompile(`cloudsim ready (\S+)`), "cloudsim", "--listen", "127.0.0.1:0")
	w.write("workspace/plan.txt", "one, two")
	w.write("bridge.token", w.operator)
	w.write("bridge.key", rand.Text()+rand.Text())
	w.write("cursor.key", "cursor_sim_key")
	w.write("allowlist.yaml", allowlist)
	w.write("bridge.yaml", fmt.Sprintf(`listen: 127.0.0.1:%s
token: ${file:bridge.token}
key: ${file:bridge.key}
cursor: { key: "${file:cursor.key}", url: %q }
poll: { min: 100ms, max: 400ms }
log: { level: info }
orchestrators:
  - { name: main, repo: github.com/me/agent-env, workspace: %q, toolsets: [bridge, team, threads, channels, memory] }
`, port, cloud[1], filepath.Join(w.dir, "workspace")))
	_, w.log = w.start(regexp.MustCompile(`"message":"ready"`), "serve", "--config", filepath.Join(w.dir, "bridge.yaml"))
	w.cli("launch", "github.com/me/agent-env", "Begin.")
	return w
}

func (w *world) write(name, text string) string {
	w.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return path
}

// start starts the program, waits until it writes what ready finds, and ends it with the test.
func (w *world) start(ready *regexp.Regexp, args ...string) ([]string, *output) {
	w.Helper()
	out := &output{}
	cmd := exec.Command(w.program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, out, out
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	w.crash = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	w.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	look, limit := time.NewTicker(20*time.Millisecond), time.After(patience)
	defer look.Stop()
	for {
		if m := ready.FindStringSubmatch(out.String()); m != nil {
			return m, out
		}
		select {
		case <-look.C:
		case <-ended:
			w.Fatalf("%q ended: %s", args, out)
		case <-limit:
			w.Fatalf("%q is not ready: %s", args, out)
		}
	}
}

// cli runs a command of the program as the operator.
func (w *world) cli(args ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.program, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = w.dir, &stderr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "DRAWBRIDGE_URL=" + w.url, "DRAWBRIDGE_TOKEN=" + w.operator}
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("drawbridge %q: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

// home is a bare home of one client, with a project in it.
type home struct {
	*world
	dir, project string
	// env is added to the environment, which is empty but for PATH, HOME and TERM.
	env []string
}

func (w *world) newHome() *home {
	w.Helper()
	h := &home{world: w, dir: w.TempDir()}
	h.project = filepath.Join(h.dir, "project")
	if err := os.MkdirAll(h.project, 0o700); err != nil {
		w.Fatal(err)
	}
	return h
}

// put writes a file below the home.
func (h *home) put(name, text string) {
	h.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(h.recorded(text)), 0o600); err != nil {
		h.Fatal(err)
	}
}

// run runs a client in its project and returns what it wrote. The whole group ends with it: a client may leave a server behind.
func (h *home) run(program string, args ...string) (stdout, all string, err error) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, both bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = h.project, &out, &both
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "TERM=dumb", "NO_COLOR=1"}, h.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return out.String(), out.String() + both.String(), err
}

// program finds the program of an agent; some are wrapped in scripts that need the install script that was not run.
func program(t *testing.T, modules, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(modules, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Skip("SKIPPED: the package has no program for this platform")
	}
	return found[0]
}

// bearer sends a token with every request.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// asMain calls a tool as the agent main and reads one text of its answer.
func (w *world) asMain(tool string, args map[string]any, key string) string {
	w.Helper()
	token := strings.TrimSpace(w.cli("token", "main"))
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(w.Context(), &mcp.StreamableClientTransport{Endpoint: w.url + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err != nil {
		w.Fatal(err)
	}
	defer s.Close()
	r, err := s.CallTool(w.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil || r.IsError {
		w.Fatalf("%s: %v %+v", tool, err, r)
	}
	var out map[string]any
	data, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	text, ok := out[key].(string)
	if err != nil || !ok {
		w.Fatalf("%s answers %s (%v)", tool, data, err)
	}
	return text
}
