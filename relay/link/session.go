package link

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"drawbridge/internal/failpoint"
	"drawbridge/internal/pause"
	"drawbridge/relay/chunks"
	"drawbridge/relay/tunnel"
	"drawbridge/relay/wire"
)

const (
	// maxInFlight bounds the requests that wait or run at a time; the handler's own bounds are much lower.
	maxInFlight = 256
	// progressEvery is how often one action's output is told, at most.
	progressEvery = 250 * time.Millisecond
)

// session is one connection that the bridge has let in.
type session struct {
	link     *Link
	ws       *websocket.Conn
	identity Identity
	name     string
	// proved is true once we know that this is our bridge.
	proved bool
	// out carries output, which may be dropped.
	out  chan wire.Frame
	over chan struct{}

	// sender sends large answers in chunks, host takes turns, and receiver large ones. All are set when the handshake is over.
	sender   *chunks.Sender
	host     wire.AgentHost
	receiver *chunks.Receiver
	// tunnel takes the answers of the bridge's MCP door; nil for a handler whose agents do not call it.
	tunnel *tunnel.Client

	mu sync.Mutex // guards draining, and that running grows only before it
	// draining is true when the relay is stopping and takes nothing more.
	draining bool
	running  sync.WaitGroup
}

// begin counts one more that runs, unless the relay is stopping.
func (s *session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.running.Add(1)
	}
	return !s.draining
}

var errOrder = errors.New("the bridge sent a frame out of order")

func (s *session) write(ctx context.Context, f wire.Frame) error {
	data, err := f.Bytes()
	if err != nil {
		return err
	}
	if len(data) > wire.MaxToBridge {
		return errors.New("a frame is larger than the bridge reads")
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.ws.Write(ctx, websocket.MessageText, data)
}

func (s *session) read(ctx context.Context) (wire.Frame, error) {
	kind, data, err := s.ws.Read(ctx)
	if err != nil {
		return wire.Frame{}, err
	}
	if kind != websocket.MessageText {
		return wire.Frame{}, errors.New("the bridge sent a frame that is not text")
	}
	return wire.ReadFrame(data)
}

// handshake meets the bridge, learns its newer key and tells it what may run here.
func (s *session) handshake(ctx context.Context) error {
	welcome, err := s.meet(ctx)
	if err != nil {
		return err
	}
	s.ws.SetReadLimit(wire.MaxToRelay)
	if err := s.keepEpoch(ctx, welcome.Epoch); err != nil {
		return err
	}
	if welcome.Keys != nil {
		if err := s.learn(ctx, *welcome.Keys); err != nil {
			return err
		}
	}
	return s.write(ctx, wire.Frame{Offers: &wire.Offers{Offers: s.link.o.Handler.Offers()}})
}

// keepEpoch acknowledges the connection's epoch. It is on the disk before the bridge hears that it is.
func (s *session) keepEpoch(ctx context.Context, epoch int64) error {
	if err := s.link.o.Handler.KeepEpoch(epoch); err != nil {
		return err
	}
	failpoint.Here("relay.kept.before")
	if err := s.write(ctx, wire.Frame{Kept: &wire.Kept{Epoch: epoch}}); err != nil {
		return err
	}
	failpoint.Here("relay.kept.after")
	return nil
}

// greeting is the first half of a handshake, in which the bridge has proved itself.
type greeting struct {
	hello     wire.Hello
	challenge wire.Challenge
	// key is the bridge's.
	key ed25519.PublicKey
}

// greet lets the bridge prove itself before we say anything but our name.
func (s *session) greet(ctx context.Context) (greeting, error) {
	s.ws.SetReadLimit(wire.MaxHandshake)
	i := s.identity
	trusted := i.Trusted(s.link.o.Now())
	g := greeting{hello: wire.Hello{Relay: i.Relay, Key: keyID(i.Key), Pins: idsOf(trusted)}}
	var err error
	if g.hello.Nonce, err = wire.NewNonce(); err != nil {
		return g, err
	}
	if err := s.write(ctx, wire.Frame{Hello: &g.hello}); err != nil {
		return g, err
	}
	f, err := s.read(ctx)
	if err != nil || f.Challenge == nil {
		return g, firstError(err, errOrder)
	}
	g.challenge = *f.Challenge
	key, known := byID(trusted)[g.challenge.Key]
	if !known || !g.challenge.Proved(key, g.hello) {
		return g, errors.New("the server that answered is not the bridge that this relay trusts")
	}
	g.key, s.proved = key, true
	return g, nil
}

// prove proves us to the bridge, and returns its welcome.
func (s *session) prove(ctx context.Context, g greeting, proof wire.Proof) (wire.Welcome, error) {
	proof = proof.Prove(s.identity.Key, g.hello, g.challenge)
	if err := s.write(ctx, wire.Frame{Proof: &proof}); err != nil {
		return wire.Welcome{}, err
	}
	f, err := s.read(ctx)
	if err != nil || f.Welcome == nil {
		return wire.Welcome{}, firstError(err, errOrder)
	}
	return *f.Welcome, nil
}

// meet is the whole handshake. Until we have said what may run here, the bridge sends us nothing and counts us as away.
func (s *session) meet(ctx context.Context) (welcome wire.Welcome, err error) {
	g, err := s.greet(ctx)
	if err != nil {
		return welcome, err
	}
	h := s.link.o.Handler
	if welcome, err = s.prove(ctx, g, wire.Proof{Epoch: h.Epoch(), Process: h.Process()}); err != nil {
		return welcome, err
	}
	if !welcome.Gives(g.key, g.hello, g.challenge) {
		return welcome, errors.New("the bridge gave this connection no epoch, or one that it did not sign")
	}
	connection := wire.ConnectionID(g.hello, g.challenge)
	s.sender = chunks.NewSender(chunks.Options{Key: func() ed25519.PrivateKey { return s.identity.Key }, Connection: connection, Limits: chunks.Both(), Write: s.write})
	s.hosts(connection)
	s.name = welcome.Session
	return welcome, nil
}

func firstError(err, fallback error) error {
	if err != nil {
		return err
	}
	return fallback
}

// learn pins the bridge's next key, on disk first, and says what is pinned. Only the newest key vouches for the next: one that
// was left behind still signs requests for [Overlap], and whoever stole it must not make itself the bridge meanwhile, nor begin
// the overlap again by announcing once more what is known.
func (s *session) learn(ctx context.Context, k wire.Keys) error {
	now := s.link.o.Now()
	next, err := k.Next(s.identity.Relay, byID(s.identity.Trusted(now)))
	if err != nil {
		return err
	}
	newest := s.identity.Pins[len(s.identity.Pins)-1].Key
	switch {
	case next.Equal(newest):
	case k.By != wire.KeyID(newest):
		// An honest bridge that made two keys at once says it again with the newer one when it hears what we have.
		s.link.o.Log.Warn().Str("key", wire.KeyID(next)).Str("by", k.By).Msg("the relay does not trust a new key of the bridge that an older key signed")
	default:
		fresh, err := change(s.link.o.Identity, func(i Identity) (Identity, error) { return i.pin(next, now), nil })
		if err != nil {
			return err
		}
		s.identity.Pins = fresh.Pins
		s.link.o.Log.Info().Str("key", wire.KeyID(next)).Str("by", k.By).Msg("trusting the bridge's new key")
	}
	return s.write(ctx, wire.Frame{Pinned: &wire.Pinned{Pins: idsOf(s.identity.Trusted(now))}})
}

// serve reads requests until the connection ends, or until ctx ends and what runs has answered. What runs when the connection
// is lost goes on: an action may take an hour, in which the bridge has to reach this machine.
func (s *session) serve(ctx context.Context) error {
	// The connection must stay whole until the last answer is out, so it does not end with ctx.
	conn, cut := context.WithCancel(context.WithoutCancel(ctx))
	var helpers sync.WaitGroup
	helpers.Go(func() { s.ping(conn) })
	helpers.Go(func() { s.tell(conn) })
	helpers.Go(func() { s.drain(ctx) })
	helpers.Go(func() { s.tellSwitch(conn) })
	helpers.Go(func() { s.tellAsking(conn) })
	helpers.Go(func() { s.tellPermissions(conn) })
	helpers.Go(func() { s.expireChunks(conn) })
	detach := s.attach(conn)
	err := s.loop(ctx, conn)
	close(s.over)
	cut()
	detach()
	helpers.Wait()
	return err
}

// drain waits for the end and lets what runs answer before it closes the connection.
func (s *session) drain(ctx context.Context) {
	select {
	case <-s.over:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.running.Wait()
	_ = s.ws.Close(websocket.StatusGoingAway, "the relay is stopping")
}

// loop reads frames. The work of a request belongs to ctx, its answer to conn.
func (s *session) loop(ctx, conn context.Context) error {
	for {
		f, err := s.read(conn)
		switch {
		case err != nil:
			return err
		case f.Request != nil:
			err = s.take(ctx, conn, *f.Request)
		case f.Lookup != nil:
			err = s.lookup(conn, *f.Lookup)
		case f.Receipt != nil:
			err = s.sender.Take(*f.Receipt)
		case f.Keys != nil:
			err = s.learn(conn, *f.Keys)
		case f.Permit != nil || f.Permitted != nil:
			err = s.takePermit(f)
		default:
			err = s.forHost(ctx, conn, f)
		}
		if err != nil {
			return err
		}
	}
}

// ping keeps the way through firewalls open and notices when the other end is gone.
func (s *session) ping(ctx context.Context) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		wait, cancel := context.WithTimeout(ctx, pingTimeout)
		err := s.ws.Ping(wait)
		cancel()
		if err != nil {
			_ = s.ws.CloseNow()
			return
		}
	}
}

// tell sends output that is waiting, and which requests were answered at this machine.
func (s *session) tell(ctx context.Context) {
	var answered <-chan string
	if h, asks := s.link.o.Handler.(wire.Answerer); asks {
		answered = h.Answered()
	}
	for {
		var f wire.Frame
		select {
		case <-ctx.Done():
			return
		case id := <-answered:
			f.Answered = &wire.Answered{ID: id}
		case f = <-s.out:
		}
		if err := s.write(ctx, f); err != nil {
			_ = s.ws.CloseNow()
			return
		}
	}
}

// askingEvery bounds how often the bridge hears what people are asked.
const askingEvery = 250 * time.Millisecond

// tellAsking says about which requests a person at this machine is asked, at first if there are any, and after each change.
func (s *session) tellAsking(ctx context.Context) {
	h, asks := s.link.o.Handler.(wire.Asker)
	if !asks {
		return
	}
	same := func(a, b wire.Asked) bool { return a.ID == b.ID }
	for told := []wire.Asked(nil); ; {
		now, changed := h.Asking()
		if !slices.EqualFunc(now, told, same) {
			if err := s.write(ctx, wire.Frame{Asking: &wire.Asking{Questions: append([]wire.Asked{}, now...)}}); err != nil {
				_ = s.ws.CloseNow()
				return
			}
			told = now
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		_ = pause.For(ctx, askingEvery)
	}
}

// tellSwitch says how the kill switch and the configuration stand, at first and after each change.
func (s *session) tellSwitch(ctx context.Context) {
	h, stops := s.link.o.Handler.(wire.Stoppable)
	if !stops {
		return
	}
	look := time.NewTicker(outdatedEvery)
	defer look.Stop()
	for told := (*wire.Switch)(nil); ; {
		on, changed := h.Stopped()
		now := wire.Switch{Stopped: on}
		if o, ok := s.link.o.Handler.(wire.Outdatable); ok {
			now.Outdated = o.Outdated()
		}
		if told == nil || now != *told {
			if err := s.write(ctx, wire.Frame{Switch: &now}); err != nil {
				_ = s.ws.CloseNow()
				return
			}
			told = &now
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-look.C:
		}
	}
}

// outdatedEvery is how often a relay looks whether its configuration was changed.
const outdatedEvery = 10 * time.Second

// lookup answers what the journal knows of a request. An answer of a request that is about to be taken is not missed: a relay has
// one connection at a time, and the bridge concludes nothing before the request's signature has expired.
func (s *session) lookup(ctx context.Context, signed wire.Signed) error {
	now := s.link.o.Now()
	r, err := wire.Verifier{Relay: s.identity.Relay, Keys: byID(s.identity.Trusted(now)), Now: now, Lookup: true}.Verify(signed)
	if err != nil {
		s.link.o.Log.Warn().Err(err).Str("request", clip(signed.ID)).Msg("look-up refused")
		if !wire.ValidRequestID(signed.ID) {
			return errors.New("the bridge sent a look-up without an id")
		}
		return s.write(ctx, wire.Frame{Found: &wire.Found{ID: signed.ID, Known: wire.KnownRefused}})
	}
	found := s.link.o.Handler.Lookup(r)
	s.link.o.Log.Info().Str("request", fmt.Sprintf("%.16s", r.ID)).Str("action", r.Action).Str("key", r.KeyID).Str("known", string(found.Known)).Msg("look-up")
	f := wire.Frame{Found: &found}
	if f.TextSize() < wire.MaxWhole/8 {
		return s.write(ctx, f)
	}
	later := wire.Frame{Found: &wire.Found{ID: signed.ID, Known: wire.KnownRefused}}
	return s.answerLater(ctx, later, func() wire.Frame { return f })
}

// answer sends an answer, which may be large. When the bridge does not take it in chunks, its end goes in one frame.
func (s *session) answer(ctx context.Context, f wire.Frame) {
	_, id, _ := f.Body()
	err := s.sender.Send(ctx, f)
	var refusal *chunks.RefusedError
	switch {
	case errors.As(err, &refusal) && refusal.Why == wire.BodyUnwanted:
		return
	case errors.As(err, &refusal), errors.Is(err, chunks.ErrTooLarge):
		s.link.o.Log.Warn().Err(err).Str("request", id).Msg("the bridge did not take the whole answer; sending the end of its output")
		err = s.shorten(ctx, f)
	}
	if err != nil {
		s.link.o.Log.Warn().Err(err).Str("request", id).Msg("the relay could not send the answer; if the bridge asks again, the relay answers from its journal")
		_ = s.ws.CloseNow()
	}
}

// shorten sends an answer in one frame, with as much of the end of its output as fits.
func (s *session) shorten(ctx context.Context, f wire.Frame) error {
	f, err := f.Fitting(wire.MaxToBridge)
	if err != nil {
		return err
	}
	return s.write(ctx, f)
}

// take verifies a request and starts it. An error ends the connection; a refusal is an answer.
func (s *session) take(ctx, conn context.Context, signed wire.Signed) error {
	now := s.link.o.Now()
	r, err := wire.Verifier{Relay: s.identity.Relay, Keys: byID(s.identity.Trusted(now)), Now: now}.Verify(signed)
	if err != nil {
		s.link.o.Log.Warn().Err(err).Str("request", clip(signed.ID)).Msg("request refused")
		return s.refuse(conn, signed.ID, wire.Outcome{Refusal: wire.RefusedInvalid, Answer: wire.Refused("", err.Error())})
	}
	if reason, refusal := s.link.seen.first(signed.Digest(s.identity.Relay), now); reason != "" {
		s.link.o.Log.Warn().Str("request", r.ID).Str("reason", reason).Msg("request refused")
		return s.refuse(conn, r.ID, wire.Outcome{Refusal: refusal, RetryMS: 1000, Answer: wire.Refused(r.Action, reason)})
	}
	busy := wire.Outcome{Refusal: wire.RefusedBusy, RetryMS: 1000, Answer: wire.Refused(r.Action, "too many requests at once")}
	if !s.begin() {
		busy.Error, busy.RetryMS = "the relay is stopping", 5000
		return s.refuse(conn, r.ID, busy)
	}
	select {
	case s.link.slots <- struct{}{}:
	default:
		s.running.Done()
		return s.refuse(conn, r.ID, busy)
	}
	s.link.running.Go(func() {
		defer s.running.Done()
		defer func() { <-s.link.slots }()
		s.run(ctx, conn, r)
	})
	return nil
}

func clip(text string) string {
	if !wire.ValidRequestID(text) {
		return "(malformed)"
	}
	return text
}

// refuse answers a request that did not get to the handler. One without an id cannot be answered, and is no bridge's.
func (s *session) refuse(ctx context.Context, id string, out wire.Outcome) error {
	if !wire.ValidRequestID(id) {
		return errors.New("the bridge sent a request without an id")
	}
	out.ID = id
	return s.write(ctx, wire.Frame{Outcome: &out})
}

// run lets the handler do its work and sends what came of it. When the connection is gone by then, the handler's journal
// has the answer for whoever asks again.
func (s *session) run(ctx, conn context.Context, r wire.Request) {
	out, err := s.link.o.Handler.Run(ctx, r, s.progress(r.ID))
	if err != nil {
		s.link.o.Log.Error().Err(err).Str("request", r.ID).Str("action", r.Action).Msg("the result of a request is unknown")
		out = wire.Outcome{Answer: wire.Interrupted(r.Action, "the relay does not know the result")}
	}
	out = proper(out, r)
	s.record(r, out)
	s.answer(conn, wire.Frame{Outcome: &out})
}

// record writes the one line of a request, as the relay's own door does. It holds no output.
func (s *session) record(r wire.Request, out wire.Outcome) {
	s.link.o.Log.Info().Str("request", fmt.Sprintf("%.16s", r.ID)).Str("action", r.Action).Str("key", r.KeyID).Str("decision", string(out.Status)).
		Str("reason", out.Error).Bool("replayed", out.Replayed).Int("exit_code", out.ExitCode).Int64("duration_ms", out.DurationMS).
		Int64("stdout_bytes", int64(len(out.Stdout))+out.StdoutOmitted).Int64("stderr_bytes", int64(len(out.Stderr))+out.StderrOmitted).
		Msg("request")
}

// progress returns what tells the bridge of an action's output, now and then. What does not fit is dropped: more will come.
func (s *session) progress(id string) func(wire.Output) {
	var last atomic.Int64
	return func(o wire.Output) {
		now, before := s.link.o.Now().UnixNano(), last.Load()
		if now-before < int64(progressEvery) || !last.CompareAndSwap(before, now) {
			return
		}
		select {
		case s.out <- wire.Frame{Output: &wire.Tail{ID: id, Stdout: end(o.Stdout), Stderr: end(o.Stderr)}}:
		default:
		}
	}
}

// proper makes of a handler's word one that the bridge can read.
func proper(out wire.Outcome, r wire.Request) wire.Outcome {
	out.ID, out.Action = r.ID, r.Action
	switch {
	case !out.Status.Known():
		out = wire.Outcome{ID: r.ID, Answer: wire.Interrupted(r.Action, fmt.Sprintf("the relay gave the unknown status %q", out.Status))}
	case out.Status != wire.StatusRefused:
		out.Refusal = ""
	case out.Refusal == "":
		out.Refusal = wire.RefusedDenied
	}
	return out
}

// end returns at most the last MaxProgress bytes, from the beginning of a character.
func end(b []byte) string {
	if over := len(b) - wire.MaxProgress; over > 0 {
		b = b[over:]
		for len(b) > 0 && !utf8.RuneStart(b[0]) {
			b = b[1:]
		}
	}
	return string(b)
}

// seen remembers the requests that could still be replayed.
type seen struct {
	mu  sync.Mutex // guards all
	all map[[32]byte]time.Time
}

// maxSeen bounds the memory. A bridge of ours sends nowhere near as many in the minute and a half that they are kept.
const maxSeen = 16 << 10

// first returns a reason for a request that was here before, byte for byte. The same id with a new signature is another
// matter: it is how a bridge asks again.
func (s *seen) first(digest [32]byte, now time.Time) (reason string, refusal wire.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[32]byte]time.Time{}
	}
	if _, again := s.all[digest]; again {
		return "the relay has already received this same request", wire.RefusedInvalid
	}
	if len(s.all) >= maxSeen {
		for d, until := range s.all {
			if until.Before(now) {
				delete(s.all, d)
			}
		}
	}
	if len(s.all) >= maxSeen {
		return "too many requests in a minute", wire.RefusedBusy
	}
	s.all[digest] = now.Add(wire.MaxAge + 2*wire.MaxSkew)
	return "", ""
}
