package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/relay/wire"
)

// The bounds of a join token's life.
const (
	DefaultJoinLife = 15 * time.Minute
	maxJoinLife     = 24 * time.Hour
)

// NewToken implements bridge.RelayAdmin.
func (h *Hub) NewToken(ctx context.Context, relay string, life time.Duration) (bridge.JoinToken, error) {
	if life == 0 {
		life = DefaultJoinLife
	}
	switch {
	case h.o.Store == nil:
		return bridge.JoinToken{}, bridge.Errorf(bridge.Invalid, "this bridge does not accept relays that dial in")
	case !wire.ValidAction(relay):
		return bridge.JoinToken{}, bridge.Errorf(bridge.Invalid, "%+.80q is not a name for a relay; use 1 to 64 of a-z, 0-9, _, . and -, beginning with a letter or a digit", relay)
	case life < time.Minute || life > maxJoinLife:
		return bridge.JoinToken{}, bridge.Errorf(bridge.Invalid, "a join token lives for 1m to %dh; give --for 15m", int(maxJoinLife.Hours()))
	}
	if _, there := h.static[relay]; there {
		return bridge.JoinToken{}, bridge.Errorf(bridge.Conflict, "relay %q has an address in bridge.yaml; remove it there, or choose another name", relay)
	}
	ring, err := h.keys(ctx)
	if err != nil {
		return bridge.JoinToken{}, err
	}
	now := h.o.Now()
	j := bridge.RelayJoin{ID: h.o.NewID(""), Relay: relay, CreatedAt: now, ExpiresAt: now.Add(life)}
	err = h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		if err := mayInvite(tx, relay); err != nil {
			return err
		}
		if _, err := tx.DropRelayJoins(relay); err != nil {
			return err
		}
		return tx.PutRelayJoin(j)
	})
	if err != nil {
		return bridge.JoinToken{}, err
	}
	t := h.tokenOf(j, ring.newest())
	return bridge.JoinToken{Relay: relay, Text: t.String(), ExpiresAt: j.ExpiresAt, BridgeKey: ring.newest().id}, nil
}

// Withdraw implements bridge.RelayAdmin. A join that is under way has either used its token in an earlier transaction, and
// then there is nothing to withdraw, or finds no token.
func (h *Hub) Withdraw(ctx context.Context, relay string) error {
	if h.o.Store == nil {
		return noInvitation(relay)
	}
	return h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		n, err := tx.DropRelayJoins(relay)
		if err == nil && n == 0 {
			return noInvitation(relay)
		}
		return err
	})
}

func noInvitation(relay string) error {
	return bridge.Errorf(bridge.NotFound, "relay %+.80q has no open invitation; if a machine has joined with it, revoke the relay with `drawbridge relay revoke <name>`", relay)
}

// Invitations implements bridge.RelayAdmin.
func (h *Hub) Invitations(ctx context.Context) (open []bridge.RelayJoin, err error) {
	if h.o.Store == nil {
		return nil, nil
	}
	err = h.o.Store.View(ctx, func(tx *bridge.Scene) error {
		open, err = tx.OpenRelayJoins(h.o.Now())
		return err
	})
	return open, err
}

// mayInvite returns an error unless a relay may be invited under a name. One that was
// enrolled before may keep its name, be it reserved or not.
func mayInvite(tx *bridge.Scene, relay string) error {
	if _, err := tx.Relay(relay); errors.Is(err, bridge.ErrNoRow) {
		return bridge.CheckRelayName(relay)
	}
	return nameIsFree(tx, relay)
}

func nameIsFree(tx *bridge.Scene, relay string) error {
	r, err := tx.Relay(relay)
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return nil
	case err != nil:
		return err
	case r.State == bridge.RelayEnrolled:
		return bridge.Errorf(bridge.Conflict, "a relay named %q is enrolled; revoke it first with `drawbridge relay revoke %s`, or choose another name", relay, relay)
	}
	return nil
}

func (h *Hub) tokenOf(j bridge.RelayJoin, s *signer) wire.Token {
	return wire.Token{ID: j.ID, Secret: s.source.JoinSecret(j.ID, j.Relay), Bridge: s.public()}
}

// errJoin tells a stranger nothing about why.
var errJoin = bridge.Errorf(bridge.Denied, "this join token is unknown, was used, was withdrawn or has expired; make another with `drawbridge relay token <name>`")

// join enrolls the holder of a token. The same key with the same token again gets the same answer, so that one which was
// lost on the way costs nothing.
func (h *Hub) join(ctx context.Context, j wire.Join) (wire.Joined, error) {
	ring, err := h.keys(ctx)
	if err != nil {
		return wire.Joined{}, err
	}
	var answer wire.Joined
	err = h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		kept, err := tx.RelayJoin(j.Token)
		if errors.Is(err, bridge.ErrNoRow) {
			return errJoin
		}
		if err != nil {
			return err
		}
		s := ring.at(kept.CreatedAt)
		if s == nil {
			return errJoin
		}
		key, err := j.Check(h.tokenOf(kept, s))
		if err != nil || h.o.Now().After(kept.ExpiresAt) || (kept.Key != "" && kept.Key != wire.KeyText(key)) {
			return errJoin
		}
		if kept.Key == "" {
			if err := h.enroll(tx, kept, wire.KeyText(key), s.id); err != nil {
				return err
			}
		}
		answer, err = wire.NewJoined(s.private, kept.Relay, j)
		return err
	})
	if err == nil {
		h.o.Log.Info().Str("relay", answer.Relay).Str("key", keyName(j.Public)).Msg("relay joined")
	}
	return answer, err
}

func (h *Hub) enroll(tx *bridge.Scene, j bridge.RelayJoin, key, pin string) error {
	if err := nameIsFree(tx, j.Relay); err != nil {
		return err
	}
	// Whoever revokes a relay means the tokens that were about at the time as well. None can be made while it is enrolled.
	if revoked, err := tx.Relay(j.Relay); err == nil && j.CreatedAt.Before(revoked.EnrolledAt) {
		return errJoin
	}
	now := h.o.Now()
	j.Key = key
	if err := tx.PutRelayJoin(j); err != nil {
		return err
	}
	if err := tx.PutOffers(j.Relay, nil); err != nil {
		return err
	}
	return tx.PutRelay(bridge.Relay{Name: j.Relay, State: bridge.RelayEnrolled, Key: key, Pin: pin, EnrolledAt: now, SeenAt: now})
}

// keyName is the id of a key that is given as text, for a log line.
func keyName(text string) string {
	key, err := wire.ReadKey(text)
	if err != nil {
		return ""
	}
	return wire.KeyID(key)
}

var errRekey = bridge.Errorf(bridge.Denied, "the bridge does not know this relay by this key; check that it is enrolled and that the clocks agree")

// rekey records the key that a relay is going to use. The one in use counts until the next one is used, which is also by asking
// for one more: a relay may change its key twice before it connects.
func (h *Hub) rekey(ctx context.Context, r wire.Rekey) (wire.Rekeyed, error) {
	ring, err := h.keys(ctx)
	if err != nil {
		return wire.Rekeyed{}, err
	}
	s := ring.trusted(r.Pins)
	if s == nil {
		return wire.Rekeyed{}, errRekey
	}
	err = h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		relay, err := tx.Relay(r.Relay)
		if errors.Is(err, bridge.ErrNoRow) || err == nil && relay.State != bridge.RelayEnrolled {
			return errRekey
		}
		if err != nil {
			return err
		}
		for _, text := range []string{relay.Key, relay.NextKey} {
			key, err := wire.ReadKey(text)
			if err != nil {
				continue // there is no next one
			}
			if next, err := r.Check(key, h.o.Now()); err == nil {
				relay.Key, relay.NextKey = text, wire.KeyText(next)
				return tx.PutRelay(relay)
			}
		}
		return errRekey
	})
	if err != nil {
		return wire.Rekeyed{}, err
	}
	h.o.Log.Info().Str("relay", r.Relay).Str("key", keyName(r.Public)).Msg("relay announced its next key")
	return wire.NewRekeyed(s.private, r)
}

// Rotate implements bridge.RelayAdmin.
func (h *Hub) Rotate(ctx context.Context) (bridge.RelayKey, error) {
	if h.o.Store == nil {
		return bridge.RelayKey{}, bridge.Errorf(bridge.Invalid, "this bridge does not accept relays that dial in")
	}
	if _, err := h.keys(ctx); err != nil { // the first generation, if there is none yet
		return bridge.RelayKey{}, err
	}
	var next bridge.RelayKey
	err := h.o.Store.Update(ctx, func(tx *bridge.Scene) (err error) { next, err = h.nextKey(tx); return err })
	if err != nil {
		return bridge.RelayKey{}, fmt.Errorf("make relay key: %w", err)
	}
	if _, err := h.loadKeys(ctx); err != nil {
		return bridge.RelayKey{}, err
	}
	h.announce(ctx)
	return next, nil
}

// Revoke implements bridge.RelayAdmin.
func (h *Hub) Revoke(ctx context.Context, name string) (bridge.RelayView, error) {
	if h.o.Store == nil {
		return bridge.RelayView{}, noRelay(name)
	}
	err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
		relay, err := tx.Relay(name)
		if err != nil {
			return err
		}
		relay.State, relay.NextKey = bridge.RelayRevoked, ""
		return tx.PutRelay(relay)
	})
	if errors.Is(err, bridge.ErrNoRow) {
		return bridge.RelayView{}, noRelay(name)
	}
	if err != nil {
		return bridge.RelayView{}, err
	}
	h.cut(name, closeRevoked)
	return h.RelayByName(ctx, name)
}

func noRelay(name string) error {
	return bridge.Errorf(bridge.NotFound, "no relay %+.80q is enrolled; list them with `drawbridge relay list`", name)
}

// RelayByName implements bridge.RelayAdmin.
func (h *Hub) RelayByName(ctx context.Context, name string) (v bridge.RelayView, err error) {
	if h.o.Store == nil {
		return v, noRelay(name)
	}
	err = h.o.Store.View(ctx, func(tx *bridge.Scene) error {
		relay, err := tx.Relay(name)
		if err != nil {
			return err
		}
		v, err = h.view(tx, relay)
		return err
	})
	if errors.Is(err, bridge.ErrNoRow) {
		return v, noRelay(name)
	}
	return v, err
}

// RelayList implements bridge.RelayAdmin.
func (h *Hub) RelayList(ctx context.Context, after string, limit int) (out []bridge.RelayView, err error) {
	if h.o.Store == nil {
		return nil, nil
	}
	err = h.o.Store.View(ctx, func(tx *bridge.Scene) error {
		relays, err := tx.Relays(bridge.RelayFilter{After: after, Limit: limit})
		if err != nil {
			return err
		}
		out = make([]bridge.RelayView, len(relays))
		for i, r := range relays {
			if out[i], err = h.view(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

func (h *Hub) view(tx *bridge.Scene, r bridge.Relay) (v bridge.RelayView, err error) {
	v.Relay = r
	if key, err := wire.ReadKey(r.Key); err == nil {
		v.KeyID = wire.KeyID(key)
	}
	if v.Offers, err = tx.Offers(r.Name); err != nil {
		return v, err
	}
	v.Connected, err = h.alive(tx, r.Replica)
	v.Connected = v.Connected && r.State == bridge.RelayEnrolled
	if c := h.connOf(r.Name); c != nil {
		v.Running = c.running()
	}
	return v, err
}
