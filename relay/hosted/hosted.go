// Package hosted is the Runtime of agents that a relay hosts on a person's machine. It says turns to them over the relay's
// connection and reads their ends; it decides nothing, and it keeps nothing that a restart may lose: the relay's record does.
// Rule of thumb: a turn has one id wherever it is asked for, so that the relay says it once.
package hosted

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"drawbridge/bridge"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// Turns brings turns to relays; *hub.Hub does.
type Turns interface {
	RunTurn(ctx context.Context, t hub.TurnCall) (wire.TurnEnded, error)
	LookupTurn(ctx context.Context, t hub.TurnCall) (wire.TurnFound, error)
	StopTurn(ctx context.Context, t hub.TurnCall) (wire.TurnFound, error)
	PeekTurn(ctx context.Context, t hub.TurnCall) (string, error)
}

// Options configures a Runtime. Turns, Relay and Agent are required.
type Options struct {
	Turns Turns
	// Relay is the relay's name, and Agent the entry below agents in its own file.
	Relay, Agent string
	// Taken bounds how long a relay may take to confirm that it has a turn; default 1 minute. After that the turn is in doubt.
	Taken time.Duration
	// Poll is how often Follow asks at first where nobody waits for the turn's end in this process; default 250 ms.
	Poll time.Duration
	// Now is injected; the default is the clock.
	Now func() time.Time
}

// Runtime is one entry of one relay. Its methods are safe for concurrent use. Run must run beside them.
type Runtime struct {
	o Options

	mu    sync.Mutex // guards the fields below
	ctx   context.Context
	waits map[string]*wait
	// ends are the turns whose ends are kept, oldest first.
	ends []string
	// refusals are those that came after the relay had said that it has the turn. Its record holds nothing of such a turn.
	refusals map[string]wire.TurnEnded
	all      sync.WaitGroup
}

var (
	_ bridge.Runtime  = (*Runtime)(nil)
	_ bridge.Follower = (*Runtime)(nil)
)

// New returns a Runtime that refuses all calls until Run.
func New(o Options) *Runtime {
	if o.Taken == 0 {
		o.Taken = time.Minute
	}
	if o.Poll == 0 {
		o.Poll = 250 * time.Millisecond
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Runtime{o: o, waits: map[string]*wait{}}
}

// Place returns the relay that hosts the agents, and the entry in its file. Questions of such an agent count from that relay alone.
func (r *Runtime) Place() (relay, entry string) { return r.o.Relay, r.o.Agent }

// SettleTime implements runtimes.Settler: the relay's record says at once whether it has a turn, and a turn that is sent again has the
// same id.
func (r *Runtime) SettleTime() time.Duration { return 0 }

// Run lets turns be waited for until ctx ends. A turn that is under way then goes on at the relay, and its end is read later.
func (r *Runtime) Run(ctx context.Context) error {
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.ctx = nil
	r.mu.Unlock()
	r.all.Wait()
	return nil
}

// Launch implements bridge.Launcher. It says the first turn of a new session, and returns when the relay has the turn.
func (r *Runtime) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	if !l.Grant.Valid() {
		return bridge.Started{}, bridge.Errorf(bridge.Denied, "launch agent: the policy has not allowed this launch")
	}
	call := r.first(l)
	call.Ask.Home = homeOf(l)
	if err := call.Ask.Home.Check(); err != nil {
		return bridge.Started{}, bridge.Errorf(bridge.Invalid, "%s; choose another workspace_subdir", err)
	}
	call.Ask.Text = call.Ask.Marker + "\n" + l.Grant.Prompt()
	return r.begin(ctx, call)
}

// first names the first turn of a launch's session.
func (r *Runtime) first(l bridge.Launch) hub.TurnCall {
	return r.call(l.AgentID, firstID(l.AgentID), firstMarker(l.AgentID))
}

// FindLaunch implements bridge.Launcher.
func (r *Runtime) FindLaunch(ctx context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	return r.find(ctx, r.first(l))
}

// Send implements bridge.Sender. It returns when the relay has the turn.
func (r *Runtime) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	call := r.next(f)
	call.Ask.Text = call.Ask.Marker + "\n" + f.Text
	return r.begin(ctx, call)
}

// next names a later turn. Its id is made of all that would make it another turn, so that a repeat meets its earlier self.
func (r *Runtime) next(f bridge.FollowUp) hub.TurnCall {
	sum := sha256.Sum256([]byte(strings.Join([]string{f.Agent, f.LastRun, f.Marker, f.Text}, "\x00")))
	return r.call(f.Agent, "turn-"+hex.EncodeToString(sum[:20]), or(f.Marker, firstMarker(f.Agent)))
}

// FindSend implements bridge.Sender.
func (r *Runtime) FindSend(ctx context.Context, f bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	c := r.next(f)
	s, found, err := r.find(ctx, c)
	if err != nil || found != bridge.FoundAbsent {
		return s, found, err
	}
	known, err := r.lookUp(ctx, c)
	switch {
	case err != nil:
		return bridge.Started{}, bridge.FoundUnknown, err
	case known.Known == wire.TurnKnownNot: // the turn was not said, and never will be
		return bridge.Started{}, bridge.FoundUnknown, r.gone("")
	}
	return s, found, nil
}

func (r *Runtime) call(session, id, marker string) hub.TurnCall {
	return hub.TurnCall{Relay: r.o.Relay, ID: id, Ask: wire.TurnAsk{Agent: r.o.Agent, Session: session, Marker: marker}}
}

func (r *Runtime) of(ref bridge.RunRef) hub.TurnCall {
	return r.call(ref.Agent, or(ref.Run, firstID(ref.Agent)), or(ref.Marker, firstMarker(ref.Agent)))
}

// firstID is the id of a session's first turn. A launch that a person settled names no run.
func firstID(session string) string { return session + ".1" }

// firstMarker marks the first turn of a session, also where a limit cut it off and it goes on in another turn.
func firstMarker(session string) string { return "[bridge " + session + "]" }

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func started(c hub.TurnCall) bridge.Started {
	return bridge.Started{Agent: c.Ask.Session, Run: c.ID, Repo: c.Ask.Home.Repo}
}

// begin has a turn said and returns when the relay has it, or when it has ended.
func (r *Runtime) begin(ctx context.Context, c hub.TurnCall) (bridge.Started, error) {
	if err := ctx.Err(); err != nil {
		return bridge.Started{}, &bridge.Error{Kind: bridge.Unavailable, Message: "the caller stopped waiting, so the bridge did not send the turn", Cause: err}
	}
	r.forgetRefusal(c.ID) // an earlier try's
	w, err := r.waitFor(c)
	if err != nil {
		return bridge.Started{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Taken)
	defer cancel()
	pause := time.Millisecond
	for {
		select {
		case <-w.done:
			return started(c), r.taken(c, w)
		case <-ctx.Done():
			return bridge.Started{}, &bridge.Error{Kind: bridge.Unavailable, Unclear: true, Cause: context.Cause(ctx),
				Message: fmt.Sprintf("relay %q did not confirm that it has the turn; the agent may have got it", r.o.Relay)}
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
		if found, err := r.o.Turns.LookupTurn(ctx, c); err == nil && found.Known == wire.TurnKnownOpen {
			return started(c), nil
		}
	}
}

// taken returns why the end of a wait is not the end of a turn that was said; nil when it is one.
func (r *Runtime) taken(c hub.TurnCall, w *wait) error {
	switch {
	case w.err != nil:
		r.drop(c.ID, w)
		return w.err
	case w.end.Refusal != "":
		r.drop(c.ID, w)
		r.forgetRefusal(c.ID) // it is said here
		return r.refused(w.end)
	case w.end.Cause == wire.TurnSessionGone:
		r.drop(c.ID, w)
		return r.gone(w.end.Error)
	}
	return nil
}

// gone is the error of a turn for a session that the relay does not have.
func (r *Runtime) gone(why string) error {
	return bridge.Errorf(bridge.NotFound, "relay %q no longer has the session of this agent%s", r.o.Relay, because(why))
}

// because quotes a relay's words, which are not trusted.
func because(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %+.300q", text)
}

// refused turns a relay's refusal into an error. The agent got nothing of that turn.
func (r *Runtime) refused(end wire.TurnEnded) error {
	e := bridge.Errorf(bridge.Denied, "relay %q refused the turn (%s)%s", r.o.Relay, end.Refusal, because(end.Error))
	e.RetryAfter = r.wait(end)
	switch end.Refusal {
	case wire.RefusedBusy:
		e.Kind = bridge.Busy
	case wire.RefusedRate:
		e.Kind = bridge.RateLimited
	case wire.RefusedStopped:
		e.Kind, e.RetryAfter = bridge.Unavailable, max(e.RetryAfter, time.Minute) // a person at the machine switches it on again
	case wire.RefusedConflict:
		e.Kind = bridge.Conflict
	case wire.RefusedInvalid:
		e.Kind = bridge.Invalid
	}
	if e.RetryAfter > 0 && !bridge.Passing(e) {
		e.Kind = bridge.Unavailable
	}
	return e
}

// wait is how long the relay asks us to wait before another try, 0 when it does not say.
func (r *Runtime) wait(end wire.TurnEnded) time.Duration {
	wait := time.Duration(end.RetryMS) * time.Millisecond
	if end.Until > 0 {
		wait = max(wait, time.UnixMilli(end.Until).Sub(r.o.Now()))
	}
	return wait
}

// find asks the relay's record for a turn whose answer was lost.
func (r *Runtime) find(ctx context.Context, c hub.TurnCall) (bridge.Started, bridge.Found, error) {
	c.Doubt = true
	found, err := r.lookUp(ctx, c)
	switch {
	case err != nil:
		return bridge.Started{}, bridge.FoundUnknown, err
	case found.Known == wire.TurnKnownOpen, found.Known == wire.TurnKnownEnded && found.Ended.Refusal == "":
		return started(c), bridge.FoundThere, nil
	case r.onItsWay(c.ID):
		return bridge.Started{}, bridge.FoundUnknown, bridge.Errorf(bridge.Unavailable, "the turn is still on its way to relay %q", r.o.Relay)
	case found.Known == wire.TurnKnownAbsent, found.Known == wire.TurnKnownEnded:
		return bridge.Started{}, bridge.FoundAbsent, nil
	}
	return bridge.Started{}, bridge.FoundUnknown, nil
}

// lookUp asks the relay's record. What it does not answer is not in doubt for that: a look-up changes nothing.
func (r *Runtime) lookUp(ctx context.Context, c hub.TurnCall) (wire.TurnFound, error) {
	if err := ctx.Err(); err != nil {
		return wire.TurnFound{}, &bridge.Error{Kind: bridge.Unavailable, Message: "the caller stopped waiting, so the bridge did not look up the turn", Cause: err}
	}
	found, err := r.o.Turns.LookupTurn(ctx, c)
	if bridge.IsUnclear(err) {
		err = &bridge.Error{Kind: bridge.Unavailable, Message: bridge.SafeMessage(err), Cause: err}
	}
	return found, err
}

// homeOf says where the agent of a launch works.
func homeOf(l bridge.Launch) wire.Home {
	own := HomeName(l.Name, l.AgentID)
	if w := l.Within; w != nil {
		return wire.Home{Name: own, Within: HomeName(w.Name, w.AgentID), Subdir: w.Subdir, ReadOnly: l.ReadOnly}
	}
	return wire.Home{Name: own, Repo: string(l.Grant.Repo()), Ref: l.Ref, ReadOnly: l.ReadOnly}
}

// HomeName names an agent's workspace. Names of forgotten agents are given again, so that a part of the session's id belongs to it.
func HomeName(name, session string) string {
	return or(clean(name, 40), "agent") + "-" + clean(session[max(0, len(session)-6):], 6)
}

// clean keeps what a workspace's name may hold.
func clean(s string, most int) string {
	kept := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return -1
	}, strings.ToLower(s))
	kept = strings.TrimLeft(kept, "-_")
	return kept[:min(len(kept), most)]
}
