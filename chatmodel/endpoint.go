package chatmodel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-resty/resty/v2"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
)

// endpoint is one chat completions endpoint with one key. Safe for concurrent use.
type endpoint struct {
	name, url, model, key string
	now                   func() time.Time
	client                *resty.Client
}

func newEndpoint(o Options) (*endpoint, error) {
	if err := httpx.SafeForKey("the url of runtime "+o.Name, o.URL); err != nil {
		return nil, err
	}
	client := resty.NewWithClient(httpx.NewClient(o.Parallel, nil)).SetLogger(silent{}).SetDisableWarn(true).SetResponseBodyLimit(maxBody).SetHeader("Accept", "application/json").SetHeader("User-Agent", "drawbridge")
	if o.Key != "" {
		client.SetAuthToken(o.Key)
	}
	return &endpoint{name: o.Name, url: strings.TrimRight(o.URL, "/") + "/chat/completions", model: o.Model, key: o.Key, now: o.Now, client: client}, nil
}

// silent drops what resty would print: its lines may quote requests.
type silent struct{}

func (silent) Errorf(string, ...any) {}
func (silent) Warnf(string, ...any)  {}
func (silent) Debugf(string, ...any) {}

// complete asks the model once. Errors are *bridge.Error: RateLimited and Unavailable for what may go better later, other kinds
// for what a person has to correct. The key stands in none of them.
func (e *endpoint) complete(ctx context.Context, q request) (answer, error) {
	resp, err := e.client.R().SetContext(ctx).SetBody(q).Post(e.url)
	if err != nil {
		return answer{}, e.unreached(ctx, err)
	}
	if resp.StatusCode() != http.StatusOK {
		return answer{}, e.refusal(resp)
	}
	a, err := readAnswer(resp.Body())
	if err != nil {
		return answer{}, bridge.Errorf(bridge.Unavailable, "%s", e.shown(err.Error()))
	}
	return a, nil
}

// unreached words why there is not an answer. The library's own words are not shown: they may quote the address.
func (e *endpoint) unreached(ctx context.Context, err error) error {
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	switch {
	case errors.As(err, &cert):
		return &bridge.Error{Kind: bridge.Invalid, Message: "the certificate of the endpoint is not trusted; correct the url of runtime " + e.name + ", or have this machine trust the certificate", Cause: err}
	case errors.Is(err, resty.ErrResponseBodyTooLarge):
		return bridge.Errorf(bridge.Unavailable, "the endpoint's answer has more than %d bytes", maxBody)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &bridge.Error{Kind: bridge.Unavailable, Message: "the endpoint did not answer in time", Cause: err}
	case errors.As(err, &dns):
		return &bridge.Error{Kind: bridge.Unavailable, Message: "the name of the endpoint is not found; look at the url of runtime " + e.name, Cause: err}
	}
	return &bridge.Error{Kind: bridge.Unavailable, Message: "the endpoint cannot be reached or ended the connection; look whether it runs, and at the url of runtime " + e.name, Cause: err}
}

// refusal words a status other than 200.
func (e *endpoint) refusal(resp *resty.Response) error {
	status, said := resp.StatusCode(), e.shown(readError(resp.Body()))
	if said != "" {
		said = ": " + said
	}
	out := &bridge.Error{Kind: bridge.Unavailable, RetryAfter: httpx.RetryAfter(resp.Header(), e.now()), Message: fmt.Sprintf("the endpoint answers %d%s", status, said)}
	switch {
	case status == http.StatusTooManyRequests:
		out.Kind = bridge.RateLimited
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		out.Kind, out.Message = bridge.Unauthenticated, fmt.Sprintf("login missing: the endpoint refuses the key (%d%s); correct the key of runtime %s and start the bridge again", status, said, e.name)
	case status >= 300 && status < 400:
		out.Kind, out.Message = bridge.Invalid, fmt.Sprintf("the endpoint answers with a redirect (%d), which is not followed; write its final address as the url of runtime %s", status, e.name)
	case status == http.StatusNotFound:
		out.Kind, out.Message = bridge.Invalid, fmt.Sprintf("the endpoint does not know the model %s, or does not serve chat completions at this address (404%s); correct model and url of runtime %s", words.SafeWord(e.model), said, e.name)
	default:
		out.Kind, out.Message = bridge.Invalid, fmt.Sprintf("the endpoint refuses the request (%d%s)", status, said)
	}
	return out
}

// shown makes an endpoint's own words fit for a person, without the key.
func (e *endpoint) shown(said string) string {
	if e.key != "" {
		said = strings.ReplaceAll(said, e.key, "[key]")
	}
	return words.SafeLine(said, 300)
}

// Try asks the model once to call a tool that does nothing, and reports whether it does. Errors are those of a turn.
func Try(ctx context.Context, o Options) (calls bool, err error) {
	e, err := newEndpoint(o)
	if err != nil {
		return false, bridge.Errorf(bridge.Invalid, "%s", err)
	}
	defer e.client.GetClient().CloseIdleConnections()
	a, err := e.complete(ctx, request{Model: o.Model, Tools: tools([]bridge.ToolOffer{doNothing}), Messages: []message{
		{Role: "system", Content: text("You act by tools alone.")}, {Role: "user", Content: text("Call the tool do_nothing now.")}}})
	return len(a.Calls) > 0, err
}
