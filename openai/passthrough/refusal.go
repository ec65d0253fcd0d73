package passthrough

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge/words"
	"drawbridge/openai/upstream"
)

// maxRetryAfter bounds how long an endpoint may ask to wait.
const maxRetryAfter = 24 * time.Hour

// failure is an error of something that did not begin.
func (p *Endpoint) failure(status int, code, message string) *upstream.Error {
	return &upstream.Error{Status: status, Type: "upstream_error", Code: code, Message: message, NothingHappened: true}
}

// broken is an error of a turn that the endpoint may have worked on.
func (p *Endpoint) broken(code, message string) *upstream.Error {
	return &upstream.Error{Type: "upstream_error", Code: code, Message: message}
}

// unreached words why the endpoint did not answer. Nothing happened only where the connection was not made.
func (p *Endpoint) unreached(ctx context.Context, err error) *upstream.Error {
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &cert):
		return p.failure(http.StatusServiceUnavailable, "upstream_certificate", "the certificate of the endpoint is not trusted; correct the url of upstream "+p.o.Name+", or have this machine trust the certificate")
	case errors.As(err, &dns):
		return p.failure(http.StatusServiceUnavailable, "upstream_unreachable", "the name of the endpoint is not found; look at the url of upstream "+p.o.Name)
	case errors.As(err, &op) && op.Op == "dial":
		return p.failure(http.StatusServiceUnavailable, "upstream_unreachable", "the endpoint cannot be reached; look whether it runs, and at the url of upstream "+p.o.Name)
	case errors.Is(context.Cause(ctx), errSilent):
		return p.silent()
	}
	return p.broken("upstream_cut", "the endpoint ended the connection before it answered; it may have worked on the request; send it again as a new one")
}

func (p *Endpoint) silent() *upstream.Error {
	return p.broken("upstream_silent", fmt.Sprintf("the endpoint said nothing for %s, so the bridge ended the turn; send the request again as a new one", p.o.Silence))
}

// tooLong finds a refusal of a history that does not fit, in the words of the makers.
var tooLong = regexp.MustCompile(`(?i)context_length_exceeded|maximum context length|context (length|window|size)|prompt is too long|too many tokens|exceeds? the (available )?context`)

// refusal words a status other than 200.
func (p *Endpoint) refusal(resp *http.Response) *upstream.Error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefuse))
	if err != nil {
		body = nil // the status says enough
	}
	said, param, code := readError(body)
	said = p.shown(said)
	behind := ""
	if said != "" {
		behind = ": " + said
	}
	status := resp.StatusCode
	e := p.failure(http.StatusBadRequest, "upstream_refused", fmt.Sprintf("the endpoint refuses the request (%d)%s", status, behind))
	switch {
	case status == http.StatusTooManyRequests:
		e.Status, e.Type, e.Code, e.RetryAfter = status, "rate_limit_error", "rate_limit_exceeded", retryAfter(resp.Header)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// The caller's own token is good, so that 401 would mislead; and a repeat changes nothing.
		e.Code, e.Message = "upstream_login", fmt.Sprintf("the endpoint refuses the bridge's key (%d)%s; correct the key of upstream %s in bridge.yaml", status, behind, p.o.Name)
	case status >= 300 && status < 400:
		e.Code, e.Message = "upstream_redirect", fmt.Sprintf("the endpoint answers with a redirect (%d), which is not followed; write its final address as the url of upstream %s", status, p.o.Name)
	case status == http.StatusNotFound:
		e.Status, e.Type, e.Code, e.Param = status, "invalid_request_error", "model_not_found", "model"
		e.Message = "the endpoint does not have this model, or does not serve chat completions at its address (404)" + behind + "; GET /v1/models lists models"
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500, status < 300:
		e = p.broken("upstream_failed", "the endpoint failed, and may have worked on the request; send it again as a new one")
		e.Said = said
		p.o.Log.Warn().Str("upstream", p.o.Name).Int("status", status).Msg("the endpoint failed")
	default:
		e.Type, e.Param, e.Code = "invalid_request_error", p.shown(param), cmp.Or(p.shown(code), e.Code)
		if status == http.StatusRequestEntityTooLarge || status == http.StatusPaymentRequired {
			e.Status = status
		}
		if tooLong.MatchString(code + " " + said) {
			e.Code = "context_length_exceeded"
		}
	}
	return e
}

// readError finds the endpoint's words in the shapes that endpoints use.
func readError(body []byte) (message, param, code string) {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &e) != nil {
		return "", "", ""
	}
	var full struct {
		Message string          `json:"message"`
		Param   string          `json:"param"`
		Code    json.RawMessage `json:"code"`
	}
	if json.Unmarshal(e.Error, &full) == nil && full.Message != "" {
		_ = json.Unmarshal(full.Code, &code) // some have a number there
		return full.Message, full.Param, code
	}
	var text string
	if json.Unmarshal(e.Error, &text) == nil && text != "" {
		return text, "", ""
	}
	if json.Unmarshal(e.Detail, &text) == nil && text != "" {
		return text, "", ""
	}
	return cmp.Or(e.Message, string(e.Detail)), "", ""
}

// shown makes an endpoint's own words fit for a person, without the key. Some repeat the key that they got.
func (p *Endpoint) shown(said string) string {
	if p.o.Key != "" {
		said = strings.ReplaceAll(said, p.o.Key, "[key]")
	}
	return words.SafeLine(said, 500)
}

// retryAfter reads when an endpoint may be asked again; 0 when it does not say.
func retryAfter(h http.Header) time.Duration {
	said := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(said, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(said); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}
