package api

import (
	"net/http"
	"strings"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// The paths that programs use and not the operator: hooksPrefix is where the receiver hangs (the engine writes it into
// launches), relayPrefix is where relays dial, doorPath is where the MCP door hangs.
const (
	hooksPrefix = "/hooks/"
	relayPrefix = "/relay/"
	doorPath    = "/mcp"
)

// ServeHTTP serves every path, for a bridge with one address.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.edge.ServeHTTP(w, r) }

// Operator returns the handler for an address that only the operator should reach: the routes of Walk, each behind the
// operator's token. It refuses agents' tokens, and answers 404 to agents, webhooks and relays.
func (h *Handler) Operator() http.Handler { return h.operator }

// Public returns the handler for an address that strangers may reach: the MCP door, webhooks, relays, agents' events and
// health. Every other path answers like one that does not exist, also to the operator's token.
func (h *Handler) Public() http.Handler { return h.public }

// openAddresses builds the three handlers. One address for all and the public one are known under PublicURL, the operator's
// under OperatorURL.
func (h *Handler) openAddresses() error {
	world, err := httpx.NewGuard(h.o.PublicURL, "public_url")
	if err != nil {
		return err
	}
	private, err := httpx.NewGuard(h.o.OperatorURL, "operator.url")
	if err != nil {
		return err
	}
	h.edge = h.beside(h.logged(world.Wrap(h.everything())))
	h.public = h.beside(h.logged(world.Wrap(h.forPrograms(http.HandlerFunc(notFound)))))
	h.operator = h.logged(private.Wrap(h.elsewhere(h.authenticate())))
	return nil
}

// logged writes the request's one log line and turns a panic into an error.
func (h *Handler) logged(next http.Handler) http.Handler {
	return httpx.RequestLog(httpx.LogOptions{Log: h.o.Log, OnServed: h.o.Metrics.OnServed}, httpx.Recover(next))
}

// DoorForGuests serves the MCP door to agents that came in another way than over HTTP, see mcpserver.Guest. A request has its log
// line and its place in the metrics, as any other.
func (h *Handler) DoorForGuests() http.Handler {
	if h.o.Door == nil {
		return h.logged(http.NotFoundHandler())
	}
	return h.logged(named(doorPath, h.o.Door))
}

// beside hands webhooks and relays to their own handlers, past the browser checks and the token. Both prove themselves by a
// signature, come under any Host that the way from outside gives them, and write their own log lines.
func (h *Handler) beside(next http.Handler) http.Handler {
	var open []prefixed
	if h.o.Webhooks != nil {
		open = append(open, h.prefixed(hooksPrefix, h.o.Webhooks))
	}
	if h.o.RelayDoor != nil {
		open = append(open, h.prefixed(relayPrefix, httpx.Recover(h.o.RelayDoor)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, p := range open {
			if strings.HasPrefix(r.URL.EscapedPath(), p.prefix) {
				p.handler.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// prefixed is a handler that stands beside the router. It writes its own log lines.
type prefixed struct {
	prefix  string
	handler http.Handler
}

func (h *Handler) prefixed(prefix string, handler http.Handler) prefixed {
	return prefixed{prefix, httpx.RequestLog(httpx.LogOptions{Log: zerolog.Nop(), OnServed: h.o.Metrics.OnServed}, named(prefix, handler))}
}

// everything serves the door, agents' events and the operator's routes.
func (h *Handler) everything() http.Handler {
	operator := h.authenticate()
	programs := h.forPrograms(operator)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() == seedEventsPath {
			if _, known := h.person(r); known {
				operator.ServeHTTP(w, r)
				return
			}
		}
		programs.ServeHTTP(w, r)
	})
}

// forPrograms serves agents, which have tokens of their own, and monitors. next serves the other paths.
func (h *Handler) forPrograms(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		switch {
		case h.o.Door != nil && isDoor(path):
			named(doorPath, h.o.Door).ServeHTTP(w, r)
		case path == seedEventsPath && h.o.Tokens != nil:
			h.agentEvents(w, r)
		case isHealth(path):
			h.plainPath(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// elsewhere says to agents, webhooks and relays that they have another address. Only the operator should reach this one, and
// the answer names the key alone.
func (h *Handler) elsewhere(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if isDoor(path) || strings.HasPrefix(path, hooksPrefix) || strings.HasPrefix(path, relayPrefix) {
			httpx.WriteError(w, http.StatusNotFound, string(bridge.NotFound),
				"this path does not exist at the operator's address; agents, webhooks and relays use the address under `listen` in bridge.yaml")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isDoor(path string) bool { return path == doorPath || strings.HasPrefix(path, doorPath+"/") }

func isHealth(path string) bool { return path == "/health" || path == "/healthz" }

// authenticate stands in front of the router, so that each route is closed unless
// it is named here. The page lets people in by itself. A path that is not a route answers 404 to everybody: clients of
// MCP look for OAuth at /.well-known/ and /register, and take 401 there for a
// broken authorization server. Which method a route takes is for those with the token.
func (h *Handler) authenticate() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		open := isHealth(path) || (path == "/metrics" && h.mayScrape(r))
		p, known := h.person(r)
		switch {
		case h.page != nil && h.page.Serves(r):
			h.page.ServeHTTP(w, r)
		case known:
			h.plainPath(w, asks(r, p))
		case open:
			h.plainPath(w, r)
		case !h.isRoute(r):
			notFound(w, r)
		case httpx.TokenShown(r):
			httpx.WriteUnauthorized(w, r, "the bridge does not accept this token; send the token from the file that `token:` in bridge.yaml names")
		default:
			httpx.WriteUnauthorized(w, r, "a token is required: send it as x-bridge-token or as Authorization: Bearer")
		}
	})
}
