// Package control is the door for the relay's own user: a Unix socket in the state folder, and the kill switch, a file
// beside it.
//
// Only the user of the relay, or root, is let in, and no process that the relay itself has started: an action must not approve
// an action. That is judged once, when a connection is accepted. It is not a way to run anything. Rule of thumb: what can be asked here makes the relay do less, except for the yes
// of a person.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"drawbridge/internal/strictjson"
	"drawbridge/internal/trust"
	"drawbridge/relay/runner/approval"
	"drawbridge/relay/wire"
)

// Names in the state folder.
const (
	SocketName = "relay.sock"
	SwitchName = "relay.stopped"
)

const (
	callTimeout = 10 * time.Second
	maxBody     = 4 << 10
	maxAnswer   = 4 << 20
	// maxSocket is the longest path that the address of a Unix socket holds on every system.
	maxSocket = 103
)

// Status is how a running relay is.
type Status struct {
	Started time.Time `json:"started,omitzero"`
	// Door is where it listens, "" when it only dials out; Connection is nil when it only listens.
	Door       string           `json:"listens,omitempty"`
	Connection *wire.Connection `json:"connection,omitempty"`
	// Stopped is true when the kill switch is on.
	Stopped bool `json:"kill_switch"`
	// Actions is how often each action runs; Waiting counts what waits for its turn, Approvals the open questions.
	Actions   map[string]int `json:"actions_running"`
	Waiting   int            `json:"actions_waiting"`
	Approvals int            `json:"approvals"`
	// Audit is why the last line of the audit log could not be written, "" when it was.
	Audit string `json:"audit_error,omitempty"`
	// Outdated is true when relay.yaml has a change that waits for a new start of the relay.
	Outdated bool `json:"outdated,omitempty"`
}

// Relay is what the door leads to. Its methods are safe for concurrent use.
type Relay interface {
	Status() Status
	Pending() []approval.Pending
	Decide(id string, approve bool, by string) error
	// SwitchOff refuses everything and ends what runs, and returns when nothing runs any more; SwitchOn takes it back.
	// Both only follow the file.
	SwitchOff() error
	SwitchOn() error
}

// Switched reports whether the kill switch in a state folder is on. When that cannot be told, it is.
func Switched(state string) bool {
	_, err := os.Lstat(filepath.Join(state, SwitchName))
	return !errors.Is(err, fs.ErrNotExist)
}

// Switch turns the kill switch of a state folder on or off. It stays so until it is turned again; doing it twice is fine.
func Switch(state string, on bool) error {
	path := filepath.Join(state, SwitchName)
	if !on {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("turn kill switch off: %w", err)
		}
		return sync(state)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("turn kill switch on: %w", err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("turn kill switch on: %w", err)
	}
	return sync(state)
}

func sync(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// Server is the open door.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen opens the socket in the state folder, which must be the relay's alone, and takes the place of one that a relay left
// behind. The caller makes sure that no other relay uses the folder.
func Listen(ctx context.Context, state string, relay Relay) (*Server, error) {
	path := filepath.Join(state, SocketName)
	if err := trust.Folder(state, "state"); err != nil {
		return nil, fmt.Errorf("open control socket %s: %w", path, err)
	}
	listener, err := ListenUnix(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open control socket %s: %w", path, err)
	}
	s := &Server{listener: listener, http: &http.Server{
		Handler: routes(relay), ReadHeaderTimeout: callTimeout, ReadTimeout: callTimeout, MaxHeaderBytes: maxBody,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, refusalKey{}, judge(conn))
		},
	}}
	return s, nil
}

// ListenUnix listens on a Unix socket that only its owner can open, in the place of a socket that is there already.
func ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocket {
		return nil, trust.Because(fmt.Sprintf("its path has %d characters", len(path)),
			fmt.Sprintf("name a folder with a shorter path as state: in relay.yaml; the path of a socket has at most %d characters", maxSocket))
	}
	stat, err := os.Lstat(path)
	switch {
	case err == nil && stat.Mode()&fs.ModeSocket == 0:
		return nil, trust.Because("exists and is not a socket", "move it away")
	case err == nil:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// The umask of a relay gives the same; this is for other callers.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Serve answers until Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends the door, and calls that are under way.
func (s *Server) Close() error {
	err := s.http.Close()
	// A server that was never served does not know its listener.
	if closed := s.listener.Close(); !errors.Is(closed, net.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// refusalKey leads to why the process that opened a connection is refused, "" if it is let in.
type refusalKey struct{}

func routes(relay Relay) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, relay.Status()) })
	mux.HandleFunc("GET /approvals", func(w http.ResponseWriter, _ *http.Request) {
		open := relay.Pending()
		if open == nil {
			open = []approval.Pending{}
		}
		answer(w, http.StatusOK, open)
	})
	mux.HandleFunc("POST /approvals/{id}", func(w http.ResponseWriter, r *http.Request) {
		var word struct {
			Approve *bool `json:"approve"`
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			err = strictjson.DecodeExact(body, &word)
		}
		if err != nil || word.Approve == nil {
			answer(w, http.StatusBadRequest, problem{"the body must be {\"approve\": true} or {\"approve\": false}"})
			return
		}
		reply(w, relay.Decide(r.PathValue("id"), *word.Approve, "command line"))
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) { reply(w, relay.SwitchOff()) })
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, _ *http.Request) { reply(w, relay.SwitchOn()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason, judged := r.Context().Value(refusalKey{}).(string); !judged || reason != "" {
			// A refused process gets no second request on this connection.
			w.Header().Set("Connection", "close")
			answer(w, http.StatusForbidden, problem{reason})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type problem struct {
	Error string `json:"error"`
}

func reply(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		answer(w, http.StatusOK, struct{}{})
	case errors.Is(err, approval.ErrUnknown):
		answer(w, http.StatusNotFound, problem{err.Error()})
	default:
		answer(w, http.StatusInternalServerError, problem{err.Error()})
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the caller is gone.
	_ = json.NewEncoder(w).Encode(body)
}

// Why a process is refused.
const (
	otherUser   = "this socket accepts only processes of the relay's user"
	startedHere = "a process that the relay started cannot control the relay"
	// notStartedHere is for the sockets of hosted agents.
	notStartedHere = "this socket accepts only the agent that the relay started for it"
)

func unknownPeer(err error) string { return "the relay cannot tell which process asks: " + err.Error() }
