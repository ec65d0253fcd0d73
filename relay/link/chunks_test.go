package link_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/relay/chunks"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// talker is a handler with a journal, whose only action prints size bytes.
type talker struct {
	*handler
	size int
}

func newTalker(size int) *talker { return &talker{newHandler(), size} }

func (h *talker) answer() wire.Answer {
	return wire.Answer{Action: "listed", Status: wire.StatusExecuted, Stdout: strings.Repeat("x", h.size) + "end", StdoutOmitted: 7}
}

// Run implements wire.Handler.
func (h *talker) Run(ctx context.Context, r wire.Request, progress func(wire.Output)) (wire.Outcome, error) {
	out, err := h.handler.Run(ctx, r, progress)
	if r.Line != "short" {
		out.Answer = h.answer()
	}
	return out, err
}

// Lookup implements wire.Handler.
func (h *talker) Lookup(r wire.Request) wire.Found {
	return wire.Found{ID: r.ID, Known: wire.KnownOver, Outcome: &wire.Outcome{ID: r.ID, Answer: h.answer(), Replayed: true}}
}

// ask sends a request, or a look-up.
func (p *peer) ask(o wire.Order) {
	p.t.Helper()
	f := wire.Frame{Request: sign(p.t, p.key, o)}
	if o.Lookup {
		f = wire.Frame{Lookup: f.Request}
	}
	if err := p.frame(f); err != nil {
		p.t.Error(err)
	}
}

// whole reads until one frame has arrived in chunks, and confirms as it reads. Frames that travel whole are counted.
func (p *peer) whole() (f wire.Frame, others int) {
	p.t.Helper()
	r := chunks.NewReceiver(chunks.Both(), func(c wire.Chunked) wire.BodyRefusal {
		if !c.Signed(public(key("relay")), p.connection) {
			return wire.BodyForged
		}
		return ""
	})
	for {
		f, err := p.read()
		if err != nil {
			p.t.Error(err)
			return wire.Frame{}, others
		}
		if f.Chunked == nil && f.Chunk == nil {
			others++
			continue
		}
		got, err := r.Take(f, time.Now())
		if err != nil || got.Refused != "" {
			p.t.Errorf("%q, %v", got.Refused, err)
			return wire.Frame{}, others
		}
		if got.Reply != nil {
			if err := p.frame(*got.Reply); err != nil {
				p.t.Error(err)
			}
		}
		if got.Whole != nil {
			return *got.Whole, others
		}
	}
}

// An answer that is larger than a frame reaches the bridge whole, also when it is looked up, and a short
// answer does not wait for it.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	relayWith(t, newTalker(size), func(p *peer) {
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		p.ask(order("op-1", "listed"))
		if f, _ := p.read(); f.Chunked == nil || f.Chunked.For != "op-1" || f.Chunked.Size < size {
			t.Errorf("announced %+v", f)
		}
		short := order("op-2", "listed")
		short.Ask.Line = "short"
		p.ask(short)
		if f, _ := p.read(); f.Outcome == nil || f.Outcome.ID != "op-2" {
			t.Errorf("a short answer waits for a large one: %+v", f)
		}
	})
	relayWith(t, newTalker(size), func(p *peer) {
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		p.ask(order("op-1", "listed"))
		if f, _ := p.whole(); f.Outcome == nil || len(f.Outcome.Stdout) != size+3 || f.Outcome.StdoutOmitted != 7 {
			t.Error("the outcome is not there")
		}
	})
	relayWith(t, newTalker(size), func(p *peer) {
		if err := p.let(); err != nil {
			t.Error(err)
			return
		}
		o := order("op-1", "listed")
		o.Lookup = true
		p.ask(o)
		if f, _ := p.whole(); f.Found == nil || f.Found.Outcome == nil || len(f.Found.Outcome.Stdout) != size+3 {
			t.Error("the look-up's answer is not there")
		}
	})
}

// Bridges that say about a large answer what none of ours says. None of them gets more than it confirmed, and the next request is
// answered unless the connection had to end.
func TestHostileReceipts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		receipts []wire.Receipt
		// shortened is true when the relay sends the end of its output instead.
		shortened, ends bool
	}{
		"too large":                     {[]wire.Receipt{{N: 1, Refused: wire.BodyTooLarge}}, true, false},
		"refused in the middle":         {[]wire.Receipt{{N: 1, Upto: 100}, {N: 1, Refused: wire.BodyDigest}}, true, false},
		"unwanted":                      {[]wire.Receipt{{N: 1, Refused: wire.BodyUnwanted}}, false, false},
		"done before it begins":         {[]wire.Receipt{{N: 1, Whole: true}}, false, false},
		"of nothing":                    {[]wire.Receipt{{N: 2, Upto: 100}}, false, true},
		"far beyond the end":            {[]wire.Receipt{{N: 1, Upto: 1 << 60}}, false, false},
		"back to the beginning":         {[]wire.Receipt{{N: 1, Upto: wire.BodyWindow}, {N: 1, Upto: 1}, {N: 1, Whole: true}}, false, false},
		"a thousand times":              append1000(wire.Receipt{N: 1, Upto: 1}),
		"for what was refused long ago": {[]wire.Receipt{{N: 1, Refused: wire.BodyUnwanted}, {N: 1, Upto: 100}, {N: 1, Whole: true}}, false, false},
	} {
		relayWith(t, newTalker(2<<20), func(p *peer) {
			if err := p.let(); err != nil {
				t.Error(err)
				return
			}
			p.ask(order("op-1", "listed"))
			if f, _ := p.read(); f.Chunked == nil {
				t.Errorf("%s: %+v", name, f)
			}
			for _, r := range c.receipts {
				if err := p.frame(wire.Frame{Receipt: &r}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			short := order("op-2", "listed")
			short.Ask.Line = "short"
			p.ask(short)
			confirmed := int64(0)
			for _, r := range c.receipts {
				confirmed = max(confirmed, min(r.Upto, 3<<20))
			}
			p.rest(name, confirmed, c.shortened, c.ends)
		})
	}
}

func append1000(r wire.Receipt) (c struct {
	receipts        []wire.Receipt
	shortened, ends bool
}) {
	for range 1000 {
		c.receipts = append(c.receipts, r)
	}
	return c
}

// rest reads until the short answer is there, and the shortened one if there is one.
func (p *peer) rest(name string, confirmed int64, shortened, ends bool) {
	p.t.Helper()
	got, short, cut := int64(0), false, false
	for !short || shortened && !cut {
		f, err := p.read()
		switch {
		case err != nil:
			if !ends {
				p.t.Errorf("%s: %v", name, err)
			}
			return
		case f.Chunk != nil:
			data, _ := f.Chunk.Bytes()
			got += int64(len(data))
		case f.Outcome != nil && f.Outcome.ID == "op-2":
			short = true
		case f.Outcome != nil && strings.HasSuffix(f.Outcome.Stdout, "xend"):
			cut = true
		default:
			p.t.Errorf("%s: %+v", name, f)
		}
	}
	if ends {
		p.t.Errorf("%s: the connection goes on", name)
	}
	if got > confirmed || cut != shortened {
		p.t.Errorf("%s: %d bytes came and %d were confirmed; shortened: %v", name, got, confirmed, cut)
	}
}

// A bridge that confirms nothing loses the connection after a while, so that nothing waits for it without an end.
func TestSilentAboutLargeAnswers(t *testing.T) {
	t.Parallel()
	overWay(t, traffic{newTalker(2 << 20), func(p *peer) {
		for n := range 9 {
			_ = p.frame(wire.Frame{Request: sign(t, p.key, order(fmt.Sprintf("op-%d", n), "listed"))}) // the way may end here
		}
		for {
			if _, err := p.read(); err != nil {
				return
			}
		}
	}}, func(l *link.Link, _ *way, connections <-chan time.Time) {
		first := <-connections
		if took := (<-connections).Sub(first); took < wire.BodyPause || took > wire.BodyPause+30*time.Second {
			t.Errorf("connected again after %s", took)
		}
	})
}

// Chunks and receipts that were never announced are frames out of order. An announcement is refused with a reason; see TestHostileTurns.
func TestHostileChunkFrames(t *testing.T) {
	t.Parallel()
	chunk, receipt := wire.NewChunk(1, 0, []byte("x")), wire.Receipt{N: 1, Upto: 1}
	for name, f := range map[string]wire.Frame{"chunk": {Chunk: &chunk}, "receipt": {Receipt: &receipt}} {
		h := newTalker(1)
		relayWith(t, h, func(p *peer) {
			if err := p.let(); err != nil {
				t.Error(err)
				return
			}
			if err := p.frame(f); err != nil {
				t.Error(err)
			}
			if f, err := p.read(); err == nil {
				t.Errorf("%s: answered with %+v", name, f)
			}
		})
		if len(h.ran) != 0 {
			t.Errorf("%s: ran %v", name, h.ran)
		}
	}
}
