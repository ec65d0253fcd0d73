package alerts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"drawbridge/api"
	"drawbridge/internal/pause"
)

// key is that of the secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw.
var key = []byte{49, 242, 144, 246, 191, 6, 41, 138, 171, 79, 8, 212, 60, 63, 8, 44, 246, 72, 163, 98, 218, 45, 164, 176}

// TestSign: the signature is the one that the reference library makes (standardwebhooks 1.1.1 of npm). Two keys make two.
func TestSign(t *testing.T) {
	t.Parallel()
	got := sign([][]byte{key, key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want+" "+want {
		t.Errorf("got %s", got)
	}
}

// memory is Records in memory.
type memory struct {
	mu     sync.Mutex // guards all and closed
	all    []api.Alert
	closed map[string]bool
}

func (m *memory) Open(context.Context) (open []api.Alert, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.all {
		if !m.closed[a.ID] {
			open = append(open, a)
		}
	}
	return open, nil
}

func (m *memory) Change(_ context.Context, c Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, a := range m.all {
		if slices.Contains(c.Seen, a.ID) {
			m.all[i].SeenAt = c.Now
		}
		if m.all[i].SeenAt.Before(c.Before) && !m.closed[a.ID] {
			m.closed[a.ID] = true
			if a.State == api.AlertWaiting {
				m.all[i].State = api.AlertOver
			}
		}
	}
	for _, a := range c.Add {
		if !slices.ContainsFunc(m.all, func(o api.Alert) bool {
			return o.About(api.Need{Key: a.Need, Kind: a.Kind, Turn: a.Turn}) && !m.closed[o.ID]
		}) {
			m.all = append(m.all, a)
		}
	}
	return nil
}

func (m *memory) Take(_ context.Context, a api.Alert, until time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, o := range m.all {
		if o.ID == a.ID && o.State == api.AlertWaiting && o.DueAt.Equal(a.DueAt) {
			m.all[i].DueAt = until
			m.all[i].Tries++
			return true, nil
		}
	}
	return false, nil
}

func (m *memory) Tried(_ context.Context, a api.Alert, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, o := range m.all {
		if o.ID == a.ID && o.DueAt.Equal(until) {
			a.Tries, a.SeenAt = o.Tries, o.SeenAt
			m.all[i] = a
		}
	}
	return nil
}

func (m *memory) List(context.Context, string, int) ([]api.Alert, error) {
	return m.Open(context.Background())
}

// world is bridges with what waits at them, and a receiver.
type world struct {
	needs   []api.Need
	records *memory
	// sees says whether a bridge sees the needs; nil is that all do.
	sees func(bridge int) bool
	// answer is what the receiver says; nil is 200.
	answer func(try int) (int, error)
	// got are the requests that came, with their bodies.
	got    []*http.Request
	bodies []string
	log    bytes.Buffer
	wake   chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	w.got, w.bodies = append(w.got, r), append(w.bodies, string(body))
	code := http.StatusOK
	if err == nil && w.answer != nil {
		code, err = w.answer(len(w.got))
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// TestAlertViews: bridges that do not see the same tell it once.
func TestAlertViews(t *testing.T) {
	t.Parallel()
	play(t, 2, Options{}, func(t *testing.T, w *world) {
		w.sees = func(bridge int) bool { return bridge == 0 }
		w.needs = []api.Need{{Key: "allowlist", Kind: api.NeedAllowlist}}
		if pass(t, 3*time.Hour); len(w.got) != 1 {
			t.Errorf("%d alerts", len(w.got))
		}
	})
}

// play runs a story with so many bridges on one database, in virtual time.
func play(t *testing.T, bridges int, o Options, story func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{records: &memory{closed: map[string]bool{}}, wake: make(chan struct{}, 1)}
		o.Watch = func() (<-chan struct{}, func()) { return w.wake, func() {} }
		o.Records, o.URL, o.Keys, o.Transport, o.Page, o.Log = w.records, "https://hook.example.com/a-secret-path", [][]byte{key}, w, "https://bridge.example.com", zerolog.New(&w.log)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for i := range bridges {
			o.Needs = func(context.Context) (api.NeedList, error) {
				if w.sees != nil && !w.sees(i) {
					return api.NeedList{}, nil
				}
				return api.NeedList{Needs: slices.Clone(w.needs)}, nil
			}
			s, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() { _ = s.Run(ctx) })
		}
		defer running.Wait()
		defer cancel()
		story(t, w)
	})
}

func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := pause.For(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func approval(key string) api.Need {
	return api.Need{Key: key, Kind: api.NeedApproval, AgentName: "main", Text: "main wants to launch an agent", Line: "rm -rf /", Since: time.Unix(1, 0).UTC()}
}

// TestAlert: one alert tells that something waits, without the words of agents, and none tells it again.
func TestAlert(t *testing.T) {
	t.Parallel()
	for _, contents := range []bool{false, true} {
		play(t, 2, Options{Contents: contents}, func(t *testing.T, w *world) {
			w.needs = []api.Need{approval("cmd_1"), {Key: "relay:desk top", Kind: api.NeedAway}}
			pass(t, time.Hour)
			if len(w.got) != 2 || w.got[0].Header.Get("Webhook-Id") == w.got[1].Header.Get("Webhook-Id") {
				t.Fatalf("%d alerts: %v", len(w.got), w.bodies)
			}
			var m struct {
				Type string
				Data map[string]any
			}
			if err := json.Unmarshal([]byte(w.bodies[0]), &m); err != nil || m.Type != "need.opened" {
				t.Errorf("%s, %v", w.bodies[0], err)
			}
			want := map[string]any{"key": "cmd_1", "kind": "approval", "agent": "main", "since": "1970-01-01T00:00:01Z", "waiting": 2.0, "link": "https://bridge.example.com/needs/cmd_1"}
			if contents {
				want["text"], want["line"] = "main wants to launch an agent", "rm -rf /"
			}
			if d := cmp.Diff(want, m.Data); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if !strings.Contains(w.bodies[1], `/needs/relay:desk%20top"`) {
				t.Error(w.bodies[1])
			}
			h := w.got[0].Header
			if at := h.Get("Webhook-Timestamp"); h.Get("Webhook-Signature") != sign([][]byte{key}, h.Get("Webhook-Id"), at, []byte(w.bodies[0])) || at == "" || h.Get("Content-Type") != "application/json" {
				t.Errorf("%v", h)
			}
			for _, c := range []struct {
				away  time.Duration
				again int
			}{{5 * time.Minute, 2}, {15 * time.Minute, 3}} { // it comes back soon, and late
				w.needs = nil
				pass(t, c.away)
				w.needs = []api.Need{approval("cmd_1")}
				if pass(t, time.Minute); len(w.got) != c.again {
					t.Errorf("%d alerts after it came back in %s", len(w.got), c.away)
				}
			}
			other := approval("cmd_1")
			other.Kind = api.NeedQuestion // the same command, and somebody else decides it
			w.needs = []api.Need{other}
			if pass(t, time.Minute); len(w.got) != 4 {
				t.Errorf("%d alerts after it waits for somebody else", len(w.got))
			}
		})
	}
}

// TestAlertTries: what does not arrive is tried ten times over days, under one id, and ends when nothing waits any more.
func TestAlertTries(t *testing.T) {
	t.Parallel()
	refuses := func(int) (int, error) { return http.StatusInternalServerError, nil }
	play(t, 2, Options{}, func(t *testing.T, w *world) {
		w.answer, w.needs = refuses, []api.Need{approval("cmd_1")}
		pass(t, 8*24*time.Hour)
		ids := map[string]bool{}
		for _, r := range w.got {
			ids[r.Header.Get("Webhook-Id")] = true
		}
		if len(w.got) != 10 || len(ids) != 1 {
			t.Errorf("%d tries of %d alerts", len(w.got), len(ids))
		}
		if a := w.records.all[0]; a.State != api.AlertFailed || a.Tries != 10 || a.Trouble != "the address answered 500" {
			t.Errorf("%+v", a)
		}
		if strings.Contains(w.log.String(), "a-secret-path") || !strings.Contains(w.log.String(), `"last":true`) {
			t.Errorf("log: %s", &w.log)
		}
	})
	play(t, 1, Options{}, func(t *testing.T, w *world) {
		w.answer, w.needs = refuses, []api.Need{approval("cmd_1")}
		pass(t, 20*time.Second) // two tries: at once, and after five seconds
		w.needs = nil
		pass(t, 24*time.Hour)
		if a := w.records.all[0]; a.State != api.AlertOver || len(w.got) != 2 {
			t.Errorf("%d tries, %+v", len(w.got), a)
		}
	})
	play(t, 1, Options{}, func(t *testing.T, w *world) {
		w.answer = func(try int) (int, error) {
			if try == 1 {
				return 0, errors.New("reset")
			}
			return http.StatusNoContent, nil
		}
		w.needs = []api.Need{approval("cmd_1")}
		pass(t, time.Hour)
		if a := w.records.all[0]; a.State != api.AlertSent || a.Tries != 2 || a.Trouble != "" {
			t.Errorf("%+v", a)
		}
	})
}

// TestAlertRate: a flood goes out slowly, and nothing of it is lost.
func TestAlertRate(t *testing.T) {
	t.Parallel()
	play(t, 1, Options{}, func(t *testing.T, w *world) {
		for i := range 100 {
			w.needs = append(w.needs, approval(fmt.Sprint("cmd_", i)))
		}
		if pass(t, 30*time.Second); len(w.got) != perMinute {
			t.Errorf("%d alerts in the first half minute", len(w.got))
		}
		if pass(t, 5*time.Minute); len(w.got) != 100 {
			t.Errorf("%d alerts", len(w.got))
		}
	})
}

// TestAddresses: an alert goes to public addresses alone, unless the configuration says otherwise, and to where it was sent.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"93.184.215.14:443": true, "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:443": true, "127.0.0.1:443": false, "10.1.2.3:443": false, "172.16.0.1:1": false, "192.168.1.1:80": false,
		"169.254.169.254:80": false, "100.64.0.1:1": false, "0.0.0.0:1": false, "224.0.0.1:1": false, "255.255.255.255:1": false, "[::1]:1": false, "[::]:1": false, "[fe80::1%eth0]:1": false,
		"[fd00::1]:1": false, "[::ffff:10.0.0.1]:1": false, "[::ffff:93.184.215.14]:1": true, "[64:ff9b::a00:1]:1": false, "[2002:a00:1::]:1": false, "198.18.0.1:1": false, "[::7f00:1]:1": false, "[::ffff:0:a00:1]:1": false, "[5f00::1]:1": false,
	} {
		if err := mayDial(address, false); (err == nil) != public {
			t.Errorf("%s: %v", address, err)
		}
		if err := mayDial(address, true); err != nil {
			t.Errorf("%s, listed: %v", address, err)
		}
	}
	hits := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		switch r.URL.Path {
		case "/elsewhere":
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
		case "/long":
			_, _ = io.CopyN(w, endless{}, 10<<20)
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{
		"/here": "", "/long": "", "/elsewhere": "the address answered 307: it leads elsewhere; write the address where it leads into alerts.url",
	} {
		p := newPoster(Options{URL: server.URL + path, Keys: [][]byte{key}, Private: true, Now: time.Now})
		if err := p.send(t.Context(), "msg_1", []byte("{}")); fmt.Sprint(err) != want && (want != "" || err != nil) {
			t.Errorf("%s: %v", path, err)
		}
		p.close()
	}
	if hits != 3 {
		t.Errorf("%d requests", hits)
	}
	shut := newPoster(Options{URL: server.URL + "/a-secret-path", Keys: [][]byte{key}, Now: time.Now})
	if err := shut.send(t.Context(), "msg_1", []byte("{}")); err == nil || !strings.Contains(err.Error(), "127.0.0.1, which is not public") || hits != 3 {
		t.Errorf("%v, %d requests", err, hits)
	}
	server.Close()
	gone := newPoster(Options{URL: server.URL + "/a-secret-path", Keys: [][]byte{key}, Private: true, Now: time.Now})
	if err := gone.send(t.Context(), "msg_1", []byte("{}")); err == nil || !strings.Contains(err.Error(), "the address cannot be reached: connection refused") || strings.Contains(err.Error(), "a-secret-path") {
		t.Errorf("%v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
