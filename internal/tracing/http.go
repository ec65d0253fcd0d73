package tracing

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Client puts a CLIENT span around each request of next. It sends no trace headers: the
// other side is a stranger. The span ends when the answer begins. It is below the span of
// its context, otherwise below the run of the turn that of names. A GET is told through
// the function that of returns, which may hold it back; nil tells it at once. Without a
// collector Client returns next.
func (t *Tracing) Client(next http.RoundTripper, of func(context.Context) (turn string, tell func(func()))) http.RoundTripper {
	if t == nil || t.provider == nil {
		return next
	}
	return client{t, next, of}
}

type client struct {
	tracing *Tracing
	next    http.RoundTripper
	of      func(context.Context) (string, func(func()))
}

// idInPath is a segment that names one thing: an id with a prefix, or a UUID.
var idInPath = regexp.MustCompile(`/(?:bc-|run-|art-|[a-z]{3}_)[^/]+|/[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}`)

// RoundTrip implements http.RoundTripper.
func (c client) RoundTrip(r *http.Request) (*http.Response, error) {
	made := request{method: r.Method, template: idInPath.ReplaceAllString(r.URL.Path, "/{id}"), host: r.URL.Hostname(), begun: time.Now()}
	resp, err := c.next.RoundTrip(r)
	made.ended = time.Now()
	if err != nil {
		made.failed = fmt.Sprintf("%T", err)
	} else if made.status = resp.StatusCode; made.status >= http.StatusBadRequest {
		made.failed = strconv.Itoa(made.status)
	}
	turn, tell := c.of(r.Context())
	ctx := trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(r.Context()))
	if turn != "" && !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, ofTurn(turn))
	}
	if tell == nil || r.Method != http.MethodGet {
		tell = func(now func()) { now() }
	}
	tell(func() { c.tracing.request(ctx, made) })
	return resp, err
}

// request is one request that is over. Failed is the error's word, or "".
type request struct {
	method, template, host, failed string
	status                         int
	begun, ended                   time.Time
}

func (t *Tracing) request(ctx context.Context, r request) {
	_, span := t.tracer().Start(ctx, r.method+" "+r.template, trace.WithTimestamp(r.begun), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", r.method), attribute.String("url.template", r.template), attribute.String("server.address", r.host)))
	if r.status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", r.status))
	}
	if r.failed != "" {
		fail(span, r.failed)
	}
	span.End(trace.WithTimestamp(r.ended))
}

// CloseIdleConnections lets http.Client reach next.
func (c client) CloseIdleConnections() {
	if closer, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// Server puts a SERVER span around each request of next, under the route's name. A
// fault of ours alone (5xx) makes it an error. Without a collector it is next.
func (t *Tracing) Server(route string, next http.Handler) http.Handler {
	if t == nil || t.provider == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := t.tracer().Start(r.Context(), r.Method+" "+route, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", route)))
		if caller := remote(r.Header.Get("Traceparent")); caller.IsValid() {
			span.AddLink(trace.Link{SpanContext: caller})
		}
		defer span.End()
		out := &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(out, r.WithContext(ctx))
		span.SetAttributes(attribute.Int("http.response.status_code", out.code))
		if out.code >= http.StatusInternalServerError {
			fail(span, strconv.Itoa(out.code))
		}
	})
}

// status remembers the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets a ResponseController through.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
