package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/relay/wire"
)

const (
	// beat is how often a replica says that it lives and looks after its connections.
	beat = 5 * time.Second
	// deadAfter is how long a replica may say nothing before the others take its connections for lost.
	deadAfter  = 4 * beat
	purgeEvery = time.Hour
	// keepFor is how long ties and calls are kept: as long as a relay's journal remembers, and a day more.
	keepFor = 48 * time.Hour
	// recordTimeout bounds a record that is made although its caller has gone.
	recordTimeout = 10 * time.Second
)

// Wake makes the hub look at the store: another replica wrote something. It never blocks.
func (h *Hub) Wake() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Run looks after the connections, answers other replicas, and at the end of ctx closes everything in order. Without a
// Store it only waits. It is called once.
func (h *Hub) Run(ctx context.Context) error {
	if h.o.Store == nil {
		<-ctx.Done()
		return nil
	}
	defer h.stop(ctx)
	switch err := h.tend(ctx); {
	case errors.Is(err, errNoKey):
		return err
	case err != nil && ctx.Err() == nil:
		// The store was there when it was opened. A connection that is cut just now is no reason to end the bridge: the next
		// beat makes up for it.
		h.o.Log.Error().Err(err).Msg("relays")
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	purged := h.o.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-h.arrivals:
			h.attend(ctx, c)
		case <-ticker.C:
			if err := h.tend(ctx); err != nil && ctx.Err() == nil {
				h.o.Log.Error().Err(err).Msg("relays")
			}
			if h.o.Now().Sub(purged) > purgeEvery {
				purged = h.o.Now()
				h.purge(ctx)
			}
		case <-h.wake:
			h.spread()
			if err := h.look(ctx); err != nil && ctx.Err() == nil {
				h.o.Log.Error().Err(err).Msg("relays")
			}
		}
	}
}

// tend is one beat: we live, we know our keys, and who is silent or revoked is cut off.
func (h *Hub) tend(ctx context.Context) error {
	if h.o.Shared {
		err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error { return tx.PutReplica(h.replica, h.o.Now()) })
		if err != nil {
			return fmt.Errorf("record replica: %w", err)
		}
	}
	if _, err := h.loadKeys(ctx); err != nil {
		return err
	}
	h.announce(ctx)
	h.cutSilent()
	h.expireChunks(ctx)
	return h.look(ctx)
}

// look reads what others want of us: a relay that was revoked, a key that was made, a call. It runs after every write of
// another replica, so it is one snapshot and three look-ups by index.
func (h *Hub) look(ctx context.Context) error {
	var revoked []bridge.Relay
	var keys []bridge.RelayKey
	var calls []bridge.RelayCall
	err := h.o.Store.View(ctx, func(tx *bridge.Scene) (err error) {
		if revoked, err = tx.Relays(bridge.RelayFilter{Replica: h.replica, State: bridge.RelayRevoked}); err != nil {
			return err
		}
		if keys, err = tx.RelayKeys(); err != nil || !h.o.Shared {
			return err
		}
		calls, err = tx.WaitingCalls(h.replica)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for requests at other replicas: %w", err)
	}
	for _, r := range revoked {
		h.cut(r.Name, closeRevoked)
	}
	// Before the first beat that succeeds there is no ring, and no relay that could be told of a key.
	if ring := h.ring.Load(); ring != nil && len(keys) > 0 && keys[len(keys)-1].Generation > ring.newest().generation {
		if ring := h.derive(keys); len(ring.signers) > 0 {
			h.ring.Store(ring)
			h.announce(ctx)
		}
	}
	for _, k := range calls {
		h.spawn(func() { h.serveCall(ctx, k) })
	}
	return nil
}

// announce hands our newest key to every relay that trusts an older one.
func (h *Hub) announce(ctx context.Context) {
	ring := h.ring.Load()
	for _, c := range h.all() {
		k := c.newerKey(ring)
		if k == nil {
			continue
		}
		h.spawn(func() { // one that reads slowly must not hold up the others
			if err := c.write(context.WithoutCancel(ctx), wire.Frame{Keys: k}); err != nil {
				c.cancel()
			}
		})
	}
}

// spawn runs fn beside, unless the hub is stopping; stop waits for it.
func (h *Hub) spawn(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping {
		return
	}
	h.live.Add(1)
	go func() {
		defer h.live.Done()
		fn()
	}()
}

func (h *Hub) cutSilent() {
	limit := h.o.Now().Add(-silence).UnixNano()
	for _, c := range h.all() {
		if c.heard.Load() < limit {
			c.shut(closeSilent)
		}
	}
}

func (h *Hub) expireChunks(ctx context.Context) {
	for _, c := range h.all() {
		if c.receiver.Load() != nil {
			h.spawn(func() { c.expireChunks(ctx, h.o.Now()) }) // one that reads slowly must not hold up the others
		}
	}
}

func (h *Hub) cut(relay string, word closing) {
	if c := h.connOf(relay); c != nil {
		c.shut(word)
	}
}

func (h *Hub) connOf(relay string) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conns[relay]
}

// comes notes that a relay is being let in, until the returned function is called.
func (h *Hub) comes(relay string) func() {
	in := make(chan struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.coming[relay] = in
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.coming[relay] == in {
			delete(h.coming, relay)
		}
		close(in)
	}
}

// reach is connOf for those who ask the relay something. The store says that a relay is here a moment before the list does;
// that moment is waited for.
func (h *Hub) reach(ctx context.Context, relay string) *conn {
	h.mu.Lock()
	coming := h.coming[relay]
	h.mu.Unlock()
	if coming != nil {
		select {
		case <-coming:
		case <-ctx.Done():
		}
	}
	return h.connOf(relay)
}

func (h *Hub) all() []*conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*conn, 0, len(h.conns))
	for _, c := range h.conns {
		out = append(out, c)
	}
	return out
}

// leave takes a connection off the list, unless another one of the same relay took its place. It returns why we ended it,
// or "" when we did not.
func (h *Hub) leave(c *conn) closing {
	h.mu.Lock()
	word := c.word
	held := h.conns[c.relay] == c
	if held {
		delete(h.conns, c.relay)
	}
	stopping := h.stopping
	h.mu.Unlock()
	if !held || stopping { // a replica that ended holds nothing, whatever the rows say
		return word
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout) //nolint:contextcheck // the connection's own has ended
	defer cancel()
	err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		relay, err := tx.Relay(c.relay)
		if err != nil || relay.Session != c.session {
			return err
		}
		relay.Replica, relay.Session, relay.SeenAt = "", "", h.o.Now()
		return tx.PutRelay(relay)
	})
	if err != nil {
		h.o.Log.Error().Err(err).Str("relay", c.relay).Msg("record that a relay left")
	}
	return word
}

// stop ends every connection and waits for all that serves one.
func (h *Hub) stop(ctx context.Context) {
	h.mu.Lock()
	h.stopping = true
	for _, s := range h.strangers { // one who says nothing must not hold the stop up
		s.giveUp()
	}
	h.mu.Unlock()
	close(h.stopped)
	for _, c := range h.all() {
		c.shut(closeStopping)
	}
	h.live.Wait()
	if !h.o.Shared {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	// From now on the others know at once that we hold nothing, and need not wait until we are silent.
	if err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error { return tx.PutReplica(h.replica, time.Unix(0, 0)) }); err != nil {
		h.o.Log.Error().Err(err).Msg("record that this replica ended")
	}
}

func (h *Hub) purge(ctx context.Context) {
	before := h.o.Now().Add(-keepFor)
	err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error { return tx.PurgeRelays(before) })
	if err != nil && ctx.Err() == nil {
		h.o.Log.Error().Err(err).Msg("purge relays")
	}
}

// elsewhere asks the replica that holds the relay's connection. The request and the answer are rows, so that whoever dies
// in between leaves behind what is known: a call that was not taken was not sent.
func (h *Hub) elsewhere(ctx context.Context, t target, r bridge.ActionRequest) (bridge.ActionOutcome, error) {
	body, err := json.Marshal(askOf(r))
	if err != nil {
		return bridge.ActionOutcome{}, bridge.Errorf(bridge.Invalid, "the request is not valid for a relay")
	}
	s, err := h.through(ctx, t, r.Request, string(body))
	if err != nil {
		return bridge.ActionOutcome{}, err
	}
	return s.heard()
}

// through writes a call for another replica and waits for its answer.
func (h *Hub) through(ctx context.Context, t target, request, body string) (spoken, error) {
	k := bridge.RelayCall{ID: h.o.NewID("rcl_"), Replica: t.replica, Relay: t.name, Request: request, Ask: body, State: bridge.CallWaiting, CreatedAt: h.o.Now()}
	changed, done := h.watch()
	defer done()
	if err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error { return tx.PutCall(k) }); err != nil {
		return spoken{}, &bridge.Error{Kind: bridge.Unavailable, Message: fmt.Sprintf("the bridge did not ask relay %q", t.name), Cause: err}
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return h.giveUp(ctx, k, context.Cause(ctx))
		case <-changed:
		case <-ticker.C:
		}
		lost := false
		err := h.o.Store.View(ctx, func(tx *bridge.Scene) error {
			fresh, err := tx.Call(k.ID)
			if err != nil {
				return err
			}
			k = fresh
			alive, err := h.alive(tx, t.replica)
			lost = !alive
			return err
		})
		switch {
		case errors.Is(err, bridge.ErrNoRow):
			return spoken{}, unclear(t.name, err)
		case err != nil: // the store is away; the call may go on all the same
		case k.State == bridge.CallDone:
			return h.close(ctx, k)
		case lost:
			return h.giveUp(ctx, k, errors.New("the replica that holds the connection is gone"))
		}
	}
}

// giveUp ends a call without an answer. When it was not taken it is withdrawn, and surely nothing was sent.
func (h *Hub) giveUp(ctx context.Context, k bridge.RelayCall, cause error) (spoken, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		fresh, err := tx.Call(k.ID)
		if err != nil {
			return err
		}
		k = fresh
		if k.State == bridge.CallWaiting {
			return tx.DropCall(k.ID)
		}
		return nil
	})
	switch {
	case err != nil:
		return spoken{}, unclear(k.Relay, cause)
	case k.State == bridge.CallWaiting:
		e := bridge.Errorf(bridge.Unavailable, "the bridge could not ask relay %q", k.Relay)
		e.Cause = cause
		return spoken{}, e
	case k.State == bridge.CallDone:
		return h.close(ctx, k)
	}
	return spoken{}, unclear(k.Relay, cause)
}

// close takes the answer and removes the row; one that stays is purged some day.
func (h *Hub) close(ctx context.Context, k bridge.RelayCall) (spoken, error) {
	if err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error { return tx.DropCall(k.ID) }); err != nil {
		h.o.Log.Warn().Err(err).Msg("remove a call that was answered")
	}
	var s spoken
	if err := json.Unmarshal([]byte(k.Outcome), &s); err != nil {
		return spoken{}, unclear(k.Relay, err)
	}
	return s, nil
}

// watch returns a channel that gets a value when another replica wrote something.
func (h *Hub) watch() (<-chan struct{}, func()) {
	w := make(chan struct{}, 1)
	h.mu.Lock()
	h.waiters[w] = struct{}{}
	h.mu.Unlock()
	return w, func() {
		h.mu.Lock()
		delete(h.waiters, w)
		h.mu.Unlock()
	}
}

func (h *Hub) spread() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiters {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// answerCall does what another replica asked for.
func (h *Hub) answerCall(ctx context.Context, k bridge.RelayCall) spoken {
	var l lookAsk
	var a ask
	var t turnAsk
	switch err := errors.Join(json.Unmarshal([]byte(k.Ask), &l), json.Unmarshal([]byte(k.Ask), &t), json.Unmarshal([]byte(k.Ask), &a)); {
	case err != nil:
		return speak(bridge.ActionOutcome{}, bridge.Errorf(bridge.Invalid, "the request is not valid for a relay"))
	case t.Turn != nil || t.TurnLookup != nil || t.TurnStop != nil || t.TurnPeek != nil:
		return h.turnHere(ctx, t)
	case l.Lookup == nil:
		return speak(h.ask(ctx, k.Relay, a))
	}
	finding, err := h.lookHere(ctx, k.Relay, *l.Lookup)
	if err != nil {
		return speak(bridge.ActionOutcome{}, err)
	}
	return spoken{Finding: &finding}
}

func (h *Hub) serveCall(ctx context.Context, k bridge.RelayCall) {
	// An action that runs is waited for although we are stopping, until its connection ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.o.Timeout)
	defer cancel()
	mine := false
	err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		mine = false // an earlier run may have taken it, and another look of ours since
		fresh, err := tx.Call(k.ID)
		if err != nil || fresh.State != bridge.CallWaiting {
			return err // withdrawn, or another look of ours has it
		}
		mine = true
		k.State = bridge.CallTaken
		return tx.PutCall(k)
	})
	if err != nil || !mine {
		return
	}
	body, _ := json.Marshal(h.answerCall(ctx, k)) // of plain fields; it cannot fail
	k.State, k.Outcome = bridge.CallDone, string(body)
	err = h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		if _, err := tx.Call(k.ID); err != nil {
			return err // nobody waits any more
		}
		return tx.PutCall(k)
	})
	if err != nil && !errors.Is(err, bridge.ErrNoRow) {
		h.o.Log.Error().Err(err).Str("relay", k.Relay).Msg("record the answer for another replica")
	}
}
