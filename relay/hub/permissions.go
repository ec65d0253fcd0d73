package hub

import (
	"context"

	"drawbridge/bridge"
	"drawbridge/relay/wire"
)

// Permissions records the questions of agents that relays host. Safe for concurrent use.
type Permissions interface {
	// PermissionAsked records a question, or a later state of it. The same again changes nothing. The error is a *bridge.Error: Denied
	// unless this very relay hosts the agent.
	PermissionAsked(ctx context.Context, p bridge.Permission) error
	// PermissionWord returns the operator's words on those of the questions that have one. A question of another relay has none.
	PermissionWord(ctx context.Context, relay string, ids []string) ([]bridge.PermissionWord, error)
}

// permissionCost is what a question costs beyond a frame.
const permissionCost = 20

// takePermission records a question of an agent of the relay's, or answers those that the relay waits for.
func (c *conn) takePermission(ctx context.Context, f wire.Frame) error {
	to := c.hub.o.Permissions
	if c.allowance -= permissionCost; to == nil {
		return nil
	}
	if f.PermissionWait != nil {
		return c.sendPermits(ctx, to, f.PermissionWait.IDs)
	}
	p := *f.Permission
	err := to.PermissionAsked(ctx, bridge.Permission{
		ID: p.ID, Hash: p.Hash, Relay: c.relay, Entry: p.Agent, Session: p.Session, Run: p.Turn, Kind: p.Kind, Tool: p.Tool, Arguments: p.Arguments,
		Paths: p.Paths, Workspace: p.Workspace, Reason: p.Reason, AtBridge: p.Bridge, AtMachine: p.Machine, State: bridge.PermissionState(p.State), By: p.By,
	})
	if err != nil {
		c.hub.o.Log.Warn().Err(err).Str("relay", c.relay).Str("question", p.ID).Msg("a question of a hosted agent was not recorded")
		return nil
	}
	return c.write(context.WithoutCancel(ctx), wire.Frame{Permitted: &wire.Permitted{ID: p.ID, State: p.State}})
}

// sendPermits sends the operator's words on questions of the relay. Any replica records them; this one has the connection.
func (c *conn) sendPermits(ctx context.Context, from Permissions, ids []string) error {
	words, err := from.PermissionWord(ctx, c.relay, ids)
	if err != nil {
		c.hub.o.Log.Warn().Err(err).Str("relay", c.relay).Msg("look for the operator's words on questions")
		return nil
	}
	for _, w := range words {
		signed, err := wire.SignPermit(c.signer.Load().private, c.relay, wire.Permit{ID: w.ID, Hash: w.Hash, Allow: w.Allow}, c.hub.o.Now())
		if err != nil {
			return err
		}
		if err := c.write(context.WithoutCancel(ctx), wire.Frame{Permit: &signed}); err != nil {
			return err
		}
	}
	return nil
}
