package openai

import (
	"context"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// edge keeps web pages out, and finds the token of a caller.
type edge struct {
	guard     *httpx.Guard
	origins   []string
	anonymous string
	keys      Keyring
}

func newEdge(o Options) (*edge, error) {
	guard, err := httpx.NewGuard(o.URL, "openai.url")
	if err != nil {
		return nil, err
	}
	return &edge{guard: guard, origins: o.Origins, anonymous: o.Anonymous, keys: Keyring{Records: o.Records, Now: o.Now}}, nil
}

type tokenKey struct{}

// tokenOf returns the token that the edge found for a request.
func tokenOf(ctx context.Context) Token {
	t, _ := ctx.Value(tokenKey{}).(Token)
	return t
}

// wrap serves only what a program with a token sent.
func (g *edge) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := g.guard.Refusal(r, g.origins...); why != "" {
			writeError(w, r, failure(http.StatusForbidden, typePermission, "origin_not_allowed", why+"; to allow a page of another site, add its origin to openai.origins in bridge.yaml"))
			return
		}
		if httpx.Listed(r, g.origins) {
			g.cors(w, r)
			if r.Method == http.MethodOptions {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		if !httpx.PlainPath(r.URL) {
			writeError(w, r, noPath(r))
			return
		}
		if !isJSON(r) {
			writeError(w, r, failure(http.StatusUnsupportedMediaType, typeInvalid, "unsupported_media_type", "the Content-Type must be application/json; set that header"))
			return
		}
		t, err := g.token(r)
		if err != nil {
			writeError(w, r, err)
			return
		}
		httpx.RecordOf(r.Context()).Add("token", t.Name)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tokenKey{}, t)))
	})
}

// cors lets a listed page read answers. It comes without cookies, so that the page needs a token of its own.
func (g *edge) cors(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Add("Vary", "Origin")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, X-Session-Id, X-Session-Affinity, X-Stainless-Retry-Count")
		h.Set("Access-Control-Max-Age", "600")
	}
}

// isJSON reports whether a body, where the method has one, says that it is JSON. A page can send such a body to another site only after a preflight.
func isJSON(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return true
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// token finds who calls: by the bearer token, or without one the anonymous caller of this machine.
func (g *edge) token(r *http.Request) (Token, error) {
	shown := r.Header.Values("Authorization")
	switch {
	case len(shown) == 0 && g.anonymous != "" && onLoopback(r):
		if header := forwarded(r.Header); header != "" {
			return Token{}, failure(http.StatusUnauthorized, typeAuth, "invalid_api_key", "the request came through a proxy, as its header "+header+" says, so it needs a token: send Authorization: Bearer dbo_…; drawbridge token --openai NAME makes one")
		}
		return g.keys.Anonymous(r.Context(), g.anonymous)
	case len(shown) != 1:
		return Token{}, failure(http.StatusUnauthorized, typeAuth, "invalid_api_key", "a token is required: send Authorization: Bearer dbo_…; drawbridge token --openai NAME makes one")
	}
	scheme, secret, _ := strings.Cut(shown[0], " ")
	secret = strings.TrimSpace(secret)
	if name, ok := httpx.Unexpanded(secret); ok {
		return Token{}, failure(http.StatusUnauthorized, typeAuth, "invalid_api_key",
			"the client sent a reference to the variable "+name+" in the place of the token; set the variable where the client starts")
	}
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return Token{}, bridge.Errorf(bridge.Unauthenticated, "the Authorization header must be Bearer dbo_…; drawbridge token --openai NAME makes a token")
	}
	return g.keys.Holder(r.Context(), secret)
}

// forwards finds the headers by which proxies say for whom they ask.
var forwards = regexp.MustCompile(`(?i)^(forwarded|via|x-forwarded.*|x-original-.*|x-envoy-.*|x-arr-.*|x-proxyuser-ip|.*(client|real|remote|connecting)[-_]?(ip|addr))$`)

// forwarded is a header that says that a proxy passed the request on, "" when there is none.
func forwarded(h http.Header) string {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if forwards.MatchString(name) {
			return name
		}
	}
	return ""
}

// onLoopback reports whether both ends of the connection are on this machine.
func onLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}
