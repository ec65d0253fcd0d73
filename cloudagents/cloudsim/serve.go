package cloudsim

import (
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

// call is one request to the API.
type call struct {
	req  *http.Request
	api  script.API
	op   script.Op
	key  string        // the API key
	id   string        // of the agent, "" when the path has none
	repo string        // canonical, "" when the call concerns none
	body *request.Body // nil for a call without one
}

func (c *call) place() script.Place { return script.Place{API: c.api, Op: c.op, Repo: c.repo} }

// reply is a successful answer: a body, or a stream that writes itself.
type reply struct {
	status int
	body   any
	stream func(http.ResponseWriter)
}

func ok(body any) (reply, error)      { return reply{status: http.StatusOK, body: body}, nil }
func created(body any) (reply, error) { return reply{status: http.StatusCreated, body: body}, nil }

// serve runs one endpoint: the faults that replace it, its effect, the faults that spoil its answer.
func (s *Sim) serve(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c := &call{req: req, api: e.api, op: e.op, id: mux.Vars(req)["id"], key: keyOf(req)}
		if e.body {
			c.body = request.Parse(e.api, http.MaxBytesReader(w, req.Body, request.MaxBody))
		}
		c.repo = s.repoOf(c)
		if s.misbehave(w, c, script.Before) {
			return
		}
		rep, err := s.once(c, e.handle)
		if err != nil {
			s.fail(w, c, err)
			return
		}
		if s.misbehave(w, c, script.After) {
			return
		}
		if rep.stream != nil {
			rep.stream(w)
			return
		}
		request.WriteJSON(w, rep.status, rep.body)
	})
}

// repoOf is the repository that a call concerns, for the matching of faults: that of its agent, or the one it asks for.
func (s *Sim) repoOf(c *call) string {
	if c.id != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if a := s.agents[strings.ToLower(c.id)]; a != nil {
			return a.Repo()
		}
		return ""
	}
	if c.op == script.OpCreate {
		return c.body.Repo()
	}
	return ""
}

// once has a repeated Idempotency-Key answered from memory when the settings ask for that.
func (s *Sim) once(c *call, handle func(*Sim, *call) (reply, error)) (reply, error) {
	key := c.req.Header.Get("Idempotency-Key")
	if key == "" || s.settings.IdempotencyKey != script.IdempotencyReplay || c.op != script.OpCreate && c.op != script.OpFollowup {
		return handle(s, c)
	}
	key = strings.Join([]string{c.key, c.req.URL.Path, key}, "\n")
	s.mu.Lock()
	rep, seen := s.replays[key]
	s.mu.Unlock()
	if seen {
		return rep, nil
	}
	rep, err := handle(s, c)
	if err == nil {
		s.mu.Lock()
		s.replays[key] = rep
		s.mu.Unlock()
	}
	return rep, err
}

// misbehave lets the first fault strike that applies at this stage; true means that the request has been dealt with.
func (s *Sim) misbehave(w http.ResponseWriter, c *call, stage string) bool {
	s.mu.Lock()
	f, struck := s.faults.TakeAnswer(stage, c.place())
	s.mu.Unlock()
	if !struck {
		return false
	}
	switch f.Kind {
	case script.LostCreateResponse, script.FollowupLostResponse:
		cut(w)
	case script.SlowCreate:
		return !s.pause(c.req, time.Duration(f.Delay))
	case script.Hang:
		s.pause(c.req, time.Duration(f.Delay))
		cut(w)
	case script.GarbageResponse:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>upstream</title>{\"id\":")
	case script.RateLimit:
		s.fail(w, c, tooMany(60, s.now().Add(time.Duration(f.Delay)), time.Duration(f.Delay)))
	case script.UsageLimit:
		e := tooMany(0, s.now(), 0)
		e.Code, e.Message, e.Header = "usage_limit_exceeded", "Usage limit reached for the current plan", nil
		s.fail(w, c, e)
	default:
		s.fail(w, c, request.Refuse(max(f.Status, http.StatusInternalServerError), "internal_error", "Internal server error"))
	}
	return true
}

// pause waits for d; false means that the client or the Sim went away meanwhile.
func (s *Sim) pause(req *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-req.Context().Done():
	case <-s.done:
	}
	return false
}

// cut closes the connection without a (further) answer.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the documented way for a connection that cannot be taken over
	}
	_ = conn.Close()
}

func tooMany(limit int, reset time.Time, wait time.Duration) *request.Refusal {
	e := request.Refuse(http.StatusTooManyRequests, "rate_limit_exceeded", "Rate limit exceeded")
	secs := max(1, int((wait+time.Second-1)/time.Second))
	e.Header = http.Header{
		"Retry-After":           {strconv.Itoa(secs)},
		"X-Ratelimit-Limit":     {strconv.Itoa(limit)},
		"X-Ratelimit-Remaining": {"0"},
		"X-Ratelimit-Reset":     {strconv.FormatInt(reset.Unix(), 10)},
	}
	return e
}

// fail answers with err in the shape that the API version, the settings and the faults ask for.
func (s *Sim) fail(w http.ResponseWriter, c *call, err error) {
	refusal := request.Refuse(http.StatusInternalServerError, "internal_error", "internal error")
	if known := (*request.Refusal)(nil); errors.As(err, &known) {
		copied := *known
		refusal = &copied
	}
	if c.api == script.V0 && s.settings.V0Errors == script.V0ErrorsObserved && refusal.Status == http.StatusBadRequest {
		refusal.Shape = "B"
	}
	s.mu.Lock()
	if f, ok := s.faults.Take(script.ErrorShape, c.place()); ok {
		refusal.Shape = f.Shape
	}
	s.mu.Unlock()
	refusal.Write(w)
}

// edge is what every request meets first, unknown paths included: a request id and the key.
func (s *Sim) edge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		w.Header().Set("X-Request-Id", s.newID(""))
		closed := s.closed
		s.mu.Unlock()
		c := &call{req: req, api: apiOf(req)}
		switch {
		case closed:
			s.fail(w, c, request.Refuse(http.StatusServiceUnavailable, "upstream_error", "the simulator is closed"))
		case strings.HasPrefix(req.URL.Path, linkPrefix):
			next.ServeHTTP(w, req) // the link carries its own proof
		case req.Header.Get("Authorization") == "":
			s.fail(w, c, request.Refuse(http.StatusUnauthorized, "unauthorized", "Missing API key"))
		case !s.knows(keyOf(req)):
			e := request.Refuse(http.StatusUnauthorized, "error", "Invalid User API Key")
			e.Shape = "C"
			s.fail(w, c, e)
		default:
			next.ServeHTTP(w, req)
		}
	})
}

func apiOf(req *http.Request) script.API {
	if strings.HasPrefix(req.URL.Path, "/v0/") {
		return script.V0
	}
	return script.V1
}

// keyOf reads the key from Basic (the username, with an empty password) or Bearer authentication.
func keyOf(req *http.Request) string {
	if user, password, ok := req.BasicAuth(); ok && password == "" {
		return user
	}
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}

func (s *Sim) knows(key string) bool {
	known := 0
	for _, k := range s.keys {
		known |= subtle.ConstantTimeCompare([]byte(k), []byte(key))
	}
	return known == 1
}
