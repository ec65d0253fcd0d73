package httpx

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// StatusClientGone stands in logs and metrics for a request whose client left
// before the answer. nginx gave the number this meaning; no client reads it.
const StatusClientGone = 499

// errCut is why the server cancels the requests that outlive its grace period.
var errCut = errors.New("the server stopped")

// CanceledStatus returns the status for work that failed with err, if it failed because
// somebody canceled it: 499 when the client left, 503 when the server stops. ok is false for
// a failure of the work itself, also while the client leaves.
func CanceledStatus(r *http.Request, err error) (status int, ok bool) {
	ctx := r.Context()
	switch {
	case !errors.Is(err, context.Canceled):
		return 0, false
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errCut):
		return StatusClientGone, true
	case ctx.Err() != nil || isStopping(ctx):
		return http.StatusServiceUnavailable, true
	}
	return 0, false
}

// WriteCanceled answers for work that somebody canceled, and reports whether that was so.
// Otherwise it writes nothing.
func WriteCanceled(w http.ResponseWriter, r *http.Request, err error) bool {
	status, ok := CanceledStatus(r, err)
	switch {
	case !ok:
		return false
	case status == StatusClientGone:
		WriteError(w, status, "canceled", "the client left before the answer")
	default:
		SetRetryAfter(w.Header(), time.Second)
		WriteError(w, status, "unavailable", "the bridge is stopping; try again")
	}
	return true
}

// isStopping reports whether the server of ctx's request has begun to stop.
func isStopping(ctx context.Context) bool {
	select {
	case <-Draining(ctx):
		return true
	default:
		return false
	}
}
