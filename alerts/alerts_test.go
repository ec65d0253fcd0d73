package alerts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"drawbridge/alerts"
	"drawbridge/api"
	"drawbridge/internal/pause"
	"drawbridge/store"
	"drawbridge/store/alerted"
)

// key is that of the secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw.
var key = []byte{49, 242, 144, 246, 191, 6, 41, 138, 171, 79, 8, 212, 60, 63, 8, 44, 246, 72, 163, 98, 218, 45, 164, 176}

// TestSign: the signature is the one that the reference library makes (standardwebhooks 1.1.1 of npm). Two keys make two.
func TestSign(t *testing.T) {
	t.Parallel()
	got := alerts.Sign([][]byte{key, key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want+" "+want {
		t.Errorf("got %s", got)
	}
}

// world is bridges with what waits at them, and a receiver.
type world struct {
	// Mutex is the story's, but while it waits: then the bridges and the receiver run.
	sync.Mutex
	needs   []api.Need
	records *alerted.Records
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
	w.Lock()
	defer w.Unlock()
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
	play(t, 2, alerts.Options{}, func(t *testing.T, w *world) {
		w.sees = func(bridge int) bool { return bridge == 0 }
		w.needs = []api.Need{{Key: "allowlist", Kind: api.NeedAllowlist}}
		if w.pass(t, 3*time.Hour); len(w.got) != 1 {
			t.Errorf("%d alerts", len(w.got))
		}
	})
}

// play runs a story with so many bridges on one database, in virtual time.
func play(t *testing.T, bridges int, o alerts.Options, story func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "drawbridge.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		w := &world{records: alerted.New(db), wake: make(chan struct{}, 1)}
		o.Watch = func() (<-chan struct{}, func()) { return w.wake, func() {} }
		o.Records, o.URL, o.Keys, o.Transport, o.Page, o.Log = w.records, "https://hook.example.com/a-secret-path", [][]byte{key}, w, "https://bridge.example.com", zerolog.New(&w.log)
		ctx, cancel := context.WithCancel(t.Context())
		w.Lock()
		var running sync.WaitGroup
		for i := range bridges {
			o.Needs = func(context.Context) (api.NeedList, error) {
				w.Lock()
				defer w.Unlock()
				if w.sees != nil && !w.sees(i) {
					return api.NeedList{}, nil
				}
				return api.NeedList{Needs: slices.Clone(w.needs)}, nil
			}
			s, err := alerts.New(o)
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() { _ = s.Run(ctx) })
		}
		defer running.Wait()
		defer w.Unlock()
		defer cancel()
		story(t, w)
	})
}

// first is the alert that was made first.
func (w *world) first(t *testing.T) api.Alert {
	t.Helper()
	list, err := w.records.List(t.Context(), "", 1000)
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	return list[len(list)-1]
}

func (w *world) pass(t *testing.T, d time.Duration) {
	t.Helper()
	w.Unlock()
	defer w.Lock()
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
		play(t, 2, alerts.Options{Contents: contents}, func(t *testing.T, w *world) {
			w.needs = []api.Need{approval("cmd_1"), {Key: "relay:desk top", Kind: api.NeedAway}}
			w.pass(t, time.Hour)
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
			if at := h.Get("Webhook-Timestamp"); h.Get("Webhook-Signature") != alerts.Sign([][]byte{key}, h.Get("Webhook-Id"), at, []byte(w.bodies[0])) || at == "" || h.Get("Content-Type") != "application/json" {
				t.Errorf("%v", h)
			}
			for _, c := range []struct {
				away  time.Duration
				again int
			}{{5 * time.Minute, 2}, {15 * time.Minute, 3}} { // it comes back soon, and late
				w.needs = nil
				w.pass(t, c.away)
				w.needs = []api.Need{approval("cmd_1")}
				if w.pass(t, 2*time.Minute); len(w.got) != c.again {
					t.Errorf("%d alerts after it came back in %s", len(w.got), c.away)
				}
			}
			other := approval("cmd_1")
			other.Kind = api.NeedQuestion // the same command, and somebody else decides it
			w.needs = []api.Need{other}
			if w.pass(t, 2*time.Minute); len(w.got) != 4 {
				t.Errorf("%d alerts after it waits for somebody else", len(w.got))
			}
		})
	}
}

// TestAlertTries: what does not arrive is tried ten times over days, under one id, and ends when nothing waits any more.
func TestAlertTries(t *testing.T) {
	t.Parallel()
	refuses := func(int) (int, error) { return http.StatusInternalServerError, nil }
	play(t, 1, alerts.Options{}, func(t *testing.T, w *world) {
		w.answer, w.needs = refuses, []api.Need{approval("cmd_1")}
		w.pass(t, 4*24*time.Hour)
		ids := map[string]bool{}
		for _, r := range w.got {
			ids[r.Header.Get("Webhook-Id")] = true
		}
		if len(w.got) != 10 || len(ids) != 1 {
			t.Errorf("%d tries of %d alerts", len(w.got), len(ids))
		}
		if a := w.first(t); a.State != api.AlertFailed || a.Tries != 10 || a.Trouble != "the address answered 500; look into the receiver's log" {
			t.Errorf("%+v", a)
		}
		if strings.Contains(w.log.String(), "a-secret-path") || !strings.Contains(w.log.String(), `"last":true`) {
			t.Errorf("log: %s", &w.log)
		}
	})
	play(t, 1, alerts.Options{}, func(t *testing.T, w *world) {
		w.answer, w.needs = refuses, []api.Need{approval("cmd_1")}
		w.pass(t, 20*time.Second) // two tries: at once, and after five seconds
		w.needs = nil
		w.pass(t, 24*time.Hour)
		if a := w.first(t); a.State != api.AlertOver || len(w.got) != 2 {
			t.Errorf("%d tries, %+v", len(w.got), a)
		}
	})
	play(t, 1, alerts.Options{}, func(t *testing.T, w *world) {
		w.answer = func(try int) (int, error) {
			if try == 1 {
				return 0, errors.New("reset")
			}
			return http.StatusNoContent, nil
		}
		w.needs = []api.Need{approval("cmd_1")}
		w.pass(t, time.Hour)
		if a := w.first(t); a.State != api.AlertSent || a.Tries != 2 || a.Trouble != "" {
			t.Errorf("%+v", a)
		}
	})
}

// TestAlertRate: a flood goes out slowly, and nothing of it is lost.
func TestAlertRate(t *testing.T) {
	t.Parallel()
	play(t, 1, alerts.Options{}, func(t *testing.T, w *world) {
		for i := range 100 {
			w.needs = append(w.needs, approval(fmt.Sprint("cmd_", i)))
		}
		if w.pass(t, 30*time.Second); len(w.got) != alerts.PerMinute {
			t.Errorf("%d alerts in the first half minute", len(w.got))
		}
		if w.pass(t, 5*time.Minute); len(w.got) != 100 {
			t.Errorf("%d alerts", len(w.got))
		}
	})
}

// TestAddresses: an alert goes to public addresses alone, unless the configuration says otherwise, and to where it was sent.
func TestAddresses(t *testing.T) {
	t.Parallel()
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
	send := func(path string, private bool) string {
		return fmt.Sprint(alerts.Send(t.Context(), alerts.Options{URL: server.URL + path, Keys: [][]byte{key}, Private: private, Now: time.Now}))
	}
	for path, want := range map[string]string{"/here": "<nil>", "/long": "<nil>", "/elsewhere": "the address answered 307, a redirect; write the redirect's target as alerts.url"} {
		if got := send(path, true); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := send("/a-secret-path", false); got != "the address leads to an IP address that is not public; to allow that, write private: true below alerts" || hits != 3 {
		t.Errorf("%s; %d requests", got, hits)
	}
	server.Close()
	if got := send("/a-secret-path", true); got != "the address cannot be reached (connection refused); look whether the receiver runs" {
		t.Error(got)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
