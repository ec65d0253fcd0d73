package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"drawbridge/api/timeline"
	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// seedEventsPath is where the office seed's readers look for events.
const seedEventsPath = "/events"

// seedEvents streams the timeline with the seed's names to the operator.
func (h *Handler) seedEvents(w http.ResponseWriter, r *http.Request) error {
	return h.streamFrom(w, r, &timeline.Reader{Source: h.o.Engine, Seed: true})
}

// agentEvents streams its own tree's to an agent with a door token.
func (h *Handler) agentEvents(w http.ResponseWriter, r *http.Request) {
	httpx.RecordOf(r.Context()).Route = seedEventsPath
	f, err := h.agentFeed(r)
	if err == nil && r.Method != http.MethodGet {
		h.wrongMethod(w, r)
		return
	}
	if err == nil {
		err = h.streamFrom(w, r, f)
	}
	if err != nil {
		fail(w, r, err)
	}
}

func (h *Handler) agentFeed(r *http.Request) (*timeline.Reader, error) {
	shown := r.Header.Values("Authorization")
	scheme, secret, _ := strings.Cut(strings.Join(slices.Compact(shown), ","), " ")
	if len(shown) != 1 || !strings.EqualFold(scheme, "Bearer") || r.Header.Get(httpx.TokenHeader) != "" {
		return nil, bridge.Errorf(bridge.Unauthenticated, "a token is required: the operator's, or an agent's own as Authorization: Bearer")
	}
	holder := func(ctx context.Context) (bridge.DoorToken, error) {
		return h.o.Tokens.Holder(ctx, strings.TrimSpace(secret))
	}
	t, err := holder(r.Context())
	if err != nil {
		return nil, err
	}
	f := &timeline.Reader{Source: h.o.Engine, Seed: true, Valid: func(ctx context.Context) bool {
		_, err := holder(ctx)
		return bridge.KindOf(err) != bridge.Unauthenticated
	}}
	err = h.o.Engine.View(r.Context(), func(tx bridge.Tx) error {
		a, err := tx.Agent(t.Agent)
		f.Root = a.Root
		return err
	})
	return f, err
}

// streamFrom streams from the event that the query or Last-Event-ID names, or
// from now on when neither does.
func (h *Handler) streamFrom(w http.ResponseWriter, r *http.Request, f *timeline.Reader) error {
	q, err := readQuery(r, "after")
	if err != nil {
		return err
	}
	if f.After, err = q.number("after", -1, 0); err != nil {
		return err
	}
	if f.After < 0 && r.Header.Get("Last-Event-Id") == "" {
		if f.After, err = timeline.Last(r.Context(), h.o.Engine); err != nil {
			return err
		}
	}
	f.After = max(f.After, 0)
	return timeline.Stream(w, r, f)
}
