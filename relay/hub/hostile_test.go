package hub_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net/http"
	"testing"

	"github.com/coder/websocket"

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

// enter does the whole handshake, and returns the id of the connection. The relay shows a higher epoch each time, so that it is no copy.
func (p *stranger) enter(i link.Identity, pins []string) (connection string) {
	p.t.Helper()
	h, c := p.hello(i, pins)
	proof := wire.Proof{Epoch: processes.Add(1) << 40, Process: "p1"}.Prove(i.Key, h, c)
	p.frame(wire.Frame{Proof: &proof})
	f := p.read()
	if f.Welcome == nil {
		p.t.Fatalf("no welcome: %+v", f)
	}
	p.frame(wire.Frame{Kept: &wire.Kept{Epoch: f.Welcome.Epoch}})
	p.frame(wire.Frame{Offers: &wire.Offers{Offers: []wire.Offer{{Action: "a", Approval: "never", Definition: "d"}}}})
	return wire.ConnectionID(h, c)
}

// entered is a stranger that is let in as the relay of an identity file. It comes with what signatures need.
func (s *site) entered(t *testing.T, path string) (p *stranger, by link.Identity, connection string) {
	t.Helper()
	p = s.stranger(t)
	by, pins := loaded(t, path)
	connection = p.enter(by, pins)
	s.online(t, by.Relay)
	return p, by, connection
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
		proof := wire.Proof{Process: "p"}.Prove(i.Key, h, c)
		p.frame(wire.Frame{Proof: &proof})
		if got := p.closed(); got != wire.CloseUnknown {
			t.Errorf("%s: %s", name, got)
		}
	}
	// A proof that was good on another connection, or for another relay, is not good here.
	first := s.stranger(t)
	h, c := first.hello(mine, pins)
	proof := wire.Proof{Process: "p"}.Prove(mine.Key, h, c)
	second := s.stranger(t)
	second.frame(wire.Frame{Hello: &h})
	second.read()
	second.frame(wire.Frame{Proof: &proof})
	if got := second.closed(); got != wire.CloseUnknown {
		t.Errorf("a replayed handshake: %s", got)
	}
	foreign := s.stranger(t)
	h, c = foreign.hello(mine, pins)
	proof = wire.Proof{Process: "p"}.Prove(other.Key, h, c)
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
