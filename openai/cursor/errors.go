package cursor

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"drawbridge/internal/clip"
	"drawbridge/openai/cursor/wire"
	"drawbridge/openai/upstream"
)

// maxRetryAfter bounds how long the service may ask to wait.
const maxRetryAfter = 24 * time.Hour

// failure is an error of something that did not begin.
func (c *Client) failure(status int, code, message string) *upstream.Error {
	return &upstream.Error{Status: status, Type: "upstream_error", Code: code, Message: message, NothingHappened: true}
}

// broken is an error of a turn that the service may have worked on.
func (c *Client) broken(code, message string) *upstream.Error {
	return &upstream.Error{Type: "upstream_error", Code: code, Message: message}
}

func (c *Client) badKey() *upstream.Error {
	// The caller's own token is good, so that 401 would mislead; and a repeat changes nothing.
	return c.failure(http.StatusBadRequest, "upstream_login", "the service refuses the bridge's key; correct the key of upstream "+c.o.Name+" in bridge.yaml")
}

func (c *Client) cut() *upstream.Error {
	return c.broken("upstream_cut", "the service's answer broke off, so what came before is not all; send the request again as a new one")
}

// unreached words why the service did not answer. Nothing happened only where the connection was not made.
func (c *Client) unreached(err error) *upstream.Error {
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &cert):
		return c.failure(http.StatusServiceUnavailable, "upstream_certificate", "the certificate of the service is not trusted; correct the url of upstream "+c.o.Name)
	case errors.As(err, &dns):
		return c.failure(http.StatusServiceUnavailable, "upstream_unreachable", "the name of the service is not found; look at the url of upstream "+c.o.Name)
	case errors.As(err, &op) && op.Op == "dial":
		return c.failure(http.StatusServiceUnavailable, "upstream_unreachable", "the service cannot be reached; look at the network of the bridge, and at the url of upstream "+c.o.Name)
	}
	return c.cut()
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// verdict says what the end of a run means.
type verdict struct {
	told *upstream.Error
	// again is set where another try may help, and stale where the token may have been too old.
	again, stale bool
}

// kinds are the service's numbers for errors, with the words of this door.
var kinds = func() map[int32]upstream.Error {
	out := map[int32]upstream.Error{}
	add := func(status int, kind, code string, numbers ...int32) {
		for _, n := range numbers {
			out[n] = upstream.Error{Status: status, Type: kind, Code: code}
		}
	}
	add(http.StatusBadRequest, "upstream_error", "upstream_login", 1, 2, 3, 11, 12, 18, 38, 42)
	add(http.StatusNotFound, "invalid_request_error", "model_not_found", 5, 58, 61)
	add(http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded", 7, 8, 22, 34, 50, 51)
	add(http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota", 9, 10, 41)
	add(http.StatusPaymentRequired, "upstream_error", "upstream_payment", 23, 44, 45)
	add(http.StatusBadRequest, "invalid_request_error", "context_length_exceeded", 20, 43)
	add(http.StatusBadRequest, "upstream_error", "upstream_aborted", 21, 35)
	add(http.StatusBadRequest, "invalid_request_error", "upstream_refused", 31, 36, 60)
	add(http.StatusBadGateway, "upstream_error", "upstream_outdated", 30, 40)
	add(http.StatusServiceUnavailable, "upstream_error", "upstream_unavailable", 13, 14, 57, 59, 63)
	add(http.StatusForbidden, "upstream_error", "upstream_forbidden", 54, 64, 65)
	return out
}()

// judge reads the error that ended a run.
func (c *Client) judge(err error) verdict {
	var status *refused
	if errors.As(err, &status) {
		return c.judgeStatus(status)
	}
	var e *connect.Error
	if !errors.As(err, &e) {
		return verdict{told: c.unreached(err), again: true}
	}
	for _, d := range e.Details() {
		var details wire.ErrorDetails
		if d.Type() == wire.DetailsType && proto.Unmarshal(d.Bytes(), &details) == nil {
			return verdict{told: c.explained(&details, e.Message(), retryAfter(e.Meta()))}
		}
	}
	said := c.shown(e.Message())
	if !connect.IsWireError(e) { // of this side
		told := c.unreached(err)
		if told.Code == "upstream_cut" {
			told.Said = said
		}
		return verdict{told: told, again: true}
	}
	switch e.Code() {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return verdict{told: c.badKey(), stale: true}
	case connect.CodeResourceExhausted:
		return verdict{told: c.toWait(said, retryAfter(e.Meta()))}
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return verdict{told: c.failure(http.StatusBadRequest, "upstream_refused", "the service refuses the request: "+said)}
	case connect.CodeUnimplemented:
		return verdict{told: c.noService(), again: true}
	}
	told := c.broken("upstream_failed", "the service failed")
	told.Said = said
	return verdict{told: told, again: true}
}

func (c *Client) toWait(said string, wait time.Duration) *upstream.Error {
	told := c.failure(http.StatusTooManyRequests, "rate_limit_exceeded", "the service asks to wait: "+said)
	told.Type, told.RetryAfter = "rate_limit_error", wait
	return told
}

func (c *Client) noService() *upstream.Error {
	return c.failure(http.StatusBadGateway, "upstream_refused", "what answers does not know the calls of this protocol; look at the agent_url of upstream "+c.o.Name)
}

// judgeStatus reads a call that was refused before anything was said.
func (c *Client) judgeStatus(e *refused) verdict {
	for _, d := range e.body.Details {
		var details wire.ErrorDetails
		raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(d.Value, "="))
		if err == nil && d.Type == wire.DetailsType && proto.Unmarshal(raw, &details) == nil {
			return verdict{told: c.explained(&details, e.body.Message, e.wait)}
		}
	}
	said := c.shown(e.body.Message)
	switch {
	case e.status == http.StatusUnauthorized:
		return verdict{told: c.badKey(), stale: true}
	case e.status == http.StatusForbidden:
		return verdict{told: c.failure(e.status, "upstream_forbidden", "the service does not allow the request: "+said)}
	case e.status == http.StatusTooManyRequests:
		return verdict{told: c.toWait(said, e.wait), again: e.wait == 0}
	case e.status == http.StatusNotFound:
		return verdict{told: c.noService(), again: true}
	case e.status < 500:
		return verdict{told: c.failure(http.StatusBadRequest, "upstream_refused", fmt.Sprintf("the service refuses the request (%d): %s", e.status, said)), again: true}
	}
	told := c.failure(http.StatusServiceUnavailable, "upstream_unavailable", fmt.Sprintf("the service is not available (%d): %s", e.status, said))
	told.RetryAfter = e.wait
	return verdict{told: told, again: true}
}

// explained is an error whose details say of which kind it is.
func (c *Client) explained(d *wire.ErrorDetails, message string, wait time.Duration) *upstream.Error {
	text := strings.TrimSpace(d.GetDetails().GetTitle() + " " + d.GetDetails().GetDetail())
	if text == "" {
		text = message
	}
	told, known := kinds[d.GetError()]
	if !known {
		told = upstream.Error{Status: http.StatusBadRequest, Type: "upstream_error", Code: "upstream_failed"}
	}
	told.Message = fmt.Sprintf("the service says: %s (kind %d)", c.shown(text), d.GetError())
	if told.Code == "upstream_login" {
		told.Message = c.badKey().Message + "; the service says: " + c.shown(text)
	}
	told.NothingHappened, told.RetryAfter = true, wait
	return &told
}

// shown is what the service said, short and without the key.
func (c *Client) shown(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	for _, secret := range []string{c.o.Key, c.account.held()} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return clip.Text(text, 500)
}
