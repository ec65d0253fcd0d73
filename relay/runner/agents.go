package runner

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/tunnel"
	"drawbridge/relay/wire"
)

// Agents hosts the agents of one relay. This package knows nothing else of agents.
type Agents interface {
	wire.AgentHost
	// Halt ends every process without a turn, for the kill switch, and returns when they are gone; none stays until Proceed.
	Halt()
	Proceed()
	// Close ends every process of an agent and returns when nothing is left. It is called once, after the last turn has ended.
	Close()
}

// Questions are the open questions of [Agents] that ask. Safe for concurrent use.
type Questions interface {
	// Pending lists those that a person at this machine may answer, the oldest first.
	Pending() []approval.Pending
	// DecideHere takes the word of a person at this machine; by names the door. approval.ErrUnknown means that the question is not one of an agent's.
	DecideHere(id string, allow bool, by string) error
	// DenyAll answers every open question with no, for the kill switch.
	DenyAll(by string) error
}

// questions returns those of the relay's agents, nil where they ask nothing.
func (r *Relay) questions() Questions {
	q, _ := r.agents.(Questions)
	return q
}

// Parts is what agents get from the relay that hosts them.
type Parts struct {
	Config settings.Config
	// Live is Config with the changes that count since.
	Live *settings.Live
	// Pool starts the agents. It stays open until Close of [Agents] returned.
	Pool    *keeper.Pool
	Ability sandbox.Ability
	// Tunnel leads to the bridge's MCP door while the relay is connected to it.
	Tunnel *tunnel.Client
	// Prompters show questions to a person here, and Note writes a line of the audit log.
	Prompters map[string]approval.Prompter
	Note      func(audit.Event) error
	Log       zerolog.Logger
}

// openAgents makes the host of agents for a file that lists some.
func (m *mains) openAgents(ctx context.Context, ability sandbox.Ability) (err error) {
	if m.o.Agents == nil || len(m.config.Agents) == 0 {
		return nil
	}
	if m.agents, err = m.o.Agents(ctx, Parts{Config: m.config, Live: m.relay.live, Pool: m.pool, Ability: ability, Tunnel: &m.tunnel, Prompters: m.ways, Note: m.relay.note, Log: m.log}); err != nil {
		return err
	}
	m.relay.agents = m.agents
	if control.Switched(m.config.State) {
		m.agents.Halt()
		if q := m.relay.questions(); q != nil {
			return q.DenyAll("kill switch")
		}
	}
	return nil
}

// handler is what the bridge reaches: the relay, and its agents where it has some.
func (m *mains) handler() wire.Handler {
	if m.agents == nil {
		return m.relay
	}
	h := hosting{m.relay, m.agents, &m.tunnel}
	if q, asks := m.agents.(wire.PermissionAsker); asks {
		return asking{h, q}
	}
	return h
}

// asking is a relay with agents that ask.
type asking struct {
	hosting
	wire.PermissionAsker
}

// hosting is a relay with agents. The kill switch and the end of the relay end turns as they end actions.
type hosting struct {
	*Relay
	agents Agents
	tunnel *tunnel.Client
}

var (
	_ wire.AgentHost   = hosting{}
	_ wire.AgentPeeker = hosting{}
	_ tunnel.User      = hosting{}
)

// Tunnel implements tunnel.User.
func (h hosting) Tunnel() *tunnel.Client { return h.tunnel }

// RunTurn implements wire.AgentHost.
func (h hosting) RunTurn(ctx context.Context, t wire.Turn) wire.TurnEnded {
	call, err := h.calls.enter(ctx)
	switch {
	case errors.Is(err, errSwitched):
		return wire.TurnEnded{Refusal: wire.RefusedStopped, Error: err.Error()}
	case err != nil:
		return wire.TurnEnded{Refusal: wire.RefusedBusy, Error: err.Error(), RetryMS: (5 * time.Second).Milliseconds()}
	}
	defer h.calls.leave(call)
	// A turn that the end of the relay cuts off goes on at the next start. So it gets no time to end, as an action does. The caller's context ends
	// with the relay alone.
	running, cut := context.WithCancelCause(call.running)
	defer cut(nil)
	defer context.AfterFunc(call.waiting, func() {
		if !errors.Is(context.Cause(call.waiting), errSwitched) {
			cut(errStopping)
		}
	})()
	return h.agents.RunTurn(running, t)
}

// LookupTurn implements wire.AgentHost.
func (h hosting) LookupTurn(t wire.Turn) wire.TurnFound { return h.agents.LookupTurn(t) }

// StopTurn implements wire.AgentHost.
func (h hosting) StopTurn(t wire.Turn) wire.TurnFound { return h.agents.StopTurn(t) }

// PeekTurn implements wire.AgentPeeker. The kill switch ends what runs; looking is allowed.
func (h hosting) PeekTurn(ctx context.Context, t wire.Turn) wire.Peeked {
	if p, peeks := h.agents.(wire.AgentPeeker); peeks {
		return p.PeekTurn(ctx, t)
	}
	return wire.Peeked{Error: "this relay has no workspaces", Missing: true}
}
