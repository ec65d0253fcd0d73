// Package hub is the bridge's side of the relays: it hands granted actions to the relay that has them.
//
// It decides nothing and repeats nothing: what may run is decided by the policy before and by the relay after it, and
// whether to ask again by the engine. It is not a queue. Rule of thumb: an error from here says exactly whether the
// action may have run.
package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-resty/resty/v2"

	"drawbridge/bridge"
	"drawbridge/internal/strictjson"
	"drawbridge/parser"
	"drawbridge/relay/wire"
)

const (
	// DefaultTimeout is how long a call may take: the longest action, an hour, and its wait in the relay's queue.
	DefaultTimeout = 65 * time.Minute
	dialTimeout    = 5 * time.Second
	// maxRetryAfter bounds what a relay may ask for, in seconds.
	maxRetryAfter = 24 * 60 * 60
)

// Relay says where a relay is and how to be let in. It never prints its token.
type Relay struct {
	// URL is http://host:port of a loopback address, as the relay's own file spells it, or https:// of any other.
	URL string
	// Token is the bearer token of the relay's file.
	Token string
}

// String leaves the token out.
func (r Relay) String() string { return r.URL }

// GoString leaves the token out.
func (r Relay) GoString() string { return r.URL }

// Options is what a [Hub] is made of.
type Options struct {
	// Relays holds every relay under the name that the allowlist uses for it.
	Relays map[string]Relay
	// Timeout bounds one call as a whole; DefaultTimeout unless set.
	Timeout time.Duration
}

// Hub is a bridge.ActionRunner over HTTP. It is safe for concurrent use.
type Hub struct {
	client *resty.Client
	relays map[string]Relay
}

var _ bridge.ActionRunner = (*Hub)(nil)

// New checks every relay's address and token, and reports all problems at once. It connects to nothing.
func New(o Options) (*Hub, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	h := &Hub{client: newClient(o.Timeout), relays: make(map[string]Relay, len(o.Relays))}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(o.Relays)) {
		relay := o.Relays[name]
		base, err := baseURL(relay)
		if err != nil {
			problems = append(problems, fmt.Errorf("relay %q: %w", name, err))
		}
		h.relays[name] = Relay{URL: base, Token: relay.Token}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return h, nil
}

func newClient(timeout time.Duration) *resty.Client {
	transport := &http.Transport{
		// A proxy of the environment would see the token.
		Proxy:               nil,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		// The transport repeats a request by itself when a kept connection turns out to be dead. Without kept connections
		// it repeats nothing, and a failed dial proves that nothing was sent.
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 16 << 10,
	}
	client := resty.NewWithClient(&http.Client{
		Transport:     transport,
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	return client.SetResponseBodyLimit(wire.MaxAnswer).SetRetryCount(0).SetDisableWarn(true).
		SetHeader("User-Agent", "drawbridge")
}

// baseURL refuses what would send the token in the clear over a network.
func baseURL(r Relay) (string, error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return "", errors.New("address must be http://127.0.0.1:<port> or https://<host>, without a path")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return "", fmt.Errorf("address %s would send the token unencrypted; use https, or a loopback address", u.Redacted())
	}
	unfit := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(r.Token) < 32 || strings.ContainsFunc(r.Token, unfit) {
		return "", errors.New("token must be at least 32 characters of plain ASCII without blanks, as in the relay's file")
	}
	return u.Scheme + "://" + u.Host, nil
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// RunAction sends the granted action to its relay and waits until it is over or refused. The error is always a
// *bridge.Error; Unclear means that the action may have run, and that asking again under the same Request is safe.
func (h *Hub) RunAction(ctx context.Context, r bridge.ActionRequest) (bridge.ActionOutcome, error) {
	if !r.Grant.Valid() || r.Grant.Verb() != parser.LocalAction {
		return bridge.ActionOutcome{}, bridge.Errorf(bridge.Denied, "an action needs a grant of the policy")
	}
	if !wire.ValidRequestID(r.Request) {
		return bridge.ActionOutcome{}, bridge.Errorf(bridge.Invalid, "request id %+.40q does not fit a relay", r.Request)
	}
	name, relay, err := h.relay(r.Grant.Relay())
	if err != nil {
		return bridge.ActionOutcome{}, err
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	response, err := h.client.R().SetContext(ctx).SetAuthToken(relay.Token).
		SetHeader(wire.RequestIDHeader, r.Request).SetHeader("Content-Type", "application/json").
		SetBody(wire.Body{Action: r.Grant.Action()}).Post(relay.URL + wire.RunPath)
	if err != nil {
		return bridge.ActionOutcome{}, unanswered(name, err, connected.Load())
	}
	return read(name, r.Grant.Action(), response)
}

// relay finds a relay by name; a grant without a name means the only one.
func (h *Hub) relay(name string) (string, Relay, error) {
	if name == "" && len(h.relays) == 1 {
		for only, relay := range h.relays {
			return only, relay, nil
		}
	}
	relay, found := h.relays[name]
	switch {
	case found:
		return name, relay, nil
	case len(h.relays) == 0:
		return "", Relay{}, bridge.Errorf(bridge.NotFound, "no relay is configured")
	default:
		known := strings.Join(slices.Sorted(maps.Keys(h.relays)), ", ")
		return "", Relay{}, bridge.Errorf(bridge.NotFound, "relay %q is not configured; configured: %s", name, known)
	}
}

// unanswered says what is known when no answer came: without a connection nothing was sent.
func unanswered(name string, err error, connected bool) error {
	e := bridge.Errorf(bridge.Unavailable, "relay %q cannot be reached; is drawbridge-relay running?", name)
	if connected {
		e = bridge.Errorf(bridge.Unavailable, "relay %q gave no answer; the action may have run", name)
		e.Unclear = true
	}
	e.Cause = err
	return e
}

// read turns a relay's answer into the outcome or the error that it stands for.
func read(name, action string, response *resty.Response) (bridge.ActionOutcome, error) {
	var answer wire.Answer
	err := strictjson.Decode(response.Body(), &answer)
	status := response.StatusCode()
	if err != nil || !answer.Status.Known() {
		return bridge.ActionOutcome{}, incomprehensible(name, status, err)
	}
	refused := answer.Status == wire.StatusRefused
	switch {
	case answer.Status == wire.StatusInterrupted:
		return bridge.ActionOutcome{}, interrupted(name, answer.Error)
	case status == http.StatusOK && answer.Action == action && !refused:
	case status == http.StatusForbidden && refused:
	case refused:
		return bridge.ActionOutcome{}, refusal(name, answer.Error, response)
	default:
		return bridge.ActionOutcome{}, incomprehensible(name, status, errors.New("status, action and decision do not belong together"))
	}
	return bridge.ActionOutcome{
		Status:     bridge.ActionStatus(answer.Status),
		ExitCode:   answer.ExitCode,
		Stdout:     answer.Stdout,
		Stderr:     answer.Stderr,
		Omitted:    answer.StdoutOmitted + answer.StderrOmitted,
		Duration:   time.Duration(answer.DurationMS) * time.Millisecond,
		Error:      answer.Error,
		HTTPStatus: status,
	}, nil
}

// interrupted is a relay's word that an earlier call of this request was cut off. Asking again gives the same answer, so
// it is a Conflict and nothing to wait for, whatever the HTTP status says.
func interrupted(name, reason string) error {
	e := bridge.Errorf(bridge.Conflict, "relay %q was interrupted: %+.200q", name, reason)
	e.Unclear = true
	return e
}

// refusal is a relay's word that nothing ran, for a reason that is not the action's.
func refusal(name, reason string, response *resty.Response) error {
	kinds := map[int]bridge.ErrorKind{
		http.StatusUnauthorized:       bridge.Unauthenticated,
		http.StatusConflict:           bridge.Conflict,
		http.StatusTooManyRequests:    bridge.RateLimited,
		http.StatusServiceUnavailable: bridge.Unavailable,
	}
	kind, known := kinds[response.StatusCode()]
	if !known {
		kind = bridge.Invalid
	}
	e := bridge.Errorf(kind, "relay %q refused: %+.200q", name, reason)
	seconds, err := strconv.Atoi(response.Header().Get("Retry-After"))
	if err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(min(seconds, maxRetryAfter)) * time.Second
	}
	return e
}

// incomprehensible covers what is no relay's answer. A redirect or a client error from whatever stands there means that
// nothing ran; anything else leaves it open.
func incomprehensible(name string, status int, cause error) error {
	e := bridge.Errorf(bridge.Unavailable, "relay %q answered with HTTP %d and nothing that a relay says", name, status)
	e.Cause = cause
	e.Unclear = status < http.StatusMultipleChoices || status >= http.StatusInternalServerError
	return e
}
