package doors

import (
	"context"
	"errors"
	"time"

	"drawbridge/bridge"
)

// Cloud is a Runtime with everything that the Cloud Agents API's client can do.
type Cloud interface {
	bridge.Runtime
	bridge.Follower
	bridge.Inspector
	bridge.Transcriber
}

// Runtime is a Cloud that gives each agent its own door and token, except at the v0 API, with its
// launch and with each further turn. The token is derived from the launch, so
// that a repeat sends the same; it is good before it is sent. An agent whose
// derived token was revoked is given none any more. Safe for concurrent use.
type Runtime struct {
	Cloud
	Store bridge.Store
	Keys  bridge.Keys
	// PublicURL is where the cloud reaches the bridge, without a slash at the end;
	// empty means that agents there get no doors. LocalURL is the same for agents of
	// other Runtimes, which are on this machine.
	PublicURL, LocalURL string
	// Tokenless says of a Runtime whether its agents call tools without a token: they live in this process, or a relay carries
	// their calls over its own connection. They get neither an address nor a token. Nil means that none do.
	Tokenless func(runtime string) bool
}

// Launch implements bridge.Launcher.
func (d *Runtime) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	var err error
	if l.API != bridge.APIv0 && !d.tokenless(l.Runtime) {
		if l.Door, err = d.door(ctx, d.address(l.Runtime), l.Owner); err != nil {
			return bridge.Started{}, err
		}
	}
	return d.Cloud.Launch(ctx, l)
}

// Send implements bridge.Sender.
func (d *Runtime) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	var err error
	if f.API != bridge.APIv0 && !d.tokenless(f.Runtime) {
		if f.Door, err = d.door(ctx, d.address(f.Runtime), f.Owner); err != nil {
			return bridge.Started{}, err
		}
	}
	return d.Cloud.Send(ctx, f)
}

// Gives reports whether agents of that Runtime have tools of the bridge in their turns. Agents at the v0 API have none even so.
func (d *Runtime) Gives(runtime string) bool { return d.tokenless(runtime) || d.address(runtime) != "" }

func (d *Runtime) tokenless(runtime string) bool { return d.Tokenless != nil && d.Tokenless(runtime) }

// address is where agents of that Runtime reach the bridge.
func (d *Runtime) address(runtime string) string {
	if bridge.InCloud(runtime) {
		return d.PublicURL
	}
	return d.LocalURL
}

// door returns an agent's door, after its token was recorded; nil when it is to have none.
func (d *Runtime) door(ctx context.Context, address string, owner bridge.AgentID) (*bridge.Door, error) {
	if address == "" || owner == "" {
		return nil, nil
	}
	var secret string
	var known, revoked bool
	look := func(tx *bridge.Scene) error {
		a, err := tx.Agent(owner)
		if err != nil {
			return err
		}
		secret = d.Keys.DoorToken(a, 1)
		known, revoked, err = derived(tx, owner, bridge.HashDoorToken(secret))
		return err
	}
	err := d.Store.View(ctx, look)
	if err == nil && !known && !revoked {
		id := bridge.TokenID(bridge.NewID("tok_"))
		err = d.Store.Update(ctx, func(tx *bridge.Scene) error {
			if err := look(tx); err != nil || known || revoked {
				return err
			}
			return tx.InsertToken(bridge.DoorToken{ID: id, Agent: owner, Hash: bridge.HashDoorToken(secret), Generation: 1, CreatedAt: time.Now()})
		})
	}
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil: // nothing was sent, so that the turn is tried again
		return nil, &bridge.Error{Kind: bridge.Unavailable, Message: "the agent's door token could not be recorded", Cause: err}
	case revoked:
		return nil, nil
	}
	return &bridge.Door{URL: address + Path, Token: secret}, nil
}

// derived looks for an agent's derived token, and whether any of them was revoked.
func derived(tx *bridge.Scene, owner bridge.AgentID, hash string) (known, revoked bool, err error) {
	all, err := tx.Tokens(owner)
	for _, t := range all {
		known = known || t.Hash == hash
		revoked = revoked || (t.Generation > 0 && t.Revoked())
	}
	return known, revoked, err
}
