package agentsim

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"drawbridge/internal/pause"
	"drawbridge/openai/cursor/wire"
)

// Options configure a Sim.
type Options struct {
	// Script says what the models answer; nil plays a small story.
	Script *Script
	// Log gets a line of JSON for each event, nil none.
	Log io.Writer
	// Strict ends a run in which the client does something wrong.
	Strict bool
}

// Sim is the stand-in. Safe for concurrent use.
type Sim struct {
	o       Options
	s       *Script
	handler http.Handler

	mu   sync.Mutex // guards what follows
	runs map[string]*run
	// conversations hold what was handed out, by their ids.
	conversations map[string]*conversation
	tokens        map[string]time.Time
	tries         map[string]int
	hits          []int // of each fault
	wrong         []string
	requests      []*wire.AgentRunRequest
}

// conversation is what a client has to bring back.
type conversation struct {
	state []byte
	blobs map[string][]byte
	order []string
	turns int
}

// New returns a stand-in that is not yet served.
func New(o Options) *Sim {
	if o.Script == nil {
		o.Script = story()
	}
	s := &Sim{o: o, s: o.Script, runs: map[string]*run{}, conversations: map[string]*conversation{}, tokens: map[string]time.Time{}, tries: map[string]int{}, hits: make([]int, len(o.Script.Faults))}
	m := http.NewServeMux()
	m.HandleFunc("POST "+wire.Exchange, s.exchange)
	m.HandleFunc("GET "+wire.Models, s.models)
	m.Handle(wire.RunSSE, s.inside(connect.NewServerStreamHandler(wire.RunSSE, s.runSSE)))
	m.Handle(wire.Run, s.inside(connect.NewBidiStreamHandler(wire.Run, s.runBoth, connect.WithReadMaxBytes(256<<20))))
	m.Handle(wire.BidiAppend, s.inside(connect.NewUnaryHandler(wire.BidiAppend, s.append, connect.WithReadMaxBytes(256<<20))))
	m.HandleFunc("/", empty)
	s.handler = s.faulty(m)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// empty answers calls that are none of this protocol's with an empty message: the vendor's own client makes some around a run.
func empty(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/aiserver.v1.") {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/proto")
	w.WriteHeader(http.StatusOK)
}

// faulty plays the faults of the HTTP calls.
func (s *Sim) faulty(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i, f := range s.s.Faults {
			if calls[f.Call] != r.URL.Path {
				continue
			}
			s.mu.Lock()
			s.hits[i]++
			hit := s.hits[i] > f.Skip && s.hits[i] <= f.Skip+max(1, f.Times)
			s.mu.Unlock()
			if !hit {
				continue
			}
			if f.After > 0 && pause.For(r.Context(), f.After) != nil {
				return
			}
			if f.Type != "" {
				w = typed{w, f.Type}
			}
			if f.Late > 0 {
				w = &late{ResponseWriter: w, wait: func() { _ = pause.For(r.Context(), f.Late) }}
			}
			if f.Drop {
				empty(w, r)
				return
			}
			if f.Status != 0 {
				if f.RetryAfter > 0 {
					w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
				}
				http.Error(w, "the script answers so", f.Status)
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), underKey{}, w)))
	})
}

// underKey has what carries the frames of a stream.
type underKey struct{}

// late waits before an answer.
type late struct {
	http.ResponseWriter
	wait func()
	once sync.Once
}

// WriteHeader implements [http.ResponseWriter].
func (l *late) WriteHeader(status int) {
	l.once.Do(l.wait)
	l.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (l *late) Write(b []byte) (int, error) {
	l.once.Do(l.wait)
	return l.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (l *late) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// typed gives an answer another content type.
type typed struct {
	http.ResponseWriter
	kind string
}

// WriteHeader implements [http.ResponseWriter].
func (t typed) WriteHeader(status int) {
	t.Header().Set("Content-Type", t.kind)
	t.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (t typed) Write(b []byte) (int, error) {
	t.Header().Set("Content-Type", t.kind)
	return t.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (t typed) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Flush implements [http.Flusher].
func (t typed) Flush() {
	t.Header().Set("Content-Type", t.kind)
	_ = http.NewResponseController(t.ResponseWriter).Flush() // a server that cannot sends later
}

// Wrong lists what clients did wrong so far.
func (s *Sim) Wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wrong)
}

// Requests are the run requests that came so far.
func (s *Sim) Requests() []*wire.AgentRunRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// event is one line of the log.
type event struct {
	At      time.Time       `json:"at"`
	Run     string          `json:"run,omitempty"`
	From    string          `json:"from,omitempty"`
	Number  *int64          `json:"append_seqno,omitempty"`
	Hex     string          `json:"hex,omitempty"`
	Message json.RawMessage `json:"message,omitempty"`
	Wrong   string          `json:"wrong,omitempty"`
}

// log writes an event. m may be nil.
func (s *Sim) log(e event, m proto.Message) {
	if s.o.Log == nil {
		return
	}
	e.At = time.Now().UTC()
	if m != nil {
		raw, _ := proto.Marshal(m) // it was read, or made here
		e.Hex = hex.EncodeToString(raw)
		e.Message, _ = protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	}
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.o.Log.Write(append(line, '\n')) // a log that fails stops nothing
}

// report notes what a client did wrong.
func (s *Sim) report(run, format string, args ...any) error {
	wrong := fmt.Sprintf(format, args...)
	s.log(event{Run: run, Wrong: wrong}, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, wrong)
	if s.o.Strict {
		return connect.NewError(connect.CodeInvalidArgument, errors.New(wrong))
	}
	return nil
}

// exchange hands out an access token for an API key.
func (s *Sim) exchange(w http.ResponseWriter, r *http.Request) {
	if !s.key(w, r) {
		return
	}
	life := s.s.TokenFor
	if life <= 0 {
		life = time.Hour
	}
	end := time.Now().Add(life)
	claims := fmt.Sprintf(`{"sub":"sim","exp":%d,"n":%d}`, end.Unix(), time.Now().UnixNano())
	token := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "."
	s.mu.Lock()
	s.tokens[token] = end
	s.mu.Unlock()
	writeJSON(w, map[string]string{"accessToken": token, "refreshToken": token})
}

// key reports whether a request has an API key that is known.
func (s *Sim) key(w http.ResponseWriter, r *http.Request) bool {
	keys := s.s.Keys
	if len(keys) == 0 {
		keys = []string{DefaultKey}
	}
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if slices.Contains(keys, key) {
		return true
	}
	http.Error(w, `{"code":"unauthenticated","message":"unknown API key"}`, http.StatusUnauthorized)
	return false
}

func (s *Sim) models(w http.ResponseWriter, r *http.Request) {
	if s.key(w, r) {
		writeJSON(w, map[string]any{"items": s.list()})
	}
}

func (s *Sim) list() []Model {
	if len(s.s.Models) > 0 {
		return s.s.Models
	}
	return []Model{{ID: "composer-2", Name: "Composer", Aliases: []string{"composer"}}, {ID: "gpt-4o", Name: "GPT"}, {ID: "default", Name: "Auto", Aliases: []string{"auto"}}}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone then
}

// inside lets requests pass that have a token that is good.
func (s *Sim) inside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		end, known := s.tokens[token]
		s.mu.Unlock()
		if !known || time.Now().After(end) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"code":"unauthenticated","message":"the access token is not known, or too old"}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// RevokeTokens has all access tokens refused that were handed out so far.
func (s *Sim) RevokeTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Break breaks all runs off.
func (s *Sim) Break() {
	s.each(func(r *run) {
		if r.cut != nil {
			r.cut()
		}
	})
}

// Hush has all runs say nothing more.
func (s *Sim) Hush() {
	s.each(func(r *run) {
		if r.line != nil {
			r.line.hush(true)
		}
	})
}

func (s *Sim) each(do func(*run)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		do(r)
	}
}

// of returns the run of an id; messages may come before it is opened.
func (s *Sim) of(id string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		r = newRun(s, id)
		s.runs[id] = r
	}
	return r
}

// append takes one message of a client.
func (s *Sim) append(_ context.Context, req *connect.Request[wire.BidiAppendRequest]) (*connect.Response[wire.Empty], error) {
	m := req.Msg
	id := m.GetRequestId().GetRequestId()
	if got := req.Header().Get("X-Request-Id"); got != id {
		if err := s.report(id, "the header x-request-id is %q", got); err != nil {
			return nil, err
		}
	}
	raw, err := hex.DecodeString(m.GetData())
	switch {
	case err != nil:
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("data is not hex"))
	case (len(m.GetData()) > 0) == (len(m.GetDataBinary()) > 0):
		err = s.report(id, "number %d has both or neither of data and data_binary", m.GetAppendSeqno())
	case strings.ToLower(m.GetData()) != m.GetData():
		err = s.report(id, "number %d has hex in capitals", m.GetAppendSeqno())
	}
	if err != nil {
		return nil, err
	}
	var said wire.AgentClientMessage
	if err := proto.Unmarshal(append(raw, m.GetDataBinary()...), &said); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	n := m.GetAppendSeqno()
	s.log(event{Run: id, From: "client", Number: &n}, &said)
	if err := s.of(id).take(n, &said); err != nil {
		return nil, err
	}
	return connect.NewResponse(&wire.Empty{}), nil
}
