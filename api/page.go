package api

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
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
	// NewLink makes a one-time link for a browser of the operator of that name, and returns its path with its query and its end.
	NewLink(ctx context.Context, name string) (path string, ends time.Time, err error)
}

// PageLink lets one browser in. It is a secret.
type PageLink struct {
	// Path is the link below the bridge's address. URL is the whole link where the configuration names the address that people use, "" elsewhere.
	Path      string    `json:"path"`
	URL       string    `json:"url,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

// PageLinkRequest asks for a link to the page. An empty body is enough.
type PageLinkRequest struct {
	// Operator is whose link it is, "" for the person who asks. Only an admin may name somebody else.
	Operator string `json:"operator,omitempty"`
}

// pageLink makes a one-time link to the page.
func (h *Handler) pageLink(w http.ResponseWriter, r *http.Request) error {
	var req PageLinkRequest
	if err := readOptional(w, r, &req); err != nil {
		return err
	}
	if h.page == nil {
		return bridge.Errorf(bridge.NotFound, "this bridge has no page")
	}
	p, _ := bridge.PersonOf(r.Context())
	name := cmp.Or(req.Operator, p.Name)
	switch {
	case !slices.ContainsFunc(h.people, func(o operator) bool { return o.name == name }):
		return bridge.Errorf(bridge.NotFound, "operator %+.60q does not exist; add the person under operators in bridge.yaml, and restart the bridge", name)
	case name != p.Name && !p.Role.May(bridge.RoleAdmin):
		return bridge.Errorf(bridge.Denied, "%s has the role %s, and a link for somebody else needs the role %s; leave operator out, or ask an admin", p.Name, p.Role, bridge.RoleAdmin)
	}
	path, ends, err := h.page.NewLink(r.Context(), name)
	if err != nil {
		return err
	}
	if name != p.Name { // who has the link acts under this name
		if err := h.o.Engine.Change(r.Context(), func(tx bridge.Change) error {
			return tx.Record(bridge.EventOperator, bridge.Agent{}, bridge.Event{Text: p.Name + " made a link that lets " + name + " open the page"})
		}); err != nil {
			return err
		}
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

// PageLink makes a one-time link to the page, for the operator of that name; "" is who asks. Twice makes two.
func (c *Client) PageLink(ctx context.Context, name string) (PageLink, error) {
	return post[PageLink](ctx, c, "/v1/page/links", PageLinkRequest{Operator: name})
}

// within returns a client that calls the routes of h in this process, as the person of the context. Whoever uses it has checked who that is.
func (h *Handler) within() *Client {
	inner := httpx.RequestLog(httpx.LogOptions{Log: h.o.Log}, httpx.Recover(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, known := bridge.PersonOf(r.Context()); known {
			httpx.RecordOf(r.Context()).Add("operator", p.Name)
		}
		h.router.ServeHTTP(w, r)
	})))
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
