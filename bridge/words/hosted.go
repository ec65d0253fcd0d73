package words

import (
	"fmt"
	"time"

	"drawbridge/bridge"
)

// Again stands in events before the text of a turn: words for one that was cut off and that goes on now, nothing for any other.
var Again = map[bool]string{true: "the agent goes on with the turn that was cut off:\n"}

// endCauses say in words why a run ended, and what a person can do.
var endCauses = map[bridge.EndCause]string{
	bridge.CauseDeclined:     "the agent's model refused the turn",
	bridge.CauseHung:         "the agent said nothing for too long, or its turn took too long, so its machine ended the turn",
	bridge.CauseAsking:       "the process of the agent ended while the agent waited for a permission; the answer begins the agent's next turn",
	bridge.CauseSessionGone:  "the agent's session is gone on its machine; send the agent a message to begin a new session; the agent does not remember the earlier conversation; its work is still in its workspace there",
	bridge.CauseLoginMissing: "the agent's login is missing on its machine; log in there",
	bridge.CauseUnsaid:       "the agent did not get the turn",
}

// Ending is the end of a run on a machine, in words for a person.
type Ending bridge.Observation

// Failed says why the run of a turn did not end well, and what a person can do.
func (o Ending) Failed(turn bridge.TurnID) string {
	detail := ""
	if o.Detail != "" {
		detail = ": " + string(Name(o.Detail))
	}
	switch o.Cause { // lists show the beginning alone, and the detail says the most
	case bridge.CauseCrashed:
		return fmt.Sprintf("%s: the agent crashed or could not start%s%s", o.State, detail, goesOnBy(turn))
	case bridge.CauseFailed:
		return fmt.Sprintf("%s: the agent reported an error%s%s", o.State, detail, goesOnBy(turn))
	}
	text := fmt.Sprintf("the run ended with status %s", o.State)
	if why := endCauses[o.Cause]; why != "" {
		text += ": " + why
	}
	text += detail
	switch o.Cause {
	case bridge.CauseHung, bridge.CauseLoginMissing:
		text += goesOnBy(turn)
	}
	return text
}

// goesOnBy names the words that a person has for a turn.
func goesOnBy(turn bridge.TurnID) string {
	return fmt.Sprintf("; repair the cause, then run `drawbridge continue %s`, or say-again, or give-up", turn)
}

// Waits says why an agent gets nothing before a time.
func (o Ending) Waits(until time.Time) string {
	why := "the account of this agent is limited"
	if bridge.Observation(o).Unsaid() {
		why = "its machine did not take the turn"
	}
	if o.Detail != "" {
		why += " (" + string(Name(o.Detail)) + ")"
	}
	return fmt.Sprintf("%s; the turn waits until %s and goes on by itself then", why, until.UTC().Format("2006-01-02 15:04:05 MST"))
}

// Noted says what happened to a run that goes on, "" for nothing.
func Noted(o bridge.Observation) string {
	if o.Detail == "" {
		return ""
	}
	if o.Doing == bridge.DoingNoModel {
		return "the model does not answer, and the bridge asks it again: " + string(Name(o.Detail))
	}
	return "the agent's machine says: " + string(Name(o.Detail))
}
