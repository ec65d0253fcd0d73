package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/bridge/words"
	"drawbridge/openai/upstream"
)

// Engine is what the backends need of the engine. Its methods are safe for concurrent use.
type Engine interface {
	bridge.Steps
	// FindAgent finds an agent by id or name.
	FindAgent(ctx context.Context, idOrName string) (bridge.Agent, error)
	// SayAs gives an agent a turn, once under an id.
	SayAs(ctx context.Context, id bridge.AgentID, w engine.Words) (bridge.Turn, error)
	// LaunchAgent launches an agent through the allowlist.
	LaunchAgent(ctx context.Context, s engine.Spec) (bridge.Agent, bridge.Turn, error)
	// Watch returns a channel that gets a value after changes, and what ends it.
	Watch() (<-chan struct{}, func())
}

// Options configure both backends. Engine and Tools are required.
type Options struct {
	Engine Engine
	// Tools are the tools of callers; the MCP door has the same ones.
	Tools *Tools
	// Doubt is how long an answer waits while it is uncertain whether the agent got the turn; default 10 minutes.
	Doubt time.Duration
	// Repos are the repositories of the backend cloud, by alias.
	Repos map[string]string
	// Spec may complete a launch of the backend cloud as other launches are: role, runtime, blocks, joins. Nil changes nothing.
	Spec func(*engine.Spec)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Agents are the models agent/<name>. Safe for concurrent use.
type Agents struct{ o Options }

var _ upstream.Upstream = (*Agents)(nil)

// New returns the backend whose models are the agents by their names, without a prefix.
func New(o Options) (*Agents, error) {
	o, err := o.complete()
	return &Agents{o}, err
}

func (o Options) complete() (Options, error) {
	if o.Engine == nil || o.Tools == nil {
		return o, errors.New("agents behind the OpenAI-compatible door need an engine and the tools of callers")
	}
	if o.Doubt <= 0 {
		o.Doubt = 10 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// maxModels bounds how many agents are listed.
const maxModels = 1000

// contextLength is the length that agents tell to clients, in tokens. An agent keeps its own history and gets the newest words alone, so
// that a client need not shorten what it sends.
const contextLength = 1_000_000

// Models implements [upstream.Upstream]: all agents that take turns and whose name is theirs alone.
func (b *Agents) Models(ctx context.Context) ([]upstream.Model, error) {
	var list []upstream.Model
	err := b.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		list = nil
		all, err := tx.Agents(bridge.AgentFilter{Known: true, Limit: maxModels})
		named := map[string]int{}
		for _, a := range all {
			named[a.Name]++
		}
		for _, a := range all {
			if named[a.Name] == 1 && !gone(a) {
				list = append(list, upstream.Model{ID: a.Name, Owner: "drawbridge", Created: a.CreatedAt, Context: contextLength})
			}
		}
		return err
	})
	slices.SortFunc(list, func(a, b upstream.Model) int { return a.Created.Compare(b.Created) })
	return list, err
}

// gone reports an agent that takes no turns.
func gone(a bridge.Agent) bool {
	return a.Forgotten() || a.Quarantined || a.External == "" && a.State == bridge.AgentFailed
}

// Start implements [upstream.Upstream].
func (b *Agents) Start(ctx context.Context, r upstream.Request) (upstream.Turn, error) {
	a, err := b.o.Engine.FindAgent(ctx, r.Model)
	if bridge.KindOf(err) == bridge.NotFound || err == nil && a.Forgotten() {
		return nil, noModel("the bridge has no agent " + words.SafeWord(r.Model) + "; GET /v1/models lists the agents that this token may use")
	}
	if err != nil {
		return nil, refused(err)
	}
	return b.o.begin(ctx, r, func(said engine.Words) (bridge.Turn, error) { return b.o.Engine.SayAs(ctx, a.ID, said) }, a.Silent())
}

// Resume implements [upstream.Upstream].
func (b *Agents) Resume(ctx context.Context, r upstream.Request, ref string) (upstream.Turn, error) {
	return b.o.resume(ctx, r, ref)
}

func noModel(message string) *upstream.Error {
	return &upstream.Error{Status: http.StatusNotFound, Type: "not_found_error", Code: "model_not_found", Param: "model", Message: message, NothingHappened: true}
}

// begin says the newest words of a request, in a turn of its own, and returns that turn. A repeat says nothing.
func (o Options) begin(ctx context.Context, r upstream.Request, say func(engine.Words) (bridge.Turn, error), silent bool) (upstream.Turn, error) {
	id := turnID(r)
	there, err := o.turn(ctx, id)
	if err != nil {
		return nil, refused(err)
	}
	var ex *exchange
	if there.ID == "" {
		n, err := newest(r)
		if err != nil {
			return nil, err
		}
		if err := checkHistory(ctx, r); err != nil {
			return nil, err
		}
		if ex, err = o.Tools.begin(ctx, id, r); err != nil {
			return nil, err
		}
		said := engine.Words{Turn: id, Text: n.text}
		if !n.operator {
			said.Author, said.Text = author(r), outside(r, n.text, silent, ex)
		}
		if there, err = say(said); err != nil {
			ex.close()
			return nil, refused(err)
		}
	} else if ex, err = o.Tools.reopen(ctx, id, r.State); err != nil {
		return nil, err
	}
	return newTurn(o, there, ex), nil
}

// turn loads a turn; the zero turn when there is none.
func (o Options) turn(ctx context.Context, id bridge.TurnID) (t bridge.Turn, err error) {
	err = o.Engine.View(ctx, func(tx *bridge.Scene) (err error) {
		if t, err = tx.Turn(id); errors.Is(err, bridge.ErrNoRow) {
			return nil
		}
		return err
	})
	return t, err
}

// resume takes up a turn that an earlier process said.
func (o Options) resume(ctx context.Context, r upstream.Request, ref string) (upstream.Turn, error) {
	id := bridge.TurnID(ref)
	if id == "" { // the process ended before it recorded the reference
		id = turnID(r)
	}
	there, err := o.turn(ctx, id)
	if err != nil {
		return nil, refused(err)
	}
	if there.ID == "" {
		return nil, &upstream.Error{Status: http.StatusBadRequest, Type: "upstream_error", Code: "turn_gone", NothingHappened: true,
			Message: "the bridge stopped before the agent got the turn; send the request again"}
	}
	ex, err := o.Tools.reopen(ctx, there.ID, r.State)
	if err != nil {
		return nil, err
	}
	return newTurn(o, there, ex), nil
}

// turnMark begins the ids of turns that this door gives to agents. The ids of all other turns have a time behind trn_, which begins with a digit.
const turnMark = "trn_oai"

// turnID derives the id of the agent's turn from that of the door's.
func turnID(r upstream.Request) bridge.TurnID {
	sum := sha256.Sum256([]byte("drawbridge turn\n" + r.Session + "\n" + r.Turn))
	return turnMark + bridge.TurnID(hex.EncodeToString(sum[:13]))
}

// author names the caller in holds and events.
func author(r upstream.Request) string { return "the caller " + r.Token }

// refused words an error of the engine for a caller.
func refused(err error) error {
	var own *upstream.Error
	if errors.As(err, &own) {
		return err
	}
	e := &upstream.Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: plain(bridge.SafeMessage(err)), NothingHappened: true}
	switch bridge.KindOf(err) {
	case bridge.Invalid, bridge.TooLarge:
	case bridge.Conflict:
		e.Type, e.Code = "upstream_error", "agent_unavailable" // 409 would be repeated
	case bridge.NotFound:
		return noModel(e.Message)
	case bridge.Denied:
		e.Status, e.Type, e.Code = http.StatusForbidden, "permission_error", "not_allowed"
	case bridge.Unavailable, bridge.RateLimited:
		e.Status, e.Type, e.RetryAfter = http.StatusServiceUnavailable, "server_error", bridge.RetryAfter(err)
	default:
		return err
	}
	return e
}

// plain is a sentence for a caller, who has neither the operator's commands nor his terminal.
func plain(text string) string { return words.SafeLine(words.ForAgent(text), 1000) }
