package sim

import (
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/relay/wire"
)

// truth is what the vendor has, as the cloud of the play keeps it.
type truth struct {
	agents []*cloudAgent // in the order of their launches
	byID   map[string]*cloudAgent
	// tells is what the cloud says of usage.
	tells telling
	// taken are the sessions that a relay has, also where their agents heard nothing yet.
	taken map[string]bool
	// questions are those of agents on relays, in the order in which they were asked.
	questions []*question
}

// telling is what a cloud says of what its agents have used.
type telling int

// What a cloud tells: tokens and cost at once, behind the truth, tokens alone, and neither.
const (
	tellsAll telling = iota
	tellsLate
	tellsNoCost
	tellsNothing
)

// cloudAgent is one agent of the vendor.
type cloudAgent struct {
	id, api string
	// root is what the root of its tree was told first.
	root string
	// op is the bridge's id for it, which stands in the name of its branch.
	op, repo string
	// hidden says that no look-up finds the agent.
	hidden bool
	// wrong is when the API began to report another repository, zero for never.
	wrong   time.Time
	webhook *bridge.Webhook
	// sick says that a run of it broke for a reason that stays.
	sick bool
	// host is the session of an agent on a relay, nil for one in the cloud, and movedTo the runtime to which the operator moved it.
	host    *session
	movedTo string
	runs    []*cloudRun
}

// cloudRun is one run of an agent, whose end is settled when it begins.
type cloudRun struct {
	agent *cloudAgent
	id    string
	// marker is empty for a first run and for somebody else's.
	marker, text string
	foreign      bool
	begun, ends  time.Time
	// state is that of its end.
	state bridge.RunState
	// token stands in its reply, so that it can be found wherever that is told.
	token, reply string
	// oversize says that the API does not hand the reply out.
	oversize bool
	// cause is why a run on a relay ended. lost says that its agent does not have the prompt, settled that a person said that it has.
	cause   wire.TurnCause
	lost    bool
	settled bool
	// halted says that a person had its turn go on after a person had stopped it.
	halted   bool
	commands []*commandLine
	// cost is in millionths of a dollar.
	tokens, cost int64
}

// over reports whether a run has ended by a time.
func (r *cloudRun) over(now time.Time) bool { return !now.Before(r.ends) }

// told reports whether a run counts as having told its agent what stood in it: one that ended in a question does, and one
// that a person settled so.
func (r *cloudRun) told() bool {
	return r.state == bridge.RunFinished || r.cause == wire.TurnAsking || r.settled
}

// cut reports whether a run was cut off after its agent had the prompt.
func (r *cloudRun) cut() bool {
	return (r.state == bridge.RunCancelled || r.cause == wire.TurnLimited) && r.cause != wire.TurnUnsaid && !r.lost
}

// good reports whether what the run's text asks for may happen at all.
func (r *cloudRun) good() bool {
	a := r.agent
	return r.state == bridge.RunFinished && !r.oversize && (a.wrong.IsZero() || r.ends.Before(a.wrong))
}

// is reports whether a run is that of a turn.
func (r *cloudRun) is(t bridge.Turn) bool {
	return r.marker == t.Marker() || (t.IsLaunch() && r.marker == "" && !r.foreign)
}

// lives reports whether an agent has any prompt. One whose relay was killed with it may have lost the only one, and a stop may come before
// that is said again. False for nil.
func (a *cloudAgent) lives() bool {
	return a != nil && a.find(func(r *cloudRun) bool { return !r.lost }) != nil
}

// active returns the run that goes on now, or nil.
func (a *cloudAgent) active(now time.Time) *cloudRun {
	for _, r := range a.runs {
		if !r.over(now) {
			return r
		}
	}
	return nil
}

// find returns the first run that matches, or nil.
func (a *cloudAgent) find(match func(*cloudRun) bool) *cloudRun {
	for _, r := range a.runs {
		if match(r) {
			return r
		}
	}
	return nil
}

// lineClass is what the rules say about a line, known to who wrote it.
type lineClass string

// What becomes of a line when nothing goes wrong.
const (
	classGranted   lineClass = "granted"
	classRefused   lineClass = "refused"
	classApproval  lineClass = "held for approval"
	classHourly    lineClass = "held once an hour"
	classDuplicate lineClass = "held as a duplicate"
	classEcho      lineClass = "held as an echo"
	classOverCap   lineClass = "over the cap"
	classNoted     lineClass = "noted"
)

// commandLine is one command line of a reply.
type commandLine struct {
	// tag is what its effect will be known by: the prompt or the action's id.
	tag   string
	class lineClass
	// run is nil for what the user tells an orchestrator first.
	run *cloudRun
	// silenced says that the operator stopped it before anybody read it.
	silenced bool
}

// of returns the agent that the bridge's agent truly has, or nil. The operation's
// name is made from its key.
func (t *truth) of(a bridge.Agent) *cloudAgent {
	for _, x := range t.agents {
		if a.ID != "" && strings.HasPrefix(a.OpKey, x.op) {
			return x
		}
	}
	return nil
}

// arrived reports whether a turn has a run.
func (t *truth) arrived(owner bridge.Agent, turn bridge.Turn) bool {
	a := t.of(owner)
	return a != nil && a.find(func(r *cloudRun) bool { return r.marker == turn.Marker() && !r.lost }) != nil
}

// under returns the agents of a tree, the root first.
func (t *truth) under(root string) (all []*cloudAgent) {
	for _, a := range t.agents {
		if a.root == root {
			all = append(all, a)
		}
	}
	return all
}

// deeds are what the user did and knows of it.
type deeds struct {
	// left are commands and turns that the user never comes back to.
	left map[string]bool
	// replays counts how often a turn of an agent that failed was sent again.
	replays map[bridge.AgentID]int
	// gaveUp are the tokens and the joined results in turns that were given up: nobody tells them again.
	gaveUp map[string]bool
	// joins is how results of subagents come back to an agent since its launch or the last change.
	joins map[bridge.AgentID]joinPolicy
	// words are what agents were told, and by which turn it was to go out.
	words map[string]bridge.Turn
	// moves are the runtimes to which agents were moved last.
	moves map[bridge.AgentID]string
}

// joinPolicy is how the results of one turn's subagents were to come back, in the user's words.
type joinPolicy struct {
	join   bridge.Join
	within time.Duration
	// accept is when the turn's reply was taken over.
	accept time.Time
}
