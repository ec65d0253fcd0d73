package cursor

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
	"drawbridge/openai/cursor/wire"
	"drawbridge/openai/upstream"
)

func (c *Client) badKey() *upstream.Error {
	// The caller's own token is good, so that 401 would mislead; and a repeat changes nothing.
	return upstream.NotBegun(http.StatusBadRequest, "upstream_login", "the service refuses the key; correct "+c.o.Settings.Key)
}

func (c *Client) cut() *upstream.Error {
	return upstream.MayHaveBegun("upstream_cut", "the service's answer broke off, so it is not complete; send the request again as a new one")
}

// unreached words why the service did not answer. Nothing happened only where the connection was not made.
func (c *Client) unreached(err error) *upstream.Error {
	if e := upstream.Unreached(err, "service", c.o.Settings.URL); e != nil {
		return e
	}
	return c.cut()
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
	var own *upstream.Error
	switch {
	case errors.As(err, &own): // an end that this client made itself, or a key that was refused
		return verdict{told: own, again: own.Code == "upstream_silent" || own.Code == "upstream_cut"}
	case errors.As(err, &status):
		return c.judgeStatus(status)
	case errors.Is(err, errOver):
		return verdict{told: c.cut(), again: true}
	}
	var e *connect.Error
	if !errors.As(err, &e) {
		return verdict{told: c.unreached(err), again: true}
	}
	for _, d := range e.Details() {
		var details wire.ErrorDetails
		if d.Type() == wire.DetailsType && proto.Unmarshal(d.Bytes(), &details) == nil {
			return verdict{told: c.explained(&details, e.Message(), httpx.RetryAfter(e.Meta(), time.Now()))}
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
		return verdict{told: c.toWait(said, httpx.RetryAfter(e.Meta(), time.Now()))}
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return verdict{told: upstream.NotBegun(http.StatusBadRequest, "upstream_refused", "the service refuses the request: "+said)}
	case connect.CodeUnimplemented:
		return verdict{told: c.noService(), again: true}
	}
	told := upstream.MayHaveBegun("upstream_failed", "the service failed")
	told.Said = said
	return verdict{told: told, again: true}
}

func (c *Client) toWait(said string, wait time.Duration) *upstream.Error {
	told := upstream.NotBegun(http.StatusTooManyRequests, "rate_limit_exceeded", "the service asks to wait: "+said)
	told.Type, told.RetryAfter = "rate_limit_error", wait
	return told
}

func (c *Client) noService() *upstream.Error {
	return upstream.NotBegun(http.StatusBadGateway, "upstream_refused", "the server there does not know the calls of this protocol; check "+c.o.Settings.AgentURL)
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
		return verdict{told: upstream.NotBegun(e.status, "upstream_forbidden", "the service does not allow the request: "+said)}
	case e.status == http.StatusTooManyRequests:
		return verdict{told: c.toWait(said, e.wait), again: e.wait == 0}
	case e.status == http.StatusNotFound:
		return verdict{told: c.noService(), again: true}
	case e.status < 500:
		return verdict{told: upstream.NotBegun(http.StatusBadRequest, "upstream_refused", fmt.Sprintf("the service refuses the request (%d): %s", e.status, said)), again: true}
	}
	told := upstream.NotBegun(http.StatusServiceUnavailable, "upstream_unavailable", fmt.Sprintf("the service is not available (%d): %s", e.status, said))
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
	switch told.Code {
	case "upstream_login":
		told.Message = c.badKey().Message + "; the service says: " + c.shown(text)
	case "model_not_found":
		told.Message += "; choose another model with " + c.o.Settings.Model
	}
	told.NothingHappened, told.RetryAfter = true, wait
	return &told
}

// shown is what the service said, short and without the key.
func (c *Client) shown(text string) string {
	token, _, _ := c.account.state()
	for _, secret := range []string{c.o.Key, token} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[key]")
		}
	}
	return words.SafeLine(text, 500)
}
