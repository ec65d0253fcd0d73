package chatmodel

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/internal/tracing"
)

var (
	_ bridge.Runtime     = (*Runtime)(nil)
	_ bridge.Inspector   = (*Runtime)(nil)
	_ bridge.Transcriber = (*Runtime)(nil)
)

// Tools is the MCP door for agents in this process; see mcpserver.Door. Its methods are safe for concurrent use.
type Tools interface {
	// Offered returns what the door tells an agent, and its tools.
	Offered(ctx context.Context, agent bridge.AgentID) (about string, tools []bridge.ToolOffer, err error)
	// Call runs a tool once, however often it is called under one ID. After an error it may be called again.
	Call(ctx context.Context, agent bridge.AgentID, k bridge.ToolCall) (bridge.ToolReturn, error)
}

// The defaults of Options.
const (
	DefaultSteps       = 50
	DefaultTurnTimeout = 5 * time.Minute
	DefaultParallel    = 4
)

// Options configures a Runtime. Name, URL, Model, Steps and Tools are required.
type Options struct {
	// Name is that of the runtime in the configuration.
	Name string
	// URL is the endpoint's base, such as http://127.0.0.1:11434/v1, without a slash at the end.
	URL   string
	Model string
	// Key is sent as a bearer token and appears nowhere else; "" sends none.
	Key string
	// MaxSteps bounds how often a turn asks the model, default 50; TurnTimeout the time that it spends with the model and
	// tools, default 5 minutes. The wait for an endpoint that asks to wait does not count.
	MaxSteps    int
	TurnTimeout time.Duration
	// MaxTokens bounds one answer of the model, in tokens; 0 leaves it to the endpoint.
	MaxTokens int
	// Parallel bounds how many calls of the model this process makes at a time; default 4.
	Parallel int
	Steps    bridge.Steps
	Tools    Tools
	// Blocks returns the memory of an agent as its system prompt shows it; nil shows none.
	Blocks  func(*bridge.Scene, bridge.AgentID) (string, error)
	Tracing *tracing.Tracing
	// Now is the clock, and Rand spreads waits: numbers from 0 up to 1.
	Now  func() time.Time
	Rand func() float64
	Log  zerolog.Logger
}

// Runtime plays agents by a chat model. Its methods are safe for concurrent use. It starts nothing: Work does what is due, and
// the engine hands that out.
type Runtime struct {
	o        Options
	endpoint *endpoint
	// slots bounds the calls of the model under way.
	slots chan struct{}
	// firstWait is the wait after the first call of the model that failed.
	firstWait time.Duration

	mu sync.Mutex // guards stops
	// stops ends the work on a turn in this process.
	stops map[bridge.TurnID]context.CancelCauseFunc
}

// New checks the options. It sends nothing.
func New(o Options) (*Runtime, error) {
	if o.Name == "" || o.Model == "" || o.Steps == nil || o.Tools == nil || o.Now == nil || o.Rand == nil {
		return nil, errors.New("a chat model needs a name, a model, the steps of an engine, the door, a clock and random numbers")
	}
	o.MaxSteps, o.TurnTimeout, o.Parallel = cmp.Or(o.MaxSteps, DefaultSteps), cmp.Or(o.TurnTimeout, DefaultTurnTimeout), cmp.Or(o.Parallel, DefaultParallel)
	if o.Blocks == nil {
		o.Blocks = func(*bridge.Scene, bridge.AgentID) (string, error) { return "", nil }
	}
	e, err := newEndpoint(o)
	if err != nil {
		return nil, err
	}
	return &Runtime{o: o, endpoint: e, slots: make(chan struct{}, o.Parallel), firstWait: time.Second, stops: map[bridge.TurnID]context.CancelCauseFunc{}}, nil
}

// Launch implements bridge.Launcher. A second call under one owner returns the agent that is there.
func (r *Runtime) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	g := l.Grant
	if !g.Valid() || g.Repo() == "" || g.Prompt() == "" {
		return bridge.Started{}, bridge.Errorf(bridge.Denied, "launch agent: the policy has not allowed this launch")
	}
	if l.Owner == "" {
		return bridge.Started{}, bridge.Errorf(bridge.Invalid, "launch agent: it has no id")
	}
	if err := ctx.Err(); err != nil {
		return bridge.Started{}, unsent(err)
	}
	var turn bridge.TurnID
	err := r.o.Steps.Change(ctx, func(tx bridge.Change) (err error) {
		if turn, err = firstTurn(tx.Scene, l.Owner); err != nil {
			return err
		}
		return begin(tx, begun{Agent: l.Owner, Turn: turn, Runtime: r.o.Name, Name: l.Name, Repo: string(g.Repo()), Text: g.Prompt(), Launch: true})
	})
	if err != nil {
		return bridge.Started{}, unsent(err)
	}
	return bridge.Started{Agent: bridge.ChatAgent(l.Owner), Run: string(turn), Repo: string(g.Repo())}, nil
}

// unsent is the error of a step that began nothing, so that the engine tries again.
func unsent(err error) error {
	if bridge.KindOf(err) != "" {
		return err
	}
	return &bridge.Error{Kind: bridge.Unavailable, Message: "the turn could not be recorded", Cause: err}
}

// firstTurn is the turn that launches an agent.
func firstTurn(tx *bridge.Scene, agent bridge.AgentID) (bridge.TurnID, error) {
	turns, err := tx.Turns(bridge.TurnFilter{Agent: agent, Oldest: true, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(turns) == 0 {
		return "", bridge.Errorf(bridge.NotFound, "the agent %s has no turn", agent)
	}
	return turns[0].ID, nil
}

// FindLaunch implements bridge.Launcher; what it does not find did not happen.
func (r *Runtime) FindLaunch(ctx context.Context, l bridge.Launch) (s bridge.Started, found bridge.Found, err error) {
	found = bridge.FoundAbsent
	err = r.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		turn, err := firstTurn(tx, l.Owner)
		if bridge.KindOf(err) == bridge.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		now, err := loadRun(tx, turn)
		if err != nil || now == nil {
			return err
		}
		s, found = bridge.Started{Agent: bridge.ChatAgent(l.Owner), Run: string(turn), Repo: now.Repo}, bridge.FoundThere
		return nil
	})
	return s, found, err
}

// Send implements bridge.Sender.
func (r *Runtime) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	turn, ok := markedTurn(f.Marker)
	if !ok || f.Text == "" {
		return bridge.Started{}, bridge.Errorf(bridge.Invalid, "send follow-up: it needs a text, and the marker of a turn")
	}
	owner, ok := ownerOf(f.Agent)
	if !ok {
		return bridge.Started{}, unknown(f.Agent)
	}
	if err := ctx.Err(); err != nil {
		return bridge.Started{}, unsent(err)
	}
	var repo string
	err := r.o.Steps.Change(ctx, func(tx bridge.Change) error {
		first, err := launched(tx.Scene, owner, f.Agent)
		if err != nil {
			return err
		}
		repo = first.Repo
		if busy, err := atWork(tx.Scene, owner, turn); err != nil || busy {
			return errors.Join(err, bridge.Errorf(bridge.Busy, "send follow-up: the agent is in a turn"))
		}
		return begin(tx, begun{Agent: owner, Turn: turn, Runtime: r.o.Name, Name: first.Name, Repo: first.Repo, Text: f.Text})
	})
	if err != nil {
		return bridge.Started{}, unsent(err)
	}
	return bridge.Started{Agent: f.Agent, Run: string(turn), Repo: repo}, nil
}

// launched is the record of an agent's first turn, NotFound for an agent that was never launched here.
func launched(tx *bridge.Scene, owner bridge.AgentID, external string) (*run, error) {
	turn, err := firstTurn(tx, owner)
	if bridge.KindOf(err) == bridge.NotFound {
		return nil, unknown(external)
	}
	if err != nil {
		return nil, err
	}
	first, err := loadRun(tx, turn)
	if err == nil && first == nil {
		err = unknown(external)
	}
	return first, err
}

// atWork reports whether the latest run of an agent, but that of a turn, goes on.
func atWork(tx *bridge.Scene, owner bridge.AgentID, but bridge.TurnID) (bool, error) {
	turns, err := tx.Turns(bridge.TurnFilter{Agent: owner, Limit: 2})
	for _, t := range turns {
		if t.ID == but {
			continue
		}
		now, err := loadRun(tx, t.ID)
		return now != nil && now.end == nil, err
	}
	return false, err
}

// FindSend implements bridge.Sender; what it does not find did not happen.
func (r *Runtime) FindSend(ctx context.Context, f bridge.FollowUp) (s bridge.Started, found bridge.Found, err error) {
	turn, marked := markedTurn(f.Marker)
	owner, ok := ownerOf(f.Agent)
	if !ok {
		return s, bridge.FoundUnknown, unknown(f.Agent)
	}
	found = bridge.FoundAbsent
	err = r.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		if _, err := launched(tx, owner, f.Agent); err != nil || !marked {
			return err
		}
		now, err := loadRun(tx, turn)
		if err != nil || now == nil || now.Agent != owner {
			return err
		}
		s, found = bridge.Started{Agent: f.Agent, Run: string(turn), Repo: now.Repo}, bridge.FoundThere
		return nil
	})
	if err != nil {
		found = bridge.FoundUnknown
	}
	return s, found, err
}

// SettleTime implements runtimes.Settler: what a call did is in the record when it returns, and nothing of it comes later.
func (r *Runtime) SettleTime() time.Duration { return 0 }

// Observe implements bridge.Observer.
func (r *Runtime) Observe(ctx context.Context, ref bridge.RunRef) (o bridge.Observation, err error) {
	err = r.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		now, err := find(tx, ref)
		if err != nil {
			return err
		}
		o = bridge.Observation{State: bridge.RunRunning, Repo: now.Repo}
		if now.end != nil {
			o.State, o.Reply, o.Detail = now.end.State, now.end.Reply, now.end.Detail
			o.Duration = time.Duration(now.end.WorkedMS) * time.Millisecond
			o.Final = now.end.Stop == StopRefused
			return nil
		}
		if now, err = loadWhole(tx, now.Turn); err != nil {
			return err
		}
		if now.limit != nil {
			r.limited(&o, now.limit)
		}
		switch {
		case now.faults > 0:
			o.Doing, o.DoingSince, o.Detail = bridge.DoingNoModel, time.UnixMilli(now.down.AtMS).UTC(), now.why
		case now.down != nil && o.Doing == "": // it answers again
			o.Doing, o.DoingSince = bridge.DoingWorking, time.UnixMilli(now.down.AtMS).UTC()
		}
		return nil
	})
	return o, err
}

// limited says of a run that met a limit whether it waits for the end of the limit, and until when.
func (r *Runtime) limited(o *bridge.Observation, limit *faulted) {
	until := time.UnixMilli(limit.UntilMS).UTC()
	o.Doing, o.DoingSince = bridge.DoingWorking, until
	if until.After(r.o.Now()) {
		o.Doing, o.DoingSince, o.NotBefore, o.Detail = bridge.DoingSleep, time.UnixMilli(limit.AtMS).UTC(), until, limit.Message
	}
}

// find returns the run that a reference names, the latest without a run. NotFound for one that never was.
func find(tx *bridge.Scene, ref bridge.RunRef) (*run, error) {
	owner, ok := ownerOf(ref.Agent)
	if !ok {
		return nil, unknown(ref.Agent)
	}
	turn := bridge.TurnID(ref.Run)
	if turn == "" {
		turns, err := tx.Turns(bridge.TurnFilter{Agent: owner, Limit: 2})
		if err != nil {
			return nil, err
		}
		for _, t := range turns {
			if now, err := loadRun(tx, t.ID); err != nil || now != nil {
				return now, err
			}
		}
		return nil, unknown(ref.Agent)
	}
	now, err := loadRun(tx, turn)
	if err == nil && (now == nil || now.Agent != owner) {
		err = bridge.Errorf(bridge.NotFound, "the chat agent %+.60q has no run %+.60q", ref.Agent, ref.Run)
	}
	return now, err
}

// Cancel implements bridge.Observer.
func (r *Runtime) Cancel(ctx context.Context, ref bridge.RunRef) error {
	var turn bridge.TurnID
	err := r.o.Steps.Change(ctx, func(tx bridge.Change) error {
		now, err := find(tx.Scene, ref)
		if err != nil || now.end != nil {
			return err
		}
		if turn = now.Turn; turn != "" {
			now, err = loadWhole(tx.Scene, turn)
		}
		if err != nil {
			return err
		}
		if err := finish(tx, now, ended{State: bridge.RunCancelled, Stop: StopCancelled}); err != nil {
			return err
		}
		return tx.WakeLane(lane(now.Agent), tx.Now())
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop := r.stops[turn]; stop != nil && err == nil {
		stop(errEnded)
	}
	return err
}

// Inspect implements bridge.Inspector: what the agent's runs consumed, as far as its endpoints tell.
func (r *Runtime) Inspect(ctx context.Context, ref bridge.RunRef) (e bridge.Evidence, err error) {
	err = r.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		now, err := find(tx, ref)
		if err != nil || now.end == nil || !now.end.Metered {
			return err
		}
		e.Usage = &bridge.Usage{Tokens: now.end.Total}
		e.Spent = &bridge.Tokens{Input: now.end.Input, Output: now.end.Output, CacheRead: now.end.Cached}
		return nil
	})
	return e, err
}

// SentSince implements bridge.Transcriber. The record stands in the engine's own database, so that nothing is there that a
// restored copy does not know.
func (r *Runtime) SentSince(ctx context.Context, ref bridge.RunRef) ([]bridge.SentRun, error) {
	return nil, r.o.Steps.View(ctx, func(tx *bridge.Scene) error {
		_, err := find(tx, ref)
		return err
	})
}

func unknown(external string) error {
	return bridge.Errorf(bridge.NotFound, "the chat models have no agent %+.60q", external)
}

// ownerOf is the agent of an external id.
func ownerOf(external string) (bridge.AgentID, bool) {
	id, ok := strings.CutPrefix(external, bridge.ChatAgent(""))
	return bridge.AgentID(id), ok && id != ""
}

// markedTurn reads the turn out of a marker; see bridge.Turn.Marker.
func markedTurn(marker string) (bridge.TurnID, bool) {
	id, ok := strings.CutPrefix(marker, "[bridge ")
	id, closed := strings.CutSuffix(id, "]")
	return bridge.TurnID(id), ok && closed && id != "" && !strings.ContainsAny(id, " \r\n]")
}
