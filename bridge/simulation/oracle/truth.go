package oracle

import (
	"strings"
	"time"

	"drawbridge/bridge"
)

// Truth is what the vendor has, as the cloud of the play keeps it.
type Truth struct {
	Agents []*Agent // in the order of their launches
	ByID   map[string]*Agent
	// Tells is what the cloud says of usage.
	Tells Telling
}

// Telling is what a cloud says of what its agents have used.
type Telling int

// What a cloud tells: tokens and cost at once, behind the truth, tokens alone, and neither.
const (
	TellsAll Telling = iota
	TellsLate
	TellsNoCost
	TellsNothing
)

// Agent is one agent of the vendor.
type Agent struct {
	ID, API string
	// Root is what the root of its tree was told first.
	Root string
	// Op is the bridge's id for it, which stands in the name of its branch.
	Op, Repo string
	// Hidden says that no look-up finds the agent.
	Hidden bool
	// Wrong is when the API began to report another repository, zero for never.
	Wrong   time.Time
	Webhook *bridge.Webhook
	// Sick says that a run of it broke for a reason that stays.
	Sick bool
	Runs []*Run
}

// Run is one run of an agent, whose end is settled when it begins.
type Run struct {
	Agent *Agent
	ID    string
	// Marker is empty for a first run and for somebody else's.
	Marker, Text string
	Foreign      bool
	Begun, Ends  time.Time
	// State is that of its end.
	State bridge.RunState
	// Token stands in its reply, so that it can be found wherever that is told.
	Token, Reply string
	// Oversize says that the API does not hand the reply out.
	Oversize bool
	Commands []*Line
	// Cost is in millionths of a dollar.
	Tokens, Cost int64
}

// Over reports whether a run has ended by a time.
func (r *Run) Over(now time.Time) bool { return !now.Before(r.Ends) }

// good reports whether what the run's text asks for may happen at all.
func (r *Run) good() bool {
	a := r.Agent
	return r.State == bridge.RunFinished && !r.Oversize && (a.Wrong.IsZero() || r.Ends.Before(a.Wrong))
}

// is reports whether a run is that of a turn.
func (r *Run) is(t bridge.Turn) bool {
	return r.Marker == t.Marker() || (t.Seq == 1 && r.Marker == "" && !r.Foreign)
}

// Active returns the run that goes on now, or nil.
func (a *Agent) Active(now time.Time) *Run {
	for _, r := range a.Runs {
		if !r.Over(now) {
			return r
		}
	}
	return nil
}

// Find returns the first run that matches, or nil.
func (a *Agent) Find(match func(*Run) bool) *Run {
	for _, r := range a.Runs {
		if match(r) {
			return r
		}
	}
	return nil
}

// Class is what the rules say about a line, known to who wrote it.
type Class string

// What becomes of a line when nothing goes wrong.
const (
	Granted   Class = "granted"
	Refused   Class = "refused"
	Approval  Class = "held for approval"
	Hourly    Class = "held once an hour"
	Duplicate Class = "held as a duplicate"
	Echo      Class = "held as an echo"
	OverCap   Class = "over the cap"
	Noted     Class = "noted"
)

// Line is one command line of a reply.
type Line struct {
	// Tag is what its effect will be known by: the prompt or the action's id.
	Tag   string
	Class Class
	// Run is nil for what the user tells an orchestrator first.
	Run *Run
	// silenced says that the operator stopped it before anybody read it.
	silenced bool
}

// Of returns the agent that the bridge's agent truly has, or nil. The operation's
// name is made from its key.
func (t *Truth) Of(a bridge.Agent) *Agent {
	for _, x := range t.Agents {
		if a.ID != "" && strings.HasPrefix(a.OpKey, x.Op) {
			return x
		}
	}
	return nil
}

// Arrived reports whether a turn has a run.
func (t *Truth) Arrived(owner bridge.Agent, turn bridge.Turn) bool {
	a := t.Of(owner)
	return a != nil && a.Find(func(r *Run) bool { return r.Marker == turn.Marker() }) != nil
}

// under returns the agents of a tree, the root first.
func (t *Truth) under(root string) (all []*Agent) {
	for _, a := range t.Agents {
		if a.Root == root {
			all = append(all, a)
		}
	}
	return all
}

// Deeds are what the user did and knows of it.
type Deeds struct {
	// Left are commands and turns that the user never comes back to.
	Left map[string]bool
	// Replays counts how often a turn of an agent that failed was sent again.
	Replays map[bridge.AgentID]int
	// Joins is how results of subagents come back to an agent since its launch or the last change.
	Joins map[bridge.AgentID]Waiting
	// Words are what agents were told, and by which turn it was to go out.
	Words map[string]bridge.Turn
}

// Waiting is how the results of one turn's subagents were to come back, in the user's words.
type Waiting struct {
	Join   bridge.Join
	Within time.Duration
	// accept is when the turn's reply was taken over.
	accept time.Time
}
