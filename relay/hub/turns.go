package hub

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"

	"drawbridge/bridge"
	"drawbridge/relay/chunks"
	"drawbridge/relay/wire"
)

// TurnCall is a turn for an agent that a relay hosts. ID is its idempotency key.
type TurnCall struct {
	Relay string       `json:"relay"`
	ID    string       `json:"id"`
	Ask   wire.TurnAsk `json:"ask"`
	// Repeat is true when the caller may have sent the turn before, however long ago. The hub itself remembers that for two days.
	Repeat bool `json:"repeat,omitempty"`
	// Doubt makes a look-up answer absent instead of unknown where the hub can tell that the agent got nothing: the turn was sent to no
	// other process of the relay than the one that answers, or to none within two days.
	Doubt bool `json:"doubt,omitempty"`
}

// turnKey names a look-up of a turn, a word that stops one, or a question about workspaces.
type turnKey struct {
	id         string
	stop, peek bool
}

func (k turnKey) use() wire.TurnUse {
	switch {
	case k.stop:
		return wire.UseStop
	case k.peek:
		return wire.UsePeek
	}
	return wire.UseLookup
}

// frame carries what was signed for the key.
func (k turnKey) frame(s wire.Signed) wire.Frame {
	switch {
	case k.stop:
		return wire.Frame{TurnStop: &s}
	case k.peek:
		return wire.Frame{TurnPeek: &s}
	}
	return wire.Frame{TurnLookup: &s}
}

// turnLook is a look-up of a turn, or a word that stops one, that waits for its answer.
type turnLook struct {
	// found is set before done is closed; without it the connection was lost.
	found *wire.TurnFound
	done  chan struct{}
}

// RunTurn sends a turn to the relay that hosts its agent, over whichever replica has the relay's connection, and waits for its end. A
// refusal is a TurnEnded. The error is a *bridge.Error: Unclear means that the agent may have got the turn. Asking again under
// the same id is safe: a relay process that may not have been the one that got it is only looked up.
func (h *Hub) RunTurn(ctx context.Context, t TurnCall) (wire.TurnEnded, error) {
	s, err := h.turn(ctx, t, turnAsk{Turn: &t})
	if err != nil {
		return wire.TurnEnded{}, err
	}
	if s.Ended == nil {
		_, err := s.heard()
		return wire.TurnEnded{}, firstError(err, unclearTurn(t.Relay, nil))
	}
	return *s.Ended, nil
}

// LookupTurn asks the relay what its record of the session knows of a turn. It starts nothing; twice is fine. The error is a
// *bridge.Error, Unavailable when the relay cannot be asked now.
func (h *Hub) LookupTurn(ctx context.Context, t TurnCall) (wire.TurnFound, error) {
	t.Ask.Text = ""
	return h.findTurn(ctx, t, turnAsk{TurnLookup: &t})
}

// StopTurn asks the relay to end a turn and returns what the relay knew of it when it got the word. It does not wait for the end: the caller
// of RunTurn gets it, with wire.TurnStopped or wire.TurnUnsaid as its cause unless the turn had ended. A turn that the relay does not have yet is not
// said any more while that process of the relay lives. Twice is fine. The error is a *bridge.Error; Unavailable means that the relay
// may not have got the word.
func (h *Hub) StopTurn(ctx context.Context, t TurnCall) (wire.TurnFound, error) {
	t.Ask.Text = ""
	return h.findTurn(ctx, t, turnAsk{TurnStop: &t})
}

// PeekTurn asks a relay about workspaces, see [wire.Peek]. It changes nothing; twice is fine. The error is a *bridge.Error, Unavailable when the
// relay cannot be asked now, NotFound when it has no workspace for the session, and Denied with the relay's own words when it refuses.
func (h *Hub) PeekTurn(ctx context.Context, t TurnCall) (string, error) {
	found, err := h.findTurn(ctx, t, turnAsk{TurnPeek: &t})
	switch {
	case err != nil:
		return "", err
	case found.Peeked == nil:
		return "", notSaid(t.Relay)
	case found.Peeked.Missing:
		return "", bridge.Errorf(bridge.NotFound, "relay %q: %+.500q", t.Relay, found.Peeked.Error)
	case found.Peeked.Error != "":
		return "", bridge.Errorf(bridge.Denied, "relay %q: %+.500q", t.Relay, found.Peeked.Error)
	}
	return found.Peeked.Data, nil
}

func (h *Hub) findTurn(ctx context.Context, t TurnCall, a turnAsk) (wire.TurnFound, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := h.turn(ctx, t, a)
	if err != nil {
		return wire.TurnFound{}, err
	}
	if s.TurnFound == nil {
		_, err := s.heard()
		return wire.TurnFound{}, firstError(err, notSaid(t.Relay))
	}
	return *s.TurnFound, nil
}

// turnAsk is a turn, its look-up, or the word that stops it, on its way to another replica.
type turnAsk struct {
	Turn       *TurnCall `json:"turn,omitempty"`
	TurnLookup *TurnCall `json:"turn_lookup,omitempty"`
	TurnStop   *TurnCall `json:"turn_stop,omitempty"`
	TurnPeek   *TurnCall `json:"turn_peek,omitempty"`
}

// turn brings what is asked to the replica that has the relay's connection.
func (h *Hub) turn(ctx context.Context, t TurnCall, a turnAsk) (spoken, error) {
	if !wire.ValidRequestID(t.ID) || h.o.Store == nil || h.static[t.Relay] != (Relay{}) {
		return spoken{}, bridge.Errorf(bridge.Invalid, "relay %q cannot be asked for a turn: the id must be valid, and the relay must be one that joined", t.Relay)
	}
	var to target
	err := h.o.Store.View(ctx, func(tx *bridge.Scene) (err error) { to, err = h.connected(tx, t.Relay); return err })
	if err != nil {
		return spoken{}, known(err)
	}
	if to.replica == h.replica {
		return h.turnHere(ctx, a), nil
	}
	body, err := json.Marshal(a)
	if err != nil {
		return spoken{}, bridge.Errorf(bridge.Invalid, "the turn cannot be written as JSON")
	}
	return h.through(ctx, to, t.ID, string(body))
}

// turnHere asks over the connection that this replica holds.
func (h *Hub) turnHere(ctx context.Context, a turnAsk) spoken {
	if a.TurnLookup != nil || a.TurnStop != nil || a.TurnPeek != nil {
		found, err := h.lookTurnHere(ctx, a)
		if err != nil {
			return speak(bridge.ActionOutcome{}, err)
		}
		return spoken{TurnFound: &found}
	}
	ended, err := h.runTurnHere(ctx, *a.Turn)
	if err != nil {
		return speak(bridge.ActionOutcome{}, err)
	}
	return spoken{Ended: &ended}
}

func (h *Hub) runTurnHere(ctx context.Context, t TurnCall) (wire.TurnEnded, error) {
	c := h.reach(ctx, t.Relay)
	if c == nil {
		return wire.TurnEnded{}, away(t.Relay)
	}
	if end, err := h.mayRun(ctx, c, t); err != nil || end != nil {
		return valueOf(end), err
	}
	k, first, err := c.begin(t.ID, "")
	if err != nil {
		return wire.TurnEnded{}, away(t.Relay)
	}
	if first {
		if err := c.sendTurn(ctx, k, t); err != nil {
			return wire.TurnEnded{}, err
		}
	}
	select {
	case <-ctx.Done():
		return wire.TurnEnded{}, unclearTurn(t.Relay, context.Cause(ctx))
	case <-k.done:
	}
	if k.err != nil {
		return wire.TurnEnded{}, unclearTurn(t.Relay, k.err)
	}
	return k.ended, nil
}

func valueOf(end *wire.TurnEnded) wire.TurnEnded {
	if end == nil {
		return wire.TurnEnded{}
	}
	return *end
}

// mayRun commits that a turn is about to be sent to this process of its relay, or returns its end, or an error when it must not be sent.
// Where another process may have got it, the relay's record decides.
func (h *Hub) mayRun(ctx context.Context, c *conn, t TurnCall) (*wire.TurnEnded, error) {
	to := addressee{t.Relay, c.process, t.ID}
	forgotten, err := h.forgot(ctx, t)
	if err != nil {
		return nil, err
	}
	if !forgotten {
		may, _, err := h.tieTo(ctx, to, false)
		if may || err != nil {
			return nil, err
		}
	}
	found, err := c.lookTurn(ctx, t, turnKey{id: t.ID})
	switch {
	case err != nil:
		return nil, doubtful(err)
	case found.Known == wire.TurnKnownEnded:
		return found.Ended, nil
	case found.Known == wire.TurnKnownNot:
		return nil, lostTrack(t.Relay)
	}
	// The agent never got it, or this very process has it in hand and answers when it is over.
	_, _, err = h.tieTo(ctx, to, true)
	return nil, err
}

// forgot reports whether the hub does not know any more to which process it sent a turn that is repeated.
func (h *Hub) forgot(ctx context.Context, t TurnCall) (forgotten bool, err error) {
	if !t.Repeat {
		return false, nil
	}
	err = h.o.Store.View(ctx, func(tx *bridge.Scene) error {
		tie, err := tx.Tie(t.ID)
		forgotten = errors.Is(err, bridge.ErrNoRow) || err == nil && tie.SentAt.IsZero()
		if forgotten {
			return nil
		}
		return err
	})
	if err != nil {
		return false, known(err)
	}
	return forgotten, nil
}

// sendTurn signs and sends a turn, whole or in chunks. A turn that the relay did not take as a whole had no effect.
func (c *conn) sendTurn(ctx context.Context, k *call, t TurnCall) error {
	signed, err := wire.SignTurn(c.signer.Load().private, wire.TurnOrder{ID: t.ID, Relay: c.relay, Ask: t.Ask, Created: c.stamp(), For: wire.MaxAge})
	if err != nil {
		c.forget(t.ID, err)
		return bridge.Errorf(bridge.Invalid, "the turn is not valid for a relay")
	}
	// The caller's end leaves the others that wait for this turn their answer; the connection's end does not.
	sending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-k.done:
			cancel(errLost)
		case <-sending.Done():
		}
	}()
	err = c.turnSender().Send(sending, wire.Frame{Turn: &signed})
	cancel(nil)
	<-ended
	select {
	case <-k.done: // it ended, or the connection did
		return nil
	default:
	}
	var refusal *chunks.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal) && refusal.Why == wire.BodyUnwanted:
		c.forget(t.ID, err)
		return bridge.Errorf(bridge.NotFound, "relay %q does not host agents", c.relay)
	case errors.As(err, &refusal):
		c.forget(t.ID, err)
		return &bridge.Error{Kind: bridge.Unavailable, Cause: err, Message: fmt.Sprintf("relay %q did not take the turn: %s", c.relay, refusal.Why)}
	case errors.Is(err, chunks.ErrTooLarge):
		c.forget(t.ID, err)
		return bridge.Errorf(bridge.TooLarge, "the turn is larger than a relay takes")
	}
	c.forget(t.ID, err)
	c.cancel()
	return unclearTurn(c.relay, err)
}

func (c *conn) turnSender() *chunks.Sender {
	if s := c.sender.Load(); s != nil {
		return s
	}
	s := chunks.NewSender(chunks.Options{Key: func() ed25519.PrivateKey { return c.signer.Load().private }, Connection: c.connection, Limits: chunks.Both(), Write: func(ctx context.Context, f wire.Frame) error {
		return c.write(context.WithoutCancel(ctx), f) // a frame that is cut in half would end the connection for all
	}})
	if c.sender.CompareAndSwap(nil, s) {
		return s
	}
	return c.sender.Load()
}

// takeTurn takes what a relay says of turns.
func (c *conn) takeTurn(f wire.Frame) error {
	asked := false
	switch {
	case f.Receipt != nil:
		s := c.sender.Load()
		if s == nil || s.Take(*f.Receipt) != nil {
			return errOrder
		}
	case f.Ended != nil:
		if k := c.over(f.Ended.ID, true); k != nil {
			asked, k.ended = true, *f.Ended
			close(k.done)
		}
	case f.TurnFound != nil:
		asked = c.turnFound(turnKey{id: f.TurnFound.ID}, *f.TurnFound)
	case f.TurnStopped != nil:
		asked = c.turnFound(turnKey{id: f.TurnStopped.ID, stop: true}, *f.TurnStopped)
	case f.TurnPeeked != nil:
		asked = c.turnFound(turnKey{id: f.TurnPeeked.ID, peek: true}, *f.TurnPeeked)
	}
	if asked {
		c.allowance++
	}
	return nil
}

func (c *conn) turnFound(key turnKey, f wire.TurnFound) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.turnLooks[key]
	if l == nil {
		return false
	}
	delete(c.turnLooks, key)
	l.found = &f
	close(l.done)
	return true
}

func (h *Hub) lookTurnHere(ctx context.Context, a turnAsk) (wire.TurnFound, error) {
	t := cmp.Or(a.TurnLookup, a.TurnStop, a.TurnPeek)
	c := h.reach(ctx, t.Relay)
	if c == nil {
		return wire.TurnFound{}, away(t.Relay)
	}
	found, err := c.lookTurn(ctx, *t, turnKey{id: t.ID, stop: a.TurnStop != nil, peek: a.TurnPeek != nil})
	if err != nil || a.TurnLookup == nil || !t.Doubt || found.Known != wire.TurnKnownNot {
		return found, err
	}
	err = h.o.Store.View(ctx, func(tx *bridge.Scene) error {
		tie, err := tx.Tie(t.ID)
		switch {
		case errors.Is(err, bridge.ErrNoRow) || err == nil && repeatable(tie, c.process, h.o.Now()):
			found.Known = wire.TurnKnownAbsent
			return nil
		}
		return err
	})
	if err != nil {
		return wire.TurnFound{}, known(err)
	}
	return found, nil
}

// lookTurn asks the relay what it knows of a turn, or to stop it. Several that ask the same at a time share one answer.
func (c *conn) lookTurn(ctx context.Context, t TurnCall, key turnKey) (wire.TurnFound, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	l, first, err := c.beginTurnLook(key)
	if err != nil {
		return wire.TurnFound{}, away(c.relay)
	}
	if first {
		t.Ask.Text = ""
		signed, err := wire.SignTurn(c.signer.Load().private, wire.TurnOrder{ID: t.ID, Relay: c.relay, Ask: t.Ask, Created: c.stamp(), For: wire.MaxAge, Use: key.use()})
		if err == nil {
			err = c.write(context.WithoutCancel(ctx), key.frame(signed))
		}
		if err != nil {
			c.cancel() // which also ends the look-up
			return wire.TurnFound{}, &bridge.Error{Kind: bridge.Unavailable, Message: fmt.Sprintf("the bridge could not ask relay %q about the turn", c.relay), Cause: err}
		}
	}
	select {
	case <-l.done:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.found == nil && key.peek { // each has an id of its own, so that nobody else waits for it
		delete(c.turnLooks, key)
	}
	if l.found == nil || l.found.Known == wire.TurnKnownRefused {
		return wire.TurnFound{}, notSaid(c.relay)
	}
	return *l.found, nil
}

func notSaid(relay string) error {
	return bridge.Errorf(bridge.Unavailable, "relay %q did not answer about the turn; check that the clocks of both machines agree", relay)
}

func (c *conn) beginTurnLook(key turnKey) (l *turnLook, first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, false, errGone
	}
	if l := c.turnLooks[key]; l != nil {
		return l, false, nil
	}
	if c.turnLooks == nil {
		c.turnLooks = map[turnKey]*turnLook{}
	}
	l = &turnLook{done: make(chan struct{})}
	c.turnLooks[key] = l
	return l, true, nil
}

func unclearTurn(relay string, cause error) error {
	return &bridge.Error{Kind: bridge.Unavailable, Unclear: true, Cause: cause, Message: fmt.Sprintf("relay %q gave no answer; the agent may have got the turn", relay)}
}
