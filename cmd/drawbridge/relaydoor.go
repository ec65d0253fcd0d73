package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/pause"
	"drawbridge/mcpserver"
)

// relayDoor lets agents that relays host in at the MCP door. It implements hub.MCPDoor.
type relayDoor struct {
	store bridge.Store
	// hosts returns the relay that hosts the agents of a runtime, "" when none does.
	hosts func(runtime string) (relay string)
	// door returns the handler of the MCP door; it is there before the hub runs.
	door func() http.Handler
	// bindFor is how long the store may take to know the session of an agent that was launched a moment ago.
	bindFor time.Duration
}

const (
	// usualBind is long: the relay may answer the launch slowly, while the agent works already.
	usualBind = 10 * time.Second
	bindPause = 50 * time.Millisecond
)

// Agent implements hub.MCPDoor. A session is the external id of its agent. An agent whose runtime is another relay's is not found, so that
// a relay learns nothing of the agents of others.
func (d relayDoor) Agent(ctx context.Context, relay, session string) (bridge.AgentID, error) {
	giveUp := time.Now().Add(d.bindFor)
	for {
		var a bridge.Agent
		err := d.store.View(ctx, func(tx *bridge.Scene) (err error) {
			a, err = tx.FindAgent(bridge.ByExternal, session)
			return err
		})
		switch {
		case err == nil && relay != "" && d.hosts(a.Runtime) == relay && !a.Forgotten():
			return a.ID, nil
		case err == nil || errors.Is(err, bridge.ErrNoRow) && time.Now().After(giveUp):
			return "", bridge.Errorf(bridge.Denied, "relay %q does not host an agent with this session", relay)
		case !errors.Is(err, bridge.ErrNoRow):
			return "", &bridge.Error{Kind: bridge.Unavailable, Message: "the bridge could not look up the agent of this session; try again", Cause: err}
		}
		if err := pause.For(ctx, bindPause); err != nil {
			return "", &bridge.Error{Kind: bridge.Unavailable, Message: "the caller stopped waiting before the bridge found the agent of this session; try again", Cause: err}
		}
	}
}

// Handler implements hub.MCPDoor.
func (d relayDoor) Handler(agent bridge.AgentID, relay, session string) http.Handler {
	return mcpserver.Guest{Agent: agent, Way: "relay " + relay + " " + session}.Admit(d.door())
}

// relayOf returns the relay that hosts the agents of a runtime, "" when none does.
func (w *parts) relayOf(runtime string) string {
	if r := w.hosted[runtime]; r != nil {
		relay, _ := r.Place()
		return relay
	}
	return ""
}
