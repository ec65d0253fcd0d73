package openai

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/openai/upstream"
)

// The types of errors, in the API's words.
const (
	typeInvalid    = "invalid_request_error"
	typeAuth       = "authentication_error"
	typePermission = "permission_error"
	typeNotFound   = "not_found_error"
	typeQuota      = "insufficient_quota"
	typeUpstream   = "upstream_error"
	typeServer     = "server_error"
	// typeAPI is for failures of the bridge after which something may have happened. A client repeats what says server_error.
	typeAPI = "api_error"
)

// errorBody is the JSON of every answer of this door that is an error. param and code are null where there is nothing to say.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func bodyOf(e *upstream.Error) errorBody {
	return errorBody{errorDetail{Message: e.Message, Type: e.Type, Param: orNull(e.Param), Code: orNull(e.Code)}}
}

// repeated reports whether clients shall repeat a request by themselves after a status.
func repeated(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500
}

// final are the statuses after which no known client repeats a request by itself. LangChain repeats after all others.
var final = []int{400, 401, 402, 403, 404, 405, 406, 407, 413}

// passing finds words and numbers that clients take for a fault that passes. OpenCode looks for such in all that an error says.
var passing = regexp.MustCompile(`(?i)429|50[0234]|52[49]|rate.?limit|rate increased|too.?many|overload|unavailable|exhausted|capacity|internal.?error|server.?error|returned.?error|terminated|fetch failed|failed to fetch|network.?error|upstream.?connect|` +
	`connection.?(error|refused|lost|reset|closed|timed)|socket (connection|hang)|hang.?up|reset before|premature|aborted|epipe|getaddrinfo|enotfound|eai_again|econn|etimedout|time.?out|timed.?out|try.?again|(try|retry).your`)

// shown returns the error for the caller. If something may have happened, nothing in it makes a client repeat the request by itself. Said
// then holds the words that it hides.
func shown(err error) *upstream.Error {
	var e *upstream.Error
	if !errors.As(err, &e) {
		e = ofBridge(err)
	}
	out := *e
	switch {
	case out.Type == "":
		out.Type = typeUpstream
	case out.Type == typeServer && !out.NothingHappened:
		out.Type = typeAPI
	}
	if out.Status < 400 || out.Status > 599 || !out.NothingHappened && !slices.Contains(final, out.Status) {
		out.Status = upstream.StatusUnclear
	}
	if out.NothingHappened {
		out.Message, out.Said = out.Error(), ""
		return &out
	}
	out.RetryAfter = 0
	if passing.MatchString(out.Param) {
		out.Param = ""
	}
	switch {
	case passing.MatchString(out.Message):
		out.Said = out.Error()
		out.Message = "the backend failed, and may have begun the request; look into the bridge's log before you send it again"
	case !passing.MatchString(out.Said):
		out.Message, out.Said = out.Error(), ""
	}
	return &out
}

// ofBridge words an error of the house. One without a kind is a fault of ours, and says nothing of itself.
func ofBridge(err error) *upstream.Error {
	out := &upstream.Error{Message: bridge.SafeMessage(err)}
	switch bridge.KindOf(err) {
	case bridge.Invalid:
		out.Status, out.Type, out.NothingHappened = http.StatusBadRequest, typeInvalid, true
	case bridge.Unauthenticated:
		out.Status, out.Type, out.Code, out.NothingHappened = http.StatusUnauthorized, typeAuth, "invalid_api_key", true
	case bridge.Denied:
		out.Status, out.Type, out.NothingHappened = http.StatusForbidden, typePermission, true
	case bridge.NotFound:
		out.Status, out.Type, out.NothingHappened = http.StatusNotFound, typeNotFound, true
	case bridge.TooLarge:
		out.Status, out.Type, out.NothingHappened = http.StatusRequestEntityTooLarge, typeInvalid, true
	case bridge.RateLimited, bridge.UsageLimited:
		out.Status, out.Type = http.StatusTooManyRequests, typeQuota
	case bridge.Unavailable, bridge.Busy:
		out.Status, out.Type = http.StatusServiceUnavailable, typeServer
	default:
		out.Status, out.Type, out.Message = http.StatusInternalServerError, typeServer, "the bridge failed; its log says why"
	}
	return out
}

// writeError answers with err.
func writeError(w http.ResponseWriter, r *http.Request, err error) { writeShown(w, r, shown(err), err) }

// writeShown answers with an error as shown returns it. What the house failed at goes to the log with its cause.
func writeShown(w http.ResponseWriter, r *http.Request, e *upstream.Error, cause error) {
	if (e.Type == typeServer || e.Type == typeAPI) && e.Code != errStopping.Code {
		httpx.RecordOf(r.Context()).Failed(cause)
	}
	if e.RetryAfter > 0 {
		httpx.SetRetryAfter(w.Header(), e.RetryAfter)
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	// The openai client repeats by this header where it is there, whatever the status.
	w.Header().Set("X-Should-Retry", strconv.FormatBool(repeated(e.Status)))
	httpx.WriteJSON(w, e.Status, bodyOf(e))
}

// invalid is a refusal of one field before anything was begun.
func invalid(param, code, message string) error { return upstream.BadRequest(param, code, message) }

// unprocessable is a refusal of a result that no call waits for, or of a key that was used for another request.
func unprocessable(param, code, message string) error {
	return &upstream.Error{Status: http.StatusUnprocessableEntity, Type: typeInvalid, Param: param, Code: code, Message: message, NothingHappened: true}
}

// limited is a refusal before anything was begun, which may be tried again after a while.
func limited(code, message string, wait time.Duration) error {
	return &upstream.Error{Status: http.StatusTooManyRequests, Type: typeQuota, Code: code, Message: message, RetryAfter: wait, NothingHappened: true}
}

// savedError is how the record keeps an error.
type savedError struct {
	Status  int    `json:"status"`
	Type    string `json:"type"`
	Code    string `json:"code,omitempty"`
	Param   string `json:"param,omitempty"`
	Message string `json:"message"`
}

func saved(e *upstream.Error) *savedError {
	return &savedError{Status: e.Status, Type: e.Type, Code: e.Code, Param: e.Param, Message: e.Message}
}

func (s *savedError) error() error {
	return &upstream.Error{Status: s.Status, Type: s.Type, Code: s.Code, Param: s.Param, Message: s.Message, NothingHappened: !repeated(s.Status)}
}

// errStopping ends requests when the bridge stops.
var errStopping = &upstream.Error{Type: typeServer, Code: "stopping", Message: "the bridge is stopping; once it runs again, send the same request for the answer"}

// mustJSON encodes what cannot fail to encode.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("openai: encode: " + err.Error())
	}
	return raw
}

// failure is a refusal before anything was begun.
func failure(status int, kind, code, message string) error {
	return &upstream.Error{Status: status, Type: kind, Code: code, Message: message, NothingHappened: true}
}

// noPath answers for an address where nothing is.
func noPath(r *http.Request) error {
	return failure(http.StatusNotFound, typeInvalid, "unknown_url", "this endpoint has no path "+quoted(r.URL.Path)+"; it serves /v1/chat/completions, /v1/responses, /v1/models and /v1/tool_results")
}
