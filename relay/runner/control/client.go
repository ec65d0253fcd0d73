package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"drawbridge/relay/runner/approval"
)

// ErrNoRelay means that no relay answers in the state folder.
var ErrNoRelay = errors.New("no relay is running there; start one with drawbridge-relay run")

// Client calls a running relay. It is safe for concurrent use.
type Client struct {
	http *http.Client
}

// NewClient returns a Client of the relay that uses the state folder.
func NewClient(state string) *Client {
	var dialer net.Dialer
	return &Client{http: &http.Client{Timeout: callTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", filepath.Join(state, SocketName))
		},
	}}}
}

// Status returns how the relay is.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	err = c.call(ctx, "GET /status", nil, &s)
	return s, err
}

// Pending returns the open questions, the oldest first.
func (c *Client) Pending(ctx context.Context) (open []approval.Pending, err error) {
	err = c.call(ctx, "GET /approvals", nil, &open)
	return open, err
}

// Decide answers an open question.
func (c *Client) Decide(ctx context.Context, id string, approve bool) error {
	return c.call(ctx, "POST /approvals/"+url.PathEscape(id), map[string]bool{"approve": approve}, nil)
}

// SwitchOff tells the relay to look at its kill switch and returns when nothing runs any more.
func (c *Client) SwitchOff(ctx context.Context) error {
	return c.call(ctx, "POST /stop", nil, nil)
}

// SwitchOn tells the relay to look at its kill switch.
func (c *Client) SwitchOn(ctx context.Context) error {
	return c.call(ctx, "POST /start", nil, nil)
}

// call asks for a route, such as "POST /stop".
func (c *Client) call(ctx context.Context, route string, body, into any) error {
	method, path, _ := strings.Cut(route, " ")
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://relay"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := c.http.Do(req)
	var unreachable *net.OpError
	if errors.As(err, &unreachable) && unreachable.Op == "dial" {
		return ErrNoRelay
	}
	if err != nil {
		return fmt.Errorf("call relay: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("call relay: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		var p problem
		if json.Unmarshal(answer, &p) != nil || p.Error == "" {
			p.Error = response.Status
		}
		return errors.New(p.Error)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
