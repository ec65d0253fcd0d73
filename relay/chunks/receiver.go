// Package chunks carries a frame that is too large for one message over a relay's connection, in either direction.
//
// A frame arrives whole or not at all. Nothing of it is stored before its signed announcement was checked, and each end knows
// how much it may have to store. It does not know sockets, and does not judge what a frame asks for. Rule of thumb: the type of a
// message belongs to relay/wire, and its effect to relay/hub and relay/link.
package chunks

import (
	"errors"
	"sync"
	"time"

	"drawbridge/relay/wire"
)

// Limits bounds what a [Receiver] takes.
type Limits struct {
	// Body is the largest frame in bytes.
	Body int64
	// Bodies and Bytes bound the frames that are open at a time. Bytes counts their announced sizes.
	Bodies int
	Bytes  int64
}

// Both returns the limits of both ends.
func Both() Limits {
	return Limits{Body: wire.MaxBody, Bodies: wire.MaxBodies, Bytes: wire.MaxBodyBytes}
}

// Receiver puts together the frames that the other end of one connection sends in chunks. Safe for concurrent use; Take gets the
// frames in the order in which they arrived.
type Receiver struct {
	limits Limits
	judge  func(wire.Chunked) wire.BodyRefusal

	mu   sync.Mutex // guards what follows
	open map[int64]*body
	// last is the number of the newest announced frame.
	last int64
	// promised is how many bytes the open frames have in all.
	promised int64
}

// body is a frame that has not arrived whole.
type body struct {
	wire.Chunked
	data []byte
	// upto is the offset up to which the sender may send.
	upto         int64
	began, moved time.Time
}

// NewReceiver returns a Receiver. judge checks an announcement's signature, and whether the frame is wanted; "" lets it pass.
func NewReceiver(limits Limits, judge func(wire.Chunked) wire.BodyRefusal) *Receiver {
	return &Receiver{limits: limits, judge: judge, open: map[int64]*body{}}
}

// Taken is what came of one frame that a [Receiver] took.
type Taken struct {
	// Reply is to be sent to the other end; nil for nothing.
	Reply *wire.Frame
	// Whole is the frame that has just arrived whole, or nil. Chunks is in how many parts of full size it would have come.
	Whole  *wire.Frame
	Chunks int
	// Refused is set when the receiver refused the frame Announced.
	Refused   wire.BodyRefusal
	Announced wire.Chunked
	// Began is when Whole was announced.
	Began time.Time
}

// ErrOrder is for frames that no end sends by a mistake of the network: the connection is to be closed.
var ErrOrder = errors.New("a frame was announced out of order, or a chunk came before its announcement")

// Take takes an announcement or a chunk. A chunk of a frame that is over is passed over: it was on its way when the frame ended.
func (r *Receiver) Take(f wire.Frame, now time.Time) (Taken, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case f.Chunked != nil:
		return r.announced(*f.Chunked, now)
	case f.Chunk == nil || f.Chunk.N > r.last:
		return Taken{}, ErrOrder
	}
	if b := r.open[f.Chunk.N]; b != nil {
		return r.chunk(b, *f.Chunk, now), nil
	}
	return Taken{}, nil
}

func (r *Receiver) announced(c wire.Chunked, now time.Time) (Taken, error) {
	if c.N != r.last+1 {
		return Taken{}, ErrOrder
	}
	r.last = c.N
	b := &body{Chunked: c, began: now, moved: now}
	why := r.judge(c)
	switch {
	case why != "":
	case c.Size > r.limits.Body:
		why = wire.BodyTooLarge
	case len(r.open) >= r.limits.Bodies || r.promised+c.Size > r.limits.Bytes:
		why = wire.BodyTooMany
	}
	if why != "" {
		return refused(b, why), nil
	}
	r.open[c.N] = b
	r.promised += c.Size
	return b.confirm(), nil
}

// confirm lets the sender go on.
func (b *body) confirm() Taken {
	b.upto = min(b.Size, int64(len(b.data))+wire.BodyWindow)
	return Taken{Reply: &wire.Frame{Receipt: &wire.Receipt{N: b.N, Upto: b.upto}}}
}

func refused(b *body, why wire.BodyRefusal) Taken {
	return Taken{Reply: &wire.Frame{Receipt: &wire.Receipt{N: b.N, Refused: why}}, Refused: why, Announced: b.Chunked}
}

// forget ends an open frame. The caller holds the mutex.
func (r *Receiver) forget(b *body) {
	delete(r.open, b.N)
	r.promised -= b.Size
}

func (r *Receiver) chunk(b *body, c wire.Chunk, now time.Time) Taken {
	data, err := c.Bytes()
	have := int64(len(b.data))
	var why wire.BodyRefusal
	switch {
	case err != nil:
		why = wire.BodyMalformed
	case c.At < have:
		why = wire.BodyRepeated
	case c.At > have:
		why = wire.BodyMissing
	case have+int64(len(data)) > b.upto:
		why = wire.BodyAhead
	case b.late(now):
		why = wire.BodyLate
	}
	if why != "" {
		r.forget(b)
		return refused(b, why)
	}
	b.data, b.moved = append(b.data, data...), now
	switch have = int64(len(b.data)); {
	case have == b.Size:
		r.forget(b)
		return b.finish()
	case b.upto < b.Size && b.upto-have <= wire.BodyWindow/2:
		return b.confirm()
	}
	return Taken{}
}

// finish reads the frame that arrived.
func (b *body) finish() Taken {
	if !b.Fits(b.data) {
		return refused(b, wire.BodyDigest)
	}
	f, err := b.ReadBody(b.data)
	if err != nil {
		return refused(b, wire.BodyMalformed)
	}
	return Taken{Reply: &wire.Frame{Receipt: &wire.Receipt{N: b.N, Whole: true}}, Whole: &f, Chunks: 1 + int((b.Size-1)/wire.MaxChunk), Announced: b.Chunked, Began: b.began}
}

func (b *body) late(now time.Time) bool {
	return now.Sub(b.moved) > wire.BodyPause || now.Sub(b.began) > wire.BodyTime
}

// Expire refuses the frames whose sender has not gone on for [wire.BodyPause], or has taken longer than [wire.BodyTime]. The caller
// asks every few seconds.
func (r *Receiver) Expire(now time.Time) []Taken {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Taken
	for _, b := range r.open {
		if b.late(now) {
			r.forget(b)
			out = append(out, refused(b, wire.BodyLate))
		}
	}
	return out
}

// Held is how many bytes of unfinished frames are stored.
func (r *Receiver) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := 0
	for _, b := range r.open {
		held += len(b.data)
	}
	return held
}
