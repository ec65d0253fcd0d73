package httpx

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/clip"
)

// Record collects what a request's one log line says beyond status and time.
// It belongs to the goroutine that serves the request.
type Record struct {
	// ID is also the answer's X-Request-Id.
	ID string
	// Route is the template that matched; empty for 404 and 405.
	Route string
	// Err is the cause of an answer that told the client less.
	Err error

	fault  bool
	stack  []byte
	fields [][2]string
}

// Failed notes that the bridge itself failed, although the answer has begun or stands without what
// failed. The line is at error level, unless somebody canceled the work.
func (r *Record) Failed(err error) { r.Err, r.fault = err, true }

// Add puts one more field into the log line: an id or a verdict, never a body or a secret.
func (r *Record) Add(key, value string) { r.fields = append(r.fields, [2]string{key, value}) }

type recordKey struct{}

// RecordOf returns the request's record; one that nobody reads when no RequestLog stands above.
func RecordOf(ctx context.Context) *Record {
	if rec, ok := ctx.Value(recordKey{}).(*Record); ok {
		return rec
	}
	return &Record{}
}

// Served is what metrics want to know of a request.
type Served struct {
	Route, Method string
	Status        int
	Duration      time.Duration
}

// LogOptions configures a RequestLog.
type LogOptions struct {
	Log zerolog.Logger
	// OnServed is called once after each request, also after one that panicked. It must not block.
	OnServed func(Served)
}

// RequestLog writes one wide line for each request. It wraps the router from
// outside, because mux runs no middleware for 404 and 405. The query, the
// headers and the body stay out: they may hold secrets.
func RequestLog(o LogOptions, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &Record{ID: "req_" + strings.ToLower(rand.Text())}
		sw := &statusWriter{ResponseWriter: w}
		sw.Header().Set("X-Request-Id", rec.ID)
		defer func() {
			s := Served{Route: rec.Route, Method: r.Method, Status: sw.status, Duration: time.Since(start)}
			if s.Status == 0 {
				s.Status = http.StatusOK // net/http's answer to a handler that wrote nothing
			}
			if o.OnServed != nil {
				o.OnServed(s)
			}
			rec.log(o.Log.With().Int64("bytes_out", sw.bytes).Logger(), r, s)
		}()
		next.ServeHTTP(sw, r.WithContext(context.WithValue(r.Context(), recordKey{}, rec)))
	})
}

// log writes the one wide line of a request.
func (rec *Record) log(log zerolog.Logger, r *http.Request, s Served) {
	line := log.Info()
	if s.Status < http.StatusBadRequest && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		line = log.Debug() // reading changes nothing, and a client that polls would fill the log
	}
	// A client that leaves, and a stop, are not faults of the bridge.
	_, canceled := CanceledStatus(r, rec.Err)
	if (s.Status >= http.StatusInternalServerError || rec.fault) && !canceled || rec.stack != nil {
		line = log.Error()
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	line.Str("request", rec.ID).Str("method", clip.Text(r.Method, 16)).Str("route", s.Route).Str("path", clip.Text(r.URL.EscapedPath(), 200)).
		Str("remote", host).Int("status", s.Status).Int64("bytes_in", max(r.ContentLength, 0)).Dur("duration_ms", s.Duration)
	for _, f := range rec.fields {
		line.Str(f[0], clip.Text(f[1], 200))
	}
	if rec.stack != nil {
		line.Bytes("stack", rec.stack)
	}
	line.AnErr("cause", rec.Err).Msg("request")
}

// statusWriter remembers what was answered. ResponseController reaches the real writer through Unwrap.
type statusWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Recover turns a panic, which is a bug of ours, into a 500 that says nothing
// about it; value and stack go to the request's log line. When the answer had
// begun, the connection is cut instead, so that half an answer cannot pass for
// a whole one. It stands directly below RequestLog.
func Recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				panic(p)
			}
			rec := RecordOf(r.Context())
			rec.Err, rec.stack = fmt.Errorf("panic: %v", p), debug.Stack()
			if sw, ok := w.(*statusWriter); ok && sw.status != 0 {
				panic(http.ErrAbortHandler)
			}
			WriteError(w, http.StatusInternalServerError, "internal", "internal error")
		}()
		next.ServeHTTP(w, r)
	})
}
