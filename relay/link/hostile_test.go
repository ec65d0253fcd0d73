package link_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/rs/zerolog"

	"drawbridge/relay/link"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/wire"
)

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// handler counts what gets through to it. Only "listed" is on its list.
type handler struct {
	mu   sync.Mutex // guards ran
	ran  map[string]int
	hold chan struct{}
}

// Run implements wire.Handler.
func (h *handler) Run(_ context.Context, r wire.Request, _ func(wire.Output)) (wire.Outcome, error) {
	h.mu.Lock()
	h.ran[r.Action]++
	h.mu.Unlock()
	if h.hold != nil {
		<-h.hold
	}
	if r.Action != "listed" {
		return wire.Outcome{Answer: wire.Refused(r.Action, "not on the list"), Refusal: wire.RefusedUnlisted}, nil
	}
	return wire.Outcome{Answer: wire.Answer{Status: wire.StatusExecuted}}, nil
}

// Offers implements wire.Handler.
func (*handler) Offers() []wire.Offer { return []wire.Offer{{Action: "listed", Approval: "never"}} }

// Process implements wire.Handler.
func (*handler) Process() string { return "p1" }

// Epoch implements wire.Handler.
func (*handler) Epoch() int64 { return 0 }

// KeepEpoch implements wire.Handler.
func (*handler) KeepEpoch(int64) error { return nil }

// Lookup implements wire.Handler. It remembers nothing.
func (*handler) Lookup(r wire.Request) wire.Found { return wire.Found{ID: r.ID, Known: wire.KnownNot} }

func (h *handler) count(action string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ran[action]
}

// peer is a bridge's end of a connection, made by hand, with the true key.
type peer struct {
	t   *testing.T
	ws  *websocket.Conn
	key ed25519.PrivateKey
	// connection is the id of the connection, set by let.
	connection string
}

func (p *peer) send(data []byte) error { return p.ws.Write(p.t.Context(), websocket.MessageText, data) }

func (p *peer) frame(f wire.Frame) error {
	data, err := f.Bytes()
	if err != nil {
		return err
	}
	return p.send(data)
}

func (p *peer) read() (wire.Frame, error) {
	_, data, err := p.ws.Read(p.t.Context())
	if err != nil {
		return wire.Frame{}, err
	}
	return wire.ReadFrame(data)
}

// let does the bridge's part of the handshake.
func (p *peer) let() error {
	f, err := p.read()
	if err != nil || f.Hello == nil {
		return errors.Join(err, errors.New("no hello"))
	}
	hello := f.Hello
	nonce, err := wire.NewNonce()
	if err != nil {
		return err
	}
	c := wire.Challenge{Key: wire.KeyID(public(p.key)), Nonce: nonce}.Prove(p.key, *hello)
	if err := p.frame(wire.Frame{Challenge: &c}); err != nil {
		return err
	}
	if f, err = p.read(); err != nil || f.Proof == nil {
		return errors.Join(err, errors.New("no proof"))
	}
	welcome := wire.Welcome{Session: "s"}.Give(p.key, *hello, c, f.Proof.Epoch+1)
	p.connection = wire.ConnectionID(*hello, c)
	if err := p.frame(wire.Frame{Welcome: &welcome}); err != nil {
		return err
	}
	if f, err = p.read(); err == nil && f.Kept != nil && f.Kept.Epoch == welcome.Epoch {
		f, err = p.read()
	}
	if err != nil || f.Offers == nil {
		return errors.Join(err, errors.New("no offers"))
	}
	return nil
}

// relayWith runs a relay against a bridge that says what talk says, once, and returns what the relay logged.
func relayWith(t *testing.T, h wire.Handler, talk func(*peer)) []string {
	t.Helper()
	done := make(chan struct{})
	over := sync.OnceFunc(func() { close(done) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
		if err != nil {
			t.Error(err)
			return
		}
		ws.SetReadLimit(wire.MaxToBridge)
		defer over()
		defer func() { _ = ws.CloseNow() }()
		talk(&peer{t: t, ws: ws, key: key("bridge")})
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), link.DefaultFile)
	if err := link.Save(path, link.Identity{Bridge: server.URL, Relay: "laptop", Key: key("relay"), Pins: []link.Pin{{Key: public(key("bridge")), Since: time.Now()}}}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log []string
	l, err := link.New(link.Options{Identity: path, Handler: h, Log: zerolog.New(writer(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, line)
	}))})
	if err != nil {
		t.Fatal(err)
	}
	l.Patient()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	<-done
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return log
}

type writer func(string)

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

func newHandler() *handler { return &handler{ran: map[string]int{}} }

func order(id, action string) wire.Order {
	return wire.Order{ID: id, Relay: "laptop", Ask: wire.Ask{Action: action}, Created: time.Now(), For: wire.MaxAge}
}

func sign(t *testing.T, k ed25519.PrivateKey, o wire.Order) *wire.Signed {
	t.Helper()
	s, err := wire.Sign(k, o)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// executor stands where processes are started and writes down every command.
type executor struct {
	mu  sync.Mutex // guards ran
	ran []keeper.Command
}

// Run implements runner.Executor.
func (e *executor) Run(_ context.Context, c keeper.Command) (keeper.End, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ran = append(e.ran, c)
	return keeper.End{}, nil
}

// String implements runner.Executor.
func (*executor) String() string { return "writes down" }

// hostileBridge sends what hostile makes and returns how many executions the relay answered with.
func hostileBridge(t *testing.T, h wire.Handler) (executed int) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same attacks each time
	relayWith(t, h, func(p *peer) {
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		answers := make(chan wire.Frame, 64)
		go func() {
			defer close(answers)
			for {
				f, err := p.read()
				if err != nil {
					return
				}
				if f.Switch == nil && f.Asking == nil {
					answers <- f
				}
			}
		}()
		for n := range hostileRequests {
			s, want := hostile(t, random, p.key, n)
			if err := p.frame(wire.Frame{Request: &s}); err != nil {
				t.Errorf("request %d: %v", n, err)
				return
			}
			f, open := <-answers
			if !open || f.Outcome == nil || f.Outcome.ID != s.ID {
				t.Errorf("request %d (%+v) is answered with %+v", n, s, f.Outcome)
				return
			}
			got := f.Outcome.Refusal
			if got == "" {
				executed++
			}
			// More good ones than a minute takes, or than are kept in mind, are told to come back.
			later := want != wire.RefusedInvalid && (got == wire.RefusedBusy || got == wire.RefusedRate)
			if got != want && !later {
				t.Errorf("request %d (%+v) is answered with %+v; want the refusal %q", n, s, f.Outcome, want)
				return
			}
		}
		_ = p.ws.CloseNow()
		for range answers {
		}
	})
	return executed
}

// hostile makes one request and says which refusal it must meet.
func hostile(t *testing.T, random *rand.Rand, k ed25519.PrivateKey, n int) (s wire.Signed, want wire.Refusal) {
	id := fmt.Sprintf("op-%d", n)
	o := order(id, "listed")
	const invalid = wire.RefusedInvalid
	switch random.IntN(12) {
	case 0:
		return *sign(t, k, o), ""
	case 1:
		o.Ask.Action = "rm"
		return *sign(t, k, o), wire.RefusedUnlisted
	case 2:
		o.Ask.Action = []string{"listed --x", "../listed", "LISTED", "listed\x00", "listed;id", "$(id)", ""}[random.IntN(7)]
		return *sign(t, k, o), invalid
	case 3:
		return *sign(t, key("another"), o), invalid
	case 4:
		o.Relay = "desk"
		return *sign(t, k, o), invalid
	case 5:
		o.Created = o.Created.Add(-3 * time.Minute)
		return *sign(t, k, o), invalid
	case 6:
		o.Created = o.Created.Add(3 * time.Minute)
		return *sign(t, k, o), invalid
	case 7:
		o.For = time.Hour
		return *sign(t, k, o), invalid
	case 8:
		o.Ask.Line = strings.Repeat("A", wire.MaxLine+1)
		return *sign(t, k, o), invalid
	}
	// What was signed is changed afterwards: any bit of it.
	s = *sign(t, k, o)
	switch random.IntN(4) {
	case 0:
		s.Sig = flip(random, s.Sig)
	case 1:
		s.Body = flip(random, s.Body)
	case 2:
		s.Key = flip(random, s.Key)
	case 3:
		s.Created += int64(1 + random.IntN(1000))
	}
	return s, invalid
}

// flip changes one character into another.
func flip(random *rand.Rand, text string) string {
	b := []byte(text)
	at := random.IntN(len(b))
	for was := b[at]; b[at] == was || b[at] == '"' || b[at] == '\\'; {
		b[at] = byte(' ' + random.IntN(95))
	}
	return string(b)
}

func TestReplay(t *testing.T) {
	t.Parallel()
	h := newHandler()
	relayWith(t, h, func(p *peer) {
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		s := sign(t, p.key, order("op-1", "listed"))
		again := order("op-1", "listed")
		again.Created = again.Created.Add(time.Millisecond)
		for n, want := range []struct {
			s *wire.Signed
			r wire.Refusal
		}{{s, ""}, {s, wire.RefusedInvalid}, {sign(t, p.key, again), ""}, {s, wire.RefusedInvalid}} {
			if err := p.frame(wire.Frame{Request: want.s}); err != nil {
				t.Error(err)
			}
			f, err := p.read()
			if err != nil || f.Outcome == nil || f.Outcome.Refusal != want.r {
				t.Errorf("%d: %+v, %v; want the refusal %q", n, f.Outcome, err, want.r)
			}
		}
	})
	if got := h.count("listed"); got != 2 {
		t.Errorf("%d got through, want the first and the one signed again", got)
	}
}

// Frames that no bridge of ours sends end the connection, and run nothing.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	good, err := wire.Frame{Request: sign(t, key("bridge"), order("op-1", "listed"))}.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Replace(string(good), `"op-1"`, `""`, 1)
	for name, data := range map[string][]byte{
		"empty":              {},
		"unknown member":     []byte(`{"run":{"argv":["/bin/sh"]}}`),
		"unknown key":        []byte(strings.Replace(string(good), `"id"`, `"argv":["/bin/sh"],"id"`, 1)),
		"without an id":      []byte(id),
		"out of order":       []byte(`{"welcome":{"session":"x"}}`),
		"a relay's frame":    []byte(`{"outcome":{"id":"op-1","action":"a","status":"executed","exit_code":0,"stdout":"","stderr":"","stdout_omitted":0,"stderr_omitted":0,"duration_ms":0,"error":""}}`),
		"oversized":          []byte(`{"proof":{"sig":"` + strings.Repeat("x", wire.MaxToRelay) + `"}}`),
		"key nobody vouches": []byte(`{"keys":{"public":"` + wire.KeyText(public(key("evil"))) + `","by":"` + wire.KeyID(public(key("bridge"))) + `","sig":"x"}}`),
		"key by itself":      evilKeys(t),
	} {
		h := newHandler()
		log := relayWith(t, h, func(p *peer) {
			if err := p.let(); err != nil {
				t.Error(err)
				return
			}
			if err := p.send(data); err != nil && name != "oversized" {
				t.Errorf("%s: %v", name, err)
			}
			if f, err := p.read(); err == nil {
				t.Errorf("%s: answered with %+v", name, f)
			}
		})
		if len(h.ran) != 0 {
			t.Errorf("%s: ran %v\n%s", name, h.ran, log)
		}
	}
	// Binary messages are not read at all.
	h := newHandler()
	relayWith(t, h, func(p *peer) {
		if err := errors.Join(p.let(), p.ws.Write(t.Context(), websocket.MessageBinary, good)); err != nil {
			t.Error(err)
		}
		if f, err := p.read(); err == nil {
			t.Errorf("binary: answered with %+v", f)
		}
	})
	if len(h.ran) != 0 {
		t.Error("a binary message ran")
	}
}

func evilKeys(t *testing.T) []byte {
	t.Helper()
	k, err := wire.NewKeys(key("evil"), "laptop", public(key("evil")))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(wire.Frame{Keys: &k})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Whoever cannot prove the bridge's key gets the relay's name and nothing more.
func TestForeignBridge(t *testing.T) {
	t.Parallel()
	nonce, err := wire.NewNonce()
	if err != nil {
		t.Fatal(err)
	}
	foreign := map[string]func(p *peer, h wire.Hello) wire.Frame{
		"another key": func(_ *peer, h wire.Hello) wire.Frame {
			c := wire.Challenge{Key: wire.KeyID(public(key("evil"))), Nonce: nonce}.Prove(key("evil"), h)
			return wire.Frame{Challenge: &c}
		},
		"another key under the true id": func(p *peer, h wire.Hello) wire.Frame {
			c := wire.Challenge{Key: wire.KeyID(public(p.key)), Nonce: nonce}.Prove(key("evil"), h)
			return wire.Frame{Challenge: &c}
		},
		"an earlier challenge": func(p *peer, h wire.Hello) wire.Frame {
			h.Nonce = nonce
			c := wire.Challenge{Key: wire.KeyID(public(p.key)), Nonce: nonce}.Prove(p.key, h)
			return wire.Frame{Challenge: &c}
		},
		"a challenge for another relay": func(p *peer, h wire.Hello) wire.Frame {
			h.Relay = "desk"
			c := wire.Challenge{Key: wire.KeyID(public(p.key)), Nonce: nonce}.Prove(p.key, h)
			return wire.Frame{Challenge: &c}
		},
		"no challenge": func(*peer, wire.Hello) wire.Frame { return wire.Frame{Welcome: &wire.Welcome{Session: "x"}} },
		"a request": func(p *peer, _ wire.Hello) wire.Frame {
			return wire.Frame{Request: sign(t, p.key, order("op-1", "listed"))}
		},
	}
	for name, answer := range foreign {
		h := newHandler()
		relayWith(t, h, func(p *peer) {
			f, err := p.read()
			if err != nil || f.Hello == nil {
				t.Errorf("%s: %+v, %v", name, f, err)
				return
			}
			if err := p.frame(answer(p, *f.Hello)); err != nil {
				t.Error(err)
			}
			if f, err := p.read(); err == nil {
				t.Errorf("%s: the relay goes on with %+v", name, f)
			}
		})
		if len(h.ran) != 0 {
			t.Errorf("%s: ran %v", name, h.ran)
		}
	}
}
