package agent_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"drawbridge/internal/pause"
	"drawbridge/openai/cursor"
	"drawbridge/openai/cursor/agent"
	"drawbridge/openai/cursor/agentsim"
	"drawbridge/proof/pipes"
	"drawbridge/proof/tooltable"
)

func TestMain(m *testing.M) {
	if os.Getenv("AGENT_TEST_SERVER") != "" {
		serveTools()
		return
	}
	goleak.VerifyTestMain(m)
}

// serveTools is an MCP server with two tools.
func serveTools() {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	type words struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "shout", Description: "Shouts"}, func(_ context.Context, _ *mcp.CallToolRequest, q words) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.ToUpper(q.Text)}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail", Description: "Fails"}, func(context.Context, *mcp.CallToolRequest, words) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "it broke " + os.Getenv("WITH")}}}, nil, nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{}) // it ends when the agent closes the pipe
}

// world is an agent between a client and the stand-in of the service, in a folder of files.
type world struct {
	t     *testing.T
	sim   *agentsim.Sim
	o     agent.Options
	dir   string
	conn  *acp.ClientSideConnection
	hang  func()
	id    acp.SessionId
	allow func(acp.ToolCallUpdate) bool
	// hold keeps questions open until it is closed; nil keeps none.
	hold chan struct{}

	mu    sync.Mutex // guards what follows
	text  strings.Builder
	asked []string
	shown []string
	tools map[acp.ToolCallId]string
}

// begin starts an agent, and opens a session in a folder with these files. WORK in the script is the folder.
func begin(t *testing.T, script string, files map[string]string, servers ...acp.McpServer) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, tools: map[acp.ToolCallId]string{}}
	if err := (tooltable.Table{Files: files}).Put(dir); err != nil {
		t.Fatal(err)
	}
	s, err := agentsim.Parse([]byte(strings.ReplaceAll(script, "WORK", dir)))
	if err != nil {
		t.Fatal(err)
	}
	w.sim = agentsim.New(agentsim.Options{Script: s, Strict: true})
	lines := pipes.New()
	server := &http.Server{Handler: w.sim, ReadHeaderTimeout: time.Hour}
	served := make(chan error, 1)
	go func() { served <- server.Serve(lines) }()
	c, err := cursor.New(cursor.Options{Name: "test", Settings: cursor.Settings{Model: "--model"}, URL: "http://127.0.0.1:1", Dial: lines.Dial, Key: agentsim.DefaultKey, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	w.o = agent.Options{Client: c, Model: "composer-2", State: t.TempDir(), Version: "test", Env: []string{"PATH=" + os.Getenv("PATH"), "HERE=yes"}, Log: zerolog.Nop()}
	w.connect()
	t.Cleanup(func() {
		w.hang()
		c.Close()
		_ = server.Close() // it has no more to say
		<-served
		for _, wrong := range w.sim.Wrong() {
			t.Errorf("the stand-in reports: %s", wrong)
		}
	})
	got, err := w.conn.NewSession(t.Context(), acp.NewSessionRequest{Cwd: dir, McpServers: append([]acp.McpServer{}, servers...)})
	if err != nil {
		t.Fatal(err)
	}
	w.id = got.SessionId
	return w
}

// connect starts the agent's process, as far as it is one here.
func (w *world) connect() {
	w.t.Helper()
	in, toAgent := io.Pipe()
	fromAgent, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := agent.Serve(context.Background(), w.o, in, out)
		_ = out.Close()
		served <- err
	}()
	w.conn = acp.NewClientSideConnection(w, toAgent, fromAgent)
	w.hang = sync.OnceFunc(func() {
		_ = toAgent.Close()
		if err := <-served; err != nil {
			w.t.Error(err)
		}
	})
	got, err := w.conn.Initialize(w.t.Context(), acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber})
	if err != nil || !got.AgentCapabilities.LoadSession {
		w.t.Fatal(got, err)
	}
}

// say gives the agent a turn, and returns what it said and why it stopped.
func (w *world) say(text string) (string, acp.StopReason) {
	w.t.Helper()
	w.mu.Lock()
	w.text.Reset()
	w.mu.Unlock()
	got, err := w.conn.Prompt(w.t.Context(), acp.PromptRequest{SessionId: w.id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.t.Fatalf("%v behind %q", err, w.text.String())
	}
	return w.text.String(), got.StopReason
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// await waits for a file that a command writes, and returns what is in it.
func (w *world) await(file string) (text string) {
	w.t.Helper()
	w.until(func() bool {
		data, err := os.ReadFile(filepath.Join(w.dir, file))
		text = strings.TrimSpace(string(data))
		return err == nil && text != ""
	}, file+" is not written")
	return text
}

// gone waits for the end of the process whose number is in a file.
func (w *world) gone(file string) {
	w.t.Helper()
	pid, err := strconv.Atoi(w.await(file))
	if err != nil {
		w.t.Fatal(err)
	}
	w.until(func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, "the command lives on")
}

// until waits a minute at most.
func (w *world) until(is func() bool, otherwise string) {
	w.t.Helper()
	for range 600 {
		if is() {
			return
		}
		if err := pause.For(w.t.Context(), 100*time.Millisecond); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Fatal(otherwise)
}

// questions are what the agent asked, each as its kind, title and arguments, and forgets them.
func (w *world) questions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

// RequestPermission implements [acp.Client].
func (w *world) RequestPermission(_ context.Context, q acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := string(*q.ToolCall.Kind) + " " + *q.ToolCall.Title
	if args, is := q.ToolCall.RawInput.(map[string]any); is {
		for _, key := range slices.Sorted(maps.Keys(args)) {
			text += " " + key + "=" + args[key].(string)
		}
	}
	w.asked = append(w.asked, strings.ReplaceAll(text, w.dir, "WORK"))
	if w.hold != nil {
		w.mu.Unlock()
		<-w.hold
		w.mu.Lock()
	}
	answer := acp.PermissionOptionKindAllowOnce
	if w.allow != nil && !w.allow(q.ToolCall) {
		answer = acp.PermissionOptionKindRejectOnce
	}
	for _, o := range q.Options {
		if o.Kind == answer {
			return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(o.OptionId)}, nil
		}
	}
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}, nil
}

// SessionUpdate implements [acp.Client].
func (w *world) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch u := n.Update; {
	case u.AgentMessageChunk != nil:
		w.text.WriteString(u.AgentMessageChunk.Content.Text.Text)
		w.shown = append(w.shown, "said")
	case u.UserMessageChunk != nil:
		w.shown = append(w.shown, "user: "+u.UserMessageChunk.Content.Text.Text)
	case u.ToolCall != nil:
		w.tools[u.ToolCall.ToolCallId] = u.ToolCall.Title
		w.shown = append(w.shown, u.ToolCall.Title+" "+string(u.ToolCall.Status))
	case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
		w.shown = append(w.shown, w.tools[u.ToolCallUpdate.ToolCallId]+" "+string(*u.ToolCallUpdate.Status))
	}
	return nil
}

// The agent has no use for the files and terminals of its client.

func (*world) ReadTextFile(context.Context, acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	return acp.ReadTextFileResponse{}, acp.NewMethodNotFound("fs/read_text_file")
}

func (*world) WriteTextFile(context.Context, acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	return acp.WriteTextFileResponse{}, acp.NewMethodNotFound("fs/write_text_file")
}

func (*world) CreateTerminal(context.Context, acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.CreateTerminalResponse{}, acp.NewMethodNotFound("terminal/create")
}

func (*world) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	return acp.KillTerminalResponse{}, acp.NewMethodNotFound("terminal/kill")
}

func (*world) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{}, acp.NewMethodNotFound("terminal/output")
}

func (*world) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	return acp.ReleaseTerminalResponse{}, acp.NewMethodNotFound("terminal/release")
}

func (*world) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{}, acp.NewMethodNotFound("terminal/wait_for_exit")
}
