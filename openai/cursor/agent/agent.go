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
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, s := range a.sessions {
		errs = append(errs, s.close())
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
	a.add(s)
	return acp.NewSessionResponse{SessionId: s.id}, nil
}

// LoadSession implements [acp.AgentLoader]. It says what was said, before it answers.
func (a *Agent) LoadSession(ctx context.Context, q acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	s, err := a.open(ctx, string(q.SessionId), q.Cwd, q.McpServers)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	if err := s.load(ctx); err != nil {
		return acp.LoadSessionResponse{}, errors.Join(err, s.close())
	}
	a.add(s)
	return acp.LoadSessionResponse{}, nil
}

func (a *Agent) add(s *session) {
	a.mu.Lock()
	old := a.sessions[string(s.id)]
	a.sessions[string(s.id)] = s
	a.mu.Unlock()
	if old != nil {
		_ = old.close() // it was loaded again
	}
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
		return nil, fmt.Errorf("the session's folder: %w", err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("the session's folder: %w", err)
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
		s.cancel()
	}
	return err
}

// CloseSession implements [acp.Agent]. The session stays on the disk.
func (a *Agent) CloseSession(_ context.Context, q acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	s, err := a.session(q.SessionId)
	if err != nil {
		return acp.CloseSessionResponse{}, err
	}
	a.mu.Lock()
	delete(a.sessions, string(q.SessionId))
	a.mu.Unlock()
	s.cancel()
	return acp.CloseSessionResponse{}, s.close()
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
