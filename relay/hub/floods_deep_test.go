//go:build deep

package hub_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
	"drawbridge/relay/link"
	"drawbridge/relay/wire"
)

// A relay that lies about a large answer: each lie is refused with its reason, and the true answer counts after it.
func TestHostileChunks(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	p, i, connection := s.entered(t, joined(t, s, "laptop"))
	done := make(chan error, 1)
	go func() {
		out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", "op-1"))
		if err == nil && out.Stdout != "true" {
			err = fmt.Errorf("%.40q counted", out.Stdout)
		}
		done <- err
	}()
	if f := p.read(); f.Request == nil {
		t.Fatalf("%+v", f)
	}
	body := large(t, "op-1")
	n := int64(0)
	announce := func(connection, id string, data []byte) wire.BodyRefusal {
		n++
		c, err := wire.Announce(i.Key, connection, wire.Chunked{N: n, Kind: "outcome", For: id}, data)
		if err != nil {
			t.Fatal(err)
		}
		p.frame(wire.Frame{Chunked: &c})
		r := p.read().Receipt
		if r == nil || r.N != n {
			t.Fatalf("%+v", r)
		}
		return r.Refused
	}
	send := func(at int, data []byte) {
		c := wire.NewChunk(n, int64(at), data)
		p.frame(wire.Frame{Chunk: &c})
	}
	refused := func(name string, got, want wire.BodyRefusal) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	refused("another request", announce(connection, "op-2", large(t, "op-2")), wire.BodyUnwanted)
	refused("another connection", announce("c", "op-1", body), wire.BodyForged)
	refused("too large", announce(connection, "op-1", make([]byte, wire.MaxBody+1)), wire.BodyTooLarge)
	for name, c := range map[string]struct {
		want   wire.BodyRefusal
		change func(n int, part []byte) (at int, data []byte)
	}{
		"a bit changed": {wire.BodyDigest, func(at int, part []byte) (int, []byte) {
			if at == 0 {
				part[9] ^= 1
			}
			return at, part
		}},
		"one repeated": {wire.BodyRepeated, func(_ int, part []byte) (int, []byte) { return 0, part }},
		"one missing":  {wire.BodyMissing, func(at int, part []byte) (int, []byte) { return at + 1, part }},
	} {
		refused(name, announce(connection, "op-1", body), "")
		for at := 0; at < len(body); at += wire.MaxChunk {
			send(c.change(at, append([]byte{}, body[at:min(at+wire.MaxChunk, len(body))]...)))
		}
		r := p.read().Receipt
		if r == nil {
			t.Fatal(name)
		}
		refused(name, r.Refused, c.want)
	}
	refused("late", announce(connection, "op-1", body), "")
	s.clock.forward(wire.BodyPause + 1)
	p.frame(wire.Frame{Output: &wire.Tail{ID: "op-1"}}) // the connection itself is not silent
	r := p.read().Receipt
	if r == nil {
		t.Fatal("nothing is said of an answer that is not finished")
	}
	refused("late", r.Refused, wire.BodyLate)
	p.frame(wire.Frame{Outcome: &wire.Outcome{ID: "op-1", Answer: wire.Answer{Action: "a", Status: wire.StatusExecuted, Stdout: "true"}}})
	if err := <-done; err != nil {
		t.Error(err)
	}
	refused("after the answer", announce(connection, "op-1", body), wire.BodyUnwanted)
	for range 100_000 { // what came late is passed over, but not without an end
		send(0, []byte("x"))
	}
	if got := p.closed(); !strings.Contains(got, "too many frames") && !strings.Contains(got, "reset") && !strings.Contains(got, "broken pipe") {
		t.Errorf("closed with %q", got)
	}
}

// A relay that floods the bridge is cut off; the others notice nothing.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	s.clock.stop() // so that it does not matter how fast this machine reads
	m := newDiary("a")
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
	m := newDiary("a")
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

// An agent that calls without end is refused or slowed down, and the relay keeps its connection.
func TestMCPFlood(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	s, _ := mcpSite(t, func(_ http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "stay" {
			select {
			case <-free:
			case <-r.Context().Done():
			}
		}
	})
	h := newHouse()
	connect(t, joined(t, s, "laptop"), h, nil)
	s.online(t, "laptop")
	before, err := s.RelayByName(t.Context(), "laptop")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	refused := make(chan error, 1000)
	for range wire.MaxMCPSession + 20 {
		all.Go(func() {
			resp, err := callDoor(t, h.Tunnel(), "bc-1", "stay")
			if err == nil {
				_ = resp.Body.Close()
				return
			}
			refused <- err
		})
	}
	for range 20 {
		if err := <-refused; !strings.Contains(err.Error(), "too many calls of this agent") {
			t.Error(err)
		}
	}
	close(free)
	all.Wait()
	for range 20 {
		all.Go(func() {
			for range 20 {
				if resp, err := callDoor(t, h.Tunnel(), "bc-1", "{}"); err == nil {
					_ = resp.Body.Close()
				} else {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if v, err := s.RelayByName(t.Context(), "laptop"); err != nil || !v.Connected || v.Session != before.Session {
		t.Errorf("the connection did not last: %+v, %v", v, err)
	}
}

// Honest relays may send as many large answers as they are asked for: those do not count as a flood.
func TestManyLargeOutputs(t *testing.T) {
	t.Parallel()
	s := siteOn(t, memstore.NewDisk(), nil)
	s.clock.stop() // no allowance comes back
	d := newDiary("a")
	text := d.prints(1 << 20)
	connect(t, joined(t, s, "laptop"), d, func(o *link.Options) { o.Now = s.clock.now })
	s.online(t, "laptop")
	many := 48 // which come in 3,120 chunks
	if sampled {
		many = 4 // which shows how they come beside each other; only many of them could look like a flood
	}
	results := make(chan error, many)
	for n := range many {
		go func() {
			out, err := s.RunAction(t.Context(), ask(t, "a", "laptop", fmt.Sprintf("op-%d", n)))
			if err == nil && out.Stdout != text[len(text)-bridge.MaxOutput:] {
				err = fmt.Errorf("%d bytes", len(out.Stdout))
			}
			results <- err
		}()
	}
	for range many {
		if err := <-results; err != nil {
			t.Error(err)
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
