//go:build deep

package clients_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/httpx"
	"drawbridge/openai"
	"drawbridge/openai/upstream"
	"drawbridge/store"
	"drawbridge/store/callers"
)

// patience bounds one client, on a machine that does much besides.
const patience = 3 * time.Minute

// script is a backend that answers by the caller's newest words, and waits for results of tools. Safe for concurrent use.
type script struct {
	mu sync.Mutex
	// busy counts how often a text was refused for a while.
	busy map[string]int
	// asked are the newest words of the turns, in order.
	asked []string
	// commented has a word when the door wrote a comment, and passed when bytes of an answer came to a client's end of the wire, or were cut.
	commented, passed chan struct{}
}

// tell says on a channel that something happened, to whoever waits for it.
func tell(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *script) Models(context.Context) ([]upstream.Model, error) {
	return []upstream.Model{{ID: "scripted", Context: 32768}}, nil
}

func (s *script) Resume(context.Context, upstream.Request, string) (upstream.Turn, error) {
	return nil, &upstream.Error{Message: "the script keeps nothing"}
}

// commandIn is the argument that holds the command.
func commandIn(shell string) string {
	if shell == "exec_command" { // Codex's
		return "cmd"
	}
	return "command"
}

// shells are what clients call the tool that runs a command.
var shells = []string{"bash", "Bash", "shell", "execute_command", "run_terminal_command", "run_commands", "exec_command"}

func shellOf(tools []upstream.Tool) string {
	for _, t := range tools {
		if slices.Contains(shells, t.Name) {
			return t.Name
		}
	}
	return ""
}

func (s *script) Start(_ context.Context, r upstream.Request) (upstream.Turn, error) {
	words := newest(r.Messages)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, words)
	t := &turn{script: s, results: make(chan []upstream.Result, 1), over: make(chan struct{})}
	n := func(v int64) *int64 { return &v }
	end := upstream.Event{Kind: upstream.Ended, Finish: "stop", Usage: &upstream.Usage{Prompt: n(11), Completion: n(7), Total: n(18), Cached: n(3), Reasoning: n(0)}}
	text := func(all ...string) {
		for _, piece := range all {
			t.events = append(t.events, upstream.Event{Kind: upstream.Text, Text: piece})
		}
		t.events = append(t.events, end)
	}
	call := func(name string, commands ...string) {
		for i, c := range commands {
			arguments, _ := json.Marshal(map[string]string{commandIn(name): c, "description": "Says hello"})
			half := len(arguments) / 2
			t.events = append(t.events, upstream.Event{Kind: upstream.CallPiece, Index: i, ID: fmt.Sprint("up-", i), Name: name, Arguments: string(arguments[:half])},
				upstream.Event{Kind: upstream.CallPiece, Index: i, Arguments: string(arguments[half:])})
		}
		t.events = append(t.events, upstream.Event{Kind: upstream.Parked, Usage: end.Usage}, upstream.Event{Kind: upstream.Text, Text: "(results)"}, end)
	}
	switch shell := shellOf(r.Tools); {
	case strings.Contains(words, "Call two tools"):
		call("bash", "ls", "pwd")
	case strings.Contains(words, "Use your shell") && shell != "":
		call(shell, "echo drawbridge-was-here > proof.txt; echo the-shell-ran")
	case strings.HasPrefix(words, "Count at once to "):
		text("One, ", "two, ", strings.TrimPrefix(words, "Count at once to "))
	case strings.HasPrefix(words, "Count to "):
		text("(passed)", "One, ", "(passed)", "two, ", "(passed)", strings.TrimPrefix(words, "Count to "))
	case strings.Contains(words, "Be slow"):
		text("(commented)", "Here I am")
	case strings.Contains(words, "Be cut off"):
		t.events = append(t.events, upstream.Event{Kind: upstream.Text, Text: "half"})
	case strings.Contains(words, "Think first"):
		t.events = append(t.events, upstream.Event{Kind: upstream.Reasoning, Text: "Let me see."})
		text("Done")
	case strings.Contains(words, "Be busy once"):
		if s.busy == nil {
			s.busy = map[string]int{}
		}
		if s.busy[words]++; s.busy[words] == 1 {
			return nil, &upstream.Error{Status: 429, Message: "busy", RetryAfter: time.Second, NothingHappened: true}
		}
		text("Now")
	case strings.Contains(words, "Fail in the middle"):
		return nil, &upstream.Error{Status: 500, Message: "it may have begun", Said: "500 Internal Server Error: overloaded, please try again later"}
	case strings.Contains(words, "Which session?"):
		text(fmt.Sprintf("Session %s, new from %d", r.Session, r.New))
	default:
		text("Hello", "! How can I assist", " you today?")
	}
	return t, nil
}

// newest is the newest text of the user.
func newest(messages []upstream.Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "user" {
			return messages[i].Text
		}
	}
	return ""
}

type turn struct {
	script  *script
	events  []upstream.Event
	waits   bool
	said    []string
	results chan []upstream.Result
	over    chan struct{}
	end     sync.Once
}

func (*turn) Ref() string { return "" }

func (t *turn) Next(ctx context.Context) (upstream.Event, error) {
	if t.waits {
		select {
		case got := <-t.results:
			slices.SortFunc(got, func(a, b upstream.Result) int { return strings.Compare(a.CallID, b.CallID) })
			for _, r := range got {
				t.said = append(t.said, strings.TrimSpace(r.Text))
			}
			t.waits = false
		case <-t.over:
			return upstream.Event{}, &upstream.Error{Message: "cancelled"}
		case <-ctx.Done():
			return upstream.Event{}, ctx.Err()
		}
	}
	if len(t.events) == 0 {
		return upstream.Event{}, &upstream.Error{Status: 500, Message: "the backend ended in the middle"}
	}
	e := t.events[0]
	t.events = t.events[1:]
	switch {
	case e.Text == "(commented)", e.Text == "(passed)":
		wait := t.script.commented
		if e.Text == "(passed)" {
			wait = t.script.passed
		}
		select {
		case <-wait:
		case <-ctx.Done():
		}
		return t.Next(ctx)
	case e.Text == "(results)":
		e.Text = "The tools said " + strings.Join(t.said, ", ")
	case e.Kind == upstream.Parked:
		t.waits = true
	}
	return e, nil
}

func (t *turn) Deliver(_ context.Context, r []upstream.Result) error {
	t.results <- r
	return nil
}

func (t *turn) Cancel(context.Context) error {
	t.end.Do(func() { close(t.over) })
	return nil
}

// serve opens a door with the script behind it, and returns its address and a token. proxy is the address that its clients use, "" for its own.
func serve(t *testing.T, proxy string) (s *script, url, token string) {
	t.Helper()
	s = &script{commented: make(chan struct{}), passed: make(chan struct{}, 1)}
	url, token = open(t, proxy, s, s.listening)
	return s, url, token
}

// open opens a door with a backend behind it.
func open(t *testing.T, proxy string, behind upstream.Upstream, wrap func(http.Handler) http.Handler) (url, token string) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "drawbridge.db"))
	if err != nil {
		t.Fatal(err)
	}
	records := callers.New(db)
	door, err := openai.New(openai.Options{Records: records, Backends: []openai.Backend{{Name: "behind", Upstream: behind}}, Alone: true, URL: proxy})
	if err != nil {
		t.Fatal(err)
	}
	web, err := httpx.Listen(t.Context(), httpx.ServerOptions{Addr: "127.0.0.1:0", Handler: recording(t, wrap(door.Handler())), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- door.Run(ctx) }()
	go func() { ended <- web.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	token, _, err = openai.Keyring{Records: records}.Mint(t.Context(), openai.Token{Name: "client", Models: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + web.Addr().String() + "/v1", token
}

// listening tells the script of comments that a door writes.
func (s *script) listening(door http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { door.ServeHTTP(listener{w, s}, r) })
}

type listener struct {
	http.ResponseWriter
	script *script
}

func (l listener) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l listener) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte(": ")) {
		defer tell(l.script.commented)
	}
	return l.ResponseWriter.Write(p)
}

// recording writes the bodies of requests into the folder DRAWBRIDGE_RECORD, when there is one, for proof/wires.
func recording(t *testing.T, next http.Handler) http.Handler {
	dir := os.Getenv("DRAWBRIDGE_RECORD")
	if dir == "" {
		return next
	}
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		f, err := os.OpenFile(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "_")+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil && len(body) > 0 {
			_, err = f.Write(append(bytes.ReplaceAll(body, []byte("\n"), nil), '\n'))
			_ = f.Close()
		}
		mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		next.ServeHTTP(w, r)
	})
}

// clientHome is where scripts/clients.sh put a client; a test whose client is not there is left out.
func clientHome(t *testing.T, name string) (home, node string) {
	t.Helper()
	root := os.Getenv("DRAWBRIDGE_CLIENTS")
	if root == "" || !slices.Contains(strings.Fields(os.Getenv("DRAWBRIDGE_CLIENT_NAMES")), name) {
		t.Skip("SKIPPED: no client of the OpenAI-compatible door is installed; run scripts/clients.sh, or make clients")
	}
	node = os.Getenv("DRAWBRIDGE_NODE")
	if node == "" {
		node = "node"
	}
	return filepath.Join(root, name), node
}

// libraries are the clients from npm that are no programs of their own.
var libraries = []string{"openai", "aisdk", "langchain"}

// program is a program of the folder npm that calls a library. It ends when the test does, or after patience.
func program(t *testing.T, library, name string, args ...string) *exec.Cmd {
	t.Helper()
	home, node := clientHome(t, library)
	dir, err := os.MkdirTemp(home, "program-") // node looks for packages in the folders above the program
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(func() {
		cancel()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for _, file := range []string{"check.mjs", name} {
		text, err := os.ReadFile(filepath.Join("npm", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(dir, name)}, args...)...)
	own := t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + own, "XDG_CONFIG_HOME=" + own, "TMPDIR=" + own}
	return cmd
}

// TestLibraries: each library from npm plays the items that it can play, and says itself what was wrong.
func TestLibraries(t *testing.T) {
	t.Parallel()
	for _, name := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url, token := serve(t, "")
			out, err := program(t, name, name+".mjs", url, token).CombinedOutput()
			passed := regexp.MustCompile(`(?m)^item \d+ ok$`).FindAllString(string(out), -1)
			if err != nil || len(passed) < 5 {
				t.Errorf("%v after %d items:\n%s", err, len(passed), out)
			}
			t.Logf("%s: %d items played", name, len(passed))
		})
	}
}

// agent is a coding agent from npm with a question on its command line.
type agent struct {
	// program may hold a * for the platform. The question stands behind args.
	program string
	args    []string
	// files are its configuration, below its home; %s is the door's address, then the token.
	files map[string]string
	env   []string
}

const question = "Use your shell"

var agents = map[string]agent{
	"opencode": {program: "node_modules/opencode-*/bin/opencode", args: []string{"run", "--model", "drawbridge/scripted"},
		files: map[string]string{".config/opencode/opencode.json": `{"provider":{"drawbridge":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":%q,"apiKey":%q},"models":{"scripted":{"name":"scripted"}}}},"permission":{"bash":"allow"},"autoupdate":false,"share":"disabled"}`},
		env:   []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"}},
	"continue": {program: "node_modules/.bin/cn", args: []string{"--auto", "-p"},
		files: map[string]string{".continue/config.yaml": "name: drawbridge\nversion: 0.0.1\nschema: v1\nmodels:\n  - name: scripted\n    provider: openai\n    model: scripted\n    apiBase: %s\n    apiKey: %s\n    capabilities: [tool_use]\n"},
		env:   []string{"CONTINUE_TELEMETRY_ENABLED=0"}},
	"codex": {program: "node_modules/@openai/codex-*/vendor/*/bin/codex", args: []string{"exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"},
		files: map[string]string{".codex/config.toml": "model = \"scripted\"\nmodel_provider = \"drawbridge\"\n[model_providers.drawbridge]\nname = \"Drawbridge\"\nbase_url = %q\nwire_api = \"responses\"\nexperimental_bearer_token = %q\n"}},
}

// run lets an unmodified coding agent ask its model a question in a folder, with url as the model's endpoint. It ends with ctx.
func (a agent) run(ctx context.Context, t *testing.T, name, question, work, url, token string) (out []byte, err error) {
	t.Helper()
	dir, node := clientHome(t, name)
	programs, err := filepath.Glob(filepath.Join(dir, a.program))
	if err != nil || len(programs) == 0 {
		t.Fatalf("%s is not in %s: %v", a.program, dir, err)
	}
	home := t.TempDir()
	for file, text := range a.files {
		at := filepath.Join(home, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, fmt.Appendf(nil, text, url, token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs[0], append(slices.Clone(a.args), question)...)
	cmd.Dir = work
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append([]string{"PATH=" + filepath.Dir(node) + ":" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), "CI=1", "TERM=dumb"}, a.env...)
	return cmd.CombinedOutput()
}

// TestCodingAgents: an unmodified coding agent takes the door for its model's endpoint, runs the tool that the backend asked for on its
// own machine, and the result reaches the turn that waited. Nothing is begun twice.
func TestCodingAgents(t *testing.T) {
	t.Parallel()
	for name, a := range agents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clientHome(t, name)
			work := t.TempDir()
			s, url, token := serve(t, "")
			out, err := a.run(t.Context(), t, name, question, work, url, token)
			ran(t, work, out, err)
			s.mu.Lock()
			defer s.mu.Unlock()
			if t.Failed() {
				t.Logf("the backend was asked: %q", s.asked)
			}
		})
	}
}

// ran reports whether the shell of a coding agent ran what it was asked for.
func ran(t *testing.T, work string, out []byte, err error) {
	t.Helper()
	proof, readErr := os.ReadFile(filepath.Join(work, "proof.txt"))
	if err != nil || readErr != nil || strings.TrimSpace(string(proof)) != "drawbridge-was-here" || !strings.Contains(string(out), "the-shell-ran") {
		t.Errorf("%v, %v\n%s", err, readErr, out)
	}
}
