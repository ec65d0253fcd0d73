package tunnel

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"drawbridge/internal/clip"
	"drawbridge/relay/wire"
)

// Server is the bridge's end, for one connection of one relay. It is safe for concurrent use. The zero value of the fields below Door
// is fine.
type Server struct {
	// Send sends frames to the relay.
	Send Send
	// Door returns the handler for calls of the agent that has a session, or an error that the agent sees. It judges whether this
	// relay hosts the agent.
	Door func(ctx context.Context, session string) (http.Handler, error)
	// Refuse writes an error of Door as the answer.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Relay is the relay's name, for the log.
	Relay string

	mu    sync.Mutex // guards the fields below
	open  map[string]*served
	ended bool
	all   sync.WaitGroup
	large chan struct{}
}

// served is one call at the bridge.
type served struct {
	session string
	cancel  context.CancelFunc
}

// Take begins a call, beside the caller, or refuses it. It may wait for the connection to write a short frame. An error means that the
// connection cannot write.
func (s *Server) Take(ctx context.Context, ask wire.MCPCall) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	switch refusal := s.begin(ask, &served{ask.Session, cancel}); {
	case refusal == gone:
		cancel()
		return nil
	case refusal != "":
		cancel()
		return s.Send(ctx, wire.Frame{MCPPart: &wire.MCPPart{ID: ask.ID, Status: http.StatusTooManyRequests, Type: "application/json", Body: problem(refusal), End: true}})
	}
	go func() {
		defer s.all.Done()
		defer cancel()
		s.serve(ctx, ask)
	}()
	return nil
}

// gone means that the connection is over, or that the relay gave an id twice.
const gone = "gone"

func (s *Server) begin(ask wire.MCPCall, v *served) (refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.open[ask.ID] != nil {
		return gone
	}
	of := 0
	for _, other := range s.open {
		if other.session == ask.Session {
			of++
		}
	}
	if len(s.open) >= wire.MaxMCPCalls || of >= wire.MaxMCPSession {
		return "too many calls are under way; this call had no effect; call again in a moment"
	}
	if s.open == nil {
		s.open, s.large = map[string]*served{}, make(chan struct{}, maxLarge)
	}
	s.open[ask.ID] = v
	s.all.Add(1)
	return ""
}

func problem(text string) string {
	body, err := json.Marshal(map[string]any{"error": map[string]string{"message": text}})
	if err != nil {
		return "" // a text is JSON always
	}
	return string(body)
}

// Cancel ends a call that the relay does not wait for any more. An unknown id says nothing: the call is over.
func (s *Server) Cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.open[id]; v != nil {
		v.cancel()
	}
}

// Close ends all calls and takes no more. It returns at once; Wait waits for them. Twice is fine.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, v := range s.open {
		v.cancel()
	}
}

// Wait returns when no call runs. It follows Close.
func (s *Server) Wait() { s.all.Wait() }

func (s *Server) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

// serve lets the door answer one call.
func (s *Server) serve(ctx context.Context, ask wire.MCPCall) {
	defer s.drop(ask.ID)
	w := &writer{server: s, ctx: ctx, id: ask.ID, header: http.Header{}}
	stop := s.keepAlive(ctx, ask.ID)
	defer stop()
	r, err := s.request(ctx, ask)
	if err != nil {
		w.cut = true // the frame was checked, so that this does not happen
	} else if door, err := s.Door(ctx, ask.Session); err != nil {
		s.Refuse(w, r, err)
	} else {
		w.serve(door, r)
	}
	stop()
	w.close()
}

// path is where the door is, as its handler knows it.
const path = "/mcp"

// request is the call as the door reads it.
func (s *Server) request(ctx context.Context, ask wire.MCPCall) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, ask.Method, "http://relay"+path, strings.NewReader(ask.Body))
	if err != nil {
		return nil, err
	}
	r.RequestURI, r.RemoteAddr = path, "relay "+s.Relay
	r.Header.Set("Accept", "application/json, text/event-stream")
	if ask.Method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range map[string]string{"Mcp-Session-Id": ask.Door, "Mcp-Protocol-Version": ask.Version, "Mcp-Method": ask.Call, "Mcp-Name": ask.Name} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// serve calls the door. A door that cuts an answer off ends it here, too.
func (w *writer) serve(door http.Handler, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // the value itself is the sign
				panic(p)
			}
			w.cut = true
		}
	}()
	door.ServeHTTP(w, r)
}

// keepAlive says from time to time that a call is under way, until stop.
func (s *Server) keepAlive(ctx context.Context, id string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if s.Send(ctx, wire.Frame{MCPPart: &wire.MCPPart{ID: id, Alive: true}}) != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// writer is an http.ResponseWriter that sends parts. One goroutine uses it.
type writer struct {
	server *Server
	ctx    context.Context //nolint:containedctx // a response is written under the context of its request
	id     string
	header http.Header
	status int
	begun  bool
	failed error
	cut    bool
	kept   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.kept.Write(p)
	for w.kept.Len() >= wire.MaxMCPPart {
		w.part(wire.MCPPart{})
	}
	return len(p), w.failed
}

// FlushError sends what was written, for http.ResponseController.
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	w.part(wire.MCPPart{})
	return w.failed
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// SetWriteDeadline is for http.ResponseController. The connection has deadlines of its own.
func (w *writer) SetWriteDeadline(time.Time) error { return nil }

// close sends the last part.
func (w *writer) close() {
	w.WriteHeader(http.StatusOK)
	for w.kept.Len() > wire.MaxMCPPart {
		w.part(wire.MCPPart{})
	}
	w.part(wire.MCPPart{End: true, Cut: w.cut})
	if w.failed != nil && w.ctx.Err() == nil {
		// The relay did not take a part, and must not wait for the rest.
		_ = w.server.send(w.ctx, wire.MCPPart{ID: w.id, End: true, Cut: true})
	}
}

// part sends as much of what was written as one part holds, from the beginning of a character to the end of one.
func (w *writer) part(p wire.MCPPart) {
	if w.failed != nil || w.begun && w.kept.Len() == 0 && !p.End {
		return
	}
	n := min(w.kept.Len(), wire.MaxMCPPart)
	if data := w.kept.Bytes(); !p.End || n < len(data) {
		n = clip.Whole(data[:n])
	}
	p.ID, p.Body = w.id, strings.ToValidUTF8(string(w.kept.Next(n)), "?")
	if !w.begun {
		p.Status, p.Type, p.Door, w.begun = w.status, w.header.Get("Content-Type"), w.header.Get("Mcp-Session-Id"), true
	}
	w.failed = w.server.send(w.ctx, p)
}

// send sends a part. Few large ones travel at a time, so that turns have their place.
func (s *Server) send(ctx context.Context, p wire.MCPPart) error {
	if len(p.Body) > wire.MaxWhole/2 {
		select {
		case s.large <- struct{}{}:
			defer func() { <-s.large }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// The end of the call does not stop a part: half of one would hold a place at the relay.
	return s.Send(context.WithoutCancel(ctx), wire.Frame{MCPPart: &p})
}
