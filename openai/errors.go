package openai

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/openai/upstream"
)

// Words of the API for errors.
const (
	invalidRequest = "invalid_request_error"
	// upstreamError is the type of what went wrong behind the door.
	upstreamError = "upstream_error"
)

// errorBody is the JSON of an error, in an answer and in a stream.
type errorBody struct {
	Error errorDetail `json:"error"`
}

// errorDetail has null for what is not known, as clients expect.
type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func detail(e *upstream.Error) errorBody {
	d := errorDetail{Message: e.Message, Type: e.Type}
	if d.Type == "" {
		d.Type = upstreamError
	}
	if e.Param != "" {
		d.Param = &e.Param
	}
	if e.Code != "" {
		d.Code = &e.Code
	}
	return errorBody{Error: d}
}

// failure is an Error that the door itself found before anything began.
func failure(status int, kind, code, message string) *upstream.Error {
	return &upstream.Error{Status: status, Type: kind, Code: code, Message: message, NothingHappened: true}
}

func unprocessable(code, message string) *upstream.Error {
	return failure(http.StatusUnprocessableEntity, invalidRequest, code, message)
}

// repeated reports whether clients send a request again after this status without being asked to.
func repeated(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// shown is the error as a caller may see it. A status that clients repeat stays only where nothing happened.
func shown(err error) *upstream.Error {
	var e *upstream.Error
	if !errors.As(err, &e) {
		e = fromBridge(err)
	}
	out := *e
	if out.Status < http.StatusBadRequest || out.Status > 599 {
		out.Status = http.StatusBadGateway
	}
	if repeated(out.Status) && !out.NothingHappened {
		out.Status = http.StatusFailedDependency
	}
	return &out
}

// fromBridge words an error of the core. One that it does not know is internal, and says nothing.
func fromBridge(err error) *upstream.Error {
	e := &upstream.Error{Status: http.StatusInternalServerError, Type: "server_error", Code: "internal_error", Message: "internal error; the bridge's log says more"}
	var b *bridge.Error
	if !errors.As(err, &b) {
		return e
	}
	e.Message, e.RetryAfter = b.Message, b.RetryAfter
	switch b.Kind {
	case bridge.Invalid, bridge.Conflict:
		e.Status, e.Type, e.Code = http.StatusBadRequest, invalidRequest, "invalid_request"
	case bridge.Unauthenticated:
		e.Status, e.Type, e.Code = http.StatusUnauthorized, "authentication_error", "invalid_api_key"
	case bridge.Denied:
		e.Status, e.Type, e.Code = http.StatusForbidden, "permission_error", "denied"
	case bridge.NotFound:
		e.Status, e.Type, e.Code = http.StatusNotFound, invalidRequest, "not_found"
	case bridge.RateLimited:
		e.Status, e.Type, e.Code = http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded"
	case bridge.Unavailable:
		e.Status, e.Type, e.Code = http.StatusServiceUnavailable, upstreamError, "unavailable"
	}
	return e
}

// writeError answers with an error in the API's shape.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	e := shown(err)
	var known *upstream.Error
	if !errors.As(err, &known) || e.Status >= http.StatusInternalServerError {
		httpx.RecordOf(r.Context()).Err = err
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		httpx.SetRetryAfter(w.Header(), max(e.RetryAfter, time.Second))
	case http.StatusUnauthorized:
		httpx.Challenge(w.Header(), r, "drawbridge")
	}
	httpx.WriteJSON(w, e.Status, detail(e))
}

// errorJSON is an error as it stands in a stream.
func errorJSON(err error) []byte {
	b, jerr := json.Marshal(detail(shown(err)))
	if jerr != nil {
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal_error"}}`)
	}
	return b
}
