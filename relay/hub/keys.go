package hub

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/relay/wire"
)

// signer is one generation of the key that signs requests.
type signer struct {
	generation int64
	id         string
	source     bridge.Key
	private    ed25519.PrivateKey
	created    time.Time
}

func (s *signer) public() ed25519.PublicKey { return s.private.Public().(ed25519.PublicKey) }

// keyring holds every generation that can still be derived, oldest first. It is replaced and never changed.
type keyring struct{ signers []*signer }

func (k *keyring) newest() *signer { return k.signers[len(k.signers)-1] }

// trusted returns the newest signer among a relay's pins, or nil.
func (k *keyring) trusted(pins []string) *signer {
	for _, s := range slices.Backward(k.signers) {
		if slices.Contains(pins, s.id) {
			return s
		}
	}
	return nil
}

// at returns the generation that was the newest at a time, or nil.
func (k *keyring) at(when time.Time) *signer {
	for _, s := range slices.Backward(k.signers) {
		if !s.created.After(when) {
			return s
		}
	}
	return nil
}

// keys returns the keyring, which it loads at first.
func (h *Hub) keys(ctx context.Context) (*keyring, error) {
	if ring := h.ring.Load(); ring != nil {
		return ring, nil
	}
	return h.loadKeys(ctx)
}

// errNoKey is the one failure that no waiting mends.
var errNoKey = errors.New("none of the relay keys can be derived from the configured bridge keys; add the earlier bridge key to old_keys in bridge.yaml")

// loadKeys reads the generations, and makes a new one when there is none for the bridge key in force: with a new bridge
// key the relays get a new signing key, and learn it while the old one is still listed under old_keys.
func (h *Hub) loadKeys(ctx context.Context) (*keyring, error) {
	var list []bridge.RelayKey
	look := func(tx *bridge.Scene) (err error) { list, err = tx.RelayKeys(); return err }
	if err := h.o.Store.View(ctx, look); err != nil {
		return nil, fmt.Errorf("read relay keys: %w", err)
	}
	if len(list) == 0 || list[len(list)-1].Source != h.o.Keys.Current.ID {
		err := h.o.Store.Update(ctx, func(tx *bridge.Scene) error {
			if err := look(tx); err != nil {
				return err
			}
			if n := len(list); n > 0 && list[n-1].Source == h.o.Keys.Current.ID {
				return nil // another replica was first
			}
			_, err := h.nextKey(tx)
			return firstError(err, look(tx))
		})
		if err != nil {
			return nil, fmt.Errorf("make relay key: %w", err)
		}
	}
	ring := h.derive(list)
	if len(ring.signers) == 0 {
		return nil, fmt.Errorf("%w (of %d)", errNoKey, len(list))
	}
	h.ring.Store(ring)
	return ring, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// nextKey records one more generation.
func (h *Hub) nextKey(tx *bridge.Scene) (bridge.RelayKey, error) {
	list, err := tx.RelayKeys()
	if err != nil {
		return bridge.RelayKey{}, err
	}
	next := bridge.RelayKey{Generation: 1, Source: h.o.Keys.Current.ID, CreatedAt: h.o.Now()}
	if n := len(list); n > 0 {
		next.Generation = list[n-1].Generation + 1
	}
	return next, tx.AddRelayKey(next)
}

func (h *Hub) derive(list []bridge.RelayKey) *keyring {
	ring := &keyring{}
	for _, k := range list {
		source, there := h.o.Keys.ByID(k.Source)
		if !there {
			continue // its bridge key is gone from the configuration, and its relays have moved on or must join again
		}
		s := &signer{generation: k.Generation, source: source, private: source.RelayKey(k.Generation), created: k.CreatedAt}
		s.id = wire.KeyID(s.public())
		ring.signers = append(ring.signers, s)
	}
	return ring
}
