package alerts

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-resty/resty/v2"

	"drawbridge/api"
)

// message is the body of a webhook.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      alertData `json:"data"`
}

// alertData is what an alert tells. Text and Line are words, which only Options.Contents lets out.
type alertData struct {
	Key     string    `json:"key,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Waiting int       `json:"waiting"`
	Link    string    `json:"link"`
	Text    string    `json:"text,omitempty"`
	Line    string    `json:"line,omitempty"`
}

// body is what an alert about a need says. waiting counts all needs.
func (s *Service) body(n api.Need, waiting int) []byte {
	d := alertData{Key: n.Key, Kind: n.Kind, Agent: n.AgentName, Since: n.Since, Waiting: waiting, Link: s.o.Page + "/needs/" + url.PathEscape(n.Key)}
	if s.o.Contents {
		d.Text, d.Line = n.Text, n.Line
	}
	return s.marshal("need.opened", d)
}

func (s *Service) marshal(kind string, d alertData) []byte {
	text, err := json.Marshal(message{Type: kind, Timestamp: s.o.Now().UTC(), Data: d})
	if err != nil {
		panic(err) // it has plain fields alone
	}
	return text
}

// poster sends signed webhooks to one address.
type poster struct {
	o    Options
	http *http.Client
	rest *resty.Client
}

// maxAnswer bounds what is read of an answer, in bytes. Nothing follows from it.
const maxAnswer = 64 << 10

func newPoster(o Options) *poster {
	send := o.Transport
	if send == nil {
		dialer := &net.Dialer{Timeout: sendTimeout, Control: func(_, address string, _ syscall.RawConn) error { return mayDial(address, o.Private) }}
		// Without a proxy: it would choose the address itself.
		send = &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 1, MaxResponseHeaderBytes: maxAnswer, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: sendTimeout}
	}
	hc := &http.Client{Transport: send, Timeout: sendTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	rc := resty.NewWithClient(hc).SetLogger(silent{}).SetDisableWarn(true).SetResponseBodyLimit(maxAnswer).SetHeader("User-Agent", "drawbridge").SetHeader("Content-Type", "application/json")
	return &poster{o: o, http: hc, rest: rc}
}

func (p *poster) close() { p.http.CloseIdleConnections() }

// send sends a webhook once. The error never names the address, which may hold a secret.
func (p *poster) send(ctx context.Context, id string, body []byte) error {
	at := strconv.FormatInt(p.o.Now().Unix(), 10)
	answer, err := p.rest.R().SetContext(ctx).SetBody(body).SetHeader("webhook-id", id).SetHeader("webhook-timestamp", at).
		SetHeader("webhook-signature", sign(p.o.Keys, id, at, body)).Post(p.o.URL)
	switch {
	case errors.Is(err, resty.ErrResponseBodyTooLarge):
		return status(answer.StatusCode())
	case err != nil:
		return unreached(err)
	}
	return status(answer.StatusCode())
}

func status(code int) error {
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return fmt.Errorf("the address answered %d: it leads elsewhere; write the address where it leads into alerts.url", code)
	}
	return fmt.Errorf("the address answered %d", code)
}

// unreached says why nobody answered. It repeats nothing of what the other side sent, and no name: a host's name may be a secret, too.
func unreached(err error) error {
	var private privateError
	var name *net.DNSError
	var timeout interface{ Timeout() bool }
	var op *net.OpError
	var why syscall.Errno
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &private):
		return private
	case errors.As(err, &name) && name.IsNotFound:
		return errors.New("the host of the address is not known; correct alerts.url")
	case errors.As(err, &name):
		return errors.New("the host of the address cannot be looked up now")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("nobody answered within %s", sendTimeout)
	case errors.As(err, &certificate):
		return errors.New("the certificate of the address is not valid, or this machine does not trust it")
	case errors.As(err, &op) && errors.As(op.Err, &why):
		return fmt.Errorf("the address cannot be reached: %w", why)
	}
	return errors.New("the address did not answer as a web server does")
}

// sign signs with each key, as Standard Webhooks 1.0.0 says: https://www.standardwebhooks.com
func sign(keys [][]byte, id, at string, body []byte) string {
	var all []string
	for _, key := range keys {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(id + "." + at + "."))
		h.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)))
	}
	return strings.Join(all, " ")
}

// privateError says that an address is not public.
type privateError struct{ address string }

// Error implements error.
func (e privateError) Error() string {
	return "the address leads to " + e.address + ", which is not public; to allow that, write private: true below alerts"
}

// special are networks that lead into machines and houses, or nowhere, besides those that package netip names.
// From the IANA special-purpose address registries.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"),
}

// unicast6 is the only part of IPv6 that leads to machines of others.
var unicast6 = netip.MustParsePrefix("2000::/3")

// mayDial refuses an address that is not public. It is asked after the name was looked up, so that no name leads around it.
func mayDial(address string, private bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("")
	if private || (ip.Is4() || unicast6.Contains(ip)) && ip.IsGlobalUnicast() && !ip.IsPrivate() && !slices.ContainsFunc(special, func(n netip.Prefix) bool { return n.Contains(ip) }) {
		return nil
	}
	return privateError{ip.String()}
}

// silent drops what resty would log: it names the address.
type silent struct{}

// Errorf implements resty.Logger.
func (silent) Errorf(string, ...any) {}

// Warnf implements resty.Logger.
func (silent) Warnf(string, ...any) {}

// Debugf implements resty.Logger.
func (silent) Debugf(string, ...any) {}
