package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/mcpserver"
	"drawbridge/proof/memstore"
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

// logged puts a door in front that logs as the bridge does, and returns the log and a stop.
func (w *world) logged() (*logBuffer, func()) {
	w.Helper()
	log := &logBuffer{}
	o := w.options
	o.Log = zerolog.New(log)
	door, err := mcpserver.New(o)
	if err != nil {
		w.Fatal(err)
	}
	server := httptest.NewServer(httpx.RequestLog(httpx.LogOptions{Log: zerolog.New(log)}, httpx.Recover(door)))
	w.url = server.URL + "/mcp"
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan error, 1)
	go func() { done <- door.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("run: %v", err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	w.Cleanup(stop)
	return log, stop
}

// TestMistakesOfAgentsAreNoFaults: no message of a client is answered as 5xx or logged at error level, in any era and order.
func TestMistakesOfAgentsAreNoFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	log, stop := w.logged()
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	bodies := []string{"", "hello", "{", "[]", "[{}]", "null", "1", "\xff\xfe", "{}", strings.Repeat("[", 10000), `{"jsonrpc":"1.0"}`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		initialize, initialize, `{"jsonrpc":"2.0","id":2,"method":"no/such"}`, `{"jsonrpc":"2.0","id":3,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[]}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"no_such_tool","arguments":{}}}`, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"send_message","arguments":"x"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"send_message","arguments":{"recipient":7}}}`, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"send_message","arguments":{"recipient":"x","recipient":"y"}}}`,
		`{"jsonrpc":"2.0","id":4,"method":"logging/setLevel","params":{"level":"x"}}`, `{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{}}`, `{"jsonrpc":"2.0","id":4,"method":"prompts/get"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, `{"jsonrpc":"2.0","id":5,"method":"roots/list"}`, `{"jsonrpc":"2.0","id":5,"method":"server/discover"}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":"` + strings.Repeat("x", 6<<20) + `"}`}
	session := w.openSession("main")
	own := func() http.Header {
		return http.Header{"Authorization": {"Bearer " + w.secret("main")}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	}
	headers := map[string]http.Header{"bare": own(), "old session": session.Clone(), "unknown session": own(), "new era": own(), "future era": own(), "wrong type": own(), "wrong accept": own(), "wrong token": own(), "no token": own(), "mismatch": own()}
	headers["unknown session"].Set("Mcp-Session-Id", "none")
	headers["new era"].Set("Mcp-Protocol-Version", newEra)
	headers["future era"].Set("Mcp-Protocol-Version", "2099-01-01")
	headers["wrong type"].Set("Content-Type", "text/plain")
	headers["wrong accept"].Set("Accept", "image/png")
	headers["wrong token"].Set("Authorization", "Bearer wrong")
	headers["no token"].Del("Authorization")
	headers["mismatch"].Set("Mcp-Protocol-Version", newEra)
	headers["mismatch"].Set("Mcp-Method", "tools/call")
	headers["mismatch"].Set("Mcp-Name", "send_message")
	for name, header := range headers {
		for _, path := range []string{"", "/bridge", "/none"} {
			for _, body := range bodies {
				if got, text := w.speak(header, path, body); got.status >= 500 {
					t.Errorf("%s, %s, %.60q: %d %s", name, path, body, got.status, text)
				}
			}
		}
	}
	for _, method := range []string{http.MethodDelete, http.MethodPut, http.MethodPatch, http.MethodOptions, "BREW"} {
		for _, path := range []string{"/mcp", "/mcp/files", "/mcp/files/fil_none", "/mcp/files/..", "/mcp/files?recipient_id=x&name=..%2Fx", "/mcp/files?name=%00"} {
			if text, code := w.ask(method, path, "main", "x"); code >= 500 {
				t.Errorf("%s %s: %d %s", method, path, code, text)
			}
		}
	}
	stop()
	noFaults(t, log.String())
}

func noFaults(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, `"status":5`) {
			t.Errorf("%.600s", line)
		}
	}
}

// TestAgentsThatLeaveAreNoFaults: an agent may leave at any point of a message, of a stream and of an upload.
func TestAgentsThatLeaveAreNoFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.launch("main")
	log, stop := w.logged()
	host := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
	session := w.openSession("main").Get("Mcp-Session-Id")
	head := " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + w.secret("main") + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	old := head + "Mcp-Protocol-Version: " + oldEra + "\r\nMcp-Session-Id: " + session + "\r\n"
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list_allowed","arguments":{}}}`
	for name, tt := range map[string]struct {
		send string
		read int
	}{
		"in the middle of a body":          {"POST /mcp" + head + "Content-Length: 900\r\n\r\n{\"jsonrpc\"", 0},
		"in the middle of a body, old":     {"POST /mcp" + old + "Content-Length: 900\r\n\r\n{\"jsonrpc\"", 0},
		"before the answer":                {fmt.Sprintf("POST /mcp%sContent-Length: %d\r\n\r\n%s", head, len(call), call), 0},
		"before the answer, old":           {fmt.Sprintf("POST /mcp%sContent-Length: %d\r\n\r\n%s", old, len(call), call), 0},
		"in the middle of the answer":      {fmt.Sprintf("POST /mcp%sContent-Length: %d\r\n\r\n%s", head, len(call), call), 30},
		"after the head of a stream":       {"GET /mcp" + old + "\r\n", 30},
		"in the middle of an upload":       {"PUT /mcp/files?recipient_id=main&name=x" + head + "Content-Length: 90000\r\n\r\nabc", 0},
		"in the middle of a chunk":         {"PUT /mcp/files?recipient_id=main&name=x" + head + "Transfer-Encoding: chunked\r\n\r\nfff\r\nabc", 0},
		"HTTP/1.0":                         {strings.Replace("POST /mcp"+head+"\r\n", "HTTP/1.1", "HTTP/1.0", 1), 9},
		"the end of a session it is in":    {"DELETE /mcp" + strings.Replace(old, session, "none", 1) + "\r\n", 9},
		"a session that is not there":      {"GET /mcp" + strings.Replace(old, session, "none", 1) + "\r\n", 9},
		"an upload to nobody, cut at once": {"PUT /mcp/files?recipient_id=nobody&name=x" + head + "Content-Length: 90000\r\n\r\n", 0},
	} {
		for range 5 {
			c, err := net.Dial("tcp", host) //nolint:noctx // the raw socket is the point
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, tt.send); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, bufio.NewReader(c), int64(tt.read)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}
	stop()
	noFaults(t, log.String())
}

// leaving is a database whose callers leave, or that fails, in each look-up.
type leaving struct {
	bridge.Store
	err   atomic.Pointer[error]
	leave atomic.Pointer[context.CancelFunc]
}

func (s *leaving) View(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	err := s.err.Load()
	if err == nil {
		return s.Store.View(ctx, fn, hints...)
	}
	(*s.leave.Load())()
	return *err
}

// TestWhoLeavesTheDoorDoesNotHideAFault: a look-up that its caller gave up is 499 and not an error; one that failed is an error.
func TestWhoLeavesTheDoorDoesNotHideAFault(t *testing.T) {
	t.Parallel()
	db := &leaving{Store: memstore.NewDisk().Open()}
	w := newWorldOn(t, db)
	w.launch("main")
	for _, tt := range []struct {
		err    error
		status int
		fault  bool
	}{{fmt.Errorf("query: %w", context.Canceled), 499, false}, {errors.New("disk I/O error"), 500, true}} {
		log := &logBuffer{}
		o := w.options
		o.Log = zerolog.New(log)
		door, err := mcpserver.New(o)
		if err != nil {
			t.Fatal(err)
		}
		h := httpx.RequestLog(httpx.LogOptions{Log: zerolog.New(log)}, door)
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		r.Header.Set("Authorization", "Bearer "+w.secret("main"))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		db.leave.Store(&cancel)
		db.err.Store(&tt.err)
		a := httptest.NewRecorder()
		h.ServeHTTP(a, r)
		db.err.Store(nil)
		if a.Code != tt.status || strings.Contains(log.String(), `"level":"error"`) != tt.fault {
			t.Errorf("%v: %d, log %s", tt.err, a.Code, log)
		}
	}
}
