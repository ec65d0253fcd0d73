package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"drawbridge/api/timeline"
	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// newest is the order in which a list of events goes back from the end.
const newest = "newest"

// events answers with a page of the timeline, or with the timeline as it goes on.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "after", "before", "limit", "order", "agent", "tree", "kind")
	if err != nil {
		return err
	}
	after, err := q.number("after", 0, 0)
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	only, err := h.eventFilter(r.Context(), q)
	if err != nil {
		return err
	}
	switch order := q.get("order"); {
	case order != "" && order != newest:
		return bridge.Errorf(bridge.Invalid, "order: %+.40q is not allowed; write order=%s or leave it out", order, newest)
	case order == "" && only.Before != 0:
		return bridge.Errorf(bridge.Invalid, "before is allowed only with order=%s; add that, or leave out before", newest)
	case order == newest && (q.get("after") != "" || timeline.Wanted(r)):
		return bridge.Errorf(bridge.Invalid, "order=%s lists events from the end; leave out after, and the Accept header of a stream", newest)
	case order == newest:
		return h.history(w, r, only, limit)
	case timeline.Wanted(r):
		return timeline.Stream(w, r, &timeline.Reader{Source: h.o.Engine, After: after, Only: only})
	case only != bridge.EventFilter{}:
		return bridge.Errorf(bridge.Invalid, "agent, tree and kind are allowed only with order=%s, or with the Accept header of a stream; add one of these", newest)
	}
	found, err := timeline.Read(r.Context(), h.o.Engine, after, limit+1)
	if err != nil {
		return err
	}
	page, more := cut(found, limit)
	list := EventList{Events: viewAll(page, viewEvent)}
	if more {
		list.Next = strconv.FormatInt(page[len(page)-1].Seq, 10)
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

// eventFilter reads which events are wanted. An agent and a tree are named as everywhere; kinds have commas between them.
func (h *Handler) eventFilter(ctx context.Context, q query) (f bridge.EventFilter, err error) {
	if f.Before, err = q.number("before", 0, 1); err != nil {
		return f, err
	}
	if name := q.get("agent"); name != "" {
		a, err := h.agentBy(ctx, name)
		if err != nil {
			return f, err
		}
		f.Agent, f.Root = a.ID, a.Root
	}
	if name := q.get("tree"); name != "" {
		a, err := h.agentBy(ctx, name)
		if err != nil {
			return f, err
		}
		if f.Root != "" && f.Root != a.Root {
			return f, bridge.Errorf(bridge.Invalid, "the agent is not in this tree; leave out agent or tree")
		}
		f.Root = a.Root
	}
	if q.get("kind") == "" {
		return f, nil
	}
	kinds := strings.Split(q.get("kind"), ",")
	for _, kind := range kinds {
		if !slices.Contains(bridge.EventKinds, kind) {
			return f, bridge.Errorf(bridge.Invalid, "kind: %+.40q is not one of %s", kind, strings.Join(bridge.EventKinds, ", "))
		}
	}
	slices.Sort(kinds)
	f.Kinds = strings.Join(slices.Compact(kinds), " ")
	return f, nil
}

// history answers with events, newest first.
func (h *Handler) history(w http.ResponseWriter, r *http.Request, f bridge.EventFilter, limit int) error {
	var list EventList
	err := h.o.Engine.View(r.Context(), func(tx *bridge.Scene) error {
		found, next, err := tx.History(f, limit)
		if list = (EventList{Events: viewAll(found, viewEvent)}); next > 0 {
			list.Next = strconv.FormatInt(next, 10)
		}
		return err
	})
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}
