package cloudagents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-resty/resty/v2"

	"drawbridge/bridge"
)

const (
	maxMessage = 300
	// maxRetryAfter bounds a wait that a broken clock or a hostile answer asks for.
	maxRetryAfter = 24 * time.Hour
)

// Codes of the API that change what we do (facts: Error codes).
const (
	codeAgentBusy      = "agent_busy"
	codeArchived       = "agent_archived"
	codeConflict       = "agent_id_conflict"
	codeNoFeature      = "feature_unavailable"
	codeNotCancellable = "run_not_cancellable"
	codeUsageLimit     = "usage_limit_exceeded"
	codeUnknown        = "unknown" // ours, for an answer without a code
)

// APIError is the API's own answer, for the log: the Cause of a *bridge.Error.
type APIError struct {
	Status int
	// Code is the API's word, "unknown" when it gave none.
	Code string
	// RequestID is the x-request-id header, for questions to the vendor.
	RequestID string
}

// Error names status, code and request id; the message is in the *bridge.Error.
func (e *APIError) Error() string {
	s := fmt.Sprintf("HTTP %d %s", e.Status, e.Code)
	if e.RequestID != "" {
		s += " (request " + e.RequestID + ")"
	}
	return s
}

// hasCode reports whether err is an answer of the API with that code.
func hasCode(err error, code string) bool {
	var api *APIError
	return errors.As(err, &api) && api.Code == code
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// apiError turns an answer that is not 2xx into an error. A POST that was
// answered with a redirect, 408 or 5xx may have had its effect.
func (c *Client) apiError(k call, a answer) error {
	p := parseErrorBody(a.body)
	// Blanked before anything is cut, or half a secret could stay.
	for _, f := range []*string{&p.code, &p.message, &p.helpURL} {
		*f = c.redact(k, *f)
	}
	kind := kindOf(a.status, p.code)
	e := &bridge.Error{
		Kind:    kind,
		Message: k.what + ": " + describe(kind, a.status, p),
		Cause: &APIError{
			Status:    a.status,
			Code:      clip(p.code, 60),
			RequestID: clip(c.redact(k, a.header.Get("X-Request-Id")), 80),
		},
	}
	if kind == bridge.RateLimited || kind == bridge.UsageLimited || kind == bridge.Unavailable {
		e.RetryAfter = retryAfter(a.header, c.opts.Now())
	}
	e.Unclear = k.effect() && (a.status < 400 || a.status == http.StatusRequestTimeout || a.status >= 500)
	return e
}

// transportError is for calls without a whole answer. sent is false when
// surely nothing left this machine.
func (c *Client) transportError(k call, err error, sent bool) error {
	e := &bridge.Error{
		Kind:    bridge.Unavailable,
		Message: k.what + ": the Cloud Agents API cannot be reached; check the network and the API's URL",
		Cause:   c.scrub(k, err),
		Unclear: k.effect() && sent,
	}
	if sent {
		e.Message = k.what + ": no answer from the Cloud Agents API"
	}
	if errors.Is(err, resty.ErrResponseBodyTooLarge) {
		e.Kind = bridge.TooLarge
		e.Message = fmt.Sprintf("%s: the answer is larger than %d bytes", k.what, c.answerLimit(k))
	}
	return e
}

// garbled is for a 2xx answer that cannot be understood.
func (c *Client) garbled(k call, cause error) error {
	return &bridge.Error{
		Kind:    bridge.Unavailable,
		Message: k.what + ": the Cloud Agents API sent an answer that the bridge does not understand",
		Cause:   c.scrub(k, cause),
		Unclear: k.effect(),
	}
}

func (c *Client) redact(k call, text string) string {
	for _, secret := range append([]string{c.opts.Key}, k.secrets...) {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return text
}

// scrub keeps err as it is unless its text holds a secret, which an answer can
// bring about by echoing our header in a malformed status line.
func (c *Client) scrub(k call, err error) error {
	if text := c.redact(k, err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// errorBody is what the five shapes of error have in common.
type errorBody struct {
	code, message, helpURL string
}

// parseErrorBody reads any of the shapes of error bodies (facts: 1.1, A to E).
func parseErrorBody(body []byte) errorBody {
	var top struct {
		Error   json.RawMessage `json:"error"`
		Code    any             `json:"code"`
		Message any             `json:"message"`
		HelpURL any             `json:"helpUrl"`
	}
	p := errorBody{code: codeUnknown}
	body = bytes.TrimSpace(body)
	if json.Unmarshal(body, &top) != nil {
		if len(body) > 0 && body[0] != '<' { // a gateway's page says less than the status
			p.message = string(body[:min(len(body), 4*maxMessage)])
		}
		return p
	}
	p.take(top.Code, top.Message, top.HelpURL)
	var inner struct {
		Code    any `json:"code"`
		Message any `json:"message"`
		HelpURL any `json:"helpUrl"`
	}
	var text string
	switch {
	case json.Unmarshal(top.Error, &text) == nil && text != "":
		p.message = joinMessages(text, p.message)
	case json.Unmarshal(top.Error, &inner) == nil:
		p.take(inner.Code, inner.Message, inner.HelpURL)
	}
	return p
}

// take overwrites with what is there; values that are no strings are nothing.
func (p *errorBody) take(code, message, helpURL any) {
	for _, f := range []struct {
		field *string
		value any
	}{{&p.code, code}, {&p.message, message}, {&p.helpURL, helpURL}} {
		if s, ok := f.value.(string); ok && s != "" {
			*f.field = s
		}
	}
}

// joinMessages serves shape D, whose "error" is a title beside a message.
func joinMessages(title, message string) string {
	switch {
	case message == "" || message == title:
		return title
	case title == "":
		return message
	}
	return title + ": " + message
}

// kindOf sorts by code where a code says more than the status.
func kindOf(status int, code string) bridge.ErrorKind {
	switch code {
	case codeUsageLimit:
		return bridge.UsageLimited
	case codeAgentBusy:
		return bridge.Busy
	}
	switch status {
	case http.StatusUnauthorized:
		return bridge.Unauthenticated
	case http.StatusForbidden, http.StatusPaymentRequired:
		return bridge.Denied
	case http.StatusNotFound, http.StatusGone:
		return bridge.NotFound
	case http.StatusConflict:
		return bridge.Conflict
	case http.StatusTooManyRequests:
		return bridge.RateLimited
	case http.StatusRequestTimeout:
		return bridge.Unavailable
	}
	if status >= 400 && status < 500 {
		return bridge.Invalid
	}
	return bridge.Unavailable
}

// describe says what the API said and, where there is one, what to do about it.
func describe(kind bridge.ErrorKind, status int, p errorBody) string {
	help := ""
	if isWebURL(p.helpURL) && len(p.helpURL) < 120 {
		help = "; see " + p.helpURL
	}
	said := quote(p.message, maxMessage-80-len(help))
	if p.message == "" {
		said = strings.TrimSpace(fmt.Sprintf("HTTP %d %s", status, http.StatusText(status)))
	}
	if p.code != codeUnknown && p.code != "error" {
		said += " (" + word(p.code) + ")"
	}
	switch {
	case help != "":
		said += help
	case kind == bridge.Unauthenticated:
		said += "; check the API key"
	case status == http.StatusGone:
		said += "; the API no longer keeps it, so read the run instead"
	case status >= 300 && status < 400:
		said += "; the bridge does not follow redirects, so check the API's URL"
	}
	return said
}

// retryAfter reads Retry-After (seconds or a date), else X-RateLimit-Reset
// (seconds, or a moment in seconds or milliseconds); zero when neither helps.
func retryAfter(h http.Header, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After", "X-Ratelimit-Reset"} {
		if d, ok := parseWait(strings.TrimSpace(h.Get(name)), now); ok {
			return min(max(d, 0), maxRetryAfter)
		}
	}
	return 0
}

func parseWait(v string, now time.Time) (time.Duration, bool) {
	if n, err := strconv.ParseFloat(v, 64); err == nil && n >= 0 && !math.IsInf(n, 0) {
		switch {
		case n >= 1e11:
			return time.UnixMilli(int64(min(n, 1e15))).Sub(now), true
		case n >= 1e9:
			return time.Unix(int64(n), 0).Sub(now), true
		}
		return time.Duration(min(n, maxRetryAfter.Seconds()) * float64(time.Second)), true
	}
	if t, err := http.ParseTime(v); err == nil {
		return t.Sub(now), true
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return t.Sub(now), true
	}
	return 0, false
}

// clip escapes what is not printable and cuts after limit bytes on a character
// boundary, with "…" for what is missing.
func clip(text string, limit int) string {
	var b strings.Builder
	cut := 0
	for _, r := range text {
		piece := string(r)
		if !unicode.IsPrint(r) {
			piece = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		if b.Len()+len(piece) > limit {
			return b.String()[:cut] + "…"
		}
		b.WriteString(piece)
		if b.Len() <= limit-len("…") {
			cut = b.Len()
		}
	}
	return b.String()
}

// quote shows what the API says in quotes, on one line and clipped, so that it
// cannot be taken for our own words.
func quote(text string, limit int) string {
	return `"` + strings.ReplaceAll(clip(text, limit), `"`, `'`) + `"`
}

var plainCode = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,60}$`)

// word shows a code of the API, in quotes unless it is one plain word.
func word(code string) string {
	if plainCode.MatchString(code) {
		return code
	}
	return quote(code, 60)
}

// isWebURL reports whether u may be shown as a link: https and printable ASCII.
func isWebURL(u string) bool {
	return strings.HasPrefix(u, "https://") && len(u) <= 2048 &&
		!strings.ContainsFunc(u, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'<>\\`", r) })
}
