package tracing

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Client puts a CLIENT span around each request of next. It sends no trace headers: the
// other side is a stranger. The span ends when the answer begins. Without a collector it is next.
func (t *Tracing) Client(next http.RoundTripper) http.RoundTripper {
	if t == nil || t.provider == nil {
		return next
	}
	return client{t, next}
}

type client struct {
	tracing *Tracing
	next    http.RoundTripper
}

// idInPath is a segment that names one thing: an id with a prefix, or a UUID.
var idInPath = regexp.MustCompile(`/(?:bc-|run-|art-|[a-z]{3}_)[^/]+|/[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}`)

// RoundTrip implements http.RoundTripper.
func (c client) RoundTrip(r *http.Request) (*http.Response, error) {
	template := idInPath.ReplaceAllString(r.URL.Path, "/{id}")
	ctx, span := c.tracing.tracer().Start(r.Context(), r.Method+" "+template, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("url.template", template), attribute.String("server.address", r.URL.Hostname())))
	defer span.End()
	resp, err := c.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		fail(span, fmt.Sprintf("%T", err))
		return resp, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	if resp.StatusCode >= http.StatusBadRequest {
		fail(span, strconv.Itoa(resp.StatusCode))
	}
	return resp, nil
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
