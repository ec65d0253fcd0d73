package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Page is the operator's page. It lets people in by itself. Its methods are safe for concurrent use.
type Page interface {
	http.Handler
	// Serves reports whether a request is for the page, under any method.
	Serves(r *http.Request) bool
	// NewLink makes a one-time link for a browser, and returns its path with its query and its end.
	NewLink(ctx context.Context) (path string, ends time.Time, err error)
}

// PageLink lets one browser in. It is a secret.
type PageLink struct {
	// Path is the link below the bridge's address. URL is the whole link where the configuration names the address that people use, "" elsewhere.
	Path      string    `json:"path"`
	URL       string    `json:"url,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

// pageLink makes a one-time link to the page.
func (h *Handler) pageLink(w http.ResponseWriter, r *http.Request) error {
	if err := readOptional(w, r, &struct{}{}); err != nil {
		return err
	}
	if h.page == nil {
		return bridge.Errorf(bridge.NotFound, "this bridge has no page")
	}
	path, ends, err := h.page.NewLink(r.Context())
	if err != nil {
		return err
	}
	link := PageLink{Path: path, ExpiresAt: ends}
	shown := h.o.OperatorURL
	if h.o.DoorURL == "" { // one address serves all
		shown = h.o.PublicURL
	}
	if shown != "" {
		link.URL = strings.TrimRight(shown, "/") + path
	}
	httpx.WriteJSON(w, http.StatusOK, link)
	return nil
}

// PageLink makes a one-time link to the operator's page. Twice makes two.
func (c *Client) PageLink(ctx context.Context) (PageLink, error) {
	return post[PageLink](ctx, c, "/v1/page/links", nil)
}

// within returns a client that calls the routes of h in this process, as the operator. Whoever uses it has checked its own caller.
func (h *Handler) within() *Client {
	inner := httpx.RequestLog(httpx.LogOptions{Log: h.o.Log}, httpx.Recover(h.router))
	return &Client{base: "http://drawbridge", timeout: 30 * time.Second, start: "drawbridge serve", http: &http.Client{Transport: direct{inner}}}
}

// direct is a transport that calls a handler.
type direct struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	a := answer{header: http.Header{}, status: http.StatusOK}
	d.handler.ServeHTTP(&a, r)
	return &http.Response{Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.header,
		Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()), Request: r}, nil
}

// answer keeps what a handler writes.
type answer struct {
	header  http.Header
	status  int
	written bool
	body    bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if !a.written {
		a.status, a.written = status, true
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.written = true
	return a.body.Write(p)
}
