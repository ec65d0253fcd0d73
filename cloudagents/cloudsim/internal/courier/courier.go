// Package courier delivers webhooks: it signs the exact bytes, sends them to loopback addresses only, and tries again.
//
// It decides neither what is sent nor when a delivery starts, and it starts no goroutine.
//
// Rule of thumb: one Parcel is one delivery, whatever happens on its way.
package courier

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"drawbridge/internal/httpx"
)

// Delivery is one attempt to send a webhook, or the reason why none was made.
type Delivery struct {
	At      time.Time `json:"at"`
	ID      string    `json:"id"` // X-Webhook-ID
	AgentID string    `json:"agentId"`
	RunID   string    `json:"runId"`
	URL     string    `json:"url"`
	Status  string    `json:"status"` // the agent's status that is told
	Attempt int       `json:"attempt"`
	Code    int       `json:"code,omitempty"` // HTTP status of the answer, 0 without one
	Problem string    `json:"problem,omitempty"`
}

// Parcel is one webhook: the same bytes at every attempt. About names agent, run, URL and status.
type Parcel struct {
	Secret string
	Body   []byte
	About  Delivery
}

// Courier sends parcels. Its fields are set once, ahead of the first call; then it is safe for concurrent use.
type Courier struct {
	Client   *http.Client
	Attempts int
	Spacing  time.Duration // ahead of the first retry; it doubles for each further one
	// NewIDOnRetry gives each attempt its own id; SignAlways signs with the empty key when there is no secret.
	NewIDOnRetry, SignAlways bool

	Now   func() time.Time
	NewID func() string
	// Record is told every attempt when it is over.
	Record func(Delivery)
}

// NewClient is a client that connects to loopback addresses only, whatever names resolve to, and follows no redirect. A nil
// transport is a fresh one.
func NewClient(transport http.RoundTripper, timeout time.Duration) *http.Client {
	if transport == nil {
		transport = &http.Transport{DialContext: (&net.Dialer{Control: loopbackOnly}).DialContext, DisableKeepAlives: true}
	}
	return &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func loopbackOnly(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !httpx.Loopback(host) {
		return fmt.Errorf("webhook to %s refused: the simulator sends to loopback only", address)
	}
	return nil
}

// Deliver sends p until an attempt is answered with 2xx, attempts run out or ctx ends.
func (c *Courier) Deliver(ctx context.Context, p Parcel) {
	for n := 1; n <= c.Attempts; n++ {
		if n > 1 && !Sleep(ctx, c.Spacing<<(n-2), nil) {
			return
		}
		d := &p.About
		if d.ID == "" || c.NewIDOnRetry {
			d.ID = c.NewID()
		}
		d.Attempt, d.At, d.Code, d.Problem = n, c.Now(), 0, ""
		final := c.attempt(ctx, p.Secret, p.Body, d)
		c.Record(*d)
		if final {
			return
		}
	}
}

// attempt sends once; true means that no retry is due.
func (c *Courier) attempt(ctx context.Context, secret string, body []byte, d *Delivery) bool {
	u, err := url.Parse(d.URL)
	if err != nil || !httpx.Loopback(u.Hostname()) {
		d.Problem = "not sent: the simulator sends webhooks to loopback addresses only"
		return true
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(body))
	if err != nil {
		d.Problem = err.Error()
		return true
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Cursor-Agent-Webhook/1.0")
	req.Header.Set("X-Webhook-ID", d.ID)
	req.Header.Set("X-Webhook-Event", "statusChange")
	if secret != "" || c.SignAlways {
		req.Header.Set("X-Webhook-Signature", signature(secret, body))
	}
	res, err := c.Client.Do(req)
	if err != nil {
		d.Problem = err.Error()
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	_ = res.Body.Close()
	d.Code = res.StatusCode
	if res.StatusCode < 200 || res.StatusCode > 299 {
		d.Problem = fmt.Sprintf("answered %d", res.StatusCode)
		return false
	}
	return true
}

func signature(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// Sleep waits for d, or until early is closed; false means that ctx ended first.
func Sleep(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-early:
	case <-ctx.Done():
		return false
	}
	return true
}
