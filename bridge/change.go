package bridge

import (
	"context"
	"time"
)

// Change is one write transaction of the engine, in which agents may be told
// things. It is how services beside the engine (mail, memory, doors) write: what
// they record and the turn that follows from it are one commit. It is not for
// concurrent use and ends with the function that got it.
type Change struct {
	*Scene
	Teller
}

// Teller tells agents things within a step. It ends with the step.
type Teller interface {
	// Now is the transaction's time; NewID makes an id with a prefix such as "msg_".
	Now() time.Time
	NewID(prefix string) string
	// Notify leaves a notice for n.Agent, with an id and a time of its own, and gives the
	// agent a turn when it is free, unless n.Quiet. The turn that tells the notice
	// records what the agent may repeat out of it (package bridge/echo).
	Notify(n Notice) (NoticeID, error)
	// Conclude is Notify for what a subagent reports to its parent as the result of
	// its task: the task is done then, and the result may wait for those of others.
	Conclude(a Agent, n Notice) (NoticeID, error)
	// NoAnswer ends the wait for an answer to a letter and tells its sender why none
	// comes. The caller sees to it that the letter is awaited.
	NoAnswer(l Letter, why string) error
	// WithdrawFrom deletes the letters that wait for an agent and come from conversations
	// in which it is not a member any more.
	WithdrawFrom(agent AgentID) error
	// Rouse makes a quiet notice worth a turn, and gives its agent one when it is
	// free. A notice that a turn carries already stays as it is.
	Rouse(n Notice) error
	// Record appends a line to the timeline, which watchers see after the commit.
	Record(kind string, a Agent, ev Event) error
}

// Steps runs the steps of services beside the engine. Its methods are safe for concurrent use.
type Steps interface {
	// Change runs fn in one write transaction that is durable when Change returns
	// nil. fn runs again when it lacked rows, as in Store.Update; it must not block, and
	// leaves no trace when it returns an error. Hints name rows that it will look at.
	Change(ctx context.Context, fn func(Change) error, hints ...Need) error
	// View runs fn on a snapshot.
	View(ctx context.Context, fn func(*Scene) error) error
}
