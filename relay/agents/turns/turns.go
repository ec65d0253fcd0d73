// Package turns says turns to the agents of this machine, each once, and keeps the record that proves it.
//
// It implements wire.AgentHost. It starts no process itself: a [Driver] does, package host for agents that speak the Agent Client Protocol.
// Git is package workspace's, and who may answer a question is the [Asker]'s. docs/adr/0026-turns-at-the-relay.md says what the record
// holds and what follows from it after a crash. Rule of thumb: a line is on the disk before anything follows from it.
package turns

import (
	"context"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
)

// Work is what an agent works on: which entry it is, for which session of the bridge, and where.
type Work struct {
	// Agent is the entry of relay.yaml, and Session the bridge's name of the conversation.
	Agent, Session string
	// Turn is the id of the turn that runs; it is empty where none runs.
	Turn string
	// Dir is the absolute folder in which the agent works; ReadOnly means that it may change nothing there.
	Dir      string
	ReadOnly bool
}

// Asker answers the permission questions of agents.
type Asker interface {
	// Ask answers one question of a running turn. It may take as long as a person: the turn's time stands still meanwhile. ctx is done when
	// nobody waits for the answer any more, because the turn was stopped or the question was open for ask_hold; the question
	// itself may stay open then, for the next turn. It is safe for concurrent use.
	Ask(ctx context.Context, w Work, q acp.Question) acp.Reply
}

// Teller is an Asker that outlives the process of an agent. It is safe for concurrent use.
type Teller interface {
	// Tell returns what a turn of the session says about earlier questions, "" for nothing. The host calls told when the agent has got it.
	Tell(session string) (text string, told func())
	// Ended says that a turn ended with an answer, so that the agent itself knows what became of its questions.
	Ended(session, turn string)
}

// Door gives the process of an agent its MCP servers.
type Door interface {
	// Open returns the servers for one process, which is about to start. The host calls close when the process has ended. An error keeps the
	// process from starting. It is safe for concurrent use.
	Open(ctx context.Context, w Work) (servers []acp.MCPServer, close func(), err error)
}

// Driver opens conversations with the agents of one kind.
type Driver interface {
	// Open prepares a conversation, and starts the agent where its process lives longer than a turn. ctx bounds the opening alone. An error
	// is an *agents.Error: SessionGone for a session that the agent does not know, LoginMissing where that shows.
	Open(ctx context.Context, o Opening) (Conversation, error)
}

// Opening is what a conversation begins with.
type Opening struct {
	Work
	// Resume is the agent's own id of the session to go on with, "" to begin one.
	Resume string
	// Replay asks for what the agent has in the session. A driver that cannot bring it says so in [Conversation.Replay].
	Replay bool
	// Last are words of the last message that the session got, "" for none; see [acp.Start].
	Last string
	MCP  []acp.MCPServer
	// Put writes a file for the agent into its folder, as workspace.Space.Put does. Nil where the folder is not one of the relay's.
	Put func(ctx context.Context, name string, data []byte) error
	// Ask answers a question of the turn that runs.
	Ask func(ctx context.Context, q acp.Question) acp.Reply
	// Named gets the agent's own id of the session, once and before the agent does anything in a turn if that can be. Its error ends the turn.
	Named func(id string) error
	// Tell gets each step of the turns while it happens, for people who watch; nil for nobody. It returns at once, and calls nothing of the conversation.
	Tell func(agents.Step)
}

// Conversation is one session of an agent. One turn runs at a time.
type Conversation interface {
	// Replay is what the agent had in the session when it was opened, the oldest first. known is false where the agent cannot say it.
	Replay() (said []acp.Said, known bool)
	// Prompt says a turn and returns its answer. An error is an *agents.Error. When ctx is done the turn is cancelled and the error is the
	// cause of ctx if that is an *agents.Error; an answer that came all the same still counts.
	Prompt(ctx context.Context, text string) (acp.Answer, error)
	// Heard is when the agent gave the last sign of life; working is true while it runs a tool, and may be silent.
	Heard() (last time.Time, working bool)
	// Done is closed when the conversation cannot take another turn: its process has ended. For an agent with one process for each turn
	// that is so after each Prompt.
	Done() <-chan struct{}
	// Close ends the process with everything that it started, and returns when nothing of it is left. Twice is fine.
	Close()
}

// Belated is a [Conversation] whose agent may say something after the end of a turn.
type Belated interface {
	// Late returns such words, which are in no reply, and forgets them.
	Late() string
	// Belated gets a signal when there are such words.
	Belated() <-chan struct{}
}

// Orderly is a [Conversation] whose process ends with its turn.
type Orderly interface {
	// Orderly reports, after Close, whether the process ended in order, so that the agent had time to save its session.
	Orderly() bool
}
