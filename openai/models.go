package openai

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
	"drawbridge/openai/upstream"
)

// namesFor is how long the door keeps a backend's list of models.
const namesFor = 5 * time.Minute

// names knows which backend has which model.
type names struct {
	routes []Route
	now    func() time.Time

	mu    sync.Mutex // guards lists
	lists map[string]list
}

// list is what a backend answered. A failure is kept for a few seconds, so that a dead backend does not slow each request.
type list struct {
	models []upstream.Model
	err    error
	until  time.Time
}

// of returns the models of a route, with the prefix.
func (n *names) of(ctx context.Context, r Route) ([]upstream.Model, error) {
	n.mu.Lock()
	l, ok := n.lists[r.Name]
	n.mu.Unlock()
	if ok && n.now().Before(l.until) {
		return l.models, l.err
	}
	models, err := r.Upstream.Models(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	l = list{err: err, until: n.now().Add(namesFor)}
	if err != nil {
		l.until = n.now().Add(5 * time.Second)
	}
	for _, m := range models {
		m.ID = r.prefixed(m.ID)
		m.Aliases = slices.Clone(m.Aliases)
		for i, a := range m.Aliases {
			m.Aliases[i] = r.prefixed(a)
		}
		l.models = append(l.models, m)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lists == nil {
		n.lists = map[string]list{}
	}
	n.lists[r.Name] = l
	return l.models, err
}

func (r Route) prefixed(name string) string { return r.Prefix + strings.TrimPrefix(name, r.Prefix) }

// find returns the backend of a model, and the model's name there.
func (n *names) find(ctx context.Context, model string) (Route, string, error) {
	var down error
	for _, r := range n.routes {
		if r.Prefix != "" {
			if own, ok := strings.CutPrefix(model, r.Prefix); ok && own != "" {
				return r, own, nil
			}
			continue
		}
		models, err := n.of(ctx, r)
		if err != nil {
			down = err
		}
		if slices.ContainsFunc(models, func(m upstream.Model) bool { return m.ID == model || slices.Contains(m.Aliases, model) }) {
			return r, model, nil
		}
	}
	if down != nil {
		e := shown(down)
		return Route{}, "", failure(http.StatusServiceUnavailable, upstreamError, "models_unavailable",
			"the list of models of a backend cannot be had just now, and no other backend has the model "+words.SafeWord(model)+": "+e.Message)
	}
	return Route{}, "", unknownModel(model)
}

func unknownModel(model string) *upstream.Error {
	e := failure(http.StatusNotFound, invalidRequest, "model_not_found", fmt.Sprintf("the model %s does not exist here, or this token may not use it; GET /v1/models lists those that it may use", words.SafeWord(model)))
	e.Param = "model"
	return e
}

// modelJSON is a model as the API shows it. Clients stop compacting a conversation when the length is missing or 0.
type modelJSON struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
	Context int    `json:"context_length,omitempty"`
}

// allowed lists the models that a token may use. A backend that does not answer is left out.
func (n *names) allowed(ctx context.Context, t Token) []modelJSON {
	out := []modelJSON{}
	for _, r := range n.routes {
		models, err := n.of(ctx, r)
		if err != nil {
			continue
		}
		for _, m := range models {
			for _, id := range append([]string{m.ID}, m.Aliases...) {
				if t.Allows(id) {
					out = append(out, toJSON(m, id))
				}
			}
		}
	}
	return out
}

func toJSON(m upstream.Model, id string) modelJSON {
	j := modelJSON{ID: id, Object: "model", Owner: m.Owner, Context: m.Context}
	if j.Owner == "" {
		j.Owner = "drawbridge"
	}
	if !m.Created.IsZero() {
		j.Created = m.Created.Unix()
	}
	return j
}

func (d *Door) models(w http.ResponseWriter, r *http.Request) {
	httpx.WriteJSON(w, http.StatusOK, map[string]any{"object": "list", "data": d.names.allowed(r.Context(), tokenOf(r.Context()))})
}

func (d *Door) model(w http.ResponseWriter, r *http.Request, id string) {
	all := d.names.allowed(r.Context(), tokenOf(r.Context()))
	at := slices.IndexFunc(all, func(m modelJSON) bool { return m.ID == id })
	if at < 0 {
		writeError(w, r, unknownModel(id))
		return
	}
	httpx.WriteJSON(w, http.StatusOK, all[at])
}
