package api

import (
	"net/http"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// statuses is the one table from kinds to HTTP. A kind that is not here, and an
// error without a kind, is 500.
var statuses = map[bridge.ErrorKind]int{
	bridge.Invalid:         http.StatusBadRequest,
	bridge.Unauthenticated: http.StatusUnauthorized,
	bridge.Denied:          http.StatusForbidden,
	bridge.NotFound:        http.StatusNotFound,
	bridge.Conflict:        http.StatusConflict,
	bridge.Busy:            http.StatusConflict,
	bridge.RateLimited:     http.StatusTooManyRequests,
	bridge.UsageLimited:    http.StatusPaymentRequired,
	bridge.Unavailable:     http.StatusServiceUnavailable,
	bridge.TooLarge:        http.StatusRequestEntityTooLarge,
}

// StatusOf returns the HTTP status of an error: 500 for one without a kind that the table has.
func StatusOf(err error) int {
	if status, known := statuses[bridge.KindOf(err)]; known {
		return status
	}
	return http.StatusInternalServerError
}

// fail answers with the error's kind and safe message; its cause goes to the
// request's log line.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	httpx.RecordOf(r.Context()).Err = err
	if httpx.WriteCanceled(w, r, err) {
		return
	}
	kind := bridge.KindOf(err)
	if kind == bridge.Unauthenticated {
		httpx.WriteUnauthorized(w, r, bridge.SafeMessage(err))
		return
	}
	status, known := statuses[kind]
	if !known {
		httpx.WriteError(w, http.StatusInternalServerError, "internal", "internal error")
		return
	}
	if wait := bridge.RetryAfter(err); wait > 0 {
		httpx.SetRetryAfter(w.Header(), wait)
	}
	httpx.WriteError(w, status, string(kind), bridge.SafeMessage(err))
}

// kindOf reads the table backwards, for an answer that names no kind of ours.
func kindOf(status int) bridge.ErrorKind {
	switch {
	case status == http.StatusConflict:
		return bridge.Conflict
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return bridge.Unavailable
	}
	for kind, s := range statuses {
		if s == status {
			return kind
		}
	}
	return ""
}
