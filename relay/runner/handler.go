package runner

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"drawbridge/internal/clip"
	"drawbridge/internal/failpoint"
	"drawbridge/internal/httpx"
	"drawbridge/internal/strictjson"
	"drawbridge/relay/wire"
)

// doorKey stands for the bridge's key in requests through the relay's own door.
const doorKey = "door"

// reply is everything that goes back for one request, and into its log line.
type reply struct {
	status int
	out    wire.Outcome
	id     string
	health bool
	allow  string
	// looked is true for the answer to a look-up.
	looked bool
}

func refuseHTTP(status int, reason string) reply {
	return reply{status: status, out: refused("", wire.RefusedInvalid, reason)}
}

// ServeHTTP serves one request of the relay's own door.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	began := r.o.Now()
	out := r.route(w, req)
	if out.status == http.StatusUnauthorized {
		httpx.Challenge(w.Header(), req, "drawbridge-relay")
	}
	failpoint.Here("relay.answer.before")
	r.write(w, out)
	failpoint.Here("relay.answer.after")
	r.record(req, out, r.o.Now().Sub(began))
}

// route makes the checks in the order of what they protect: first that no web page is asking, then who asks, then what.
func (r *Relay) route(w http.ResponseWriter, req *http.Request) reply {
	if reason := r.fromElsewhere(req); reason != "" {
		return refuseHTTP(http.StatusForbidden, reason)
	}
	path := req.URL.EscapedPath()
	switch path {
	case wire.HealthPath:
		if req.Method != http.MethodGet {
			return notAllowed(http.MethodGet)
		}
		return reply{status: http.StatusOK, health: true}
	case wire.RunPath, wire.LookupPath:
		if req.Method != http.MethodPost {
			return notAllowed(http.MethodPost)
		}
	default:
		return refuseHTTP(http.StatusNotFound, "there is only POST /run, POST /lookup and GET /health")
	}
	if !r.authorized(req) {
		return refuseHTTP(http.StatusUnauthorized, "the bearer token is missing or wrong")
	}
	id, ok := requestID(req)
	if !ok {
		return refuseHTTP(http.StatusBadRequest, wire.RequestIDHeader+" must be one value of 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', '-'")
	}
	request, refused := readRequest(w, req)
	switch {
	case refused.status != 0:
		return refused
	case path == wire.LookupPath:
		return r.lookedUp(id, request.Action)
	case r.anotherProcess(req):
		return refuseHTTP(http.StatusPreconditionFailed, "this request is for an earlier process of the relay; look it up with POST /lookup")
	}
	out, err := r.Run(req.Context(), wire.Request{ID: id, Action: request.Action, KeyID: doorKey}, nil)
	if err != nil {
		out = wire.Outcome{Answer: wire.Answer{Status: wire.StatusFailed, ExitCode: wire.NoExitCode, Error: err.Error()}}
		out.Action = request.Action
		return reply{status: http.StatusInternalServerError, out: out, id: id}
	}
	out.Action = request.Action
	return reply{status: statusOf(out), out: out, id: id}
}

// statusOf is the HTTP status of an outcome. A refusal for good is 403, whatever its reason.
func statusOf(out wire.Outcome) int {
	switch {
	case out.Status != wire.StatusRefused || out.Replayed && out.Refusal == "":
		return http.StatusOK
	case out.Refusal == wire.RefusedBusy:
		return http.StatusServiceUnavailable
	case out.Refusal == wire.RefusedRate:
		return http.StatusTooManyRequests
	case out.Refusal == wire.RefusedConflict:
		return http.StatusConflict
	case out.Refusal == wire.RefusedInvalid:
		return http.StatusBadRequest
	default:
		return http.StatusForbidden
	}
}

// fromElsewhere says why a request is a web page's, or was meant for another host, or returns "". Host comes first,
// because a page that rebound its name to us sends no Origin with a plain GET (facts: relay, rule 11).
func (r *Relay) fromElsewhere(req *http.Request) string {
	// A Unix socket has no name that a page could rebind.
	if r.o.Config.Socket == "" && req.Host != r.Addr() {
		return "the Host header must be " + r.Addr()
	}
	for name := range req.Header {
		if name == "Origin" || strings.HasPrefix(name, "Sec-Fetch-") {
			return "requests of web pages are not served"
		}
	}
	return ""
}

// anotherProcess reports whether the caller wants another process of the relay than this one.
func (r *Relay) anotherProcess(req *http.Request) bool {
	wants := req.Header.Values(wire.ProcessHeader)
	return len(wants) > 0 && (len(wants) > 1 || wants[0] != r.Process())
}

func notAllowed(allow string) reply {
	out := refuseHTTP(http.StatusMethodNotAllowed, "use "+allow)
	out.allow = allow
	return out
}

// authorized compares digests, so that neither the content nor the length of the token shows in the time it takes.
func (r *Relay) authorized(req *http.Request) bool {
	values := req.Header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	scheme, given, _ := strings.Cut(values[0], " ")
	want, got := sha256.Sum256([]byte(r.o.Config.Token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// requestID returns the caller's id, or makes one, so that every run has one in the journal and in the log.
func requestID(req *http.Request) (string, bool) {
	values := req.Header.Values(wire.RequestIDHeader)
	switch len(values) {
	case 0:
		return "req_" + rand.Text(), true
	case 1:
		return values[0], wire.ValidRequestID(values[0])
	default:
		return "", false
	}
}

// readRequest returns the request, or the reply that refuses it, whose status is then set.
func readRequest(w http.ResponseWriter, req *http.Request) (wire.Body, reply) {
	types := req.Header.Values("Content-Type")
	media, _, err := mime.ParseMediaType(strings.Join(types, ","))
	if err != nil || media != "application/json" || req.Header.Get("Content-Encoding") != "" {
		return wire.Body{}, refuseHTTP(http.StatusUnsupportedMediaType, "Content-Type must be application/json, without Content-Encoding")
	}
	// A read deadline of the whole server would also cut off the wait for the answer, and with it every long action.
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(readBodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, wire.MaxRequest))
	_ = conn.SetReadDeadline(time.Time{})
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return wire.Body{}, refuseHTTP(http.StatusRequestEntityTooLarge, "the body is larger than 4 KiB")
	}
	if err != nil {
		return wire.Body{}, refuseHTTP(http.StatusBadRequest, "the body could not be read")
	}
	request, err := decodeRequest(body)
	if err != nil {
		return wire.Body{}, refuseHTTP(http.StatusBadRequest, `the body must be {"action": "<id>"}: `+err.Error())
	}
	return request, reply{}
}

func decodeRequest(body []byte) (wire.Body, error) {
	var request wire.Body
	if err := strictjson.DecodeExact(body, &request); err != nil {
		return wire.Body{}, err
	}
	if request.Action == "" {
		return wire.Body{}, errors.New("action is missing or empty")
	}
	return request, nil
}

func (r *Relay) write(w http.ResponseWriter, out reply) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if out.allow != "" {
		header.Set("Allow", out.allow)
	}
	if out.status != http.StatusUnauthorized && out.id != "" || out.status == http.StatusPreconditionFailed {
		header.Set(wire.ProcessHeader, r.process)
	}
	if out.out.RetryMS > 0 {
		header.Set("Retry-After", strconv.FormatInt((out.out.RetryMS+999)/1000, 10))
	}
	if out.out.Replayed {
		header.Set(wire.ReplayedHeader, "true")
	}
	answer := wire.Frame{Outcome: &out.out}
	if fitting, err := answer.Fitting(wire.MaxAnswer); err == nil {
		answer = fitting
	}
	var body any = answer.Outcome.Answer
	if out.health {
		body = map[string]bool{"ok": true}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(out.status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	// An error means that the caller is gone; the journal has the answer.
	_ = encoder.Encode(body)
}

// record writes the one line of a request. It holds no output, no header and no token.
func (r *Relay) record(req *http.Request, out reply, took time.Duration) {
	line := r.o.Log.Info()
	if out.status >= http.StatusInternalServerError {
		line = r.o.Log.Warn()
	}
	line = line.Str("method", req.Method).Str("path", clip.Text(req.URL.Path, maxNoted)).Str("remote", req.RemoteAddr).
		Int("status", out.status).Dur("took_ms", took)
	answer := out.out.Answer
	if !out.health {
		line = line.Str("decision", string(answer.Status)).Str("reason", answer.Error)
	}
	if out.id != "" {
		line = line.Str("request", fmt.Sprintf("%.16s", out.id)).Str("action", clip.Text(answer.Action, maxNoted)).Bool("replayed", out.out.Replayed).
			Int("exit_code", answer.ExitCode).Int64("duration_ms", answer.DurationMS).
			Int64("stdout_bytes", int64(len(answer.Stdout))+answer.StdoutOmitted).
			Int64("stderr_bytes", int64(len(answer.Stderr))+answer.StderrOmitted)
	}
	line.Msg("request")
}
