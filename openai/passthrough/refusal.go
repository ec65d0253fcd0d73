package passthrough

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
	"drawbridge/internal/loosejson"
	"drawbridge/openai/upstream"
)

// unreached words why the endpoint did not answer. Nothing happened only where the connection was not made.
func (p *Endpoint) unreached(ctx context.Context, err error) *upstream.Error {
	switch e := upstream.Unreached(err, "endpoint", "the url of upstream "+p.o.Name); {
	case e != nil:
		return e
	case errors.Is(context.Cause(ctx), errSilent):
		return p.silent()
	}
	return upstream.MayHaveBegun("upstream_cut", "the endpoint ended the connection before it answered; it may have worked on the request; send it again as a new one")
}

func (p *Endpoint) silent() *upstream.Error {
	return upstream.MayHaveBegun("upstream_silent", fmt.Sprintf("the endpoint said nothing for %s, so the bridge ended the turn; send the request again as a new one", p.o.Silence))
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
	e := upstream.NotBegun(http.StatusBadRequest, "upstream_refused", fmt.Sprintf("the endpoint refuses the request (%d)%s", status, behind))
	switch {
	case status == http.StatusTooManyRequests:
		e.Status, e.Type, e.Code, e.RetryAfter = status, "rate_limit_error", "rate_limit_exceeded", httpx.RetryAfter(resp.Header, time.Now())
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// The caller's own token is good, so that 401 would mislead; and a repeat changes nothing.
		e.Code, e.Message = "upstream_login", fmt.Sprintf("the endpoint refuses the bridge's key (%d)%s; correct the key of upstream %s in bridge.yaml", status, behind, p.o.Name)
	case status >= 300 && status < 400:
		e.Code, e.Message = "upstream_redirect", fmt.Sprintf("the endpoint answers with a redirect (%d), which is not followed; write its final address as the url of upstream %s", status, p.o.Name)
	case status == http.StatusNotFound:
		e.Status, e.Type, e.Code, e.Param = status, "invalid_request_error", "model_not_found", "model"
		e.Message = "the endpoint does not have this model, or does not serve chat completions at its address (404)" + behind + "; GET /v1/models lists models"
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500, status < 300:
		e = upstream.MayHaveBegun("upstream_failed", "the endpoint failed, and may have worked on the request; send it again as a new one")
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
	e, _ := loosejson.Object(body)
	full, _ := loosejson.Object(e["error"])
	if message = loosejson.Text(full["message"]); message != "" {
		return message, loosejson.Text(full["param"]), loosejson.Text(full["code"]) // some have a number as the code
	}
	return cmp.Or(loosejson.Text(e["error"]), loosejson.Text(e["detail"]), loosejson.Text(e["message"]), string(e["detail"])), "", ""
}

// shown makes an endpoint's own words fit for a person, without the key. Some repeat the key that they got.
func (p *Endpoint) shown(said string) string {
	if p.o.Key != "" {
		said = strings.ReplaceAll(said, p.o.Key, "[key]")
	}
	return words.SafeLine(said, 500)
}
