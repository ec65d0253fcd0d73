package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/failpoint"
	"drawbridge/relay/wire"
)

// alarmEvery is how often a person is told of the same copy, and alarmPause of copies of one relay at all.
const (
	alarmEvery = time.Hour
	alarmPause = time.Minute
)

// closeCopied ends the connection of a relay that shows an older epoch.
const closeCopied closing = wire.CloseCopied

// giveEpoch gives the connection an epoch that no other ever had, and refuses a relay that shows an older one than the last that was
// acknowledged. What was offered and never acknowledged does not count, so that a crash of either side locks no relay out. A relay
// that shows a higher epoch than the bridge knows is let in: the bridge's database was put back.
func (c *conn) giveEpoch(ctx context.Context, hello wire.Hello, challenge wire.Challenge) (w wire.Welcome, err error) {
	err = c.original(ctx, func(tx *bridge.Scene, relay bridge.Relay) error {
		c.epoch = max(relay.Epoch, relay.Offered, c.shown) + 1
		relay.Offered = c.epoch
		return tx.PutRelay(relay)
	})
	if err != nil {
		return w, err
	}
	failpoint.Here("hub.epoch.offered")
	return w.Give(c.signer.Load().private, hello, challenge, c.epoch), nil
}

// original calls then unless the relay shows an older epoch than the last that was acknowledged; such a one is refused, and people are
// told.
func (c *conn) original(ctx context.Context, then func(*bridge.Scene, bridge.Relay) error) error {
	var copied *bridge.Relay
	err := c.hub.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		copied = nil
		relay, err := tx.Relay(c.relay)
		if err != nil {
			return err
		}
		if c.shown < relay.Epoch && !relay.Accepts(c.shown, c.hub.o.Now()) {
			copied = &relay
			return c.noteCopy(tx, relay)
		}
		return then(tx, relay)
	})
	if err != nil {
		return fault{fmt.Errorf("look at the epoch of relay %q: %w", c.relay, err)}
	}
	if copied != nil {
		return c.refuseCopy(ctx, *copied)
	}
	return nil
}

// stale reports whether the relay was let in after this connection began: then the connection is an earlier one of the same
// relay that was held up on its way, and proves no copy.
func (c *conn) stale(relay bridge.Relay) bool { return relay.ConnectedAt.After(c.began) }

// noteCopy writes down that a copy was refused, at most once a minute for the same one. The one that the operator accepted has a minute to
// come again before another one takes its place.
func (c *conn) noteCopy(tx *bridge.Scene, relay bridge.Relay) error {
	now := c.hub.o.Now()
	same := relay.CopyEpoch == c.shown && !relay.CopyAt.IsZero()
	if c.stale(relay) || same && now.Sub(relay.CopyAt) < time.Minute || now.Sub(relay.AcceptedAt) < time.Minute {
		return nil
	}
	relay.CopyAt, relay.CopyEpoch, relay.AcceptedAt = now, c.shown, time.Time{}
	return tx.PutRelay(relay)
}

// refuseCopy tells people, and returns the closing word.
func (c *conn) refuseCopy(ctx context.Context, before bridge.Relay) error {
	h := c.hub
	if c.stale(before) {
		return closeReplaced
	}
	text := fmt.Sprintf("the bridge refused relay %s: its journal is at epoch %d, but the bridge knows epoch %d. Its state folder was copied or restored, or its journal was removed. "+
		"Stop the copy. To keep the refused one instead, run: drawbridge relay accept %s", c.relay, c.shown, before.Epoch, c.relay)
	h.o.Log.Error().Str("relay", c.relay).Int64("shows", c.shown).Int64("acknowledged", before.Epoch).Msg("a copy of a relay was refused; see drawbridge relay list")
	quiet := h.o.Now().Sub(h.alarmed(c.relay))
	fresh := quiet >= alarmEvery || quiet >= alarmPause && before.CopyEpoch != c.shown
	if fresh && h.o.Alarm != nil {
		h.setAlarmed(c.relay)
		if err := h.o.Alarm(context.WithoutCancel(ctx), text); err != nil {
			h.o.Log.Error().Err(err).Str("relay", c.relay).Msg("record the alarm about a copy")
		}
	}
	return closeCopied
}

func (h *Hub) alarmed(relay string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.alarms[relay]
}

func (h *Hub) setAlarmed(relay string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alarms[relay] = h.o.Now()
}

// takeEpoch counts the connection's epoch as acknowledged. It looks at the row once more: two relays may have been given epochs at
// the same time, and only one of them is let in.
func (c *conn) takeEpoch(relay *bridge.Relay) error {
	accepted := c.shown < relay.Epoch && relay.Accepts(c.shown, c.hub.o.Now())
	if c.shown < relay.Epoch && !accepted {
		return closeReplaced // if it is a copy, its next try shows that
	}
	failpoint.Here("hub.epoch.acknowledged")
	relay.Epoch, relay.Process = c.epoch, c.process
	if accepted {
		relay.CopyAt, relay.CopyEpoch, relay.AcceptedAt = time.Time{}, 0, time.Time{}
	}
	return nil
}

// Accept implements bridge.RelayAdmin.
func (h *Hub) Accept(ctx context.Context, name string) (bridge.RelayView, error) {
	if h.o.Store == nil {
		return bridge.RelayView{}, noRelay(name)
	}
	err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		relay, err := tx.Relay(name)
		if err != nil {
			return err
		}
		if relay.CopyAt.IsZero() {
			return bridge.Errorf(bridge.Conflict, "no copy of relay %q was refused; see `drawbridge relay show %s`", name, name)
		}
		relay.AcceptedAt = h.o.Now()
		return tx.PutRelay(relay)
	})
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.RelayView{}, noRelay(name)
	}
	if err != nil {
		return bridge.RelayView{}, err
	}
	return h.RelayByName(ctx, name)
}
