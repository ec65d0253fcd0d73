// Package passthrough is the backend of the OpenAI-compatible door for chat
// completions endpoints: Ollama, vLLM, a proxy, a vendor. It passes a request on
// with the fields that it does not know, and keeps nothing between requests. The
// endpoint's key stays here: it stands in no error and in no log line.
package passthrough

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/httpx"
	"drawbridge/internal/loosejson"
	"drawbridge/openai/upstream"
)

// Model is one model of the endpoint, under the name that callers use.
type Model struct {
	// Model is the endpoint's own name; "" is the callers' name.
	Model string
	// Context is how many tokens it takes, 0 where nobody knows.
	Context int
}

// Options configure an Endpoint. Name and URL are required.
type Options struct {
	// Name is the backend's name in the configuration, for errors.
	Name string
	// URL is the endpoint's base, up to /v1. It is https; http is for this machine alone.
	URL string
	// Key is sent as a bearer token; "" for an endpoint that asks for none.
	Key string
	// Models are those that callers may name; without any, all that the endpoint lists.
	Models map[string]Model
	Log    zerolog.Logger
	// Silence is how long the endpoint may say nothing; 0 is ten minutes.
	Silence time.Duration
}

// The bounds of what an endpoint may say.
const (
	maxLine   = 8 << 20
	maxWhole  = 32 << 20
	maxRefuse = 64 << 10
	maxList   = 4 << 20
	maxModels = 5000
	listFor   = 20 * time.Second
)

const defaultSilence = 10 * time.Minute

// Endpoint is a chat completions endpoint. Safe for concurrent use.
type Endpoint struct {
	o      Options
	base   string
	client *http.Client
}

// New refuses an address that is not safe for a key. It connects to nothing.
func New(o Options) (*Endpoint, error) {
	if err := httpx.SafeForKey("the url of upstream "+o.Name, o.URL); err != nil {
		return nil, err
	}
	if o.Silence <= 0 {
		o.Silence = defaultSilence
	}
	return &Endpoint{o: o, base: strings.TrimRight(o.URL, "/"), client: httpx.NewClient(64, nil)}, nil
}

// Close ends idle connections. Turns under way go on.
func (p *Endpoint) Close() { p.client.CloseIdleConnections() }

// Models implements upstream.Upstream.
func (p *Endpoint) Models(ctx context.Context) ([]upstream.Model, error) {
	if len(p.o.Models) == 0 {
		return p.listed(ctx)
	}
	var out []upstream.Model
	for _, name := range slices.Sorted(maps.Keys(p.o.Models)) {
		out = append(out, upstream.Model{ID: name, Context: p.o.Models[name].Context, Owner: p.o.Name})
	}
	return out, nil
}

// listed asks the endpoint for its models. Each maker names the length of the context in a field of its own.
func (p *Endpoint) listed(ctx context.Context) ([]upstream.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, listFor)
	defer cancel()
	resp, err := p.do(ctx, http.MethodGet, "/models", nil)
	if err != nil {
		return nil, p.unreached(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, p.refusal(resp)
	}
	var list struct {
		Data []loosejson.Value[struct {
			ID      string                  `json:"id"`
			Owner   loosejson.Value[string] `json:"owned_by"`
			Created json.RawMessage         `json:"created"`
			Length  json.RawMessage         `json:"context_length"`
			Window  json.RawMessage         `json:"context_window"`
			Max     json.RawMessage         `json:"max_model_len"`
		}] `json:"data"`
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxList))
	if err != nil || json.Unmarshal(body, &list) != nil {
		return nil, upstream.NotBegun(http.StatusBadGateway, "models_unreadable", "the endpoint's list of models cannot be read; write the models of upstream "+p.o.Name+" into bridge.yaml")
	}
	var out []upstream.Model
	for _, each := range list.Data {
		m := each.Is
		if m.ID == "" || len(m.ID) > 200 || len(out) >= maxModels {
			continue
		}
		known := upstream.Model{ID: m.ID, Owner: m.Owner.Is}
		for _, length := range []json.RawMessage{m.Length, m.Window, m.Max} {
			if n := loosejson.Number(length); n != nil {
				known.Context = max(known.Context, int(*n))
			}
		}
		if n := loosejson.Number(m.Created); n != nil {
			known.Created = time.Unix(*n, 0)
		}
		out = append(out, known)
	}
	return out, nil
}

// Check asks the endpoint which models it has, and returns those of the options that it does not list, by the endpoint's names. listed counts
// what it lists. An endpoint that has no list is no fault where the options name the models.
func (p *Endpoint) Check(ctx context.Context) (missing []string, listed int, err error) {
	has, err := p.listed(ctx)
	var refused *upstream.Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound && len(p.o.Models) > 0:
		return nil, 0, nil
	case refused != nil && refused.Status == http.StatusNotFound:
		return nil, 0, fmt.Errorf("upstream %s has no list of models (404); correct its url, which usually ends with /v1, or list its models in bridge.yaml", p.o.Name)
	case refused != nil && refused.Code == "upstream_failed":
		return nil, 0, fmt.Errorf("the endpoint failed to list its models, and said: %s; look into the endpoint's log", cmp.Or(refused.Said, "nothing"))
	case err != nil:
		return nil, 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.o.Models)) {
		if own := p.own(name); !slices.ContainsFunc(has, func(m upstream.Model) bool { return m.ID == own }) {
			missing = append(missing, own)
		}
	}
	return missing, len(has), nil
}

// own is the endpoint's name of a model.
func (p *Endpoint) own(name string) string {
	if m := p.o.Models[name]; m.Model != "" {
		return m.Model
	}
	return name
}

func (p *Endpoint) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "drawbridge")
	req.Header.Set("Accept", "text/event-stream, application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if p.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+p.o.Key)
	}
	return p.client.Do(req)
}

// errSilent ends a turn whose endpoint said nothing for too long.
var errSilent = errors.New("the endpoint said nothing for too long")

// Start implements upstream.Upstream. It asks once more, without stream_options, when the endpoint refuses these: it has not begun then.
func (p *Endpoint) Start(ctx context.Context, r upstream.Request) (upstream.Turn, error) {
	t, err := p.ask(ctx, r, true)
	var refused *upstream.Error
	if errors.As(err, &refused) && refused.Status == http.StatusBadRequest && strings.Contains(refused.Message, "stream_options") {
		t, err = p.ask(ctx, r, false)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ask sends the request and waits for the endpoint's status. ctx bounds this wait alone.
func (p *Endpoint) ask(ctx context.Context, r upstream.Request, usage bool) (*turn, error) {
	body, err := request(r, p.own(r.Model), usage)
	if err != nil {
		return nil, err
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	silence := time.AfterFunc(p.o.Silence, func() { cancel(errSilent) })
	stop := context.AfterFunc(ctx, func() { cancel(ctx.Err()) })
	resp, err := p.do(own, http.MethodPost, "/chat/completions", strings.NewReader(string(body)))
	stop()
	if err != nil {
		silence.Stop()
		defer cancel(nil)
		return nil, p.unreached(own, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel(nil)
		defer silence.Stop()
		defer resp.Body.Close()
		return nil, p.refusal(resp)
	}
	p.o.Log.Debug().Str("upstream", p.o.Name).Str("turn", r.Turn).Str("content_type", resp.Header.Get("Content-Type")).Msg("the endpoint answers")
	offered := map[string]bool{}
	for _, tool := range r.Tools {
		offered[tool.Name] = true
	}
	return (&turn{p: p, ctx: own, cancel: cancel, silence: silence, offered: offered}).open(resp), nil
}

// Resume implements upstream.Upstream. An endpoint cannot be asked for an answer again.
func (p *Endpoint) Resume(context.Context, upstream.Request, string) (upstream.Turn, error) {
	return nil, &upstream.Error{Type: "upstream_error", Code: "answer_lost",
		Message: "the bridge was restarted while the endpoint answered, and the rest of the answer is lost; the endpoint may charge for it; send the request again as a new one"}
}
