package hub_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// stranger is a client made by hand.
type stranger struct {
	t  *testing.T
	ws *websocket.Conn
}

func (s *site) stranger(t *testing.T) *stranger {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), s.url+wire.ConnectPath, &websocket.DialOptions{
		Subprotocols: []string{wire.Subprotocol}, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &stranger{t, ws}
}

func (p *stranger) send(data []byte) { _ = p.ws.Write(p.t.Context(), websocket.MessageText, data) }

func (p *stranger) frame(f wire.Frame) {
	p.t.Helper()
	data, err := f.Bytes()
	if err != nil {
		p.t.Fatal(err)
	}
	p.send(data)
}

// closed reads until the bridge closes, and returns its word.
func (p *stranger) closed() string {
	for {
		_, _, err := p.ws.Read(p.t.Context())
		var e websocket.CloseError
		if errors.As(err, &e) {
			return e.Reason
		}
		if err != nil {
			return err.Error()
		}
	}
}

func (p *stranger) read() wire.Frame {
	p.t.Helper()
	_, data, err := p.ws.Read(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	f, err := wire.ReadFrame(data)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// hello begins a handshake as the relay of an identity.
func (p *stranger) hello(i link.Identity, pins []string) (wire.Hello, wire.Challenge) {
	p.t.Helper()
	nonce, err := wire.NewNonce()
	if err != nil {
		p.t.Fatal(err)
	}
	h := wire.Hello{Relay: i.Relay, Key: wire.KeyID(i.Key.Public().(ed25519.PublicKey)), Nonce: nonce, Pins: pins}
	p.frame(wire.Frame{Hello: &h})
	f := p.read()
	if f.Challenge == nil {
		p.t.Fatalf("no challenge: %+v", f)
	}
	return h, *f.Challenge
}

// enter does the whole handshake.
func (p *stranger) enter(i link.Identity, pins []string) {
	p.t.Helper()
	h, c := p.hello(i, pins)
	proof := wire.NewProof(i.Key, h, c)
	p.frame(wire.Frame{Proof: &proof})
	if f := p.read(); f.Welcome == nil {
		p.t.Fatalf("no welcome: %+v", f)
	}
	p.frame(wire.Frame{Offers: &wire.Offers{Offers: []wire.Offer{{Action: "a", Approval: "never", Definition: "d"}}}})
}

func loaded(t *testing.T, path string) (link.Identity, []string) {
	t.Helper()
	i, err := link.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return i, []string{keyOf(t, path)}
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	mine, pins := loaded(t, joined(t, s, "laptop"))
	other, _ := loaded(t, joined(t, s, "desk"))
	_, evil, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// A bearer of nothing but a name, of another's key, of another relay's proof: all hear the same.
	nobody := mine
	nobody.Relay = "nobody"
	guessed := mine
	guessed.Key = evil
	swapped := mine
	swapped.Relay = "desk"
	for name, i := range map[string]link.Identity{"nobody": nobody, "guessed key": guessed, "another's name": swapped} {
		p := s.stranger(t)
		h, c := p.hello(i, pins)
		proof := wire.NewProof(i.Key, h, c)
		p.frame(wire.Frame{Proof: &proof})
		if got := p.closed(); got != wire.CloseUnknown {
			t.Errorf("%s: %s", name, got)
		}
	}
	// A proof that was good on another connection, or for another relay, is not good here.
	first := s.stranger(t)
	h, c := first.hello(mine, pins)
	proof := wire.NewProof(mine.Key, h, c)
	second := s.stranger(t)
	second.frame(wire.Frame{Hello: &h})
	second.read()
	second.frame(wire.Frame{Proof: &proof})
	if got := second.closed(); got != wire.CloseUnknown {
		t.Errorf("a replayed handshake: %s", got)
	}
	foreign := s.stranger(t)
	h, c = foreign.hello(mine, pins)
	proof = wire.NewProof(other.Key, h, c)
	foreign.frame(wire.Frame{Proof: &proof})
	if got := foreign.closed(); got != wire.CloseUnknown {
		t.Errorf("another relay's proof: %s", got)
	}
	for name, i := range map[string]string{"laptop": "laptop", "desk": "desk"} {
		if v, err := s.RelayByName(t.Context(), i); err != nil || v.Connected {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// Whatever a stranger sends, the bridge closes the connection and goes on.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	path := joined(t, s, "laptop")
	i, pins := loaded(t, path)
	nonce := strings.Repeat("n", 43)
	hello := `{"hello":{"relay":"laptop","key":"k","nonce":"` + nonce + `","pins":["` + pins[0] + `"]}}`
	before := []string{
		``, `{`, `[]`, `{"hello":null}`, hello[:30], hello + hello, `{"proof":{"sig":"x"}}`, `{"offers":{"offers":[]}}`,
		strings.Replace(hello, "laptop", "../x", 1), strings.Replace(hello, pins[0], "0123456789abcdef", 1),
		`{"hello":{"relay":"` + strings.Repeat("x", wire.MaxHandshake) + `"}}`,
		`{"outcome":{"id":"op-1","action":"a","status":"executed","exit_code":0,"stdout":"","stderr":"","stdout_omitted":0,"stderr_omitted":0,"duration_ms":0,"error":""}}`,
	}
	for _, text := range before {
		p := s.stranger(t)
		p.send([]byte(text))
		if got := p.closed(); got == "" || strings.Contains(got, "laptop") {
			t.Errorf("%.60s: %q", text, got)
		}
	}
	after := []string{
		`x`, hello, `{"request":{"id":"a","key":"","created":0,"expires":0,"body":"","sig":""}}`, `{"welcome":{"session":"x"}}`,
		`{"offers":{"offers":[{"action":"../x","approval":"","definition":""}]}}`, `{"pinned":{"pins":[]}}`,
		`{"output":{"id":"x","stdout":"` + strings.Repeat("x", 3*wire.MaxProgress) + `","stderr":""}}`, `{"proof":{"sig":"` + strings.Repeat("x", wire.MaxToBridge) + `"}}`,
	}
	for _, text := range after {
		p := s.stranger(t)
		p.enter(i, pins)
		s.online(t, "laptop")
		p.send([]byte(text))
		if got := p.closed(); got == "" {
			t.Errorf("%.60s: %q", text, got)
		}
		s.offline(t, "laptop")
	}
	// Pins that nobody has, and answers that nobody waits for, change nothing.
	p := s.stranger(t)
	p.enter(i, pins)
	s.online(t, "laptop")
	p.frame(wire.Frame{Pinned: &wire.Pinned{Pins: []string{"0123456789abcdef"}}})
	for n := range 100 {
		p.frame(wire.Frame{Outcome: &wire.Outcome{ID: fmt.Sprintf("op-%d", n), Answer: wire.Answer{Status: wire.StatusExecuted}}})
	}
	done := make(chan error, 1)
	for _, id := range []string{"between", "op-1"} { // frames are read in order: after the first, all the early ones were
		go func() {
			out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", id))
			if err == nil && out.Stdout != "true" {
				err = fmt.Errorf("an early answer counted: %+v", out)
			}
			done <- err
		}()
		if f := p.read(); f.Request == nil || f.Request.ID != id {
			t.Errorf("%+v", f)
		}
		p.frame(wire.Frame{Outcome: &wire.Outcome{ID: id, Answer: wire.Answer{Action: "a", Status: wire.StatusExecuted, Stdout: "true"}}})
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// An answer for another action than was asked for is none.
	go func() {
		_, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-2"))
		done <- err
	}()
	p.read()
	p.frame(wire.Frame{Outcome: &wire.Outcome{ID: "op-2", Answer: wire.Answer{Action: "b", Status: wire.StatusExecuted}}})
	if err := <-done; !bridge.IsUnclear(err) {
		t.Errorf("an answer for another action: %v", err)
	}
}

// A relay that floods the bridge is cut off; the others notice nothing.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	s.clock.stop() // so that it does not matter how fast this machine reads
	m := newMachine("a")
	connect(t, joined(t, s, "desk"), m, func(o *link.Options) { o.Now = s.clock.now })
	s.online(t, "desk")
	i, pins := loaded(t, joined(t, s, "laptop"))
	for name, f := range map[string]wire.Frame{
		"output": {Output: &wire.Tail{ID: "x", Stdout: strings.Repeat("x", wire.MaxProgress)}},
		"offers": {Offers: &wire.Offers{Offers: []wire.Offer{{Action: "a"}}}},
	} {
		p := s.stranger(t)
		p.enter(i, pins)
		data, err := f.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan int)
		go func() {
			n := 0
			for err := error(nil); err == nil && n < 1_000_000; n++ {
				err = p.ws.Write(t.Context(), websocket.MessageText, data)
			}
			sent <- n
		}()
		if got := p.closed(); !strings.Contains(got, "too many frames") && !strings.Contains(got, "reset") && !strings.Contains(got, "broken pipe") {
			t.Errorf("%s: closed with %q", name, got)
		}
		if n := <-sent; n == 1_000_000 {
			t.Errorf("%s: a million frames are taken", name)
		}
		s.offline(t, "laptop")
		if _, err := s.RunAction(t.Context(), ask(t, "a", "desk", "op-"+name)); err != nil {
			t.Errorf("%s: the other relay: %v", name, err)
		}
	}
}

// A thousand requests at once through the hub: each is answered, none twice.
func TestThousandRequests(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	m := newMachine("a")
	connect(t, joined(t, s, "laptop"), m, nil)
	s.online(t, "laptop")
	results := make(chan error, 1000)
	for n := range 1000 {
		go func() {
			_, err := s.RunAction(t.Context(), ask(t, "a", "laptop", fmt.Sprintf("op-%d", n)))
			results <- err
		}()
	}
	answered, busy := 0, 0
	for range 1000 {
		switch err := <-results; {
		case err == nil:
			answered++
		case bridge.KindOf(err) == bridge.Unavailable && !bridge.IsUnclear(err):
			busy++
		default:
			t.Error(err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if answered != len(m.ran) || answered == 0 {
		t.Errorf("%d answered, %d busy, %d ran", answered, busy, len(m.ran))
	}
}
