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
	// lookTimeout bounds one look-up. The relay answers from memory.
	lookTimeout = 30 * time.Second
	// repeatFor is how long after it was sent first a request may be sent again. A relay's journal keeps an id for a day after
	// its end, and the hour in between is for clocks and for the way.
	repeatFor = 23 * time.Hour
	// expired is how long after it was sent a request can no longer begin anywhere.
	expired = wire.MaxAge + 2*wire.MaxSkew
)

// look is a look-up that waits for its answer.
type look struct {
	// found is set before done is closed; without it the connection was lost.
	found *wire.Found
	done  chan struct{}
}

// repeatable reports whether a request may be sent to a process of a relay. It was never sent, or it goes to the same process:
// there the same journal meets it. Any other process may have another journal, such as that of a copied state folder, and is
// only asked what it knows. A relay that names no process is asked again, as relays of its version always were.
func repeatable(tie bridge.RelayTie, process string, now time.Time) bool {
	age := now.Sub(tie.CreatedAt)
	return tie.SentAt.IsZero() || tie.Process == process && age >= 0 && age < repeatFor
}

// addressee is one process of a relay, and a request for it.
type addressee struct{ relay, process, request string }

// tieTo commits that a request is about to be sent to a process of a relay. may is false when it must not be sent; then it may only be
// looked up. first is true when it was never sent before. With renew an answer of the relay has shown that it may be sent once more.
func (h *Hub) tieTo(ctx context.Context, to addressee, renew bool) (may, first bool, err error) {
	err = h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		tie, err := tx.Tie(to.request)
		if err != nil && !errors.Is(err, bridge.ErrNoRow) {
			return err
		}
		now := h.o.Now()
		first = renew || err != nil || tie.SentAt.IsZero()
		if first {
			tie = bridge.RelayTie{Request: to.request, CreatedAt: now}
		}
		if may = repeatable(tie, to.process, now); !may {
			return nil
		}
		tie.Relay, tie.Process, tie.SentAt = to.relay, to.process, now
		return tx.PutTie(tie)
	})
	if err != nil {
		return false, false, &bridge.Error{Kind: bridge.Unavailable, Message: fmt.Sprintf("the bridge did not ask relay %q, because it could not record the request first", to.relay), Cause: err}
	}
	return may, first, nil
}

// recall asks a relay's journal about a request that may have been sent to another process of the relay, and must not be repeated.
// again says that the relay lets it run once more.
func (h *Hub) recall(ctx context.Context, c *conn, a ask) (out bridge.ActionOutcome, again bool, err error) {
	found, err := c.look(ctx, a)
	if err != nil {
		return out, false, err
	}
	switch found.Known {
	case wire.KnownOver:
		out, err = result(c.relay, a.Ask.Action, *found.Outcome)
	case wire.KnownAgain:
		again = true
	case wire.KnownOpen:
		err = unclear(c.relay, errors.New("the request has not ended yet"))
	default:
		err = lostTrack(c.relay)
	}
	return out, again, err
}

// lostTrack is the error for a request that a relay's journal does not know although it may have been sent to that relay. Asking again
// changes nothing, so that it is a Conflict.
func lostTrack(relay string) error {
	e := bridge.Errorf(bridge.Conflict, "relay %q was restarted or replaced after the bridge asked it, and has no record of this request; the bridge does not send the request again, because the action may have run", relay)
	e.Unclear = true
	return e
}

// look asks the relay what it knows of a request. It runs nothing.
func (c *conn) look(ctx context.Context, a ask) (wire.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	l, first, err := c.beginLook(a.ID)
	if err != nil {
		return wire.Found{}, away(c.relay)
	}
	if first {
		signed, err := wire.Sign(c.signer.Load().private, wire.Order{ID: a.ID, Relay: c.relay, Ask: a.Ask, Created: c.stamp(), For: wire.MaxAge, Lookup: true})
		if err == nil {
			err = c.write(context.WithoutCancel(ctx), wire.Frame{Lookup: &signed})
		}
		if err != nil {
			c.cancel() // which also ends the look-up
			return wire.Found{}, &bridge.Error{Kind: bridge.Unavailable, Message: fmt.Sprintf("the bridge could not ask relay %q about the request", c.relay), Cause: err}
		}
	}
	select {
	case <-l.done:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.found == nil || l.found.Known == wire.KnownRefused {
		return wire.Found{}, bridge.Errorf(bridge.Unavailable, "relay %q did not answer about the request; check that the clocks of both machines agree", c.relay)
	}
	return *l.found, nil
}

// beginLook registers a look-up, or joins the one under the same id.
func (c *conn) beginLook(id string) (l *look, first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, false, errGone
	}
	if l := c.looks[id]; l != nil {
		return l, false, nil
	}
	l = &look{done: make(chan struct{})}
	if c.looks == nil {
		c.looks = map[string]*look{}
	}
	c.looks[id] = l
	return l, true, nil
}

// found ends a look-up and reports whether there was one.
func (c *conn) found(f wire.Found) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.looks[f.ID]
	if l == nil {
		return false
	}
	delete(c.looks, f.ID)
	l.found = &f
	close(l.done)
	return true
}

// LookUp implements bridge.ActionRunner.
func (h *Hub) LookUp(ctx context.Context, q bridge.ActionLookup) (bridge.ActionFinding, error) {
	a := ask{ID: q.Request, Ask: wire.Ask{Action: q.Action, Line: cut(q.Line, wire.MaxLine), Agent: cut(q.Agent, wire.MaxAgent)}}
	t, tie, err := h.findTied(ctx, q)
	switch {
	case err != nil:
		return bridge.ActionFinding{}, known(err)
	case t.static:
		return h.lookAt(ctx, t.name, a, tie)
	case t.replica != h.replica:
		return h.lookElsewhere(ctx, t, a)
	}
	return h.lookHere(ctx, t.name, a)
}

// findTied says where a request went, and when.
func (h *Hub) findTied(ctx context.Context, q bridge.ActionLookup) (t target, tie bridge.RelayTie, err error) {
	t.name = q.Relay
	if h.o.Store == nil {
		t, err = h.onlyStatic(t.name)
		return t, tie, err
	}
	err = h.o.Store.View(ctx, func(tx *bridge.Scene) error {
		tie, err = tx.Tie(q.Request)
		if err != nil && !errors.Is(err, bridge.ErrNoRow) {
			return err
		}
		if t.name == "" {
			t.name = tie.Relay
		}
		if t.name == "" {
			return bridge.Errorf(bridge.NotFound, "the bridge does not know any more which relay it asked")
		}
		if _, t.static = h.static[t.name]; t.static {
			return nil
		}
		t, err = h.connected(tx, t.name)
		return err
	})
	return t, tie, err
}

// lookHere asks over the connection that this replica holds.
func (h *Hub) lookHere(ctx context.Context, relay string, a ask) (bridge.ActionFinding, error) {
	c := h.reach(ctx, relay)
	if c == nil {
		return bridge.ActionFinding{}, away(relay)
	}
	found, err := c.look(ctx, a)
	if err != nil {
		return bridge.ActionFinding{}, err
	}
	finding := bridge.ActionFinding{Relay: relay, Known: bridge.JournalNothing}
	switch found.Known {
	case wire.KnownOver:
		return findingOf(relay, a, *found.Outcome)
	case wire.KnownOpen:
		finding.Known = bridge.JournalOpen
	case wire.KnownAgain:
		finding.Known = bridge.JournalInterrupted
	default:
		var tie bridge.RelayTie
		err := h.o.Store.View(ctx, func(tx *bridge.Scene) (err error) { tie, err = tx.Tie(a.ID); return err })
		if err == nil && h.never(tie, c.process) {
			finding.Known = bridge.JournalNever
		}
	}
	return finding, nil
}

// never reports whether a request that a journal does not know surely did not run: the very process that it was sent to does not know
// it, cannot have forgotten it, and takes it no more.
func (h *Hub) never(tie bridge.RelayTie, process string) bool {
	now := h.o.Now()
	return process != "" && !tie.SentAt.IsZero() && tie.Process == process && repeatable(tie, process, now) && now.Sub(tie.SentAt) > expired
}

// findingOf turns a recorded outcome into what the engine hears.
func findingOf(relay string, a ask, o wire.Outcome) (bridge.ActionFinding, error) {
	if o.Status == wire.StatusInterrupted {
		return bridge.ActionFinding{Relay: relay, Known: bridge.JournalInterrupted}, nil
	}
	out, err := result(relay, a.Ask.Action, o)
	if err != nil {
		return bridge.ActionFinding{}, err
	}
	return bridge.ActionFinding{Relay: relay, Known: bridge.JournalOver, Outcome: out}, nil
}

// lookAsk is a look-up on its way to another replica.
type lookAsk struct {
	Lookup *ask `json:"lookup"`
}

// lookElsewhere asks the replica that holds the relay's connection.
func (h *Hub) lookElsewhere(ctx context.Context, t target, a ask) (bridge.ActionFinding, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	body, err := json.Marshal(lookAsk{Lookup: &a})
	if err != nil {
		return bridge.ActionFinding{}, bridge.Errorf(bridge.Invalid, "the request is not valid for a relay")
	}
	s, err := h.through(ctx, t, a.ID, string(body))
	if err != nil {
		return bridge.ActionFinding{}, err
	}
	if s.Finding == nil {
		_, err := s.heard()
		return bridge.ActionFinding{}, firstError(err, bridge.Errorf(bridge.Unavailable, "the bridge could not ask relay %q about the request", t.name))
	}
	return *s.Finding, nil
}
