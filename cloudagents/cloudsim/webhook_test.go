package cloudsim_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/cloudagents/cloudsim"
	"drawbridge/cloudagents/cloudsim/script"
)

const (
	secret    = "0123456789abcdef0123456789abcdef"
	hookedV0  = `{"prompt":{"text":"do <it>"},"source":{"repository":"https://github.com/me/my-app","ref":"main"},"target":{"branchName":"bridge/op-1"},"webhook":{"url":"http://127.0.0.1:9/hook","secret":"` + secret + `"}}`
	hookYAML  = "latency: 1s\ndefault: { reply: \"a < b & c\", branch: x, pr: \"https://github.com/me/my-app/pull/7\" }\n"
	errorYAML = "default: { reply: broken, status: ERROR }\n"
)

// inbox takes webhooks instead of a network.
type inbox struct {
	mu      sync.Mutex // guards what follows
	got     []received
	answers []int // status of each answer in turn; 0 is a broken connection; 204 when used up
}

type received struct {
	at     time.Time
	header http.Header
	body   string
}

func (i *inbox) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got = append(i.got, received{time.Now(), req.Header, string(body)})
	code := http.StatusNoContent
	if len(i.answers) > 0 {
		code, i.answers = i.answers[0], i.answers[1:]
	}
	if code == 0 {
		return nil, errors.New("connection reset")
	}
	return &http.Response{StatusCode: code, Body: http.NoBody, Header: http.Header{}}, nil
}

func (i *inbox) all() []received {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]received(nil), i.got...)
}

// hooked runs f in a bubble with a service whose webhooks reach in.
func hooked(t *testing.T, yaml string, f func(s service, in *inbox)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in := &inbox{}
		f(start(t, yaml, func(o *cloudsim.Options) { o.Webhooks = in }), in)
	})
}

func (s service) launch() string {
	s.t.Helper()
	return s.do("POST", "/v0/agents", hookedV0).want(201).text("id")
}

func TestWebhookAsDocumented(t *testing.T) {
	t.Parallel()
	hooked(t, hookYAML, func(s service, in *inbox) {
		id := s.launch()
		time.Sleep(2 * time.Second)
		got := in.all()
		if len(got) != 1 {
			t.Fatalf("%d webhooks, want 1", len(got))
		}
		want := `{"event":"statusChange","timestamp":"2000-01-01T00:00:01.000Z","id":"` + id + `","status":"FINISHED",` +
			`"source":{"repository":"https://github.com/me/my-app","ref":"main"},` +
			`"target":{"url":"https://cursor.com/agents?id=` + id + `","branchName":"bridge/op-1","prUrl":"https://github.com/me/my-app/pull/7"},` +
			`"summary":"a < b & c"}`
		if diff := cmp.Diff(want, got[0].body); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(got[0].body))
		for h, want := range map[string]string{
			"X-Webhook-Signature": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
			"X-Webhook-Event":     "statusChange", "User-Agent": "Cursor-Agent-Webhook/1.0", "Content-Type": "application/json",
		} {
			if v := got[0].header.Get(h); v != want {
				t.Errorf("%s: %q, want %q", h, v, want)
			}
		}
		s.do("POST", "/v0/agents/"+id+"/followup", `{"prompt":{"text":"more"}}`).want(200)
		time.Sleep(2 * time.Second)
		got = in.all()
		if len(got) != 2 || got[0].header.Get("X-Webhook-ID") == got[1].header.Get("X-Webhook-ID") {
			t.Errorf("a follow-up must bring a second webhook with its own id: %v", got)
		}
	})
}

func TestWebhookStatuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, yaml string
		stop       bool
		want       int
	}{
		{"finished", "", false, 1},
		{"error", errorYAML, false, 1},
		{"expired", "default: { status: EXPIRED }", false, 0},
		{"stopped", "latency: 1m", true, 0},
		{"stopped, shown as finished", "latency: 1m\nsettings: { v0_cancelled: FINISHED }", true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			hooked(t, tc.yaml, func(s service, in *inbox) {
				id := s.launch()
				if tc.stop {
					s.do("POST", "/v0/agents/"+id+"/stop", "").want(200)
				}
				time.Sleep(time.Second)
				if n := len(in.all()); n != tc.want {
					t.Errorf("%d webhooks, want %d", n, tc.want)
				}
			})
		})
	}
}

func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	t.Run("first run only", func(t *testing.T) {
		t.Parallel()
		hooked(t, "settings: { webhook_first_run_only: true }", func(s service, in *inbox) {
			id := s.launch()
			time.Sleep(time.Second)
			s.do("POST", "/v0/agents/"+id+"/followup", `{"prompt":{"text":"more"}}`).want(200)
			time.Sleep(time.Second)
			if n := len(in.all()); n != 1 {
				t.Errorf("%d webhooks, want 1", n)
			}
		})
	})
	for _, always := range []bool{false, true} {
		t.Run("no secret", func(t *testing.T) {
			t.Parallel()
			yaml := "settings: { webhook_sign_without_secret: false }"
			if always {
				yaml = strings.Replace(yaml, "false", "true", 1)
			}
			hooked(t, yaml, func(s service, in *inbox) {
				s.do("POST", "/v0/agents", strings.Replace(hookedV0, `,"secret":"`+secret+`"`, "", 1)).want(201)
				time.Sleep(time.Second)
				if got := in.all()[0].header.Get("X-Webhook-Signature") != ""; got != always {
					t.Errorf("signed: %v, want %v", got, always)
				}
			})
		})
	}
}

func TestWebhookRetries(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{false, true} {
		yaml := "latency: 1s\nsettings: { webhook_attempts: 4, webhook_spacing: 2s }"
		if fresh {
			yaml = strings.Replace(yaml, "}", ", webhook_new_id_on_retry: true }", 1)
		}
		t.Run(yaml, func(t *testing.T) {
			t.Parallel()
			hooked(t, yaml, func(s service, in *inbox) {
				in.answers = []int{500, 0, 302, 500, 200}
				s.launch()
				time.Sleep(time.Minute)
				var after []time.Duration
				ids := map[string]bool{}
				for _, r := range in.all() {
					after = append(after, r.at.Sub(in.got[0].at))
					ids[r.header.Get("X-Webhook-ID")] = true
					if r.body != in.got[0].body {
						t.Error("a retry must send the same bytes")
					}
				}
				if diff := cmp.Diff([]time.Duration{0, 2 * time.Second, 6 * time.Second, 14 * time.Second}, after); diff != "" {
					t.Errorf("attempts (-want +got):\n%s", diff)
				}
				if want := map[bool]int{false: 1, true: 4}[fresh]; len(ids) != want {
					t.Errorf("%d ids, want %d", len(ids), want)
				}
				var codes []int
				for _, d := range s.Deliveries() {
					codes = append(codes, d.Code)
				}
				if diff := cmp.Diff([]int{500, 0, 302, 500}, codes); diff != "" {
					t.Errorf("deliveries (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWebhookFaults(t *testing.T) {
	t.Parallel()
	run := func(name string, f cloudsim.Fault, check func(s service, in *inbox, id string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hooked(t, hookYAML, func(s service, in *inbox) {
				f.Times = 1
				s.fault(f)
				id := s.launch()
				time.Sleep(1500 * time.Millisecond)
				check(s, in, id)
			})
		})
	}
	run("duplicate", cloudsim.Fault{Kind: script.WebhookDuplicate, Count: 2}, func(s service, in *inbox, _ string) {
		got := in.all()
		if len(got) != 3 || got[0].body != got[2].body || got[0].header.Get("X-Webhook-ID") == got[2].header.Get("X-Webhook-ID") {
			s.t.Errorf("got %v", got)
		}
	})
	run("never", cloudsim.Fault{Kind: script.WebhookNever}, func(s service, in *inbox, _ string) {
		if got := in.all(); len(got) != 0 || !strings.Contains(s.Deliveries()[0].Problem, "webhook_never") {
			s.t.Errorf("got %v", got)
		}
	})
	run("late", cloudsim.Fault{Kind: script.WebhookLate, Delay: script.Duration(10 * time.Second)}, func(s service, in *inbox, _ string) {
		if len(in.all()) != 0 {
			s.t.Error("too early")
		}
		time.Sleep(10 * time.Second)
		if got := in.all(); len(got) != 1 || !strings.Contains(got[0].body, `"timestamp":"2000-01-01T00:00:01.000Z"`) {
			s.t.Errorf("got %v", got)
		}
	})
	run("out of order", cloudsim.Fault{Kind: script.WebhookOutOfOrder, Delay: script.Duration(time.Minute)}, func(s service, in *inbox, id string) {
		s.do("POST", "/v0/agents/"+id+"/followup", `{"prompt":{"text":"more"}}`).want(200)
		time.Sleep(1500 * time.Millisecond)
		got := in.all()
		if len(got) != 2 || !strings.Contains(got[0].body, "00:00:02.500Z") || !strings.Contains(got[1].body, "00:00:01.000Z") {
			s.t.Errorf("got %v", got)
		}
	})
}

func TestWebhooksGoToLoopbackOnly(t *testing.T) {
	t.Parallel()
	reached := make(chan string, 9)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.Host }))
	t.Cleanup(target.Close)
	s := start(t, "latency: 0s\nsettings: { webhook_attempts: 1 }\ndefault: { after: 0s }")
	for url, want := range map[string]bool{target.URL: true, "http://192.0.2.1/": false, "http://localhost.example/": false} {
		before := len(s.Deliveries()) // the delivery may be over before the launch is answered
		s.do("POST", "/v0/agents", strings.Replace(hookedV0, "http://127.0.0.1:9/hook", url, 1)).want(201)
		d := s.nextDelivery(before)
		if (d.Code == 200) != want {
			t.Errorf("%s: %+v", url, d)
		}
	}
	if len(reached) != 1 {
		t.Errorf("%d requests arrived, want 1", len(reached))
	}
}

// nextDelivery waits until more than n attempts were recorded.
func (s service) nextDelivery(n int) cloudsim.Delivery {
	s.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if d := s.Deliveries(); len(d) > n {
			return d[n]
		}
		select {
		case <-tick.C:
		case <-s.t.Context().Done():
			s.t.Fatal("no delivery")
		}
	}
}
