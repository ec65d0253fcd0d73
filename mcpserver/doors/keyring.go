// Package doors gives agents their way to the MCP door: the tokens that open it, and
// with each launch and turn the address and a token. It serves nothing and knows
// no tools. Rule of thumb: a token is shown once, and what is kept of it is its hash.
package doors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
)

// Path is where the door hangs.
const Path = "/mcp"

// Keyring makes, knows and revokes door tokens. It keeps them as hashes in the
// store, so that every replica sees the same. Safe for concurrent use.
type Keyring struct {
	steps bridge.Steps
	end   func(hash string)
}

// NewKeyring returns a keyring over the steps of an engine.
func NewKeyring(steps bridge.Steps) *Keyring { return &Keyring{steps: steps, end: func(string) {}} }

// OnRevoked has end called with the hash of each token that is revoked here, after
// it was. It is called before anything is revoked.
func (k *Keyring) OnRevoked(end func(hash string)) { k.end = end }

// usedEvery is how exactly the last use of a token is known.
const usedEvery = time.Minute

// Holder returns the token that a secret is. Unauthenticated for one that is unknown or revoked.
func (k *Keyring) Holder(ctx context.Context, secret string) (bridge.DoorToken, error) {
	t, err := k.find(ctx, bridge.HashDoorToken(secret))
	if err != nil {
		return bridge.DoorToken{}, err
	}
	if t.ID == "" || t.Revoked() {
		return bridge.DoorToken{}, bridge.Errorf(bridge.Unauthenticated, "this token is unknown or was revoked; ask the operator for another")
	}
	if time.Since(t.LastUsed) > usedEvery {
		err = k.steps.Change(bridge.Unheard(bridge.Forgettable(ctx)), func(tx bridge.Change) error { return tx.UseToken(t.ID, tx.Now()) })
	}
	return t, err
}

// Valid reports whether the token of a hash is still good.
func (k *Keyring) Valid(ctx context.Context, hash string) (bool, error) {
	t, err := k.find(ctx, hash)
	return t.ID != "" && !t.Revoked(), err
}

// find returns the zero token for a hash that is none.
func (k *Keyring) find(ctx context.Context, hash string) (t bridge.DoorToken, err error) {
	err = k.steps.View(ctx, func(tx *bridge.Scene) error {
		if t, err = tx.FindToken(hash); errors.Is(err, bridge.ErrNoRow) {
			return nil
		}
		return err
	})
	if err != nil {
		return bridge.DoorToken{}, fmt.Errorf("look up a door token: %w", err)
	}
	return t, nil
}

// Mint makes a token for an agent and returns it with its record; it is shown
// this once. Client names the program that it is for: the agent's earlier tokens for the
// same one end in the same commit, with what they opened. Without a client twice makes two.
func (k *Keyring) Mint(ctx context.Context, agent bridge.AgentID, client string) (secret string, t bridge.DoorToken, err error) {
	if len(client) > maxClient || strings.ContainsFunc(client, notPlain) {
		return "", t, bridge.Errorf(bridge.Invalid, "client %+.60q must be at most %d letters, digits, dots, dashes and underscores", client, maxClient)
	}
	var replaced []string
	secret = bridge.NewDoorToken()
	err = k.steps.Change(ctx, func(tx bridge.Change) error {
		a, err := tx.Agent(agent)
		if err != nil {
			return err
		}
		t = bridge.DoorToken{ID: bridge.TokenID(tx.NewID("tok_")), Agent: agent, Hash: bridge.HashDoorToken(secret), Client: client, CreatedAt: tx.Now()}
		if replaced, err = replace(tx, agent, client); err != nil {
			return err
		}
		if err := tx.InsertToken(t); err != nil {
			return err
		}
		return tx.Record(bridge.EventToken, a, bridge.Event{Text: fmt.Sprintf("door token %s for %s", t.ID, a.Name)})
	})
	if err != nil {
		return "", t, err
	}
	for _, hash := range replaced {
		k.end(hash)
	}
	return secret, t, nil
}

// maxClient bounds the name of a client, in bytes.
const maxClient = 40

func notPlain(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}

// replace revokes an agent's good tokens for a client and returns their hashes.
func replace(tx bridge.Change, agent bridge.AgentID, client string) (hashes []string, err error) {
	if client == "" {
		return nil, nil
	}
	all, err := tx.Tokens(agent)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Client != client || t.Revoked() {
			continue
		}
		if err := tx.RevokeToken(t.ID, tx.Now()); err != nil {
			return nil, err
		}
		hashes = append(hashes, t.Hash)
	}
	return hashes, nil
}

// List returns an agent's tokens, newest first, revoked ones too.
func (k *Keyring) List(ctx context.Context, agent bridge.AgentID) (list []bridge.DoorToken, err error) {
	err = k.steps.View(ctx, func(tx *bridge.Scene) error {
		list, err = tx.Tokens(agent)
		return err
	})
	return list, err
}

// Revoke ends a token of an agent, or all of them when id is empty, with every
// session that they opened here. On other replicas further requests are refused
// within a second, and sessions end within 15. It returns how many there were. NotFound
// for an id that is none of the agent's.
func (k *Keyring) Revoke(ctx context.Context, agent bridge.AgentID, id bridge.TokenID) (n int, err error) {
	var hashes []string
	err = k.steps.Change(ctx, func(tx bridge.Change) error {
		hashes = nil
		a, err := tx.Agent(agent)
		if err != nil {
			return err
		}
		all, err := tx.Tokens(agent)
		if err != nil {
			return err
		}
		known := id == ""
		for _, t := range all {
			if id != "" && t.ID != id {
				continue
			}
			known = true
			if t.Revoked() {
				continue
			}
			if err := tx.RevokeToken(t.ID, tx.Now()); err != nil {
				return err
			}
			hashes = append(hashes, t.Hash)
		}
		if !known {
			return bridge.Errorf(bridge.NotFound, "agent %s has no token %+.60q", a.Name, string(id))
		}
		if err := bridge.LookAtAwaited(tx.Scene, agent, tx.Now()); err != nil {
			return err
		}
		return tx.Record(bridge.EventToken, a, bridge.Event{Text: fmt.Sprintf("door tokens of %s that were revoked: %d", a.Name, len(hashes))})
	})
	if err != nil {
		return 0, err
	}
	for _, hash := range hashes {
		k.end(hash)
	}
	return len(hashes), nil
}
