package openai

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"drawbridge/internal/clip"
	"drawbridge/internal/httpx"
	"drawbridge/openai/upstream"
)

// modelsFor is how long a backend's list of models is kept.
const modelsFor = 5 * time.Minute

// catalog is the models of all backends. Safe for concurrent use.
type catalog struct {
	backends []Backend
	now      func() time.Time

	mu   sync.Mutex // guards kept
	kept map[string]keptModels
}

type keptModels struct {
	list []upstream.Model
	at   time.Time
}

// of lists the models of a backend. A list that cannot be had any more stays as it was.
func (c *catalog) of(ctx context.Context, b Backend, fresh bool) ([]upstream.Model, error) {
	c.mu.Lock()
	k, have := c.kept[b.Name]
	c.mu.Unlock()
	if have && !b.Agents && !fresh && c.now().Sub(k.at) < modelsFor {
		return k.list, nil
	}
	list, err := b.Upstream.Models(ctx)
	if err != nil {
		if have {
			return k.list, nil
		}
		return nil, err
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].ID = b.Prefix + list[i].ID
		aliases := slices.Clone(list[i].Aliases)
		for n := range aliases {
			aliases[n] = b.Prefix + aliases[n]
		}
		list[i].Aliases = aliases
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[string]keptModels{}
	}
	c.kept[b.Name] = keptModels{list: list, at: c.now()}
	return list, nil
}

// mayHave returns the backends that may have a model: those whose prefix its name begins with, or else those without one. An endpoint that
// does not answer keeps nobody from the agents.
func (c *catalog) mayHave(name string) (out []Backend) {
	for _, b := range c.backends {
		if b.Prefix != "" && strings.HasPrefix(name, b.Prefix) {
			out = append(out, b)
		}
	}
	if out != nil {
		return out
	}
	return slices.DeleteFunc(slices.Clone(c.backends), func(b Backend) bool { return b.Prefix != "" })
}

// find returns the backend of a model and the model's own id. A name that is not there is looked for once more in fresh lists.
func (c *catalog) find(ctx context.Context, name string) (Backend, upstream.Model, error) {
	var trouble error
	backends := c.mayHave(name)
	for _, fresh := range []bool{false, true} {
		for _, b := range backends {
			list, err := c.of(ctx, b, fresh)
			if err != nil {
				trouble = cmp.Or(trouble, err)
				continue
			}
			at := slices.IndexFunc(list, func(m upstream.Model) bool { return m.ID == name || slices.Contains(m.Aliases, name) })
			if at >= 0 {
				return b, list[at], nil
			}
		}
	}
	for _, b := range backends {
		if b.Prefix != "" && name != b.Prefix {
			return b, upstream.Model{ID: name}, nil // the backend knows names that it does not list, such as ids
		}
	}
	if trouble != nil {
		e := shown(trouble)
		return Backend{}, upstream.Model{}, &upstream.Error{Status: http.StatusServiceUnavailable, Type: typeUpstream, Code: "upstream_unavailable", NothingHappened: true,
			Message: "the model " + quoted(name) + " is not known here, and a backend that may have it does not answer: " + e.Message}
	}
	return Backend{}, upstream.Model{}, noModel(name)
}

func noModel(name string) error {
	return &upstream.Error{Status: http.StatusNotFound, Type: typeInvalid, Param: "model", Code: "model_not_found", NothingHappened: true,
		Message: "the model " + quoted(name) + " is not known here; GET /v1/models lists what this token may use"}
}

// quoted is what a client sent, short enough to come back.
func quoted(s string) string { return `"` + clip.Text(strings.ToValidUTF8(s, "?"), 100) + `"` }

// modelView is a model as the API shows it, with the length that clients need to shorten their history in time.
type modelView struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Context int    `json:"context_length,omitempty"`
}

func viewModel(m upstream.Model) modelView {
	v := modelView{ID: m.ID, Object: "model", OwnedBy: cmp.Or(m.Owner, "drawbridge"), Context: m.Context}
	if !m.Created.IsZero() {
		v.Created = m.Created.Unix()
	}
	return v
}

// allowed lists what a token may use. A backend that does not answer leaves its models out.
func (d *Door) allowed(ctx context.Context, t Token) []upstream.Model {
	var out []upstream.Model
	for _, b := range d.o.Backends {
		list, err := d.models.of(ctx, b, false)
		if err != nil {
			d.o.Log.Warn().Err(err).Str("upstream", b.Name).Msg("models of a backend are not known")
		}
		for _, m := range list {
			if t.Allows(m.ID) {
				out = append(out, m)
			}
		}
	}
	return out
}

func (d *Door) listModels(w http.ResponseWriter, r *http.Request, t Token) error {
	out := struct {
		Object string      `json:"object"`
		Data   []modelView `json:"data"`
	}{Object: "list", Data: []modelView{}}
	for _, m := range d.allowed(r.Context(), t) {
		out.Data = append(out.Data, viewModel(m))
	}
	httpx.WriteJSON(w, http.StatusOK, out)
	return nil
}

func (d *Door) getModel(w http.ResponseWriter, r *http.Request, t Token) error {
	name, err := url.PathUnescape(mux.Vars(r)["id"])
	if err != nil {
		return noModel(mux.Vars(r)["id"])
	}
	_, m, err := d.models.find(r.Context(), name)
	if err != nil {
		return err
	}
	if !t.Allows(m.ID) {
		return notAllowed(t, name)
	}
	m.ID = name
	httpx.WriteJSON(w, http.StatusOK, viewModel(m))
	return nil
}

func notAllowed(t Token, model string) error {
	return &upstream.Error{Status: http.StatusForbidden, Type: typePermission, Param: "model", Code: "model_not_allowed", NothingHappened: true,
		Message: "the token " + t.Name + " may not use the model " + quoted(model) + "; make one that lists it: drawbridge token --openai NAME --model " + model}
}
