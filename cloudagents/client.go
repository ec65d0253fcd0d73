package cloudagents

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-resty/resty/v2"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/internal/strictjson"
)

// DefaultBaseURL is where the Cloud Agents API is served.
const DefaultBaseURL = "https://api.cursor.com"

const (
	defaultTimeout    = 150 * time.Second
	maxReadTimeout    = 60 * time.Second
	defaultStreamIdle = 2 * time.Minute
	defaultMaxReply   = 8 << 20
	// replySlack leaves room for what stands around a reply in an answer.
	replySlack = 1 << 20
)

// Options configure a Client. Only Key is required.
type Options struct {
	// BaseURL is https, or http on a loopback address; empty is DefaultBaseURL.
	BaseURL string
	// Key is the API key. It is sent as a bearer token and appears nowhere else.
	Key string
	// API serves launches whose Grant names no version, and Me, Models and List:
	// bridge.APIv1 (the default) or bridge.APIv0.
	API string
	// Model is the id to ask for; empty leaves the choice to the account.
	Model string
	// Timeout bounds a request that has an effect; 150 s by default, because a
	// create was seen to take more than 30 s. Reads get the same, but at most 60 s.
	Timeout time.Duration
	// SettleTime is how long a lost request may still take effect; by default,
	// and at least, twice Timeout. See Client.SettleTime.
	SettleTime time.Duration
	// MaxReply bounds a reply, in bytes; 8 MiB by default.
	MaxReply int
	// StreamIdle is how long a stream may be silent, heartbeats included; 2 min by default.
	StreamIdle time.Duration
	// AutoCreatePR asks the API to open a pull request when an agent ends.
	AutoCreatePR bool
	// UserAgent names us to the API; "drawbridge" by default.
	UserAgent string
	// Proxy chooses a proxy for a request; nil is none, whatever the environment says.
	Proxy func(*http.Request) (*url.URL, error)
	// Around wraps what sends requests, for traces; nil wraps nothing.
	Around func(http.RoundTripper) http.RoundTripper
	// Now tells the time, to read dates in Retry-After; nil is time.Now.
	Now func() time.Time
}

// Client talks to one Cloud Agents API with one key. It is safe for concurrent
// use and starts nothing; Close it to drop its idle connections.
type Client struct {
	opts  Options
	base  string
	http  *http.Client
	resty *resty.Client
}

var (
	_ bridge.Runtime   = (*Client)(nil)
	_ bridge.Inspector = (*Client)(nil)
)

// New returns a Client, or an error that names the option at fault. It sends nothing.
func New(opts Options) (*Client, error) {
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("configure the Cloud Agents API client: %w", err)
	}
	hc := &http.Client{
		Transport: transport(opts.Proxy),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	if opts.Around != nil {
		hc.Transport = opts.Around(hc.Transport)
	}
	rc := resty.NewWithClient(hc).
		SetLogger(silent{}).
		SetDisableWarn(true).
		SetAuthToken(opts.Key).
		SetHeader("User-Agent", opts.UserAgent).
		SetHeader("Accept", "application/json")
	return &Client{opts: opts, base: strings.TrimRight(opts.BaseURL, "/"), http: hc, resty: rc}, nil
}

// Close drops idle connections. Requests under way are not disturbed.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// SettleTime is how long to wait before an unclear request that cannot be found
// may be taken as never having happened (facts: Effects over an unreliable API).
func (c *Client) SettleTime() time.Duration { return c.opts.SettleTime }

func (o Options) withDefaults() Options {
	setDefault(&o.BaseURL, DefaultBaseURL)
	setDefault(&o.API, bridge.APIv1)
	setDefault(&o.Timeout, defaultTimeout)
	setDefault(&o.SettleTime, 2*o.Timeout)
	setDefault(&o.MaxReply, defaultMaxReply)
	setDefault(&o.StreamIdle, defaultStreamIdle)
	setDefault(&o.UserAgent, "drawbridge")
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (o Options) check() error {
	switch {
	case o.Key == "":
		return errors.New("the API key is empty")
	case strings.ContainsFunc(o.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the API key contains a blank, a newline or another character that keys do not have; remove it")
	case o.API != bridge.APIv0 && o.API != bridge.APIv1:
		return fmt.Errorf("API version %q is not known; use %s or %s", o.API, bridge.APIv1, bridge.APIv0)
	case o.Timeout < 0 || o.MaxReply < 0 || o.StreamIdle < 0:
		return errors.New("a timeout or limit is negative")
	case o.SettleTime < 2*o.Timeout:
		return fmt.Errorf("the settle time %s is shorter than twice the timeout %s", o.SettleTime, o.Timeout)
	}
	return checkBaseURL(o.BaseURL)
}

// checkBaseURL does not quote the URL: a mistaken one may hold a password.
func checkBaseURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "":
		return errors.New("the API's URL does not parse; write it like " + DefaultBaseURL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the API's URL must not hold a user, a query or a fragment")
	case u.Scheme == "https" || u.Scheme == "http" && httpx.Loopback(u.Hostname()):
		return nil
	}
	return errors.New("the API's URL must be https; http is accepted on a loopback address only")
}

func transport(proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    15 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// silent drops what resty would print: its lines may quote requests.
type silent struct{}

func (silent) Errorf(string, ...any) {}
func (silent) Warnf(string, ...any)  {}
func (silent) Debugf(string, ...any) {}

// call is one request. Its path is built from constants and checked ids only.
type call struct {
	// what names the call in errors, such as "launch agent".
	what         string
	method, path string
	query        map[string]string
	body         any
	// strict reads the answer with strictjson, which also bounds it.
	strict bool
	// secrets are blanked in messages, beside the key.
	secrets []string
}

func get(what, path string) call  { return call{what: what, method: http.MethodGet, path: path} }
func post(what, path string) call { return call{what: what, method: http.MethodPost, path: path} }

func (k call) effect() bool { return k.method != http.MethodGet }

// do sends a call once and decodes a 2xx answer into out. Every error is a *bridge.Error.
func (c *Client) do(ctx context.Context, k call, out any) error {
	timeout := c.opts.Timeout
	if !k.effect() {
		timeout = min(timeout, maxReadTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := c.request(ctx, k)
	if err != nil {
		return &bridge.Error{Kind: bridge.Invalid, Message: k.what + ": the request cannot be written", Cause: err}
	}
	resp, err := req.Execute(k.method, c.base+k.path)
	if err != nil && !hasStatus(resp) {
		// Without a connection not a byte left this machine.
		return c.transportError(k, err, connected.Load())
	}
	if err != nil && resp.StatusCode() < 300 {
		return c.transportError(k, err, true)
	}
	if resp.StatusCode() >= 300 {
		return c.apiError(k, answer{status: resp.StatusCode(), header: resp.Header(), body: resp.Body()})
	}
	decode := json.Unmarshal
	if k.strict {
		decode = strictjson.Decode
	}
	if err := decode(resp.Body(), out); err != nil {
		return c.garbled(k, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, k call) (*resty.Request, error) {
	req := c.resty.R().SetContext(ctx).SetQueryParams(k.query).SetResponseBodyLimit(c.answerLimit(k))
	if k.body == nil {
		return req, nil
	}
	b, err := json.Marshal(k.body)
	if err != nil {
		return nil, err
	}
	return req.SetHeader("Content-Type", "application/json").SetBody(bytes.NewReader(b)), nil
}

// answerLimit bounds an answer, in bytes.
func (c *Client) answerLimit(k call) int {
	if k.strict {
		return strictjson.MaxBytes
	}
	return 2*c.opts.MaxReply + replySlack
}

func hasStatus(resp *resty.Response) bool {
	return resp != nil && resp.RawResponse != nil
}

// checkID guards a path segment: ids of the API come from outside.
func checkID(what, id string) error {
	if validID(id) {
		return nil
	}
	return bridge.Errorf(bridge.Invalid, "%s: %q is not an id of the Cloud Agents API", what, clip(id, 40))
}

// validID reports whether id is 1 to 128 of A-Z a-z 0-9 _ and -.
func validID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if !isIDByte(id[i]) {
			return false
		}
	}
	return true
}

func isIDByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' || b == '-'
}
