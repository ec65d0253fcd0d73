package chunks_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/chunks"
	"drawbridge/relay/wire"
)

const connection = "c1"

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// genuine lets pass what the relay's key announced on this connection.
func genuine(c wire.Chunked) wire.BodyRefusal {
	if !c.Signed(public(key("relay")), connection) {
		return wire.BodyForged
	}
	return ""
}

func receiver() *chunks.Receiver { return chunks.NewReceiver(chunks.Both(), genuine) }

func outcome(id, text string) wire.Frame {
	return wire.Frame{Outcome: &wire.Outcome{ID: id, Answer: wire.Answer{Action: "a", Status: wire.StatusExecuted, Stdout: text}}}
}

func encoded(t testing.TB, f wire.Frame) []byte {
	t.Helper()
	data, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// announced signs the announcement of a body as the relay does.
func announced(t testing.TB, n int64, id string, body []byte) wire.Frame {
	t.Helper()
	c, err := wire.Announce(key("relay"), connection, wire.Chunked{N: n, Kind: "outcome", For: id}, body)
	if err != nil {
		t.Fatal(err)
	}
	return wire.Frame{Chunked: &c}
}

func chunk(n, at int64, data []byte) wire.Frame {
	c := wire.NewChunk(n, at, data)
	return wire.Frame{Chunk: &c}
}

// cut makes the chunks of a body, each of a size that size gives.
func cut(n int64, body []byte, size func() int) (out []wire.Frame) {
	for at := 0; at < len(body); {
		end := min(at+size(), len(body))
		out = append(out, chunk(n, int64(at), body[at:end]))
		at = end
	}
	return out
}

func full() int { return wire.MaxChunk }

// take gives frames to a receiver as the network does, and returns the frames that arrived whole and the refusals.
func take(t testing.TB, r *chunks.Receiver, frames ...wire.Frame) (whole []wire.Frame, refused []wire.BodyRefusal) {
	t.Helper()
	for _, f := range frames {
		read, err := wire.ReadFrame(encoded(t, f))
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Take(read, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if got.Whole != nil {
			whole = append(whole, *got.Whole)
		}
		if got.Refused != "" {
			refused = append(refused, got.Refused)
		}
	}
	return whole, refused
}

// A frame that is cut in any way, and between the chunks of others, arrives whole, once, as it left.
func TestAnyCutArrivesWhole(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same cuts each time
	for round := range 12 {
		r := receiver()
		var queues [][]wire.Frame
		want := map[string]wire.Frame{}
		got := map[string]wire.Frame{}
		for n := int64(1); n <= wire.MaxBodies; n++ {
			id := fmt.Sprintf("op-%d", n)
			f := outcome(id, strings.Repeat("a\u2028<\"é", 1+random.IntN(4000)))
			want[id] = f
			body := encoded(t, f)
			if _, refused := take(t, r, announced(t, n, id, body)); refused != nil {
				t.Fatal(refused)
			}
			queues = append(queues, cut(n, body, func() int { return 1 + random.IntN(wire.MaxChunk) }))
		}
		for len(queues) > 0 {
			i := random.IntN(len(queues))
			whole, refused := take(t, r, queues[i][0])
			if refused != nil {
				t.Fatalf("round %d: %v", round, refused)
			}
			for _, f := range whole {
				if _, twice := got[f.Outcome.ID]; twice {
					t.Fatalf("round %d: %s arrived twice", round, f.Outcome.ID)
				}
				got[f.Outcome.ID] = f
			}
			if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
				queues = append(queues[:i], queues[i+1:]...)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || r.Held() != 0 {
			t.Fatalf("round %d: %d bytes stay, (-sent +arrived):\n%.400s", round, r.Held(), diff)
		}
	}
}

// Chunks that were dropped, repeated, swapped, changed or cut again give the frame that was signed, or none.
func TestDamagedBodiesArriveWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same damage each time
	f := outcome("op-1", strings.Repeat("x", 6000))
	body := encoded(t, f)
	arrived := 0
	for round := range 600 {
		r := receiver()
		frames := append([]wire.Frame{announced(t, 1, "op-1", body)}, cut(1, body, func() int { return 1 + random.IntN(2000) })...)
		for range random.IntN(3) {
			i, j := 1+random.IntN(len(frames)-1), 1+random.IntN(len(frames)-1)
			switch random.IntN(4) {
			case 0:
				frames = append(frames[:i:i], frames[i+1:]...)
			case 1:
				frames = append(frames[:i:i], append([]wire.Frame{frames[j]}, frames[i:]...)...)
			case 2:
				frames[i], frames[j] = frames[j], frames[i]
			case 3:
				data, err := frames[i].Chunk.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				data[random.IntN(len(data))] ^= 1 << random.IntN(8)
				frames[i] = chunk(1, frames[i].Chunk.At, data)
			}
			if len(frames) < 2 {
				break
			}
		}
		whole, _ := take(t, r, frames...)
		if len(whole) > 1 || len(whole) == 1 && !cmp.Equal(whole[0], f) {
			t.Fatalf("round %d: %d frames arrived, not the one that was signed", round, len(whole))
		}
		arrived += len(whole)
	}
	if arrived < 90 {
		t.Errorf("%d of 600 arrived; those without damage must", arrived)
	}
}

// Each refusal has its reason, leaves nothing stored, and harms no other frame.
func TestRefusals(t *testing.T) {
	t.Parallel()
	body := encoded(t, outcome("op-1", strings.Repeat("x", 5*wire.MaxChunk)))
	parts := cut(1, body, full)
	other := func(change func(*wire.Chunked)) wire.Frame {
		f := announced(t, 1, "op-1", body)
		change(f.Chunked)
		return f
	}
	foreign, err := wire.Announce(key("relay"), "another connection", wire.Chunked{N: 1, Kind: "outcome", For: "op-1"}, body)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := wire.Announce(key("evil"), connection, wire.Chunked{N: 1, Kind: "outcome", For: "op-1"}, body)
	if err != nil {
		t.Fatal(err)
	}
	ours := announced(t, 1, "op-1", body)
	for name, c := range map[string]struct {
		want   wire.BodyRefusal
		frames []wire.Frame
	}{
		"too large":               {wire.BodyTooLarge, []wire.Frame{announced(t, 1, "op-1", make([]byte, wire.MaxBody+1))}},
		"of another connection":   {wire.BodyForged, []wire.Frame{{Chunked: &foreign}, parts[0]}},
		"of another's key":        {wire.BodyForged, []wire.Frame{{Chunked: &stranger}, parts[0]}},
		"size changed":            {wire.BodyForged, []wire.Frame{other(func(c *wire.Chunked) { c.Size++ })}},
		"request changed":         {wire.BodyForged, []wire.Frame{other(func(c *wire.Chunked) { c.For = "op-2" })}},
		"kind changed":            {wire.BodyForged, []wire.Frame{other(func(c *wire.Chunked) { c.Kind = "found" })}},
		"digest changed":          {wire.BodyForged, []wire.Frame{other(func(c *wire.Chunked) { c.Digest = strings.Repeat("0", 64) })}},
		"first chunk twice":       {wire.BodyRepeated, []wire.Frame{ours, parts[0], parts[0]}},
		"second chunk is missing": {wire.BodyMissing, []wire.Frame{ours, parts[0], parts[2]}},
		"last chunk first":        {wire.BodyMissing, []wire.Frame{ours, parts[len(parts)-1]}},
		"longer than announced":   {wire.BodyAhead, append(append([]wire.Frame{ours}, parts[:len(parts)-1]...), chunk(1, parts[len(parts)-1].Chunk.At, make([]byte, wire.MaxChunk)))},
		"another body":            {wire.BodyDigest, append([]wire.Frame{ours}, cut(1, []byte(strings.Repeat("y", len(body))), full)...)},
		"not a frame":             {wire.BodyMalformed, append([]wire.Frame{announced(t, 1, "op-1", make([]byte, 40))}, chunk(1, 0, make([]byte, 40)))},
		"another request's":       {wire.BodyMalformed, append([]wire.Frame{announced(t, 1, "op-2", body)}, parts...)},
	} {
		r := receiver()
		whole, refused := take(t, r, c.frames...)
		if len(whole) != 0 || len(refused) != 1 || refused[0] != c.want || r.Held() != 0 {
			t.Errorf("%s: %d whole, refused %v, %d bytes stored; want %q", name, len(whole), refused, r.Held(), c.want)
		}
		next := encoded(t, outcome("op-9", strings.Repeat("z", wire.MaxWhole)))
		if whole, refused := take(t, r, append([]wire.Frame{announced(t, 2, "op-9", next)}, cut(2, next, full)...)...); len(whole) != 1 || refused != nil {
			t.Errorf("%s: the next frame: %d whole, %v", name, len(whole), refused)
		}
	}
}

// More frames than may travel at a time, or larger ones together, are refused, and those that travel arrive.
func TestManyBodies(t *testing.T) {
	t.Parallel()
	r := receiver()
	body := encoded(t, outcome("op-1", strings.Repeat("x", wire.MaxWhole)))
	for n := int64(1); n <= wire.MaxBodies; n++ {
		if _, refused := take(t, r, announced(t, n, "op-1", body)); refused != nil {
			t.Fatal(n, refused)
		}
	}
	if _, refused := take(t, r, announced(t, wire.MaxBodies+1, "op-1", body)); len(refused) != 1 || refused[0] != wire.BodyTooMany {
		t.Errorf("one too many: %v", refused)
	}
	if whole, refused := take(t, r, cut(2, body, full)...); len(whole) != 1 || refused != nil {
		t.Errorf("%d whole, %v", len(whole), refused)
	}
	if _, refused := take(t, r, announced(t, wire.MaxBodies+2, "op-1", body)); refused != nil {
		t.Errorf("there is a place again: %v", refused)
	}
	large := receiver()
	most := make([]byte, wire.MaxBody)
	_, refused := take(t, large, announced(t, 1, "op-1", most), announced(t, 2, "op-1", most), announced(t, 3, "op-1", body))
	if len(refused) != 1 || refused[0] != wire.BodyTooMany {
		t.Errorf("more bytes than may be stored: %v", refused)
	}
}

// What no honest end sends ends the connection.
func TestOutOfOrder(t *testing.T) {
	t.Parallel()
	body := encoded(t, outcome("op-1", strings.Repeat("x", wire.MaxWhole)))
	first := announced(t, 1, "op-1", body)
	for name, frames := range map[string][]wire.Frame{
		"a chunk of nothing": {chunk(1, 0, body[:9])}, "announced twice": {first, first}, "one left out": {announced(t, 2, "op-1", body)},
		"a chunk of the next": {first, chunk(2, 0, body[:9])}, "another frame": {outcome("op-1", "x")},
	} {
		r, err := receiver(), error(nil)
		for _, f := range frames {
			_, err = r.Take(f, time.Unix(0, 0))
		}
		if !errors.Is(err, chunks.ErrOrder) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A frame that is never finished is forgotten, whether its sender pauses or goes on too slowly.
func TestNeverFinished(t *testing.T) {
	t.Parallel()
	body := encoded(t, outcome("op-1", strings.Repeat("x", 5*wire.MaxChunk)))
	start := time.Unix(0, 0)
	r := receiver()
	must := func(f wire.Frame, at time.Duration) chunks.Taken {
		t.Helper()
		got, err := r.Take(f, start.Add(at))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	must(announced(t, 1, "op-1", body), 0)
	must(chunk(1, 0, body[:100]), 0)
	if got := r.Expire(start.Add(wire.BodyPause)); got != nil || r.Held() != 100 {
		t.Errorf("in time: %v, %d bytes", got, r.Held())
	}
	if got := r.Expire(start.Add(wire.BodyPause + 1)); len(got) != 1 || got[0].Refused != wire.BodyLate || got[0].Reply == nil || r.Held() != 0 {
		t.Errorf("too late: %v, %d bytes", got, r.Held())
	}
	if got := must(chunk(1, 100, body[100:]), wire.BodyPause); got.Whole != nil || got.Reply != nil {
		t.Errorf("what came late: %+v", got)
	}
	must(announced(t, 2, "op-1", body), 0)
	at, end := 0, time.Duration(0)
	for ; end <= wire.BodyTime; end += wire.BodyPause {
		must(chunk(2, int64(at), body[at:at+1]), end)
		at++
	}
	if got := must(chunk(2, int64(at), body[at:at+1]), end); got.Refused != wire.BodyLate || r.Held() != 0 {
		t.Errorf("too slow: %+v, %d bytes", got, r.Held())
	}
}

// pair joins a Sender and a Receiver. between sees each frame that the sender writes.
type pair struct {
	*chunks.Sender
	r       *chunks.Receiver
	mu      sync.Mutex // guards what follows
	arrived []wire.Frame
	writing int
}

func newPair(t *testing.T, between func(context.Context, wire.Frame) error) *pair {
	t.Helper()
	p := &pair{r: receiver()}
	p.Sender = chunks.NewSender(chunks.Options{Key: func() ed25519.PrivateKey { return key("relay") }, Connection: connection, Limits: chunks.Both(), Write: func(ctx context.Context, f wire.Frame) error {
		if err := p.enter(f, 1); err != nil {
			return err
		}
		defer p.enter(f, -1) //nolint:errcheck // leaving is always right
		if err := between(ctx, f); err != nil {
			return err
		}
		return p.pass(f)
	}})
	return p
}

// enter counts the large writes at a time.
func (p *pair) enter(f wire.Frame, by int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Chunk == nil && f.Chunked == nil {
		return nil
	}
	if p.writing += by; p.writing > 1 {
		return errors.New("two chunks wait for the connection")
	}
	return nil
}

func (p *pair) pass(f wire.Frame) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Chunk == nil && f.Chunked == nil {
		p.arrived = append(p.arrived, f)
		return nil
	}
	got, err := p.r.Take(f, time.Unix(0, 0))
	if err == nil && got.Whole != nil {
		p.arrived = append(p.arrived, *got.Whole)
	}
	if err == nil && got.Reply != nil {
		err = p.Take(*got.Reply.Receipt)
	}
	return err
}

// A hundred frames of all sizes that are sent at once arrive, each once, within the bounds of the other end.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(context.Context, wire.Frame) error { return nil })
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			size := []int{10, wire.MaxWhole, 1 << 18, 7 << 20}[n%4]
			if n%4 == 3 && n > 8 {
				size = 3 * wire.MaxWhole
			}
			if err := p.Send(t.Context(), outcome(fmt.Sprintf("op-%d", n), strings.Repeat("x", size))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, f := range p.arrived {
		seen[f.Outcome.ID] = true
	}
	if len(seen) != 100 || len(p.arrived) != 100 {
		t.Errorf("%d frames arrived, %d different ones", len(p.arrived), len(seen))
	}
}

// A receiver that confirms nothing gets no chunk, and one that confirms a window gets no more than that. A small frame
// passes all of them.
func TestSlowReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent, small := map[int64]int{}, 0
		s := chunks.NewSender(chunks.Options{Key: func() ed25519.PrivateKey { return key("relay") }, Connection: connection, Limits: chunks.Both(), Write: func(_ context.Context, f wire.Frame) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case f.Chunk != nil:
				data, err := f.Chunk.Bytes()
				sent[f.Chunk.N] += len(data)
				return err
			case f.Outcome != nil:
				small++
			}
			return nil
		}})
		errs := make(chan error, 10)
		for n := range 10 {
			go func() {
				errs <- s.Send(t.Context(), outcome(fmt.Sprintf("op-%d", n), strings.Repeat("x", 1<<20)))
			}()
		}
		synctest.Wait()
		if err := s.Send(t.Context(), outcome("small", "x")); err != nil || small != 1 || len(sent) != 0 {
			t.Errorf("%v; %d small frames, %v bytes of chunks", err, small, sent)
		}
		if err := s.Take(wire.Receipt{N: 1, Upto: wire.BodyWindow}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(sent) != 1 || sent[1] != wire.BodyWindow {
			t.Errorf("sent %v bytes; %d were confirmed", sent, wire.BodyWindow)
		}
		if err := s.Take(wire.Receipt{N: wire.MaxBodies + 1, Upto: 1}); !errors.Is(err, chunks.ErrOrder) {
			t.Errorf("a receipt for what was not announced: %v", err)
		}
		for range 10 { // each gives up, so that the next one can begin
			if err := <-errs; !errors.Is(err, chunks.ErrSilent) {
				t.Error(err)
			}
		}
	})
}

// A frame that the other end refuses, one that is too large, and one whose connection ends, say so, and leave the others alone.
func TestSendErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var cut bool
	p := newPair(t, func(context.Context, wire.Frame) error {
		if cut {
			return broken
		}
		return nil
	})
	if err := p.Send(t.Context(), outcome("op-1", strings.Repeat("x", wire.MaxBody))); !errors.Is(err, chunks.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if err := p.Send(t.Context(), wire.Frame{Kept: &wire.Kept{Epoch: 1}}); err == nil {
		t.Error("a frame that does not travel in chunks was sent")
	}
	var refusal *chunks.RefusedError
	bad := outcome("op-1", strings.Repeat("x", wire.MaxWhole))
	bad.Outcome.Status = "no such status"
	if err := p.Send(t.Context(), bad); !errors.As(err, &refusal) || refusal.Why != wire.BodyMalformed {
		t.Errorf("refused: %v", err)
	}
	if err := p.Send(t.Context(), outcome("op-2", strings.Repeat("x", wire.MaxWhole))); err != nil {
		t.Errorf("the next one: %v", err)
	}
	cut = true
	if err := p.Send(t.Context(), outcome("op-3", strings.Repeat("x", wire.MaxWhole))); !errors.Is(err, broken) {
		t.Errorf("broken: %v", err)
	}
	ended, end := context.WithCancelCause(t.Context())
	end(broken)
	if err := p.Send(ended, outcome("op-4", strings.Repeat("x", wire.MaxWhole))); !errors.Is(err, broken) {
		t.Errorf("ended: %v", err)
	}
}

// Whatever order of announcements and chunks arrives, a frame arrives only whole and as it was signed, and the bytes that are stored
// stay within the bounds.
func FuzzReceiver(f *testing.F) {
	body := encoded(f, outcome("op-1", strings.Repeat("x", wire.MaxWhole)))
	f.Add([]byte{0, 1, 0, 64, 1, 64, 64, 1, 128, 64})
	f.Add([]byte{0, 0, 1, 0, 255, 1, 255, 255})
	f.Fuzz(func(t *testing.T, program []byte) {
		r := receiver()
		n := int64(0)
		for len(program) > 0 {
			op := program[0] % 8
			program = program[1:]
			if op == 0 {
				n++
				if _, err := r.Take(announced(t, n, "op-1", body), time.Unix(0, 0)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if len(program) < 2 {
				return
			}
			// An offset and a length, both in units of a 256th of the body; op says which frame and how the data is damaged.
			at, size := len(body)*int(program[0])/255, max(1, len(body)*int(program[1])/255)
			program = program[2:]
			data := append([]byte{}, body[min(at, len(body)-1):min(at+min(size, wire.MaxChunk), len(body))]...)
			if len(data) == 0 {
				data = []byte{0}
			}
			if op == 7 {
				data[0] ^= 1
			}
			got, err := r.Take(chunk(max(1, n-int64(op%3)), int64(at), data), time.Unix(0, 0))
			if n == 0 {
				if !errors.Is(err, chunks.ErrOrder) {
					t.Fatalf("a chunk of nothing: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Whole != nil && got.Whole.Outcome.Stdout != strings.Repeat("x", wire.MaxWhole) {
				t.Fatal("another frame than was signed arrived")
			}
			if r.Held() > wire.MaxBodyBytes {
				t.Fatalf("%d bytes are stored", r.Held())
			}
		}
	})
}
