package link_test

import (
	"context"
	"crypto/ed25519"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// hosting is a handler that hosts agents, and writes down what reaches them.
type hosting struct {
	*talker
	// said and stopped are guarded by mu.
	said, stopped []wire.Turn
}

func newHosting() *hosting { return &hosting{talker: newTalker(1)} }

// RunTurn implements wire.AgentHost.
func (h *hosting) RunTurn(_ context.Context, t wire.Turn) wire.TurnEnded {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, t)
	if t.Marker == "malformed" {
		return wire.TurnEnded{Cause: "no such cause"}
	}
	return wire.TurnEnded{Cause: wire.TurnAnswered, Text: "Done"}
}

// LookupTurn implements wire.AgentHost.
func (h *hosting) LookupTurn(wire.Turn) wire.TurnFound {
	return wire.TurnFound{Known: wire.TurnKnownEnded} // malformed: there is no end
}

// StopTurn implements wire.AgentHost.
func (h *hosting) StopTurn(t wire.Turn) wire.TurnFound {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = append(h.stopped, t)
	return wire.TurnFound{Known: wire.TurnKnownOpen}
}

func (h *hosting) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.said)
}

func signTurn(t *testing.T, k ed25519.PrivateKey, change func(*wire.TurnOrder)) wire.Signed {
	t.Helper()
	o := wire.TurnOrder{ID: "trn-1", Relay: "laptop", Created: time.Now(), For: wire.MaxAge,
		Ask: wire.TurnAsk{Agent: "opencode", Session: "agt_1", Marker: "m", Text: strings.Repeat("x", 2*wire.MaxWhole)}}
	if change != nil {
		change(&o)
	}
	s, err := wire.SignTurn(k, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// announced is a frame that is to be sent in chunks, announced by a key on a connection.
type announced struct {
	by         ed25519.PrivateKey
	connection string
	wire.Chunked
	body []byte
}

// announce sends the announcement and returns the receipt.
func (p *peer) announce(a announced) wire.Receipt {
	p.t.Helper()
	c, err := wire.Announce(a.by, a.connection, a.Chunked, a.body)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.frame(wire.Frame{Chunked: &c}); err != nil {
		p.t.Error(err)
	}
	return p.receipt()
}

func (p *peer) receipt() wire.Receipt {
	p.t.Helper()
	f, err := p.read()
	if err != nil || f.Receipt == nil {
		p.t.Errorf("%+v, %v", f, err)
		return wire.Receipt{}
	}
	return *f.Receipt
}

// chunks sends a body, each part as change makes it, and returns the last receipt.
func (p *peer) chunks(n int64, body []byte, change func(c *wire.Chunk)) wire.Receipt {
	p.t.Helper()
	for at := 0; at < len(body); at += wire.MaxChunk {
		c := wire.NewChunk(n, int64(at), body[at:min(at+wire.MaxChunk, len(body))])
		if change != nil {
			change(&c)
		}
		if err := p.frame(wire.Frame{Chunk: &c}); err != nil {
			p.t.Error(err)
		}
	}
	return p.receipt()
}

// A bridge that means harm sends large turns that are not what it announced, or that it may not send. Each is refused with its
// reason, none reaches an agent, and a good one does after them.
func TestHostileTurns(t *testing.T) {
	t.Parallel()
	h := newHosting()
	relayWith(t, h, func(p *peer) {
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		good := signTurn(t, p.key, nil)
		body, err := wire.Frame{Turn: &good}.Bytes()
		if err != nil {
			t.Error(err)
			return
		}
		n := int64(0)
		next := func(id string) wire.Chunked {
			n++
			return wire.Chunked{N: n, Kind: "turn", For: id}
		}
		for name, c := range map[string]struct {
			a    announced
			want wire.BodyRefusal
		}{
			"another key":        {announced{by: key("evil"), connection: p.connection, body: body}, wire.BodyForged},
			"another connection": {announced{by: p.key, connection: "c", body: body}, wire.BodyForged},
			"the relay's key":    {announced{by: key("relay"), connection: p.connection, body: body}, wire.BodyForged},
			"too large":          {announced{by: p.key, connection: p.connection, body: make([]byte, wire.MaxBody+1)}, wire.BodyTooLarge},
		} {
			c.a.Chunked = next("trn-1")
			if r := p.announce(c.a); r.N != n || r.Refused != c.want {
				t.Errorf("%s: %+v", name, r)
			}
		}
		kind := next("trn-1")
		kind.Kind = "outcome"
		if r := p.announce(announced{p.key, p.connection, kind, body}); r.Refused != wire.BodyUnwanted {
			t.Errorf("another kind: %+v", r)
		}
		for name, c := range map[string]struct {
			want   wire.BodyRefusal
			id     string
			change func(c *wire.Chunk)
		}{
			"a changed byte": {wire.BodyDigest, "trn-1", func(c *wire.Chunk) {
				if c.At == wire.MaxChunk {
					data, _ := c.Bytes()
					data[7] ^= 1
					*c = wire.NewChunk(c.N, c.At, data)
				}
			}},
			"the first again":      {wire.BodyRepeated, "trn-1", func(c *wire.Chunk) { c.At = 0 }},
			"one left out":         {wire.BodyMissing, "trn-1", func(c *wire.Chunk) { c.At += wire.MaxChunk }},
			"another turn's frame": {wire.BodyMalformed, "trn-2", nil},
		} {
			if r := p.announce(announced{p.key, p.connection, next(c.id), body}); r.Upto == 0 {
				t.Errorf("%s: %+v", name, r)
			}
			if r := p.chunks(n, body, c.change); r.N != n || r.Refused != c.want {
				t.Errorf("%s: %+v, want %q", name, r, c.want)
			}
		}
		if got := h.count(); got != 0 {
			t.Errorf("%d turns reached an agent", got)
		}
		for again := range 2 { // the second is the very same: it is a replay
			p.announce(announced{p.key, p.connection, next("trn-1"), body})
			if r := p.chunks(n, body, nil); !r.Whole {
				t.Errorf("a good one: %+v", r)
			}
			f, err := p.read()
			if err != nil || f.Ended == nil || (again == 0) != (f.Ended.Cause == wire.TurnAnswered) || (again == 1) != (f.Ended.Refusal == wire.RefusedInvalid) {
				t.Errorf("%d: %+v, %v", again, f.Ended, err)
			}
		}
	})
	if len(h.said) != 1 || h.said[0].Text != strings.Repeat("x", 2*wire.MaxWhole) || h.said[0].Agent != "opencode" {
		t.Errorf("%d turns reached an agent", len(h.said))
	}
}

// A turn whose signature, time, relay or form is wrong is refused; a signature of a turn counts for nothing else, nor the other way.
func TestForgedTurns(t *testing.T) {
	t.Parallel()
	h := newHosting()
	relayWith(t, h, func(p *peer) {
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		for name, s := range map[string]wire.Signed{
			"another key":     signTurn(t, key("evil"), short(nil)),
			"another relay":   signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Relay = "desk" })),
			"a look-up":       signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Use = wire.UseLookup })),
			"too old":         signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Created = o.Created.Add(-3 * time.Minute) })),
			"too long a life": signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.For = time.Hour })),
			"no agent":        signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Ask.Agent = "../sh" })),
			"no session":      signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Ask.Session = "" })),
			"a stop":          signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Use = wire.UseStop })),
			"no workspace":    signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Ask.Home = wire.Home{Name: "../x", Repo: "local/notes"} })),
			"an action":       *sign(t, p.key, order("trn-1", "listed")),
		} {
			if err := p.frame(wire.Frame{Turn: &s}); err != nil {
				t.Error(err)
			}
			if f, err := p.read(); err != nil || f.Ended == nil || f.Ended.Refusal != wire.RefusedInvalid || f.Ended.ID != "trn-1" {
				t.Errorf("%s: %+v, %v", name, f.Ended, err)
			}
		}
		s := signTurn(t, p.key, short(nil))
		if err := p.frame(wire.Frame{Request: &s}); err != nil {
			t.Error(err)
		}
		if f, err := p.read(); err != nil || f.Outcome == nil || f.Outcome.Refusal != wire.RefusedInvalid {
			t.Errorf("a turn's signature for an action: %+v, %v", f.Outcome, err)
		}
		if err := p.frame(wire.Frame{TurnLookup: &s}); err != nil {
			t.Error(err)
		}
		if f, err := p.read(); err != nil || f.TurnFound == nil || f.TurnFound.Known != wire.TurnKnownRefused {
			t.Errorf("a turn's signature for a look-up: %+v, %v", f.TurnFound, err)
		}
		look := signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Use = wire.UseLookup }))
		for name, s := range map[string]wire.Signed{"a turn": s, "a look-up": look, "another relay": signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Use, o.Relay = wire.UseStop, "desk" }))} {
			if err := p.frame(wire.Frame{TurnStop: &s}); err != nil {
				t.Error(err)
			}
			if f, err := p.read(); err != nil || f.TurnStopped == nil || f.TurnStopped.Known != wire.TurnKnownRefused {
				t.Errorf("the signature of %s stops a turn: %+v, %v", name, f.TurnStopped, err)
			}
		}
		if h.count() != 0 || len(h.ran) != 0 || len(h.stopped) != 0 {
			t.Error("something ran")
		}
		stop := signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Use = wire.UseStop }))
		if err := p.frame(wire.Frame{TurnStop: &stop}); err != nil {
			t.Error(err)
		}
		if f, err := p.read(); err != nil || f.TurnStopped == nil || f.TurnStopped.Known != wire.TurnKnownOpen || len(h.stopped) != 1 || h.stopped[0].ID != "trn-1" {
			t.Errorf("a stop: %+v, %v", f.TurnStopped, err)
		}
		malformed := signTurn(t, p.key, short(func(o *wire.TurnOrder) { o.Ask.Marker = "malformed" }))
		for _, f := range []wire.Frame{{TurnLookup: &look}, {Turn: &malformed}} {
			if err := p.frame(f); err != nil {
				t.Error(err)
			}
			// What a host says wrongly never ends the connection.
			switch f, err := p.read(); {
			case err != nil:
				t.Error(err)
			case f.TurnFound != nil && f.TurnFound.Known == wire.TurnKnownNot, f.Ended != nil && f.Ended.Cause == wire.TurnCrashed:
			default:
				t.Errorf("%+v", f)
			}
		}
	})
}

// short makes the order of a turn that fits into a frame.
func short(change func(*wire.TurnOrder)) func(*wire.TurnOrder) {
	return func(o *wire.TurnOrder) {
		o.Ask.Text = "Hello"
		if change != nil {
			change(o)
		}
	}
}

// A bridge that begins large turns and never finishes them hears so, and the relay keeps nothing of them.
func TestUnfinishedTurns(t *testing.T) {
	t.Parallel()
	h := newHosting()
	var late atomic.Int32
	overWay(t, traffic{h, func(p *peer) {
		s := signTurn(t, p.key, nil)
		body, err := wire.Frame{Turn: &s}.Bytes()
		if err != nil {
			t.Error(err)
			return
		}
		for n := range int64(wire.MaxBodies) {
			p.announce(announced{p.key, p.connection, wire.Chunked{N: n + 1, Kind: "turn", For: "trn-1"}, body})
			c := wire.NewChunk(n+1, 0, body[:9])
			_ = p.frame(wire.Frame{Chunk: &c})
		}
		if r := p.announce(announced{p.key, p.connection, wire.Chunked{N: wire.MaxBodies + 1, Kind: "turn", For: "trn-1"}, body}); r.Refused != wire.BodyTooMany {
			t.Errorf("one too many: %+v", r)
		}
		for range wire.MaxBodies {
			if r := p.receipt(); r.Refused == wire.BodyLate {
				late.Add(1)
			}
		}
		if r := p.announce(announced{p.key, p.connection, wire.Chunked{N: wire.MaxBodies + 2, Kind: "turn", For: "trn-1"}, body}); r.Upto == 0 {
			t.Errorf("there is room again: %+v", r)
		}
		_, _ = p.read() // until the relay ends
	}}, func(_ *link.Link, _ *way, connections <-chan time.Time) {
		<-connections
		<-time.After(wire.BodyPause - time.Second)
		if n := late.Load(); n != 0 {
			t.Errorf("%d were given up too early", n)
		}
		<-time.After(10 * time.Second)
		if n := late.Load(); n != wire.MaxBodies {
			t.Errorf("%d were given up", n)
		}
	})
	if h.count() != 0 {
		t.Error("an unfinished turn reached an agent")
	}
}
