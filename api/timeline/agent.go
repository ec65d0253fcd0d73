package timeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/parser"
)

// Holders knows whose a door token is.
type Holders interface {
	// Holder returns the token that a secret is; Unauthenticated when it is none or revoked.
	Holder(ctx context.Context, secret string) (bridge.DoorToken, error)
}

// ForAgent makes the reader for an agent that shows its one token: it gets what
// its tools may tell it, under the seed's names too, while the token is good. Every credential
// that is shown must be right, so that no two readers of a request can differ.
func ForAgent(r *http.Request, src Source, tokens Holders) (*Reader, error) {
	shown := r.Header.Values("Authorization")
	scheme, secret, _ := strings.Cut(strings.Join(shown, ","), " ")
	if len(shown) != 1 || !strings.EqualFold(scheme, "Bearer") || r.Header.Get(httpx.TokenHeader) != "" {
		return nil, bridge.Errorf(bridge.Unauthenticated, "a token is required, as Authorization: Bearer")
	}
	holder := func(ctx context.Context) (bridge.DoorToken, error) {
		return tokens.Holder(ctx, strings.TrimSpace(secret))
	}
	t, err := holder(r.Context())
	if err != nil {
		return nil, err
	}
	f := &Reader{Source: src, Seed: true, Token: t.Hash, Valid: func(ctx context.Context) bool {
		_, err := holder(ctx)
		return bridge.KindOf(err) != bridge.Unauthenticated
	}}
	err = src.View(r.Context(), func(tx *bridge.Scene) error {
		a, err := tx.Agent(t.Agent)
		f.eyes = &eyes{agent: a.ID, root: a.Root, kin: map[bridge.AgentID]kinship{}}
		return err
	})
	return f, err
}

// kinship says how much of another agent's affairs an agent may see.
type kinship int

const (
	stranger kinship = iota // of another tree
	relative                // of the same tree: what agent_status tells
	below                   // what inspect_agent tells, too
	self
)

// eyes see the timeline as one agent may: its mail as the tools of mail show it,
// its own affairs whole, and of others what the tools of the team tell.
type eyes struct {
	agent, root bridge.AgentID
	// kin remembers agents that were looked up; nobody changes place in a tree.
	kin map[bridge.AgentID]kinship
}

// maxKin bounds what a reader remembers.
const maxKin = 10_000

// Of an agent of the same tree, whether it works and has ended is told, and of
// one below also in which words.
var (
	plainKinds = map[string]bool{bridge.EventAgent: true, bridge.EventTurn: true, bridge.EventReply: true, bridge.EventTurnFailed: true, bridge.EventCompleted: true}
	wordyKinds = map[string]bool{bridge.EventTurn: true, bridge.EventReply: true, bridge.EventTurnFailed: true}
	// forOperator are told with what would run at the user's machine, which is not the agent's to read.
	forOperator = map[string]bool{bridge.EventHeld: true, bridge.EventApproved: true}
)

// see returns what the agent may know of an event; ok is false for nothing.
func (y *eyes) see(ctx context.Context, src Source, e bridge.Event) (seen bridge.Event, ok bool, err error) {
	e = e.Impersonal()
	if id := bridge.MessageID(e.Fields["message"]); id != "" && e.Kind != bridge.EventJoined {
		err = src.View(ctx, func(tx *bridge.Scene) error {
			seen, ok, err = y.mail(tx, id, e)
			return err
		})
		return seen, ok, err
	}
	near, err := y.near(ctx, src, e.Agent)
	switch {
	case err != nil || near == stranger:
		return e, false, err
	case near == self && forOperator[e.Kind] && e.Fields["verb"] == string(parser.LocalAction):
		e.Text = fmt.Sprintf("%s %s", parser.LocalAction, e.Fields["action"])
		return e, true, nil
	case near == self:
		return e, true, nil
	case !plainKinds[e.Kind]:
		return e, false, nil
	case near == below && wordyKinds[e.Kind]:
		return e, true, nil
	}
	e.Text, e.Fields, e.Command = "", nil, ""
	return e, true, nil
}

// mail shows an event of a message to those who may read the message now.
func (y *eyes) mail(tx *bridge.Scene, id bridge.MessageID, e bridge.Event) (bridge.Event, bool, error) {
	m, err := tx.Message(id)
	if errors.Is(err, bridge.ErrNoRow) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	if may, err := bridge.MayRead(tx, m, y.agent); err != nil || !may {
		return e, false, err
	}
	if e.Agent != y.agent {
		e.Turn = "" // a turn of somebody else's
	}
	if _, hasText := e.Fields["text"]; hasText && !m.DeletedAt.IsZero() {
		e.Fields = maps.Clone(e.Fields) // whoever comes late does not read what was withdrawn
		delete(e.Fields, "text")
		e.Text = ""
	}
	return e, true, nil
}

// near looks up how near an agent is.
func (y *eyes) near(ctx context.Context, src Source, id bridge.AgentID) (kinship, error) {
	if id == "" {
		return stranger, nil
	}
	if known, ok := y.kin[id]; ok {
		return known, nil
	}
	near := stranger
	err := src.View(ctx, func(tx *bridge.Scene) error {
		a, err := tx.Agent(id)
		if errors.Is(err, bridge.ErrNoRow) {
			return nil
		}
		if err != nil || a.Root != y.root {
			return err
		}
		near = relative
		for at := a; ; {
			switch y.agent {
			case a.ID:
				near = self
				return nil
			case at.Parent:
				near = below
				return nil
			}
			if at.Parent == "" {
				return nil
			}
			if at, err = tx.Agent(at.Parent); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return stranger, err
	}
	if len(y.kin) >= maxKin {
		clear(y.kin)
	}
	y.kin[id] = near
	return near, nil
}
