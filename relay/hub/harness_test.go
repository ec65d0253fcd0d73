package hub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/hub"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// eventually waits until fn says yes.
func eventually(t testing.TB, what string, fn func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !fn() {
		select {
		case <-ctx.Done():
			t.Fatalf("it never came to this: %s", what)
		case <-tick.C:
		}
	}
}

// clock is a time that a test can put forward, or stop.
type clock struct {
	mu      sync.Mutex // guards what follows
	ahead   time.Duration
	stopped time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		return c.stopped
	}
	return time.Now().Add(c.ahead)
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = time.Now()
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	if !c.stopped.IsZero() {
		c.stopped = c.stopped.Add(d)
	}
}

// site is one replica of a bridge.
type site struct {
	*hub.Hub
	clock *clock
	url   string
	stop  func()
}

func bridgeKeys(secret string) bridge.Keys {
	return bridge.Keys{Current: bridge.Key{ID: secret[:4], Secret: []byte(strings.Repeat(secret, 8))}}
}

// siteOn starts a replica over a disk.
func siteOn(t testing.TB, disk *memstore.Disk, change func(*hub.Options)) *site {
	t.Helper()
	c := &clock{}
	o := hub.Options{Store: disk.Open(), Keys: bridgeKeys("key one "), Now: c.now}
	if change != nil {
		change(&o)
	}
	h, err := hub.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	server := httptest.NewServer(h)
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	s := &site{Hub: h, clock: c, url: server.URL}
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("hub: %v", err)
		}
		server.Close()
	})
	t.Cleanup(s.stop)
	return s
}

// bench is the user's machine: a handler that remembers, as a relay's journal does.
type machine struct {
	mu      sync.Mutex // guards what follows
	actions map[string]func(context.Context, wire.Request, func(wire.Output)) wire.Outcome
	offers  []wire.Offer
	done    map[string]wire.Outcome
	ran     map[string]int
	asked   []wire.Request
}

func newMachine(actions ...string) *machine {
	m := &machine{actions: map[string]func(context.Context, wire.Request, func(wire.Output)) wire.Outcome{}, done: map[string]wire.Outcome{}, ran: map[string]int{}}
	for _, a := range actions {
		m.offers = append(m.offers, wire.Offer{Action: a, Approval: "never", Definition: strings.Repeat("d", 64)})
		m.actions[a] = func(context.Context, wire.Request, func(wire.Output)) wire.Outcome {
			return wire.Outcome{Answer: wire.Answer{Status: wire.StatusExecuted, ExitCode: 3, Stdout: "out of " + a, Stderr: "err", StdoutOmitted: 1, StderrOmitted: 2, DurationMS: 7}}
		}
	}
	return m
}

func (m *machine) set(action string, fn func(context.Context, wire.Request, func(wire.Output)) wire.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.actions[action] = fn
}

// Run implements wire.Handler.
func (m *machine) Run(ctx context.Context, r wire.Request, progress func(wire.Output)) (wire.Outcome, error) {
	m.mu.Lock()
	m.asked = append(m.asked, r)
	run, done := m.actions[r.Action], m.done[r.ID]
	m.mu.Unlock()
	if done.Status != "" {
		done.Replayed = true
		return done, nil
	}
	if run == nil {
		return wire.Outcome{Answer: wire.Refused(r.Action, "not on the list"), Refusal: wire.RefusedUnlisted}, nil
	}
	out := run(ctx, r, progress)
	m.mu.Lock()
	defer m.mu.Unlock()
	if out.Status != wire.StatusRefused {
		m.done[r.ID] = out
		m.ran[r.ID]++
	}
	return out, nil
}

// Offers implements wire.Handler.
func (m *machine) Offers() []wire.Offer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offers
}

func (m *machine) requests() []wire.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]wire.Request(nil), m.asked...)
}

// joined enrolls a relay and returns its identity file.
func joined(t testing.TB, s *site, name string) string {
	t.Helper()
	token, err := s.NewToken(t.Context(), name, 0)
	if err != nil {
		t.Fatal(err)
	}
	in, err := link.NewInvitation(s.url, token.Text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), link.DefaultFile)
	if _, err := link.Join(t.Context(), path, in, s.clock.now); err != nil {
		t.Fatal(err)
	}
	return path
}

// connect runs a relay until the test or the returned function ends it.
func connect(t testing.TB, path string, m wire.Handler, change func(*link.Options)) func() {
	t.Helper()
	o := link.Options{Identity: path, Handler: m, Rand: func() float64 { return 0 }, Log: zerolog.Nop()}
	if change != nil {
		change(&o)
	}
	l, err := link.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.Run(ctx); err != nil {
			t.Errorf("link: %v", err)
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

// online waits until the bridge has a relay.
func (s *site) online(t testing.TB, name string) {
	t.Helper()
	eventually(t, name+" is connected", func() bool {
		v, err := s.RelayByName(t.Context(), name)
		return err == nil && v.Connected
	})
}

func (s *site) offline(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" is gone", func() bool {
		v, err := s.RelayByName(t.Context(), name)
		return err == nil && !v.Connected
	})
}

func ask(t testing.TB, action, relay, id string) bridge.ActionRequest {
	t.Helper()
	return bridge.ActionRequest{Grant: grant(t, action, relay), Request: id, Line: "LOCAL_ACTION: " + action, Agent: "main"}
}

func get(t *testing.T, url string, header http.Header) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// lines hands out what a relay logs.
type lines chan string

// Write implements io.Writer.
func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// trouble runs a relay until its first connection ended and returns what it logged about it.
func trouble(t *testing.T, path string) string {
	t.Helper()
	log := make(lines, 16)
	stop := connect(t, path, newDiary("a"), func(o *link.Options) { o.Log = zerolog.New(log) })
	defer stop()
	for {
		select {
		case line := <-log:
			if strings.Contains(line, `"level":"warn"`) || strings.Contains(line, `"level":"error"`) {
				return line
			}
		case <-t.Context().Done():
			t.Fatal("no trouble")
		}
	}
}

// deaf passes requests on and loses the answers.
func deaf(t *testing.T, url string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), r.Method, url+r.URL.Path, r.Body)
		if err == nil {
			req.Header = r.Header
			var response *http.Response
			if response, err = http.DefaultTransport.RoundTrip(req); err == nil {
				response.Body.Close()
			}
		}
		if err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(func() {
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return server.URL
}
