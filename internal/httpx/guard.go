package httpx

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Guard keeps browsers on other sites away from a server that listens on
// loopback, where "only this machine can connect" is true of the connection and
// not of the page that made it (facts: relay rule 11, DNS rebinding).
type Guard struct {
	// hosts and origin are those of the URL under which a proxy shows the server; empty without one.
	hosts  []string
	origin string
	// setting names the key of bridge.yaml that holds this URL.
	setting string
}

// NewGuard returns a guard for a server that is also known under an absolute http or https URL, or "". The refusal of another
// Host names setting, the key of bridge.yaml that holds this URL.
func NewGuard(publicURL, setting string) (*Guard, error) {
	if publicURL == "" {
		return &Guard{setting: setting}, nil
	}
	u, err := url.Parse(publicURL)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", setting, err)
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	port, known := map[string]string{"http": "80", "https": "443"}[scheme]
	if !known || host == "" || u.User != nil {
		return nil, fmt.Errorf("%s must be http:// or https:// with a host and without a user", setting)
	}
	g := &Guard{hosts: []string{host}, origin: scheme + "://" + host, setting: setting}
	if u.Port() == "" {
		g.hosts = append(g.hosts, host+":"+port)
	}
	return g, nil
}

// Wrap answers 403 to what a browser sent for another site.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := g.Refusal(r); why != "" {
			WriteError(w, http.StatusForbidden, "denied", why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Refusal says why a request is not served, "" for one that is. Origins are further sites that may call, each as
// scheme://host. Browsers leave Origin out of same-origin GETs after a rebind, so Host is checked first.
func (g *Guard) Refusal(r *http.Request, origins ...string) string {
	switch {
	case !g.hostAllowed(r):
		return "the bridge does not serve this Host; use the listen address, localhost, or set " + g.setting
	case !Listed(r, origins) && !g.originAllowed(r):
		return "requests from other sites are refused"
	}
	return ""
}

// Listed reports whether a request names the site that it comes from, and that site is one of origins.
func Listed(r *http.Request, origins []string) bool {
	shown := r.Header.Values("Origin")
	return len(shown) == 1 && slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, shown[0]) })
}

// hostAllowed checks the Host of a request that came in over loopback. On other
// addresses a name cannot be rebound to what the attacker could not reach anyway.
func (g *Guard) hostAllowed(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		return true
	}
	host := strings.ToLower(r.Host)
	if slices.Contains(g.hosts, host) {
		return true
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), "80" // a Host without a port means the scheme's
	}
	local := name == "localhost" || name == "127.0.0.1" || name == "::1" || name == addr.IP.String()
	return local && port == fmt.Sprint(addr.Port)
}

// navigates reports whether a browser says that a person follows a link to a whole page of its own. That reads and changes nothing, and
// its answer is for the person alone.
func navigates(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && len(r.Header.Values("Origin")) == 0 &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// originAllowed trusts the headers that scripts cannot set.
func (g *Guard) originAllowed(r *http.Request) bool {
	if navigates(r) {
		return true
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	for _, origin := range r.Header.Values("Origin") {
		origin = strings.ToLower(origin)
		if origin != scheme+strings.ToLower(r.Host) && (g.origin == "" || origin != g.origin) {
			return false
		}
	}
	return true
}

// PlainPath reports whether a request's path has one reading only: no empty,
// "." or ".." segment, also not a percent-encoded one, and no encoded slash or
// backslash. A router that does not clean paths is safe behind this check.
func PlainPath(u *url.URL) bool {
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		return false
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil || plain == "." || plain == ".." || strings.ContainsAny(plain, "/\\\x00") || (plain == "" && path != "/") {
			return false
		}
	}
	return true
}
