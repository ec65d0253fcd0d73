package cloudagents

import (
	"io"
	"net/http"
	"time"
)

// ParseErrorBody shows the parser of error bodies to the tests.
func ParseErrorBody(body []byte) (code, message, helpURL string) {
	p := parseErrorBody(body)
	return p.code, p.message, p.helpURL
}

// ReadEvents shows the reader of streams to the tests.
func ReadEvents(r io.Reader, total int64, fn func(Event) error) error {
	return readEvents(r, total, fn)
}

// RetryAfterOf shows how waits are read.
func RetryAfterOf(h http.Header, now time.Time) time.Duration { return retryAfter(h, now) }

// Clip shows how text of the API is made fit to show.
func Clip(text string, limit int) string { return clip(text, limit) }

// MaxFrame is the bound on one event.
const MaxFrame = maxFrame

// Through makes requests go through rt instead of the network.
func (c *Client) Through(rt http.RoundTripper) { c.http.Transport = rt }
