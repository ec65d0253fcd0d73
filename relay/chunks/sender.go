package chunks

import (
	"context"
	"crypto/ed25519"
	"errors"
	"sync"
	"time"

	"drawbridge/relay/wire"
)

// Sender sends frames over one connection, those of more than [wire.MaxWhole] bytes in chunks. Safe for concurrent use. At most
// one chunk waits for the connection at a time, so that a small frame never waits for more than one.
type Sender struct {
	o Options
	// places bounds the frames that are encoded at a time; chunk is held while one chunk or announcement is written.
	places, chunk chan struct{}

	mu      sync.Mutex // guards what follows
	sending map[int64]*parcel
	last    int64
	// promised is how many announced bytes are not confirmed as a whole; freed is closed and made again when it falls.
	promised int64
	freed    chan struct{}
}

// Options is what a [Sender] is made of. All but Patience are required.
type Options struct {
	// Key returns the key that signs announcements now, and Connection is the connection's id.
	Key        func() ed25519.PrivateKey
	Connection string
	// Limits are those of the other end.
	Limits Limits
	// Write sends one frame as one message. It is called by several goroutines.
	Write func(context.Context, wire.Frame) error
	// Patience is how long the other end may be silent about a frame; [wire.BodyPause] unless set.
	Patience time.Duration
}

// parcel is a frame on its way.
type parcel struct {
	// receipts has room for the newest receipt; a later one takes its place.
	receipts chan wire.Receipt
}

// Errors of [Sender.Send].
var (
	// ErrTooLarge is for a frame that is larger than the other end takes. Nothing was sent.
	ErrTooLarge = errors.New("the frame is larger than the other end takes")
	// ErrSilent is for a receiver that did not confirm anything in time.
	ErrSilent = errors.New("the other end did not confirm a frame in time")
)

// RefusedError says that the other end did not take a frame. Nothing of it had an effect there.
type RefusedError struct{ Why wire.BodyRefusal }

// Error implements error.
func (e *RefusedError) Error() string { return "the other end refused a frame: " + string(e.Why) }

// NewSender returns a Sender for one connection.
func NewSender(o Options) *Sender {
	if o.Patience <= 0 {
		o.Patience = wire.BodyPause
	}
	return &Sender{o: o, places: make(chan struct{}, o.Limits.Bodies), chunk: make(chan struct{}, 1), sending: map[int64]*parcel{}, freed: make(chan struct{})}
}

// Send sends a frame, whole or in chunks, and returns when it is written, or when the other end has confirmed that it arrived whole.
// The frame is one for which [wire.Frame.Body] is true. A large one waits while as many others travel as may; a small one does not.
// A [RefusedError], ErrTooLarge and ErrSilent leave the connection good.
func (s *Sender) Send(ctx context.Context, f wire.Frame) error {
	kind, id, ok := f.Body()
	if !ok {
		return errors.New("this kind of frame does not travel in chunks")
	}
	if f.TextSize() < wire.MaxWhole {
		switch data, err := f.Bytes(); {
		case err != nil:
			return err
		case len(data) <= wire.MaxWhole:
			return s.o.Write(ctx, f)
		}
	}
	if err := take(ctx, s.places); err != nil {
		return err
	}
	defer func() { <-s.places }()
	data, err := f.Bytes()
	switch {
	case err != nil:
		return err
	case int64(len(data)) > s.o.Limits.Body:
		return ErrTooLarge
	}
	if err := s.promise(ctx, int64(len(data))); err != nil {
		return err
	}
	defer s.promise(ctx, -int64(len(data))) //nolint:errcheck // giving back does not wait
	return s.inChunks(ctx, wire.Chunked{Kind: kind, For: id}, data)
}

func take(ctx context.Context, place chan struct{}) error {
	select {
	case place <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// promise waits until so many bytes may be announced, or gives them back.
func (s *Sender) promise(ctx context.Context, bytes int64) error {
	for {
		s.mu.Lock()
		freed := s.freed
		if bytes < 0 || s.promised+bytes <= s.o.Limits.Bytes {
			s.promised += bytes
			if bytes < 0 {
				close(s.freed)
				s.freed = make(chan struct{})
			}
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Sender) inChunks(ctx context.Context, c wire.Chunked, data []byte) error {
	p := &parcel{receipts: make(chan wire.Receipt, 1)}
	n, err := s.announce(ctx, c, data, p)
	if err != nil {
		return err
	}
	defer s.forget(n)
	patience := time.NewTimer(s.o.Patience)
	defer patience.Stop()
	for at := int64(0); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience.C:
			return ErrSilent
		case r := <-p.receipts:
			switch {
			case r.Refused != "":
				return &RefusedError{r.Refused}
			case r.Whole:
				return nil
			}
			if at, err = s.upto(ctx, n, data, [2]int64{at, min(r.Upto, int64(len(data)))}); err != nil {
				return err
			}
			patience.Reset(s.o.Patience)
		}
	}
}

// announce numbers a frame and announces it, in one order.
func (s *Sender) announce(ctx context.Context, c wire.Chunked, data []byte, p *parcel) (n int64, err error) {
	if err := take(ctx, s.chunk); err != nil {
		return 0, err
	}
	defer func() { <-s.chunk }()
	s.mu.Lock()
	s.last++
	n = s.last
	s.sending[n] = p
	s.mu.Unlock()
	c.N = n
	if c, err = wire.Announce(s.o.Key(), s.o.Connection, c, data); err == nil {
		err = s.o.Write(ctx, wire.Frame{Chunked: &c})
	}
	if err != nil {
		s.forget(n)
	}
	return n, err
}

// upto sends what lies between two offsets, and returns where the next chunk begins.
func (s *Sender) upto(ctx context.Context, n int64, data []byte, span [2]int64) (at int64, err error) {
	for at = span[0]; at < span[1]; {
		part := data[at:min(at+wire.MaxChunk, span[1])]
		if err := take(ctx, s.chunk); err != nil {
			return at, err
		}
		c := wire.NewChunk(n, at, part)
		err := s.o.Write(ctx, wire.Frame{Chunk: &c})
		<-s.chunk
		if err != nil {
			return at, err
		}
		at += int64(len(part))
	}
	return at, nil
}

func (s *Sender) forget(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sending, n)
}

// Take passes a receipt of the other end on to the frame that it is about. It never waits. A receipt for a frame that is over says
// nothing; ErrOrder is for one that was never announced.
func (s *Sender) Take(r wire.Receipt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.N > s.last {
		return ErrOrder
	}
	p := s.sending[r.N]
	if p == nil {
		return nil
	}
	select {
	case <-p.receipts: // the newer one says more
	default:
	}
	p.receipts <- r
	return nil
}
