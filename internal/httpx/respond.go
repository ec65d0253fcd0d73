package httpx

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

// ErrorBody is the JSON of every answer that is an error.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail says what went wrong in a stable word and in a sentence that is safe to show.
type ErrorDetail struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// WriteJSON answers with v. The answer may not be cached and must not be
// sniffed. A v that cannot be encoded is a bug and becomes a 500; that the
// client is gone is nobody's error.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"kind":"internal","message":"internal error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// WriteError answers with an ErrorBody. The message goes to a stranger: no
// cause, no secret, no body.
func WriteError(w http.ResponseWriter, status int, kind, message string) {
	WriteJSON(w, status, ErrorBody{Error: ErrorDetail{Kind: kind, Message: message}})
}

// SetRetryAfter asks the client to wait: whole seconds, rounded up, at least one.
func SetRetryAfter(h http.Header, wait time.Duration) {
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
}

// ErrTooLarge is returned by ReadBody for a body over its limit.
var ErrTooLarge = errors.New("request body is too large")

// ReadBody reads the raw body once, up to limit bytes, and decodes nothing. A
// body over the limit is ErrTooLarge and closes the connection.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		// net/http would do this itself if it could see its own writer behind ours.
		w.Header().Set("Connection", "close")
		return nil, ErrTooLarge
	}
	return body, err
}
