// Package door gives each process of a hosted agent its own way to the bridge's MCP door: a Unix socket that exists as long as the process.
//
// It reads no message (package mcpstdio does) and knows no tool. What reaches the bridge goes over the relay's connection, in the
// name of the session whose process the socket was made for. Rule of thumb: nothing that an agent holds is good for another process, or
// after its own has ended.
package door

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/mcpstdio"
	"drawbridge/internal/pause"
	"drawbridge/internal/trust"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/tunnel"
)

const (
	// FolderName is the folder of all sockets in the relay's state, and socketName the socket in the folder of one process.
	FolderName = "doors"
	socketName = "mcp"
	// ServerName is how agents call the server: OpenCode shows its tools as drawbridge_<tool>.
	ServerName = "drawbridge"
	// WordVariable holds the word that a program says at the socket. The word is good for one process of an agent.
	WordVariable = "DRAWBRIDGE_DOOR"

	// maxConns is how many connections one process may have open.
	maxConns = 8
	// greetFor is how long a program may take to say its word, and readFor how long an agent may leave a line unread.
	greetFor = 10 * time.Second
	readFor  = time.Minute
	// holdFor bounds one call. The bridge's signs of life, and the end of the process, end it far earlier.
	holdFor = 24 * time.Hour
	maxWord = 256
)

// Options is what [Doors] are made of.
type Options struct {
	// State is the relay's state folder.
	State string
	// Program is the path of a program that calls [Pipe], and Args are its arguments before --socket.
	Program string
	Args    []string
	Tunnel  *tunnel.Client
	Log     zerolog.Logger
}

// Doors makes the sockets of one relay. It is a turns.Door.
type Doors struct{ o Options }

var _ turns.Door = (*Doors)(nil)

// New makes the folder of the sockets, and removes what a relay before left there. The caller makes sure that no other relay uses the state.
func New(o Options) (*Doors, error) {
	folder := filepath.Join(o.State, FolderName)
	if err := os.RemoveAll(folder); err != nil {
		return nil, fmt.Errorf("remove old sockets of agents: %w", err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of agents' sockets: %w", err)
	}
	if err := trust.Folder(folder, "state"); err != nil {
		return nil, err
	}
	resolved, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	o.State = filepath.Dir(resolved)
	return &Doors{o}, nil
}

// Open implements turns.Door.
func (d *Doors) Open(ctx context.Context, w turns.Work) ([]acp.MCPServer, func(), error) {
	one, err := d.listen(context.WithoutCancel(ctx), w)
	if err != nil {
		return nil, nil, &agents.Error{Cause: agents.Crashed, Reason: "the relay could not make the agent's socket for the bridge's tools: " + err.Error()}
	}
	return []acp.MCPServer{one.server()}, one.close, nil
}

// listen opens the socket of one process. The process outlives the turn that starts it.
func (d *Doors) listen(ctx context.Context, w turns.Work) (*socket, error) {
	folder := filepath.Join(d.o.State, FolderName, strings.ToLower(rand.Text()[:8]))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &socket{doors: d, work: w, folder: folder, word: rand.Text(), ctx: ctx, cancel: cancel}
	var err error
	if s.listener, err = control.ListenUnix(ctx, s.path()); err != nil {
		cancel()
		return nil, errors.Join(err, os.Remove(folder))
	}
	s.all.Go(s.accept)
	return s, nil
}

// socket is the way of one process.
type socket struct {
	doors    *Doors
	work     turns.Work
	folder   string
	word     string
	listener net.Listener
	ctx      context.Context //nolint:containedctx // it lives as long as the process of the agent
	cancel   context.CancelFunc
	all      sync.WaitGroup

	mu sync.Mutex // guards the fields below
	// child is the process that the first program with the word descends from. Others are not let in after it.
	child string
	conns int
}

func (s *socket) path() string { return filepath.Join(s.folder, socketName) }

// server says to the agent how it starts its program.
func (s *socket) server() acp.MCPServer {
	o := s.doors.o
	return acp.MCPServer{
		Name: ServerName, Command: o.Program, Args: append(append([]string{}, o.Args...), "--socket", s.path()),
		Env: map[string]string{WordVariable: s.word}, Reads: []string{o.Program}, Sockets: []string{s.folder},
	}
}

// close ends the socket and everything that came in by it, and returns when nothing of it is left.
func (s *socket) close() {
	s.cancel()
	_ = s.listener.Close()
	s.all.Wait()
	_ = os.RemoveAll(s.folder)
}

func (s *socket) accept() {
	for {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			child, refusal := control.Started(conn) // at once: later the process may be gone
			s.all.Go(func() { s.serve(conn, child, refusal) })
		case s.ctx.Err() != nil:
			return
		default: // too many open files, as a rule
			_ = pause.For(s.ctx, time.Second)
		}
	}
}

// serve carries the messages of one connection.
func (s *socket) serve(conn net.Conn, child, refusal string) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 4<<10)
	if refusal == "" {
		refusal = s.greet(conn, in)
	}
	if refusal == "" {
		refusal = s.enter(child)
	}
	_ = conn.SetWriteDeadline(time.Now().Add(greetFor))
	if refusal != "" {
		s.log(s.doors.o.Log.Warn()).Str("reason", refusal).Msg("a program was not let in at an agent's socket")
		_, _ = fmt.Fprintf(conn, "refused: %s\n", refusal)
		return
	}
	defer s.leave()
	if _, err := io.WriteString(conn, admitted+"\n"); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	s.log(s.doors.o.Log.Info()).Msg("an agent's program is connected to the bridge's tools")
	out := &patient{conn: conn, lost: cancel}
	err := mcpstdio.Run(ctx, mcpstdio.Options{
		Open: func(context.Context) (mcpstdio.Door, error) {
			return mcpstdio.Door{URL: "http://bridge/mcp", Token: "none"}, nil
		},
		Transport: s.doors.o.Tunnel.Session(s.work.Session), Patience: holdFor, Notices: true,
		In: &watched{Reader: in, conn: conn, lost: cancel}, Out: out, Log: logWriter{s},
	})
	if err != nil && ctx.Err() == nil {
		s.log(s.doors.o.Log.Warn()).Err(err).Msg("an agent's connection to the bridge's tools ended")
	}
}

func (s *socket) log(e *zerolog.Event) *zerolog.Event {
	return e.Str("agent", s.work.Agent).Str("session", s.work.Session)
}

// admitted is the socket's word to a program that is let in.
const admitted = "admitted"

// greet reads the word of a program, and returns why it is not the one of this process.
func (s *socket) greet(conn net.Conn, in *bufio.Reader) (refusal string) {
	_ = conn.SetReadDeadline(time.Now().Add(greetFor))
	var said []byte
	for len(said) <= maxWord {
		c, err := in.ReadByte()
		if err != nil {
			return "the program did not send the value of " + WordVariable + " in time"
		}
		if c == '\n' {
			break
		}
		said = append(said, c)
	}
	if subtle.ConstantTimeCompare(bytes.TrimSpace(said), []byte(s.word)) != 1 {
		return "the program did not send the value of " + WordVariable + " that the relay gave to the agent's process"
	}
	return ""
}

// enter takes a place, and keeps out what another child of the relay has started.
func (s *socket) enter(child string) (refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.child != "" && s.child != child:
		return "the program belongs to another agent process of the relay"
	case s.conns >= maxConns:
		return fmt.Sprintf("%d connections of this process are open; close one first", maxConns)
	}
	s.child = child
	s.conns++
	return ""
}

func (s *socket) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns--
}

// patient gives each write a deadline. An agent that does not read loses its connection.
type patient struct {
	conn net.Conn
	lost func()
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.conn.SetWriteDeadline(time.Now().Add(readFor))
	n, err := p.conn.Write(b)
	if err != nil {
		p.lost()
	}
	return n, err
}

// logWriter puts the pipe's own lines into the relay's log. They hold no message.
type logWriter struct{ s *socket }

// Write implements io.Writer.
func (w logWriter) Write(b []byte) (int, error) {
	w.s.log(w.s.doors.o.Log.Info()).Str("note", string(bytes.TrimSpace(b))).Msg("tools of an agent")
	return len(b), nil
}
