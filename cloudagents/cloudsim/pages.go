package cloudsim

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"drawbridge/cloudagents/cloudsim/internal/request"
)

// page is one stretch of a list, newest first.
type page struct {
	limit  int
	before int    // only entries with a smaller sequence number; 0 is from the newest
	list   string // which list the cursor belongs to
}

// readPage reads limit and cursor. A cursor of another list is refused.
func readPage(q url.Values, list string) (page, error) {
	p := page{limit: 20, list: list}
	if raw := q.Get("limit"); q.Has("limit") {
		n, err := strconv.Atoi(raw)
		if err != nil || n < 1 || n > 100 {
			return p, request.Invalid("limit must be 1 to 100")
		}
		p.limit = n
	}
	if !q.Has("cursor") {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(q.Get("cursor"))
	seq, mine := strings.CutPrefix(string(text), list+" ")
	if err == nil {
		p.before, err = strconv.Atoi(seq)
	}
	if err != nil || !mine || p.before < 1 {
		return p, request.Invalid("cursor is not valid")
	}
	return p, nil
}

func (p page) cursor(seq int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d", p.list, seq))
}

// entry is one thing that can be listed.
type entry[T any] struct {
	seq  int
	item T
}

// cutPage takes the page out of all, which is oldest first, and the cursor of the next page, "" on the last.
func cutPage[T any](p page, all []entry[T]) ([]T, string) {
	items, last := []T{}, 0
	for _, e := range slices.Backward(all) {
		if p.before > 0 && e.seq >= p.before {
			continue
		}
		if len(items) == p.limit {
			return items, p.cursor(last)
		}
		items, last = append(items, e.item), e.seq
	}
	return items, ""
}

func listed(key string, items any, next string) map[string]any {
	out := map[string]any{key: items}
	if next != "" {
		out["nextCursor"] = next
	}
	return out
}
