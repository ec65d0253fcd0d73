package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/door"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/tunnel"
	"drawbridge/relay/wire"
)

func TestMain(m *testing.M) {
	if os.Getenv(door.WordVariable) != "" {
		os.Exit(pipe())
	}
	syscall.Umask(0o077)
	goleak.VerifyTestMain(m)
}

// pipe is drawbridge-relay mcp.
func pipe() int {
	if err := door.Pipe(context.Background(), door.Ends{Socket: os.Args[len(os.Args)-1], Word: os.Getenv(door.WordVariable), In: os.Stdin, Out: os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// world is a relay with sockets, and a bridge whose door is a server of the official SDK.
type world struct {
	testing.TB
	doors  *door.Doors
	client *tunnel.Client
	bridge *tunnel.Server
	detach func()
	// held gets the name of each call that waits, which free lets go; gone gets a value when one was ended from outside.
	held, gone chan struct{}
	free       chan struct{}
	release    func()
}

type noArgs struct{}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, client: &tunnel.Client{}, held: make(chan struct{}, 64), gone: make(chan struct{}, 64), free: make(chan struct{})}
	program, err := os.Executable()
	w.must(err)
	w.doors, err = door.New(door.Options{State: t.TempDir(), Program: program, Tunnel: w.client, Log: zerolog.Nop()})
	w.must(err)
	w.release = sync.OnceFunc(func() { close(w.free) })
	w.connect()
	t.Cleanup(func() { w.detach() })
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// connect is a new connection of the relay.
func (w *world) connect() {
	server := mcp.NewServer(&mcp.Implementation{Name: "bridge", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct{ Text string }) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "hold"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ noArgs) (*mcp.CallToolResult, any, error) {
		w.held <- struct{}{}
		select {
		case <-ctx.Done():
			w.gone <- struct{}{}
			return nil, nil, ctx.Err()
		case <-w.free:
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "free"}}}, nil, nil
		}
	})
	mcp.AddTool(server, &mcp.Tool{Name: "grow"}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(server, &mcp.Tool{Name: "new"}, func(context.Context, *mcp.CallToolRequest, noArgs) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "grown"}}}, nil, nil
	})
	of := func(*http.Request) *mcp.Server { return server }
	sessions := mcp.NewStreamableHTTPHandler(of, &mcp.StreamableHTTPOptions{DisableLocalhostProtection: true, PropagateRequestCancellation: true})
	alone := mcp.NewStreamableHTTPHandler(of, &mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true, PropagateRequestCancellation: true})
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
			alone.ServeHTTP(rw, r)
			return
		}
		sessions.ServeHTTP(rw, r)
	})
	bridge := &tunnel.Server{
		Relay: "laptop",
		Send: func(_ context.Context, f wire.Frame) error {
			w.client.Take(*f.MCPPart)
			return nil
		},
		Door: func(_ context.Context, session string) (http.Handler, error) {
			if session != "bc-1" {
				return nil, errors.New("another agent's session")
			}
			return handler, nil
		},
		Refuse: func(rw http.ResponseWriter, _ *http.Request, err error) {
			http.Error(rw, err.Error(), http.StatusForbidden)
		},
	}
	detach := w.client.Attach(func(ctx context.Context, f wire.Frame) error {
		if f.MCPCancel != nil {
			bridge.Cancel(f.MCPCancel.ID)
			return nil
		}
		return bridge.Take(ctx, *f.MCPCall)
	})
	w.bridge = bridge
	w.detach = sync.OnceFunc(func() {
		bridge.Close()
		detach()
		bridge.Wait()
	})
	w.Cleanup(func() {
		w.release() // a session waits for its calls
		for s := range server.Sessions() {
			_ = s.Close()
		}
	})
}

// open makes the socket of a process, until the test or the returned function ends it.
func (w *world) open(session string) (acp.MCPServer, func()) {
	w.Helper()
	servers, end, err := w.doors.Open(w.Context(), turns.Work{Agent: "opencode", Session: session})
	w.must(err)
	end = sync.OnceFunc(end)
	w.Cleanup(end)
	return servers[0], end
}

func command(s acp.MCPServer) *exec.Cmd {
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// agent connects as an agent does that got the entry.
func (w *world) agent(s acp.MCPServer, era string, o *mcp.ClientOptions) *mcp.ClientSession {
	w.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, o).Connect(w.Context(), &mcp.CommandTransport{Command: command(s)}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	w.must(err)
	w.Cleanup(func() { _ = session.Close() })
	return session
}

func (w *world) call(s *mcp.ClientSession, tool, text string) string {
	w.Helper()
	args := map[string]any{}
	if text != "" {
		args["Text"] = text
	}
	r, err := s.CallTool(w.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	w.must(err)
	return r.Content[0].(*mcp.TextContent).Text
}

var eras = []string{"2025-11-25", "2026-07-28"}

// An agent calls tools in both eras of the protocol, small and large, several at a time; a cancelled call ends at the bridge.
func TestAnAgentCallsTools(t *testing.T) {
	t.Parallel()
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s, _ := w.open("bc-1")
			agent := w.agent(s, era, nil)
			var all sync.WaitGroup
			for n := range 8 {
				text := strings.Repeat(fmt.Sprint(n), 1+n*40_000)
				all.Go(func() {
					if got := w.call(agent, "echo", text); got != text {
						t.Errorf("%d bytes for %d", len(got), len(text))
					}
				})
			}
			all.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := agent.CallTool(ctx, &mcp.CallToolParams{Name: "hold", Arguments: noArgs{}})
				ended <- err
			}()
			<-w.held
			cancel()
			<-w.gone
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
}

// A held call reports progress while it waits, and the bridge's own notices reach the agent.
func TestAnAgentHearsOfWhatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open("bc-1")
	heard, changed := make(chan struct{}, 64), make(chan struct{}, 64)
	agent := w.agent(s, eras[0], &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { heard <- struct{}{} },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	})
	go func() {
		<-heard // the first one comes after 5 s
		w.release()
	}()
	params := &mcp.CallToolParams{Name: "hold", Arguments: noArgs{}}
	params.SetProgressToken("token")
	if r, err := agent.CallTool(t.Context(), params); err != nil || r.Content[0].(*mcp.TextContent).Text != "free" {
		t.Errorf("%v, %v", r, err)
	}
	w.call(agent, "grow", "")
	<-changed
}

// refused runs a program at the socket and returns what it complains of.
func refused(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	if out, err := cmd.Output(); err == nil || len(out) > 0 {
		t.Errorf("it was let in, and got %q", out)
	}
	return complaint.String()
}

// What an agent holds is worth nothing in other hands: outside of the relay, in another agent's process, without the word, or after the
// end of the process.
func TestTheSocketIsForOneProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, end := w.open("bc-1")
	path := s.Args[len(s.Args)-1]
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", stat, err)
	}
	if stat, err := os.Stat(filepath.Dir(path)); err != nil || stat.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", stat, err)
	}
	// This process is not one that it has started itself.
	if err := door.Pipe(t.Context(), door.Ends{Socket: path, Word: s.Env[door.WordVariable], In: strings.NewReader(""), Out: io.Discard}); err == nil || !strings.Contains(err.Error(), "only the agent that the relay started") {
		t.Errorf("outside: %v", err)
	}
	wrong := s
	wrong.Env = map[string]string{door.WordVariable: "wrong"}
	if said := refused(t, command(wrong)); !strings.Contains(said, "did not send the value of") {
		t.Errorf("the wrong word: %s", said)
	}
	other, _ := w.open("bc-2")
	mixed := other
	mixed.Args = s.Args
	if said := refused(t, command(mixed)); !strings.Contains(said, "did not send the value of") {
		t.Errorf("another process's word: %s", said)
	}
	agent := w.agent(s, eras[0], nil)
	if got := w.call(agent, "echo", "hello"); got != "hello" {
		t.Errorf("%q", got)
	}
	// Here each program is a child of its own. The word that leaked from one is worth nothing in another.
	if said := refused(t, command(s)); !strings.Contains(said, "another agent process of the relay") {
		t.Errorf("the word in another child: %s", said)
	}
	end()
	if said := refused(t, command(s)); !strings.Contains(said, "only while the agent's own process runs") {
		t.Errorf("after the end: %s", said)
	}
	if _, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"Text": "x"}}); err == nil {
		t.Error("a call is answered after the end of the process")
	}
	if left, err := os.ReadDir(filepath.Dir(filepath.Dir(path))); err != nil || len(left) != 1 {
		t.Errorf("%d folders are left, %v", len(left), err)
	}
}

// The end of the process ends its calls at the bridge, and so does the end of the program that made them.
func TestTheEndOfTheProcessEndsItsCalls(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(cmd *exec.Cmd, end func()){
		"the process": func(_ *exec.Cmd, end func()) { end() },
		"the program": func(cmd *exec.Cmd, _ func()) { _ = cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s, end := w.open("bc-1")
			cmd := command(s)
			in, err := cmd.StdinPipe()
			w.must(err)
			w.must(cmd.Start())
			_, err = io.WriteString(in, held(1))
			w.must(err)
			<-w.held
			finish(cmd, end)
			<-w.gone
			_ = cmd.Wait()
		})
	}
}

// held is a call that waits, of the protocol without sessions.
func held(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hold","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n", id)
}

// Garbage, a line of 100 MB, half a message and a flood of calls get their answers, and the next call is served.
func TestHostileLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open("bc-1")
	cmd := command(s)
	in, err := cmd.StdinPipe()
	w.must(err)
	out, err := cmd.StdoutPipe()
	w.must(err)
	w.must(cmd.Start())
	const flood = 60
	go func() {
		_, _ = io.WriteString(in, "garbage\n{\"jsonrpc\":\"2.0\",\"id\":7\n\xff\xfe\x00\n")
		_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":"large","method":"tools/call","params":{"name":"`)
		block := strings.Repeat("x", 1<<20)
		for range 100 {
			_, _ = io.WriteString(in, block)
		}
		_, _ = io.WriteString(in, "\"}}\n")
		for n := range flood {
			_, _ = io.WriteString(in, held(100+n))
		}
		<-w.held
		w.release()
		_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":"last","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`+"\n")
		_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":"half`)
		_ = in.Close()
	}()
	answers := map[string]int{}
	for d := json.NewDecoder(out); ; {
		var m struct {
			ID    json.RawMessage
			Error *struct{ Message string }
		}
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		answers[string(m.ID)]++
	}
	w.must(cmd.Wait())
	if answers["null"] != 4 || answers[`"large"`] != 1 || answers[`"last"`] != 1 {
		t.Errorf("%v", answers)
	}
	for n := range flood {
		if answers[strconv.Itoa(100+n)] != 1 {
			t.Errorf("call %d has %d answers", n, answers[strconv.Itoa(100+n)])
		}
	}
}

// A call whose connection is lost is answered with what may have happened. The next one goes over the next connection, and the session is
// begun again behind the agent's back.
func TestALostConnection(t *testing.T) {
	t.Parallel()
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s, _ := w.open("bc-1")
			agent := w.agent(s, era, nil)
			ended := make(chan error, 1)
			go func() {
				_, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "hold", Arguments: noArgs{}})
				ended <- err
			}()
			<-w.held
			w.detach()
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "may or may not have had its effect") {
				t.Errorf("in mid-call: %v", err)
			}
			if _, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"Text": "x"}}); err == nil || !strings.Contains(err.Error(), "this call had no effect") {
				t.Errorf("without a connection: %v", err)
			}
			w.connect()
			if got := w.call(agent, "echo", "back"); got != "back" {
				t.Errorf("%q", got)
			}
		})
	}
}

// What a relay before left is removed, and a program that says nothing does not hold the end of the process up.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	old := filepath.Join(state, door.FolderName, "old")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	doors, err := door.New(door.Options{State: state, Program: "/bin/true", Tunnel: &tunnel.Client{}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	servers, end, err := doors.Open(t.Context(), turns.Work{Session: "bc-1"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", servers[0].Args[len(servers[0].Args)-1])
	if err != nil {
		t.Fatal(err)
	}
	end()
	_ = conn.Close()
}
