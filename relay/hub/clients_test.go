package hub_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
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

// faulty is a database that can fail.
type faulty struct {
	bridge.Store
	down atomic.Bool
}

var errDisk = errors.New("disk I/O error")

func (f *faulty) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	if f.down.Load() {
		return errDisk
	}
	return f.Store.Update(ctx, fn, hints...)
}

func (f *faulty) View(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) error {
	if f.down.Load() {
		return errDisk
	}
	return f.Store.View(ctx, fn, hints...)
}

// post sends a body to one of the relays' paths.
func post(t *testing.T, url, contentType, body string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	answer, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// TestMistakesOfRelaysAreNoFaults: strangers, garbage and relays that leave at any point make no line at error level and get no 5xx.
func TestMistakesOfRelaysAreNoFaults(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	s := siteOn(t, memstore.NewDisk(), func(o *hub.Options) { o.Log = zerolog.New(log) })
	i, pins := loaded(t, joined(t, s, "laptop"))
	for _, path := range []string{wire.JoinPath, wire.RekeyPath} {
		for _, body := range []string{"", "{", "[]", "null", "{}", `{"token":"x"}`, `{"a":1}`, "\xff", `{"token":"` + strings.Repeat("x", 1<<20) + `"}`, `{"relay":"laptop","key":"x"}`} {
			if code := post(t, s.url+path, "application/json", body); code >= 500 || code < 400 {
				t.Errorf("%s %.40q: %d", path, body, code)
			}
		}
		if code := post(t, s.url+path, "text/plain", "{}"); code != http.StatusUnsupportedMediaType {
			t.Errorf("%s as text: %d", path, code)
		}
		if code := get(t, s.url+path, nil); code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, code)
		}
	}
	if code := post(t, s.url+wire.JoinPath, "application/json", `{"token":"`+strings.Repeat("x", 1<<20)+`"}`); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large: %d", code)
	}
	for _, header := range []http.Header{nil, {"Upgrade": {"websocket"}}, {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"7"}},
		{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"short"}}} {
		if code := get(t, s.url+wire.ConnectPath, header); code >= 500 || code < 400 {
			t.Errorf("%v: %d", header, code)
		}
	}
	oldHTTP(t, s.url)
	for _, text := range []string{"", "{", "\x00\xff", `{"hello":null}`, `{"proof":{"sig":"x"}}`, strings.Repeat("x", wire.MaxHandshake+1)} {
		p := s.stranger(t)
		p.send([]byte(text))
		p.closed()
	}
	p := s.stranger(t)
	_ = p.ws.CloseNow() // before a word
	p = s.stranger(t)
	p.hello(i, pins)
	_ = p.ws.CloseNow() // in the middle of the handshake
	p = s.stranger(t)
	wrong := i
	wrong.Relay = "nobody"
	h, c := p.hello(wrong, pins)
	proof := wire.Proof{Process: "p"}.Prove(i.Key, h, c)
	p.frame(wire.Frame{Proof: &proof})
	p.closed()
	for range 3 {
		p = s.stranger(t)
		p.enter(i, pins)
		s.online(t, "laptop")
		_ = p.ws.CloseNow() // while it is connected
		s.offline(t, "laptop")
	}
	p = s.stranger(t)
	p.enter(i, pins)
	s.online(t, "laptop")
	done := make(chan error, 1)
	go func() {
		_, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
		done <- err
	}()
	p.read()
	_ = p.ws.CloseNow() // in the middle of an action
	if err := <-done; !bridge.IsUnclear(err) {
		t.Errorf("an action without an answer: %v", err)
	}
	p = s.stranger(t)
	p.enter(i, pins)
	s.online(t, "laptop")
	if _, err := s.Revoke(t.Context(), "laptop"); err != nil {
		t.Fatal(err)
	}
	p.closed()
	s.stop()
	if strings.Contains(log.String(), `"level":"error"`) {
		t.Errorf("%s", log)
	}
}

// oldHTTP asks for a websocket in HTTP/1.0, and sends half a request.
func oldHTTP(t *testing.T, url string) {
	t.Helper()
	for _, text := range []string{"GET " + wire.ConnectPath + " HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "POST " + wire.JoinPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")) //nolint:noctx // the raw socket is the point
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "HTTP/1.0") {
			if answer, _ := io.ReadAll(c); !strings.HasPrefix(string(answer), "HTTP/1.0 4") {
				t.Errorf("%.40s", answer)
			}
		}
		_ = c.Close()
	}
}

// TestFaultsAtTheRelaysDoorAreErrors: when the database fails, the log says so at error level, and the relay hears 500 or is cut off.
func TestFaultsAtTheRelaysDoorAreErrors(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	disk := memstore.NewDisk()
	db := &faulty{Store: disk.Open()}
	s := siteOn(t, disk, func(o *hub.Options) { o.Log, o.Store = zerolog.New(log), db })
	path := joined(t, s, "laptop")
	i, pins := loaded(t, path)
	db.down.Store(true)
	p := s.stranger(t)
	h, c := p.hello(i, pins)
	proof := wire.Proof{Process: "p"}.Prove(i.Key, h, c)
	p.frame(wire.Frame{Proof: &proof})
	p.closed()
	eventually(t, "the failure at the handshake is logged", func() bool {
		return strings.Contains(log.String(), `"level":"error"`) && strings.Contains(log.String(), `look up relay`)
	})
	body := joinBody(t, s, db)
	db.down.Store(true)
	if code := post(t, s.url+wire.JoinPath, "application/json", body); code != http.StatusInternalServerError || !strings.Contains(log.String(), "a relay could not be answered") {
		t.Errorf("join: %d, %s", code, log)
	}
	db.down.Store(false)
}

// joinBody is the join of one more relay, which is invited while the database works.
func joinBody(t *testing.T, s *site, db *faulty) string {
	t.Helper()
	db.down.Store(false)
	invited, err := s.NewToken(t.Context(), "desk", 0)
	if err != nil {
		t.Fatal(err)
	}
	token, err := wire.ReadToken(invited.Text)
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	join, err := wire.NewJoin(token, key)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(join)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
