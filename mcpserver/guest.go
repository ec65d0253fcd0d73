package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"drawbridge/bridge"
)

// Guest is an agent that another part of this process has proved to be who it is, so that its requests carry no token.
type Guest struct {
	Agent bridge.AgentID
	// Way names how the agent came in, for the log, and what may share a session: another way of the same agent opens its own.
	Way string
}

type guestKey struct{}

// guestMark begins the hash under which the door keeps what a guest opened. The hash of a token never begins so.
const guestMark = "guest "

// Admit serves requests as the guest's, in the place of the token that every other request needs. next is the door, or what leads to
// it. A token in such a request is not looked at. The caller has proved the agent for each request; all checks and bounds of the door hold.
func (g Guest) Admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(context.WithValue(r.Context(), guestKey{}, g))
		r.Header.Set("Authorization", "Bearer guest") // the SDK takes an identity from its own middleware, which wants one
		next.ServeHTTP(w, r)
	})
}

// guest returns the caller of a request that was admitted without a token; known is false for any other request.
func (d *Door) guest(r *http.Request) (c *caller, known bool, err error) {
	g, known := r.Context().Value(guestKey{}).(Guest)
	if !known {
		return nil, false, nil
	}
	token := bridge.DoorToken{ID: bridge.TokenID(g.Way), Agent: g.Agent, Hash: guestMark + string(g.Agent) + " " + g.Way}
	now := time.Now()
	if c, ok := d.known.get(token.Hash, now); ok {
		return &c, true, nil
	}
	c = &caller{token: token}
	err = d.o.Engine.View(r.Context(), func(tx *bridge.Scene) (err error) {
		if c.agent, err = tx.Agent(g.Agent); err == nil {
			c.root, err = tx.Agent(c.agent.Root)
		}
		return err
	})
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return nil, true, bridge.Errorf(bridge.Unauthenticated, "the agent of this session is gone and cannot call tools any more; end this session")
	case err != nil:
		return nil, true, fmt.Errorf("load agent %q: %w", g.Agent, err)
	}
	d.known.put(*c, now)
	return c, true, nil
}

// isGuest reports whether something was opened by a guest. It has no token that could be revoked.
func isGuest(hash string) bool { return strings.HasPrefix(hash, guestMark) }
