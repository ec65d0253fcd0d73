package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-resty/resty/v2"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/internal/strictjson"
	"drawbridge/relay/wire"
)

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
	if u.Scheme != "https" && (u.Scheme != "http" || !httpx.Loopback(u.Hostname())) {
		return "", fmt.Errorf("address %s would send the token unencrypted; use https, or a loopback address", u.Redacted())
	}
	unfit := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(r.Token) < 32 || strings.ContainsFunc(r.Token, unfit) {
		return "", errors.New("token must be at least 32 characters of plain ASCII without blanks, as in the relay's file")
	}
	return u.Scheme + "://" + u.Host, nil
}

// maxMoves bounds how many processes of a relay one call follows: each of them ended before it took the request.
const maxMoves = 5

// call asks a relay at its address and waits for its answer. The request names the one process of the relay that may run it, so that
// another process, which may have another journal, refuses it and is only asked what it knows.
func (h *Hub) call(ctx context.Context, name string, r bridge.ActionRequest) (bridge.ActionOutcome, error) {
	a := ask{ID: r.Request, Ask: wire.Ask{Action: r.Grant.Action()}}
	if h.o.Store == nil { // nothing is written down, so that nothing is known of an earlier request
		response, err := h.post(ctx, wire.RunPath, addressee{relay: name, request: a.ID}, a.Ask.Action)
		if err != nil {
			return bridge.ActionOutcome{}, err
		}
		return read(name, r.Grant.Action(), response)
	}
	fresh := false
	for range maxMoves {
		known, process, err := h.lookPost(ctx, name, a)
		switch {
		case err != nil:
			return bridge.ActionOutcome{}, err
		case known == wire.KnownOver:
			return h.recorded(ctx, name, a)
		}
		to := addressee{name, process, a.ID}
		may, first, err := h.tieTo(ctx, to, fresh || known == wire.KnownAgain)
		if err != nil {
			return bridge.ActionOutcome{}, err
		}
		if !may {
			return bridge.ActionOutcome{}, lostTrack(name)
		}
		response, err := h.post(ctx, wire.RunPath, to, a.Ask.Action)
		if err != nil {
			return bridge.ActionOutcome{}, err
		}
		if response.StatusCode() != http.StatusPreconditionFailed {
			return read(name, a.Ask.Action, response)
		}
		fresh = first // the process that ended never got it, unless an earlier request did
	}
	return bridge.ActionOutcome{}, bridge.Errorf(bridge.Unavailable, "relay %q is restarting again and again", name)
}

// lookPost asks a relay at its address what its journal knows of a request, and which process it is. process
// is "" when something else answers there.
func (h *Hub) lookPost(ctx context.Context, name string, a ask) (known wire.Known, process string, err error) {
	response, err := h.post(ctx, wire.LookupPath, addressee{relay: name, request: a.ID}, a.Ask.Action)
	if err != nil {
		return "", "", away(name) // nothing that runs was sent
	}
	process = response.Header().Get(wire.ProcessHeader)
	switch status := response.StatusCode(); {
	case !wire.ValidRequestID(process):
		return wire.KnownNot, "", nil
	case status == http.StatusOK || status == http.StatusForbidden:
		return wire.KnownOver, process, nil
	case status == http.StatusAccepted:
		return wire.KnownOpen, process, nil
	case status == http.StatusConflict:
		return wire.KnownAgain, process, nil
	}
	return wire.KnownNot, process, nil
}

// recorded returns the answer that a journal has. It asks once more, so that there is one way to read an answer.
func (h *Hub) recorded(ctx context.Context, name string, a ask) (bridge.ActionOutcome, error) {
	response, err := h.post(ctx, wire.LookupPath, addressee{relay: name, request: a.ID}, a.Ask.Action)
	if err != nil {
		return bridge.ActionOutcome{}, doubtful(err)
	}
	return read(name, a.Ask.Action, response)
}

// lookAt is LookUp at a relay that has an address.
func (h *Hub) lookAt(ctx context.Context, name string, a ask, tie bridge.RelayTie) (bridge.ActionFinding, error) {
	known, process, err := h.lookPost(ctx, name, a)
	finding := bridge.ActionFinding{Relay: name, Known: bridge.JournalNothing}
	switch {
	case err != nil:
		return bridge.ActionFinding{}, err
	case process == "":
		return bridge.ActionFinding{}, bridge.Errorf(bridge.NotFound, "the server at the address of relay %q cannot look requests up; correct url in bridge.yaml", name)
	case known == wire.KnownOpen:
		finding.Known = bridge.JournalOpen
	case known == wire.KnownAgain:
		finding.Known = bridge.JournalInterrupted
	case known == wire.KnownOver:
		out, err := h.recorded(ctx, name, a)
		if bridge.KindOf(err) == bridge.Conflict && bridge.IsUnclear(err) {
			finding.Known = bridge.JournalInterrupted
			return finding, nil
		}
		finding.Known, finding.Outcome = bridge.JournalOver, out
		return finding, err
	case h.never(tie, process):
		finding.Known = bridge.JournalNever
	}
	return finding, nil
}

// post sends one request to a relay at its address. With a process no other one may run it.
func (h *Hub) post(ctx context.Context, path string, to addressee, action string) (*resty.Response, error) {
	name, relay := to.relay, h.static[to.relay]
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request := h.client.R().SetContext(ctx).SetAuthToken(relay.Token).
		SetHeader(wire.RequestIDHeader, to.request).SetHeader("Content-Type", "application/json").
		SetBody(wire.Body{Action: action})
	if to.process != "" {
		request.SetHeader(wire.ProcessHeader, to.process)
	}
	response, err := request.Post(relay.URL + path)
	if err != nil {
		return nil, unanswered(name, err, connected.Load())
	}
	return response, nil
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
	answer = answer.Keeping(bridge.MaxOutput)
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
	e := bridge.Errorf(bridge.Unavailable, "relay %q answered with HTTP %d, but not as a relay does; check url in bridge.yaml", name, status)
	e.Cause = cause
	e.Unclear = status < http.StatusMultipleChoices || status >= http.StatusInternalServerError
	return e
}
