package bridge

import "slices"

// AgentState says what an agent is doing.
type AgentState string

// The agent states. Waiting: its turn is over and something it asked for is
// not. Gated: it may not get a turn until a person speaks to it.
const (
	AgentIdle    AgentState = "idle"
	AgentBusy    AgentState = "busy"
	AgentWaiting AgentState = "waiting"
	AgentGated   AgentState = "gated"
	AgentDone    AgentState = "done"
	AgentFailed  AgentState = "failed"
)

// TurnState says how far a turn has come.
type TurnState string

// The turn states. Delivering is committed before the request leaves, so that
// a crash in between is seen as doubt and not as a turn that was never sent.
const (
	TurnQueued     TurnState = "queued"
	TurnDelivering TurnState = "delivering"
	TurnRunning    TurnState = "running"
	TurnReplied    TurnState = "replied"
	TurnFailed     TurnState = "failed"
	TurnUncertain  TurnState = "uncertain"
)

// Over reports whether nothing more will come of the turn by itself. A person may let a failed turn of an agent at a relay go on.
func (s TurnState) Over() bool { return s == TurnReplied || s == TurnFailed }

// CommandState says how far a command has come.
type CommandState string

// The command states. Uncertain is real and shown: the effect may have
// happened, and only a person or the other side can tell.
const (
	CommandParsed    CommandState = "parsed"
	CommandRefused   CommandState = "refused"
	CommandHeld      CommandState = "held"
	CommandGranted   CommandState = "granted"
	CommandSending   CommandState = "sending"
	CommandConfirmed CommandState = "confirmed"
	CommandFailed    CommandState = "failed"
	CommandUncertain CommandState = "uncertain"
	CommandFinished  CommandState = "finished"
	CommandReported  CommandState = "reported"
)

// Open reports whether something may still come of the command.
func (s CommandState) Open() bool {
	switch s {
	case CommandHeld, CommandGranted, CommandSending, CommandConfirmed, CommandUncertain:
		return true
	}
	return false
}

// AgentEdges, TurnEdges and CommandEdges are the whole state machines: a
// change that is not listed is refused by the store's callers. A state may
// always stay what it is.
var (
	AgentEdges = map[AgentState][]AgentState{
		AgentIdle:    {AgentBusy, AgentGated},
		AgentBusy:    {AgentIdle, AgentWaiting, AgentGated, AgentDone, AgentFailed},
		AgentWaiting: {AgentBusy, AgentGated, AgentIdle, AgentDone},
		AgentGated:   {AgentBusy, AgentIdle, AgentWaiting, AgentDone},
		AgentDone:    {AgentBusy, AgentGated},
		AgentFailed:  {AgentBusy, AgentIdle, AgentWaiting, AgentDone},
	}
	TurnEdges = map[TurnState][]TurnState{
		TurnQueued:     {TurnDelivering, TurnFailed},
		TurnDelivering: {TurnRunning, TurnQueued, TurnFailed, TurnUncertain},
		TurnRunning:    {TurnReplied, TurnFailed, TurnQueued, TurnUncertain},
		TurnUncertain:  {TurnRunning, TurnQueued, TurnFailed},
		TurnReplied:    {},
		TurnFailed:     {TurnQueued},
	}
	CommandEdges = map[CommandState][]CommandState{
		CommandParsed:    {CommandRefused, CommandHeld, CommandGranted, CommandFinished},
		CommandHeld:      {CommandGranted, CommandRefused},
		CommandGranted:   {CommandSending, CommandFailed},
		CommandSending:   {CommandConfirmed, CommandGranted, CommandFinished, CommandFailed, CommandUncertain, CommandRefused, CommandHeld},
		CommandConfirmed: {CommandFinished, CommandFailed},
		CommandUncertain: {CommandConfirmed, CommandFinished, CommandFailed},
		CommandRefused:   {CommandReported},
		CommandFailed:    {CommandReported},
		CommandFinished:  {CommandReported},
		CommandReported:  {},
	}
)

// CanBecome reports whether the agent's table allows the change.
func (s AgentState) CanBecome(next AgentState) bool {
	return s == next || slices.Contains(AgentEdges[s], next)
}

// CanBecome reports whether the turn's table allows the change.
func (s TurnState) CanBecome(next TurnState) bool {
	return s == next || slices.Contains(TurnEdges[s], next)
}

// CanBecome reports whether the command's table allows the change.
func (s CommandState) CanBecome(next CommandState) bool {
	return s == next || slices.Contains(CommandEdges[s], next)
}
