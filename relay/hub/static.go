package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-resty/resty/v2"

	"drawbridge/bridge"
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

// call asks a relay at its address and waits for its answer.
func (h *Hub) call(ctx context.Context, name string, r bridge.ActionRequest) (bridge.ActionOutcome, error) {
	relay := h.static[name]
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
