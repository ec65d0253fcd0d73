package cursor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/rs/zerolog"

	"drawbridge/internal/httpx"
	"drawbridge/openai/cursor/wire"
	"drawbridge/openai/upstream"
)

// Model is one model of the service, under the name that callers use.
type Model struct {
	// Model is the service's own name; "" is the callers' name.
	Model string
	// Context is how many tokens it takes, 0 where nobody knows.
	Context int
	// Max asks for the vendor's max mode, and Parameters are further wishes such as effort: high.
	Max        bool
	Parameters map[string]string
}

// DefaultURL is where the vendor's clients go.
const DefaultURL = "https://api2.cursor.sh"

// Settings are what errors call the settings of a Client, such as "the url of upstream direct".
type Settings struct{ Key, URL, AgentURL, Model string }

// of names the settings of an upstream of bridge.yaml.
func of(upstream string) Settings {
	return Settings{"the key of upstream " + upstream + " in bridge.yaml", "the url of upstream " + upstream, "the agent_url of upstream " + upstream, "the models of upstream " + upstream}
}

// Options configure a Client. Name and Key are required.
type Options struct {
	// Name is the backend's name in bridge.yaml. Settings replaces what errors say of its settings there.
	Name     string
	Settings Settings
	// URL is the service's host for keys and models, and AgentURL the one for runs; "" is DefaultURL, and URL.
	URL, AgentURL string
	// Key is the API key. It is exchanged for a token, and neither stands in an error or a log line.
	Key string
	// HTTP2 has one stream carry both directions. Without it, the service answers on a stream over HTTP/1.1, and each message to it is a call.
	HTTP2 bool
	// Privacy asks the service to keep nothing for training.
	Privacy bool
	// Models are those that callers may name; without any, all that the service lists.
	Models map[string]Model
	Log    zerolog.Logger
	// Dial replaces the way to the service, for tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// The times of this client. The beats and the 30 seconds are those of the vendor's client.
const (
	beatEach     = 5 * time.Second
	execBeatEach = 3 * time.Second
	// silentFor ends a run of which nothing at all comes. Behind a result, stalledFor ends one of which only heartbeats come; at other times,
	// idleFor does.
	silentFor  = 30 * time.Second
	stalledFor = 2 * time.Minute
	idleFor    = 10 * time.Minute
	// Calls leave together that lie at most together apart. listedFor is how long a turn waits for calls that the service announced.
	together  = 250 * time.Millisecond
	listedFor = 2 * time.Second
	// stateFor is how long a turn waits behind its end for the state.
	stateFor = 5 * time.Second
	// maxTries bounds how often a run is begun of which nothing was shown.
	maxTries = 4
)

// retryAfterTry are the pauses between tries.
var retryAfterTry = []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second}

// maxMessage bounds a message of the service, in bytes.
const maxMessage = 64 << 20

// Client is the backend. Safe for concurrent use.
type Client struct {
	o       Options
	http    *http.Client
	account account
	run     *connect.Client[wire.BidiRequestId, wire.AgentServerMessage]
	appends *connect.Client[wire.BidiAppendRequest, wire.Empty]
	duplex  *connect.Client[wire.AgentClientMessage, wire.AgentServerMessage]

	base context.Context //nolint:containedctx // ended by Close alone; turns outlive the requests that began them
	stop context.CancelFunc
}

// New refuses an address that is not safe for a key. It connects to nothing.
func New(o Options) (*Client, error) {
	o.URL = strings.TrimRight(cmp.Or(o.URL, DefaultURL), "/")
	o.AgentURL = strings.TrimRight(cmp.Or(o.AgentURL, o.URL), "/")
	o.Settings = cmp.Or(o.Settings, of(o.Name))
	if err := cmp.Or(httpx.SafeForKey(o.Settings.URL, o.URL), httpx.SafeForKey(o.Settings.AgentURL, o.AgentURL)); err != nil {
		return nil, err
	}
	if o.Key == "" {
		return nil, fmt.Errorf("%s is missing", o.Settings.Key)
	}
	c := &Client{o: o}
	c.http = httpx.NewClient(64, func(t *http.Transport) {
		t.Protocols = &http.Protocols{}
		t.Protocols.SetHTTP1(!o.HTTP2)
		t.Protocols.SetHTTP2(o.HTTP2)
		t.Protocols.SetUnencryptedHTTP2(o.HTTP2)
		if o.Dial != nil {
			t.DialContext = o.Dial
		}
	})
	c.http.Transport = streams{c.http.Transport}
	c.account = account{c: c, exchanging: make(chan struct{}, 1)}
	c.base, c.stop = context.WithCancel(context.Background())
	c.run = connect.NewClient[wire.BidiRequestId, wire.AgentServerMessage](c.http, o.AgentURL+wire.RunSSE, connect.WithReadMaxBytes(maxMessage))
	c.appends = connect.NewClient[wire.BidiAppendRequest, wire.Empty](c.http, o.AgentURL+wire.BidiAppend, connect.WithReadMaxBytes(1<<20))
	c.duplex = connect.NewClient[wire.AgentClientMessage, wire.AgentServerMessage](c.http, o.AgentURL+wire.Run, connect.WithReadMaxBytes(maxMessage))
	return c, nil
}

// Close ends all runs.
func (c *Client) Close() {
	c.stop()
	c.http.CloseIdleConnections()
}

// streams reads what connect would not: an answer with the content type of server-sent events, as the service is said to name its streams, and the
// body and the headers of one that is refused.
type streams struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (s streams) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Header.Set("Content-Type", "application/connect+proto")
	}
	if resp.StatusCode != http.StatusOK && r.Header.Get("Connect-Protocol-Version") != "" {
		defer resp.Body.Close()
		e := &refused{status: resp.StatusCode, wait: httpx.RetryAfter(resp.Header, time.Now())}
		if body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefused)); err == nil {
			_ = json.Unmarshal(body, &e.body) // a status says enough
		}
		return nil, e
	}
	return resp, nil
}

// maxRefused bounds what is read of a refusal, in bytes.
const maxRefused = 64 << 10

// refused is a call that the service answers with a status of HTTP.
type refused struct {
	status int
	wait   time.Duration
	body   struct {
		Code, Message string
		Details       []struct{ Type, Value string }
	}
}

// Error implements error.
func (e *refused) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body.Message) }

// CloseIdleConnections is what [http.Client] calls.
func (s streams) CloseIdleConnections() {
	if t, ok := s.next.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Models implements [upstream.Upstream].
func (c *Client) Models(ctx context.Context) ([]upstream.Model, error) {
	if len(c.o.Models) == 0 {
		return c.account.models(ctx)
	}
	var out []upstream.Model
	for _, name := range slices.Sorted(maps.Keys(c.o.Models)) {
		out = append(out, upstream.Model{ID: name, Context: c.o.Models[name].Context, Owner: c.o.Name})
	}
	return out, nil
}

// Check exchanges the key, and names the configured models that the service does not list; listed is how many it does.
func (c *Client) Check(ctx context.Context) (missing []string, listed int, err error) {
	if _, err := c.account.bearer(ctx); err != nil {
		return nil, 0, err
	}
	list, err := c.account.models(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.o.Models)) {
		own := cmp.Or(c.o.Models[name].Model, name)
		if !slices.ContainsFunc(list, func(m upstream.Model) bool { return m.ID == own || slices.Contains(m.Aliases, own) }) {
			missing = append(missing, own)
		}
	}
	return missing, len(list), nil
}

// model is what is asked for under the name of a caller.
func (c *Client) model(name string) *wire.RequestedModel {
	m := c.o.Models[name]
	out := &wire.RequestedModel{ModelId: cmp.Or(m.Model, name), MaxMode: m.Max}
	for _, id := range slices.Sorted(maps.Keys(m.Parameters)) {
		out.Parameters = append(out.Parameters, &wire.ModelParameter{Id: id, Value: m.Parameters[id]})
	}
	return out
}

// Start implements [upstream.Upstream]. It returns when the model has said something: what fails before is refused as a whole.
func (c *Client) Start(ctx context.Context, q upstream.Request) (upstream.Turn, error) {
	return c.start(ctx, q, nil)
}

func (c *Client) start(ctx context.Context, q upstream.Request, l Local) (upstream.Turn, error) {
	if err := fits(q); err != nil {
		return nil, err
	}
	t, err := c.newTurn(ctx, q, l)
	if err != nil {
		return nil, err
	}
	go t.live()
	select {
	case <-t.heard:
		return t, nil
	case <-t.done:
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.failed != nil {
			return nil, t.failed
		}
		return t, nil
	case <-ctx.Done():
		t.stop(context.Cause(ctx))
		return nil, ctx.Err()
	}
}

// Resume implements [upstream.Upstream]: a run ends with the process that opened it.
func (c *Client) Resume(context.Context, upstream.Request, string) (upstream.Turn, error) {
	return nil, &upstream.Error{Code: "turn_lost", Message: "the bridge was restarted while the model answered, and the run ended with it; send the request again as a new one"}
}

// fits refuses what the protocol cannot carry.
func fits(q upstream.Request) error {
	if q.Format() != "" {
		return upstream.BadRequest("response_format", "unsupported_parameter", "this backend does not support response_format; leave it out, and describe the format in the message")
	}
	if q.Choice != "" && q.Choice != "auto" && q.Choice != "none" {
		return upstream.BadRequest("tool_choice", "unsupported_parameter", "this backend cannot make the model call a tool; leave tool_choice out, and ask for the call in the message")
	}
	for i, m := range q.Messages {
		for _, image := range m.Images {
			if len(image.Data) == 0 {
				return upstream.BadRequest(fmt.Sprintf("messages[%d]", i), "unsupported_image", "this backend cannot load an image from an address; send the image itself as a data: URL")
			}
		}
	}
	return nil
}
