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
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
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
		dialer := &net.Dialer{Timeout: sendTimeout}
		if !o.Private { // asked after the name was looked up, so that no name leads around it
			dialer.Control = ssrf.New(ssrf.WithAnyPort()).Safe
		}
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
	if err != nil && !errors.Is(err, resty.ErrResponseBodyTooLarge) { // nobody reads the body
		return unreached(err)
	}
	return status(answer.StatusCode())
}

func status(code int) error {
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return fmt.Errorf("the address answered %d, a redirect; write the redirect's target as alerts.url", code)
	}
	return fmt.Errorf("the address answered %d; look into the receiver's log", code)
}

// unreached says why nobody answered. It repeats nothing of what the other side sent, and no name: a host's name may be a secret, too.
func unreached(err error) error {
	var name *net.DNSError
	var timeout interface{ Timeout() bool }
	var op *net.OpError
	var why syscall.Errno
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP):
		return errors.New("the address leads to an IP address that is not public; to allow that, write private: true below alerts")
	case errors.As(err, &name) && name.IsNotFound:
		return errors.New("the host of the address is not known; correct alerts.url")
	case errors.As(err, &name):
		return errors.New("the host of the address cannot be looked up now; look at this machine's DNS")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("the receiver did not answer within %s; look into the receiver's log", sendTimeout)
	case errors.As(err, &certificate):
		return errors.New("the certificate of the address is not valid here; renew it, or let this machine trust it")
	case errors.As(err, &op) && errors.As(op.Err, &why):
		return fmt.Errorf("the address cannot be reached (%w); look whether the receiver runs", why)
	}
	return errors.New("the address did not answer as a web server does; correct alerts.url")
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

// silent drops what resty would log: it names the address.
type silent struct{}

// Errorf implements resty.Logger.
func (silent) Errorf(string, ...any) {}

// Warnf implements resty.Logger.
func (silent) Warnf(string, ...any) {}

// Debugf implements resty.Logger.
func (silent) Debugf(string, ...any) {}
