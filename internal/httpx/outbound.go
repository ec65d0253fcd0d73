package httpx

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Loopback reports whether a host, without a port, names this machine.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// SafeForKey refuses an address to which no key should go: it is https, or http to this machine. what names its setting in the error, such as "the url of upstream x", which does not
// quote the address, because a mistaken one may hold a password.
func SafeForKey(what, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%s must be an address without a user, a ? and a #", what)
	case u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname())):
		return fmt.Errorf("%s must be https; http is only for this machine", what)
	}
	return nil
}

// NewClient returns a client for long calls to one host, which keeps so many idle connections. It follows no redirects, and only the context of a call
// bounds it. change may set more on its transport; nil sets nothing.
func NewClient(idle int, change func(*http.Transport)) *http.Client {
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if change != nil {
		change(t)
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// maxRetryAfter bounds how long an answer may ask to wait.
const maxRetryAfter = 24 * time.Hour

// RetryAfter reads how long an answer asks to wait: a number of milliseconds or seconds, or a date. It is at most a day, and 0 where it does not say.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return bounded(ms / 1000)
	}
	said := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(said, 64); err == nil && seconds > 0 {
		return bounded(seconds)
	}
	if at, err := http.ParseTime(said); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

func bounded(seconds float64) time.Duration {
	if seconds >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}
