package api

import (
	"net/http"
	"strconv"

	"drawbridge/api/timeline"
	"drawbridge/internal/httpx"
)

// events answers with a page of the timeline, or with the timeline as it goes on.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "after", "limit")
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
	if timeline.Wanted(r) {
		return timeline.Stream(w, r, &timeline.Reader{Source: h.o.Engine, After: after})
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
