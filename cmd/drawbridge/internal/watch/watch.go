// Package watch tells a person, line by line, what the agents of a bridge do.
//
// It reads the timeline and the list of busy agents, as any operator can, and changes nothing. Rule of thumb: a line says who and what, and while
// an agent is busy no ten seconds pass without one.
package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/internal/pause"
)

// Options are what a [Watcher] is made of.
type Options struct {
	Client *api.Client
	// Say writes one line, and Last is when a line was written last, by this watcher or by anybody else. Both are safe for concurrent use.
	Say  func(line string)
	Last func() time.Time
	// Step writes one line about what an agent does in its turn. It is safe for concurrent use.
	Step func(line string)
	// Questions is true where somebody else shows the questions of agents.
	Questions bool
	// Only is the agent of which is told, "" for all.
	Only string
}

// Watcher tells what happens from its start on. It is safe for concurrent use.
type Watcher struct {
	o Options
	// began is when the watcher was made.
	began time.Time
	// after is the last event that was seen.
	after int64

	mu sync.Mutex // guards the fields below
	// own are the turns whose beginning and end somebody else tells.
	own map[string]bool
	// holds is true while a turn begins: kept are the events that are told once its id is known.
	holds bool
	kept  []api.Event
	// busy are the agents that were busy at the last look or whose turn began since, by id, and follows are those whose steps were asked for.
	busy    map[string]seen
	follows map[string]*following
}

// seen is what was told of a busy agent.
type seen struct {
	name, doing, trouble string

	since time.Time
	// began is when an event told of its turn, zero for an agent that was busy at a look.
	began time.Time
}

// New returns a watcher that has told nothing.
func New(o Options) *Watcher {
	return &Watcher{o: o, began: time.Now(), own: map[string]bool{}, busy: map[string]seen{}, follows: map[string]*following{}}
}

// Times of a watcher. A status line comes when nothing was said for quiet.
const (
	look  = 500 * time.Millisecond
	quiet = 9 * time.Second
	again = time.Second
)

// Start finds the end of the timeline, so that Run tells what comes later.
func (w *Watcher) Start(ctx context.Context) error {
	list, err := w.o.Client.History(ctx, api.EventOptions{Limit: 1})
	for _, e := range list.Events {
		w.after = e.Seq
	}
	return err // what happens at this very moment may be left out: people read it
}

// Run tells what happens until ctx ends. A bridge that is away is asked again.
func (w *Watcher) Run(ctx context.Context) error {
	var states sync.WaitGroup
	defer states.Wait()
	states.Go(func() { w.states(ctx) })
	states.Go(func() { w.steps(ctx) })
	for ctx.Err() == nil {
		err := w.o.Client.Follow(ctx, w.after, func(e api.Event) error {
			w.after = e.Seq
			w.tell(e, w.told(ctx, e))
			return nil
		})
		if err != nil && ctx.Err() == nil {
			if !bridge.Passing(err) { // the status lines go on
				w.o.Say("no further events are shown: " + err.Error())
				<-ctx.Done()
				break
			}
			_ = pause.For(ctx, again)
		}
	}
	return nil
}

// Own begins a turn, of which fn returns the id: its caller tells of the turn's beginning and end.
func (w *Watcher) Own(fn func() (turn string, err error)) error {
	w.mu.Lock()
	w.holds = true
	w.mu.Unlock()
	turn, err := fn()
	w.mu.Lock()
	w.own[turn], w.holds = err == nil, false
	kept := w.kept
	w.kept = nil
	w.mu.Unlock()
	for _, e := range kept {
		w.tell(e, false)
	}
	return err
}

// Busy are the names of the agents that had a turn at the last look, or whose turn began since.
func (w *Watcher) Busy() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.busy {
		all = append(all, s.name)
	}
	slices.Sort(all)
	return all
}

// tell tells an event. read is true where people have read the reply that it brings.
func (w *Watcher) tell(e api.Event, read bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.o.Only != "" && e.Name != w.o.Only:
		return
	case w.holds:
		w.kept = append(w.kept, e)
		return
	}
	switch _, known := w.busy[e.Agent]; {
	case e.Kind == bridge.EventTurn && !known:
		now := time.Now()
		w.busy[e.Agent] = seen{name: e.Name, since: now, began: now}
	case e.Kind == bridge.EventReply, e.Kind == bridge.EventTurnFailed:
		delete(w.busy, e.Agent)
	}
	if read && e.Kind == bridge.EventReply {
		w.o.Say("agent " + e.Name + " has ended its turn")
		return
	}
	if line := lineOf(e, w.own[e.Turn], w.o.Questions); line != "" {
		w.o.Say(line)
	}
}

// states tells what busy agents do.
func (w *Watcher) states(ctx context.Context) {
	for pause.For(ctx, look) == nil {
		asked := time.Now()
		if agents, err := w.agents(ctx); err == nil {
			w.compare(agents, asked)
		}
		w.status(time.Now())
	}
}

// agents are those that are busy. A bridge that does not answer in time is asked again.
func (w *Watcher) agents(ctx context.Context) ([]api.Agent, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if w.o.Only == "" {
		list, err := w.o.Client.Agents(ctx, api.ListOptions{State: string(bridge.AgentBusy), Limit: 500})
		return list.Agents, err
	}
	a, err := w.o.Client.Agent(ctx, w.o.Only)
	switch {
	case bridge.KindOf(err) == bridge.NotFound: // it is about to be launched
		return nil, nil
	case err != nil:
		return nil, err
	case a.State != string(bridge.AgentBusy):
		return nil, nil
	}
	return []api.Agent{a}, nil
}

// status says what the busy agents do when nothing was said for a time.
func (w *Watcher) status(now time.Time) {
	if all := w.Doing(now); len(all) > 0 && now.Sub(w.o.Last()) >= quiet {
		w.o.Say(strings.Join(all, "; "))
	}
}

// Doing says of each busy agent what it does, and for how long, by name.
func (w *Watcher) Doing(now time.Time) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.busy {
		all = append(all, fmt.Sprintf("%s %s (%s)", s.name, present(s.doing), max(0, now.Sub(s.since)).Round(time.Second)))
	}
	slices.Sort(all)
	return all
}

// compare tells what is new about the agents that were busy when the bridge was asked.
func (w *Watcher) compare(agents []api.Agent, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.busy
	w.busy = map[string]seen{}
	for id, s := range before {
		if s.began.After(asked) { // this look does not know of the turn
			w.busy[id] = s
		}
	}
	for _, a := range agents {
		was := before[a.ID]
		is := seen{name: a.Name, doing: a.Doing, trouble: a.Trouble, since: asked}
		switch {
		case a.DoingSince != nil && a.Doing != "":
			is.since = *a.DoingSince
		case was.doing == is.doing && !was.since.IsZero():
			is.since = was.since
		}
		w.busy[a.ID] = is
		if words := news[bridge.Doing(is.doing)]; words != "" && is.doing != was.doing && (is.doing != string(bridge.DoingWorking) || was.doing == string(bridge.DoingStarting)) {
			w.o.Say(fmt.Sprintf("agent %s %s", a.Name, words))
		}
		if is.trouble != "" && is.trouble != was.trouble {
			w.o.Say(fmt.Sprintf("agent %s: %s", a.Name, is.trouble))
		}
	}
}

// news are the states that are told when an agent comes to them. Events tell of the others.
var news = map[bridge.Doing]string{
	bridge.DoingStarting: "starts", bridge.DoingWorking: "works", bridge.DoingQueued: "waits on its machine", bridge.DoingSilent: "says nothing and runs no tool",
}

// present says in a status line what an agent does.
func present(doing string) string {
	switch bridge.Doing(doing) {
	case bridge.DoingStarting:
		return "starts"
	case bridge.DoingQueued:
		return "waits on its machine"
	case bridge.DoingSilent:
		return "says nothing"
	case bridge.DoingAsking:
		return "waits for an answer"
	case bridge.DoingNoModel:
		return "waits for the model"
	case bridge.DoingSleep:
		return "waits for the end of a limit"
	}
	return "works"
}

// causes say why an agent gets a turn.
var causes = map[string]string{
	string(bridge.CauseUser): "a person speaks to it", string(bridge.CauseCompletion): "a subagent has ended", string(bridge.CauseActionOutcome): "an action has ended",
	string(bridge.CauseMessage): "it has mail", string(bridge.CauseReminder): "a reminder is due", string(bridge.CauseReport): "the bridge reports what it did",
}

// lineOf is the line about an event, "" for one that people need not read. own is true for an event of a turn of which somebody else tells,
// questions where somebody else shows what agents ask.
func lineOf(e api.Event, own, questions bool) string {
	agent := "agent " + e.Name
	switch e.Kind {
	case bridge.EventLaunched:
		if own {
			return ""
		}
		return fmt.Sprintf("%s begins on %s (%s)", agent, e.Fields["repo"], e.Fields["runtime"])
	case bridge.EventTurn:
		why := causes[e.Fields["cause"]]
		if own || why == "" {
			return ""
		}
		return fmt.Sprintf("%s gets a turn: %s", agent, why)
	case bridge.EventCompleted:
		spent := api.SpentOf(e).String()
		if own || spent == "" {
			return ""
		}
		return fmt.Sprintf("the turn of %s took %s", agent, spent)
	case bridge.EventReply:
		switch {
		case own:
			return ""
		case strings.TrimSpace(e.Text) == "":
			return agent + " has ended its turn without a word"
		}
		return fmt.Sprintf("%s answers: %s", agent, e.Text)
	case bridge.EventTurnFailed:
		if own {
			return ""
		}
		return fmt.Sprintf("the turn of %s failed: %s", agent, e.Text)
	case bridge.EventStopped:
		if e.Turn != "" { // the turn fails soon
			return ""
		}
		return fmt.Sprintf("%s: stopped: %s", agent, e.Text)
	case bridge.EventHeld:
		if questions || e.Command == "" {
			return ""
		}
		return fmt.Sprintf("%s needs your approval: %s; see `drawbridge commands --state held`", agent, e.Text)
	case bridge.EventGranted, bridge.EventRefused, bridge.EventNearMiss, bridge.EventOverCap, bridge.EventExecuted, bridge.EventFailed, bridge.EventUncertain, bridge.EventAlarm,
		bridge.EventGated, bridge.EventRetry, bridge.EventAsleep, bridge.EventResumed, bridge.EventMessageCreated:
		return fmt.Sprintf("%s: %s: %s", agent, strings.ReplaceAll(e.Kind, "_", " "), e.Text)
	}
	return ""
}
