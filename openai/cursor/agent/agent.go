package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"drawbridge/openai/cursor"
)

// Options configure an Agent. Client, Model and State are required.
type Options struct {
	// Client reaches the service, and Model is what it is asked for.
	Client *cursor.Client
	Model  string
	// State is the folder that keeps sessions. It is made when the first one begins.
	State string
	// Version is what the agent says of itself.
	Version string
	// Env is the environment of commands, as NAME=value. It must not hold the key.
	Env []string
	Log zerolog.Logger
}

// Agent is one agent with its sessions.
type Agent struct {
	o    Options
	conn *acp.AgentSideConnection

	mu       sync.Mutex // guards sessions
	sessions map[string]*session
}

// Serve speaks with the client until in ends or ctx is done.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	a := &Agent{o: o, sessions: map[string]*session{}}
	conn := acp.NewAgentSideConnection(a, out, in)
	conn.SetLogger(slog.New(slog.DiscardHandler))
	a.conn = conn
	select {
	case <-ctx.Done():
	case <-conn.Done():
	}
	within, stop := context.WithTimeout(context.WithoutCancel(ctx), leaveFor)
	defer stop()
	left := make(chan error, 1)
	go func() { left <- a.leave() }()
	select {
	case err := <-left:
		return err
	case <-within.Done():
		return errors.New("a tool did not end in time; its processes may still run")
	}
}

// leaveFor is how long the agent waits for turns that it ends.
const leaveFor = 10 * time.Second

// leave ends all sessions, and their turns.
func (a *Agent) leave() error {
	a.mu.Lock()
	all := a.sessions
	a.sessions = nil
	a.mu.Unlock()
	for _, s := range all {
		s.cancel(true)
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, s.end())
	}
	return errors.Join(errs...)
}

// Initialize implements [acp.Agent].
func (a *Agent) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "drawbridge acp", Version: a.o.Version},
		AgentCapabilities: acp.AgentCapabilities{
			LoadSession:        true,
			PromptCapabilities: acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			McpCapabilities:    acp.McpCapabilities{Http: true},
		},
		AuthMethods: []acp.AuthMethod{},
	}, nil
}

// Authenticate implements [acp.Agent]: the key comes with the process.
func (a *Agent) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, errors.New("this agent takes its key from its environment, and needs no login")
}

// NewSession implements [acp.Agent].
func (a *Agent) NewSession(ctx context.Context, q acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	s, err := a.open(ctx, uuid.NewString(), q.Cwd, q.McpServers)
	if err != nil {
		return acp.NewSessionResponse{}, err
	}
	if err := s.keep.begin(); err != nil {
		return acp.NewSessionResponse{}, errors.Join(err, s.close())
	}
	return acp.NewSessionResponse{SessionId: s.id}, a.add(s)
}

// LoadSession implements [acp.AgentLoader]. It says what was said, before it answers. A turn of the session that runs ends first.
func (a *Agent) LoadSession(ctx context.Context, q acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	if err := a.drop(q.SessionId); err != nil {
		return acp.LoadSessionResponse{}, err
	}
	s, err := a.open(ctx, string(q.SessionId), q.Cwd, q.McpServers)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	if err := s.load(ctx); err != nil {
		return acp.LoadSessionResponse{}, errors.Join(err, s.close())
	}
	return acp.LoadSessionResponse{}, a.add(s)
}

func (a *Agent) add(s *session) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sessions == nil || a.sessions[string(s.id)] != nil {
		return errors.Join(errors.New("the session is already open, or the agent is stopping"), s.close())
	}
	a.sessions[string(s.id)] = s
	return nil
}

// drop ends a session of this process, with its turn.
func (a *Agent) drop(id acp.SessionId) error {
	a.mu.Lock()
	s := a.sessions[string(id)]
	delete(a.sessions, string(id))
	a.mu.Unlock()
	if s == nil {
		return nil
	}
	s.cancel(true)
	return s.end()
}

// open makes a session in a folder.
func (a *Agent) open(ctx context.Context, id, dir string, servers []acp.McpServer) (*session, error) {
	if err := uuid.Validate(id); err != nil {
		return nil, acp.NewInvalidParams(map[string]any{"error": "this agent has no session of that id"})
	}
	if !filepath.IsAbs(dir) {
		return nil, acp.NewInvalidParams(map[string]any{"error": "cwd must be an absolute path"})
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("open the session's folder: %w", err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("open the session's folder: %w", err)
	}
	s := &session{a: a, id: acp.SessionId(id), dir: filepath.Clean(dir), real: real, root: root, keep: keep{dir: filepath.Join(a.o.State, id)}}
	if err := s.connect(ctx, servers); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (a *Agent) session(id acp.SessionId) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[string(id)]; s != nil {
		return s, nil
	}
	return nil, acp.NewInvalidParams(map[string]any{"error": "this agent has no session of that id"})
}

// Prompt implements [acp.Agent].
func (a *Agent) Prompt(ctx context.Context, q acp.PromptRequest) (acp.PromptResponse, error) {
	s, err := a.session(q.SessionId)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	return s.prompt(ctx, q.Prompt)
}

// Cancel implements [acp.Agent].
func (a *Agent) Cancel(_ context.Context, q acp.CancelNotification) error {
	s, err := a.session(q.SessionId)
	if err == nil {
		s.cancel(false)
	}
	return err
}

// CloseSession implements [acp.Agent]. The session stays on the disk.
func (a *Agent) CloseSession(_ context.Context, q acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	if _, err := a.session(q.SessionId); err != nil {
		return acp.CloseSessionResponse{}, err
	}
	return acp.CloseSessionResponse{}, a.drop(q.SessionId)
}

// ListSessions, ResumeSession, SetSessionConfigOption and SetSessionMode implement [acp.Agent]. The agent does not say that it has them.
func (a *Agent) ListSessions(context.Context, acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	return acp.ListSessionsResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionList)
}

// ResumeSession implements [acp.Agent].
func (a *Agent) ResumeSession(context.Context, acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	return acp.ResumeSessionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionResume)
}

// SetSessionConfigOption implements [acp.Agent].
func (a *Agent) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetConfigOption)
}

// SetSessionMode implements [acp.Agent].
func (a *Agent) SetSessionMode(context.Context, acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	return acp.SetSessionModeResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetMode)
}

// update tells the client something of a session.
func (s *session) update(ctx context.Context, u acp.SessionUpdate) {
	if err := s.a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: s.id, Update: u}); err != nil {
		s.a.o.Log.Debug().Err(err).Msg("the client does not read any more")
	}
}

// object makes the JSON of something for people who watch.
func object(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}
