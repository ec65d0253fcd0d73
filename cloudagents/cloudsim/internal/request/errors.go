package request

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Refusal is an answer other than success, in the vendor's terms: an HTTP status and a machine-readable code.
type Refusal struct {
	Status  int
	Code    string
	Message string
	Header  http.Header // headers to send with it; may be nil
	Shape   string      // A to E as in Write; "" is A
}

// Error is for logs; clients get Write.
func (e *Refusal) Error() string { return e.Code + ": " + e.Message }

// Refuse makes a refusal in the normal shape.
func Refuse(status int, code, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid is a 400 validation_error.
func Invalid(format string, args ...any) *Refusal {
	return Refuse(http.StatusBadRequest, "validation_error", format, args...)
}

// Write answers in e's shape: A is the documented one, B a bare string, C the one of a key that fails authentication, D the
// one of the documentation's generic example, E is not JSON.
func (e *Refusal) Write(w http.ResponseWriter) {
	for name, values := range e.Header {
		w.Header()[name] = values
	}
	switch e.Shape {
	case "B":
		WriteJSON(w, e.Status, map[string]any{"error": e.Message})
	case "C":
		WriteJSON(w, e.Status, map[string]any{"code": "error", "message": e.Message})
	case "D":
		WriteJSON(w, e.Status, map[string]any{"error": http.StatusText(e.Status), "message": e.Message})
	case "E":
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(e.Status)
		_, _ = fmt.Fprintf(w, "<html><body><h1>%d %s</h1></body></html>\n", e.Status, http.StatusText(e.Status))
	default:
		WriteJSON(w, e.Status, map[string]any{"error": map[string]any{"code": e.Code, "message": e.Message}})
	}
}

// WriteJSON answers with body.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(Compact(body)))
}

// Compact encodes v on one line and leaves <, > and & as they are, as a JavaScript server does.
func Compact(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
