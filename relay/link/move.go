package link

import (
	"context"
	"fmt"
	"time"

	"drawbridge/relay/wire"
)

// Move changes the address at which this relay dials its bridge, and keeps its keys and its pins. What answers there must prove
// one of the pinned keys and must know this relay; otherwise nothing changes. An empty ca keeps the certificates that count
// now. A relay that runs dials the new address from its next connection on.
func Move(ctx context.Context, path, address, ca string) (Identity, error) {
	address, err := CheckURL(address)
	if err != nil {
		return Identity{}, err
	}
	i, err := Load(path)
	if err != nil {
		return Identity{}, err
	}
	i.Bridge = address
	if ca != "" {
		i.CA = ca
	}
	if err := tryOut(ctx, i); err != nil {
		return Identity{}, fmt.Errorf("%s: %w; the address stays as it was", address, err)
	}
	return change(path, func(fresh Identity) (Identity, error) {
		fresh.Bridge, fresh.CA = i.Bridge, i.CA
		return fresh, nil
	})
}

// tryOut meets the bridge of the identity and goes away again. Its proof names no process, so that the bridge gives no epoch and leaves
// the connection of a running relay alone.
func tryOut(ctx context.Context, i Identity) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	l := &Link{o: Options{Now: time.Now}}
	s := &session{link: l, identity: i}
	var err error
	if s.ws, err = l.dial(ctx, i); err != nil {
		return err
	}
	defer func() { _ = s.ws.CloseNow() }()
	g, err := s.greet(ctx)
	if err == nil {
		_, err = s.prove(ctx, g, wire.Proof{})
	}
	return s.why(err)
}
