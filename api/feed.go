package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sort"
	"strings"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// seedEventsPath is where the office seed's readers look for events.
const seedEventsPath = "/events"

// The events that the seed names and that stand in the timeline under another
// name; the rest of its names are those of mail's own events.
const (
	eventTyping = "agent_typing"
	eventDone   = "agent_done"
)

// seedNames are the seed's words beside the bridge's own.
var seedNames = map[string]string{
	bridge.EventTurn: eventTyping, bridge.EventReply: eventDone, bridge.EventTurnFailed: eventDone,
}

// feed is one reader of the timeline.
type feed struct {
	// after is the last event that the reader has.
	after int64
	// seed adds the seed's names.
	seed bool
	// root is set for an agent: it sees its own tree, while valid says that its token is good.
	root  bridge.AgentID
	valid func(context.Context) bool
	// kin remembers of agents whether they are of the tree.
	kin map[bridge.AgentID]bool
}

// maxKin bounds what a feed remembers.
const maxKin = 10_000

// named returns an event under all its names.
func (f *feed) named(e Event) []Event {
	if name := seedNames[e.Kind]; f.seed && name != "" {
		second := e
		second.Kind = name
		return []Event{e, second}
	}
	return []Event{e}
}

// gone reports whether the reader's token ended meanwhile.
func (f *feed) gone(ctx context.Context) bool { return f.valid != nil && !f.valid(ctx) }

// concerns reports whether an event is for the reader.
func (h *Handler) concerns(ctx context.Context, f *feed, e bridge.Event) (bool, error) {
	if f.root == "" {
		return true, nil
	}
	if mine, known := f.kin[e.Agent]; known || e.Agent == "" {
		return mine, nil
	}
	mine := false
	err := h.o.Engine.View(ctx, func(tx bridge.Tx) error {
		a, err := tx.Agent(e.Agent)
		if errors.Is(err, bridge.ErrNoRow) {
			return nil
		}
		mine = a.Root == f.root
		return err
	})
	if len(f.kin) >= maxKin {
		clear(f.kin)
	}
	f.kin[e.Agent] = mine
	return mine, err
}

// seedEvents streams the timeline with the seed's names to the operator.
func (h *Handler) seedEvents(w http.ResponseWriter, r *http.Request) error {
	return h.streamFrom(w, r, &feed{seed: true})
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

func (h *Handler) agentFeed(r *http.Request) (*feed, error) {
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
	f := &feed{seed: true, kin: map[bridge.AgentID]bool{}, valid: func(ctx context.Context) bool {
		_, err := holder(ctx)
		return bridge.KindOf(err) != bridge.Unauthenticated
	}}
	err = h.o.Engine.View(r.Context(), func(tx bridge.Tx) error {
		a, err := tx.Agent(t.Agent)
		f.root = a.Root
		return err
	})
	return f, err
}

// streamFrom streams from the event that the query or Last-Event-ID names, or
// from now on when neither does.
func (h *Handler) streamFrom(w http.ResponseWriter, r *http.Request, f *feed) error {
	q, err := readQuery(r, "after")
	if err != nil {
		return err
	}
	if f.after, err = q.number("after", -1, 0); err != nil {
		return err
	}
	if f.after < 0 && r.Header.Get("Last-Event-Id") == "" {
		if f.after, err = h.lastEvent(r.Context()); err != nil {
			return err
		}
	}
	f.after = max(f.after, 0)
	return h.stream(w, r, f)
}

// lastEvent finds the end of the timeline by halving, as no look-up tells it.
func (h *Handler) lastEvent(ctx context.Context) (int64, error) {
	var failure error
	last := func(n int) bool {
		found, err := h.readEvents(ctx, int64(n), 1)
		failure = errors.Join(failure, err)
		return err != nil || len(found) == 0
	}
	bound := 1
	for !last(bound) {
		bound *= 2
	}
	return int64(sort.Search(bound, last)), failure
}
