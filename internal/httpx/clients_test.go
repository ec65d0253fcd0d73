package httpx_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/httpx"
)

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// reader answers with the number of bytes that it was sent, or with what went wrong, as the doors do.
func reader(w http.ResponseWriter, r *http.Request) {
	body, err := httpx.ReadBody(w, r, 1<<10)
	switch {
	case errors.Is(err, httpx.ErrTooLarge):
		httpx.WriteError(w, http.StatusRequestEntityTooLarge, "too_large", "too large")
		return
	case err != nil:
		httpx.RecordOf(r.Context()).Err = err
		httpx.WriteError(w, http.StatusBadRequest, "invalid", "cut")
		return
	}
	if r.URL.Path == "/long" {
		for range 64 {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<16))
		}
		return
	}
	httpx.WriteJSON(w, http.StatusOK, len(body))
}

// TestSocketsOfClientsMakeNoErrors: whatever a client puts on the socket, the log has no line at error level and the
// handler's answer is not 5xx. net/http alone answers 501 and 505, as HTTP has it for what the client asked for.
func TestSocketsOfClientsMakeNoErrors(t *testing.T) {
	t.Parallel()
	const host = "Host: 127.0.0.1\r\n"
	for name, tt := range map[string]struct {
		send string
		// cut closes the connection after sending, without reading an answer.
		cut bool
		// own5xx is the one that net/http gives by itself.
		own5xx string
	}{
		"nothing":                   {send: "", cut: true},
		"garbage":                   {send: "\x00\x01\x02\xff garbage\r\n\r\n"},
		"TLS on a plain port":       {send: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", cut: true},
		"HTTP/0.9":                  {send: "GET /\r\n\r\n"},
		"HTTP/1.0 without a host":   {send: "GET / HTTP/1.0\r\n\r\n"},
		"HTTP/1.0 with a body":      {send: "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"},
		"HTTP/1.1 without a host":   {send: "GET / HTTP/1.1\r\n\r\n"},
		"two hosts":                 {send: "GET / HTTP/1.1\r\n" + host + host + "\r\n"},
		"HTTP/2 preface":            {send: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", own5xx: "505"},
		"HTTP/3.0":                  {send: "GET / HTTP/3.0\r\n" + host + "\r\n", own5xx: "505"},
		"bad header":                {send: "GET / HTTP/1.1\r\n" + host + "a b: c\r\n\r\n"},
		"NUL in a header":           {send: "GET / HTTP/1.1\r\n" + host + "a: \x00\r\n\r\n"},
		"headers too large":         {send: "GET / HTTP/1.1\r\n" + host + "a: " + strings.Repeat("x", 64<<10) + "\r\n\r\n"},
		"headers cut":               {send: "GET / HTTP/1.1\r\nHos", cut: true},
		"bad length":                {send: "POST / HTTP/1.1\r\n" + host + "Content-Length: -3\r\n\r\n"},
		"two lengths":               {send: "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"},
		"unknown transfer encoding": {send: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: foo\r\n\r\n", own5xx: "501"},
		"bad chunk":                 {send: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"},
		"chunk cut":                 {send: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nff\r\nabc", cut: true},
		"body cut":                  {send: "POST / HTTP/1.1\r\n" + host + "Content-Length: 300\r\n\r\nabc", cut: true},
		"body too large":            {send: "POST / HTTP/1.1\r\n" + host + "Content-Length: 4096\r\n\r\n" + strings.Repeat("x", 4096)},
		"body too large in chunks":  {send: "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1000\r\n" + strings.Repeat("x", 4096) + "\r\n0\r\n\r\n"},
		"body too slow":             {send: "POST / HTTP/1.1\r\n" + host + "Content-Length: 300\r\n\r\nabc"},
		"headers too slow":          {send: "POST / HTTP/1.1\r\nHost: 127"},
		"expectation":               {send: "POST / HTTP/1.1\r\n" + host + "Expect: 200-maybe\r\nContent-Length: 0\r\n\r\n"},
		"semicolon in the query":    {send: "GET /?a;b HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n"},
		"bad escape in the path":    {send: "GET /%zz HTTP/1.1\r\n" + host + "\r\n"},
		"gone in the answer":        {send: "GET /long HTTP/1.1\r\n" + host + "\r\n", cut: true},
		"method of its own":         {send: "BREW / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n"},
		"proxy request":             {send: "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nConnection: close\r\n\r\n"},
		"asterisk":                  {send: "GET * HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logBuffer{}
			url, stop := serveLog(t, log, httpx.ServerOptions{ReadHeader: 50 * time.Millisecond, Read: 100 * time.Millisecond, Idle: 100 * time.Millisecond,
				Handler: httpx.RequestLog(httpx.LogOptions{Log: zerolog.New(log)}, httpx.Recover(http.HandlerFunc(reader)))})
			answer := onSocket(t, url, tt.send, tt.cut)
			if err := stop(); err != nil {
				t.Error(err)
			}
			if strings.Contains(log.String(), `"level":"error"`) || strings.Contains(log.String(), `"status":5`) {
				t.Errorf("the log: %s", log)
			}
			for _, line := range strings.Split(answer, "\r\n") {
				if strings.HasPrefix(line, "HTTP/1.") && line[9] == '5' && line[9:12] != tt.own5xx {
					t.Errorf("the answer: %s", line)
				}
			}
		})
	}
}

// serveLog is serve with a log.
func serveLog(t *testing.T, log io.Writer, o httpx.ServerOptions) (string, func() error) {
	t.Helper()
	o.Addr, o.Log = "127.0.0.1:0", zerolog.New(log)
	s, err := httpx.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return s.Addr().String(), stop
}

// onSocket sends bytes and returns what came back until the server closed.
func onSocket(t *testing.T, addr, send string, cut bool) string {
	t.Helper()
	c, err := net.Dial("tcp", addr) //nolint:noctx // the raw socket is the point
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, send); err != nil && !cut {
		t.Logf("the server closed while we sent: %v", err)
	}
	if cut {
		if strings.Contains(send, "/long") {
			_, _ = bufio.NewReader(c).ReadByte() // the answer has begun
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		return ""
	}
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// TestFaultsOfTheServerAreErrors: what net/http says of a handler's fault is at error level.
func TestFaultsOfTheServerAreErrors(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	addr, stop := serveLog(t, log, httpx.ServerOptions{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.WriteHeader(http.StatusOK)
	})})
	onSocket(t, addr, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", false)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), `"level":"error"`) || !strings.Contains(log.String(), "superfluous") {
		t.Errorf("%s", log)
	}
}

// TestCanceledWork: who canceled decides on status and level.
func TestCanceledWork(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		gone, stop bool
		err        error
		status     int
		level      string
	}{
		"the client left":                      {gone: true, err: context.Canceled, status: 499, level: "info"},
		"the client left, in other words":      {gone: true, err: fmt.Errorf("look up: %w", context.Canceled), status: 499, level: "info"},
		"the client left while the store fell": {gone: true, err: errors.New("disk I/O error"), status: 500, level: "error"},
		"nobody left":                          {err: context.Canceled, status: 500, level: "error"},
		"the server stops":                     {stop: true, err: context.Canceled, status: 503, level: "info"},
		"the store fell while the server stops": {stop: true, err: errors.New("disk I/O error"), status: 500,
			level: "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logBuffer{}
			begun, served := make(chan struct{}), make(chan struct{})
			h := httpx.RequestLog(httpx.LogOptions{Log: zerolog.New(log)}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(begun)
				switch {
				case tt.gone:
					<-r.Context().Done()
				case tt.stop:
					<-httpx.Draining(r.Context())
				}
				httpx.RecordOf(r.Context()).Err = tt.err
				if !httpx.WriteCanceled(w, r, tt.err) {
					httpx.WriteError(w, http.StatusInternalServerError, "internal", "internal error")
				}
			}))
			addr, stop := serveLog(t, io.Discard, httpx.ServerOptions{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(served)
				h.ServeHTTP(w, r)
			})})
			c, err := net.Dial("tcp", addr) //nolint:noctx // the raw socket is the point
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			<-begun
			if tt.gone {
				c.Close()
			}
			if tt.stop {
				if err := stop(); err != nil {
					t.Error(err)
				}
			}
			<-served
			if want := fmt.Sprintf(`"level":"%s"`, tt.level); !strings.Contains(log.String(), want) && tt.level != "info" {
				t.Errorf("want %s in %s", want, log)
			}
			if tt.level == "info" && strings.Contains(log.String(), `"level":"error"`) {
				t.Errorf("an error in %s", log)
			}
			if want := fmt.Sprintf(`"status":%d`, tt.status); !strings.Contains(log.String(), want) {
				t.Errorf("want %s in %s", want, log)
			}
		})
	}
}
