// Package recall shows the operator what agents keep and what their tools were
// called with: blocks, passages, the record of a run; and it writes and deletes for
// the operator. It decides nothing: package api stands in front with token, limits and errors. Rule of
// thumb: a handler reads a request, looks once, and shows what it found.
package recall

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Block is a memory block of an agent, or an earlier version of one.
type Block struct {
	Label     string    `json:"label"`
	Version   int       `json:"version"`
	Content   string    `json:"content"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Passage is something that an agent stored.
type Passage struct {
	ID        string    `json:"id"`
	Content   string    `json:"content"`
	Tags      []string  `json:"tags"`
	CreatedAt time.Time `json:"created_at"`
}

// RunMessage is a tool call of a turn's run, or what it returned.
type RunMessage struct {
	Seq    int64  `json:"seq"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	CallID string `json:"call_id"`
	// Payload is the tool's arguments or results; {"clipped", "bytes"} when they were long.
	Payload json.RawMessage `json:"payload"`
	At      time.Time       `json:"time"`
}

// The lists.
type (
	// BlockList is by label, or newest first when versions of one block were asked for.
	BlockList struct {
		Blocks []Block `json:"blocks"`
	}
	// PassageList has the best first; without words the newest.
	PassageList struct {
		Passages []Passage `json:"passages"`
	}
	// RunMessageList is in order. Next, when it is not empty, asks for what
	// follows: as after in the next request.
	RunMessageList struct {
		Messages []RunMessage `json:"messages"`
		Next     string       `json:"next,omitempty"`
	}
)

// BlockRequest is what a block shall say. IfVersion is the version that the operator
// read, 0 for a block that is not there; without it whatever is there is replaced.
type BlockRequest struct {
	Label     string `json:"label"`
	Content   string `json:"content"`
	IfVersion *int   `json:"if_version,omitempty"`
}

// Deleted names what is no more.
type Deleted struct {
	Deleted string `json:"deleted"`
}

func viewBlock(b bridge.Block) Block {
	return Block{Label: b.Label, Version: b.Version, Content: b.Content, UpdatedAt: b.UpdatedAt}
}

func viewPassage(p bridge.Passage) Passage {
	return Passage{ID: string(p.ID), Content: p.Content, Tags: append([]string{}, p.Tags...), CreatedAt: p.CreatedAt}
}

func viewRunMessage(m bridge.RunMessage) RunMessage {
	// What is not JSON, whoever recorded it, must not spoil the whole list.
	payload := json.RawMessage(bridge.RunPayload([]byte(m.Payload)))
	return RunMessage{Seq: m.Seq, Kind: string(m.Kind), Name: m.Name, CallID: m.CallID, Payload: payload, At: m.At}
}

// all converts a list and is never nil, so that JSON shows [] and not null.
func all[N, V any](nouns []N, view func(N) V) []V {
	views := make([]V, len(nouns))
	for i, n := range nouns {
		views[i] = view(n)
	}
	return views
}

// Tools are the API's own readers of requests, so that a path and a query mean
// the same and fail alike everywhere, and its way to the store.
type Tools struct {
	// Agent finds the agent of the path, and Path reads another part of it.
	Agent func(*http.Request) (bridge.Agent, error)
	Path  func(r *http.Request, name string) (string, error)
	// Query reads a query whose every key must be known, besides limit, which it reads, too.
	Query func(r *http.Request, known ...string) (values url.Values, limit int, err error)
	View  func(context.Context, func(*bridge.Scene) error) error
	// Body reads a body whose every key must be known.
	Body func(w http.ResponseWriter, r *http.Request, v any) error
	// Memory changes what agents remember for the operator; nil where nothing is remembered.
	Memory Keeper
}

// Keeper changes what agents remember.
type Keeper interface {
	// Write replaces a block of b.Agent, or makes it, and returns it as it stands now.
	// Conflict when ifVersion is not the present version (nil for any), Invalid and
	// TooLarge for what cannot be kept. It may be called concurrently.
	Write(ctx context.Context, b bridge.Block, ifVersion *int) (bridge.Block, error)
	// Forget deletes a passage of an agent, ForgetBlock a block with its versions;
	// NotFound when it is not there. Both may be called concurrently.
	Forget(ctx context.Context, agent bridge.AgentID, id bridge.PassageID) error
	ForgetBlock(ctx context.Context, agent bridge.AgentID, label string) error
}

// Route is one line of the table of routes.
type Route struct {
	Method, Path string
	Serve        func(http.ResponseWriter, *http.Request) error
}

// Routes returns what is served here.
func Routes(t Tools) []Route {
	h := handler{t}
	routes := []Route{
		{http.MethodGet, "/v1/agents/{id}/blocks", h.blocks},
		{http.MethodGet, "/v1/agents/{id}/passages", h.passages},
		{http.MethodGet, "/v1/turns/{id}/run", h.run},
	}
	if t.Memory != nil {
		routes = append(routes, Route{http.MethodPost, "/v1/agents/{id}/blocks", h.writeBlock}, Route{http.MethodPost, "/v1/agents/{id}/blocks/delete", h.forgetBlock},
			Route{http.MethodPost, "/v1/agents/{id}/passages/{passage}/delete", h.forget})
	}
	return routes
}

type handler struct{ Tools }

// blocks lists an agent's blocks, or with label the versions of one.
func (h handler) blocks(w http.ResponseWriter, r *http.Request) error {
	q, limit, err := h.Query(r, "label")
	if err != nil {
		return err
	}
	a, err := h.Agent(r)
	if err != nil {
		return err
	}
	found, err := look(r, h, func(tx *bridge.Scene) ([]bridge.Block, error) {
		if label := q.Get("label"); label != "" {
			return tx.BlockVersions(a.ID, label, limit)
		}
		return tx.Blocks(a.ID)
	})
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, BlockList{Blocks: all(found, viewBlock)})
	return nil
}

// writeBlock replaces a block of an agent, or makes it.
func (h handler) writeBlock(w http.ResponseWriter, r *http.Request) error {
	var req BlockRequest
	if err := h.Body(w, r, &req); err != nil {
		return err
	}
	a, err := h.Agent(r)
	if err != nil {
		return err
	}
	b, err := h.Memory.Write(r.Context(), bridge.Block{Agent: a.ID, Label: req.Label, Content: req.Content}, req.IfVersion)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, viewBlock(b))
	return nil
}

// passages searches an agent's passages.
func (h handler) passages(w http.ResponseWriter, r *http.Request) error {
	q, limit, err := h.Query(r, "q", "tag*")
	if err != nil {
		return err
	}
	a, err := h.Agent(r)
	if err != nil {
		return err
	}
	found, err := look(r, h, func(tx *bridge.Scene) ([]bridge.Passage, error) {
		return tx.SearchPassages(bridge.PassageQuery{Agent: a.ID, Text: q.Get("q"), Tags: q["tag"], Limit: limit})
	})
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, PassageList{Passages: all(found, viewPassage)})
	return nil
}

// forget deletes a passage, and forgetBlock a block.
func (h handler) forget(w http.ResponseWriter, r *http.Request) error {
	id, err := h.Path(r, "passage")
	if err != nil {
		return err
	}
	return h.delete(w, r, id, func(a bridge.AgentID) error { return h.Memory.Forget(r.Context(), a, bridge.PassageID(id)) })
}

// forgetBlock reads the label from the query: it may hold what no path may, such as a slash.
func (h handler) forgetBlock(w http.ResponseWriter, r *http.Request) error {
	q, _, err := h.Query(r, "label")
	if err != nil {
		return err
	}
	label := q.Get("label")
	return h.delete(w, r, label, func(a bridge.AgentID) error { return h.Memory.ForgetBlock(r.Context(), a, label) })
}

func (h handler) delete(w http.ResponseWriter, r *http.Request, what string, forget func(bridge.AgentID) error) error {
	a, err := h.Agent(r)
	if err != nil {
		return err
	}
	if err := forget(a.ID); err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, Deleted{Deleted: what})
	return nil
}

// run is the record of a turn's run.
func (h handler) run(w http.ResponseWriter, r *http.Request) error {
	q, limit, err := h.Query(r, "after")
	if err != nil {
		return err
	}
	after, err := number(q.Get("after"))
	if err != nil {
		return err
	}
	id, err := h.Path(r, "id")
	if err != nil {
		return err
	}
	found, err := look(r, h, func(tx *bridge.Scene) ([]bridge.RunMessage, error) {
		if _, err := tx.Turn(bridge.TurnID(id)); err != nil {
			return nil, err
		}
		return tx.RunMessages(bridge.TurnID(id), after, limit+1)
	})
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.Errorf(bridge.NotFound, "no turn %+.60q", id)
	}
	if err != nil {
		return err
	}
	page := found[:min(len(found), limit)]
	list := RunMessageList{Messages: all(page, viewRunMessage)}
	if len(found) > limit {
		list.Next = strconv.FormatInt(page[limit-1].Seq, 10)
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

// number reads where a list goes on; "" is its beginning.
func number(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, bridge.Errorf(bridge.Invalid, "after: %+.40q is not a whole number of at least 0", text)
	}
	return n, nil
}

func look[T any](r *http.Request, h handler, at func(*bridge.Scene) (T, error)) (found T, err error) {
	err = h.View(r.Context(), func(tx *bridge.Scene) error {
		found, err = at(tx)
		return err
	})
	return found, err
}
