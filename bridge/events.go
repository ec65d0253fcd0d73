package bridge

import (
	"slices"
	"strings"
	"time"
)

// Event is one line of the timeline: what happened, to whom, in words.
type Event struct {
	// Seq orders events; a reader resumes after the last one it saw.
	Seq   int64     `json:"seq"`
	At    time.Time `json:"time"`
	Kind  string    `json:"event"`
	Agent AgentID   `json:"agent,omitempty"`
	Name  string    `json:"agent_name,omitempty"`
	// Root is the top of the agent's tree.
	Root    AgentID           `json:"root,omitempty"`
	Turn    TurnID            `json:"turn,omitempty"`
	Command CommandID         `json:"command,omitempty"`
	Text    string            `json:"text,omitempty"`
	Fields  map[string]string `json:"fields,omitempty"`
}

// EventFilter selects events. The zero value selects all.
type EventFilter struct {
	// Before selects lower numbers.
	Before int64
	// Root selects a tree, and Agent one agent.
	Root, Agent AgentID
	// Kinds are kinds with a space between them.
	Kinds string
}

// Selects reports whether the filter selects an event.
func (f EventFilter) Selects(e Event) bool {
	return (f.Before == 0 || e.Seq < f.Before) && is(f.Root, e.Root) && is(f.Agent, e.Agent) && (f.Kinds == "" || slices.Contains(strings.Fields(f.Kinds), e.Kind))
}

// The event kinds.
const (
	EventAgent    = "agent"
	EventTurn     = "turn"
	EventReply    = "reply"
	EventGranted  = "granted"
	EventRefused  = "refused"
	EventHeld     = "held"
	EventApproved = "approved"
	EventDenied   = "denied"
	EventNearMiss = "near_miss"
	EventOverCap  = "over_cap"
	EventLaunched = "launched"
	EventExecuted = "executed"
	// EventJournal is what a relay's journal said after a person had settled the command.
	EventJournal    = "journal"
	EventCompleted  = "completed"
	EventDelivered  = "delivered"
	EventWebhook    = "webhook"
	EventDuplicate  = "duplicate"
	EventFailed     = "failed"
	EventUncertain  = "uncertain"
	EventAlarm      = "alarm"
	EventGated      = "gated"
	EventReminder   = "reminder"
	EventTurnFailed = "turn_failed"
	EventRetry      = "retry"
	// EventAsleep says until when an agent's account is limited, and EventAsking that an agent's process ended while a person was asked.
	EventAsleep    = "asleep"
	EventAsking    = "asking"
	EventParked    = "parked"
	EventJoined    = "joined"
	EventStopped   = "stopped"
	EventForgotten = "forgotten"
	EventResumed   = "resumed"
	EventCancelled = "cancelled"
	EventMemory    = "memory"
	EventThrottled = "throttled"
	// EventToken is a door token that was made or revoked.
	EventToken = "token"
	// EventOperator is what a person did that no other event tells of.
	EventOperator = "operator"
)

// EventKinds are all kinds, in the order of docs/reference/events.md.
var EventKinds = []string{
	EventAgent, EventLaunched, EventTurn, EventReply, EventCompleted, EventDelivered, EventRetry, EventTurnFailed, EventStopped, EventResumed, EventAsleep, EventAsking, EventGated, EventParked,
	EventJoined, EventForgotten,
	EventGranted, EventHeld, EventApproved, EventDenied, EventRefused, EventNearMiss, EventOverCap, EventExecuted, EventFailed, EventUncertain, EventJournal, EventReminder, EventCancelled,
	EventMessageCreated, EventMessageUpdated, EventMessageDeleted, EventReactionAdded, EventReactionRemoved, EventMemory,
	EventWebhook, EventDuplicate, EventToken, EventThrottled, EventOperator, EventAlarm,
}
