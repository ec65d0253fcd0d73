package api

import (
	"net/http"

	"drawbridge/api/timeline"
	"drawbridge/internal/httpx"
)

// seedEventsPath is where the office seed's readers look for events.
const seedEventsPath = "/events"

// seedEvents streams the timeline with the seed's names to the operator.
func (h *Handler) seedEvents(w http.ResponseWriter, r *http.Request) error {
	return timeline.StreamNew(w, r, &timeline.Reader{Source: h.o.Engine, Seed: true})
}

// agentEvents streams its own tree's to an agent with a door token.
func (h *Handler) agentEvents(w http.ResponseWriter, r *http.Request) {
	httpx.RecordOf(r.Context()).Route = seedEventsPath
	f, err := timeline.ForAgent(r, h.o.Engine, h.o.Tokens)
	if err == nil && r.Method != http.MethodGet {
		h.wrongMethod(w, r)
		return
	}
	if err == nil {
		_, err = readQuery(r)
	}
	if err == nil {
		err = h.agentStream(w, r, f)
	}
	if err != nil {
		fail(w, r, err)
	}
}

// agentStream counts a stream with those that the same token has open at /mcp.
func (h *Handler) agentStream(w http.ResponseWriter, r *http.Request, f *timeline.Reader) error {
	if h.o.Streams == nil {
		return timeline.StreamNew(w, r, f)
	}
	ctx, done, err := h.o.Streams(r, f.Token)
	if err != nil {
		return err
	}
	defer done()
	return timeline.StreamNew(w, r.WithContext(ctx), f)
}
