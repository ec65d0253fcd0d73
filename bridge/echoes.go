package bridge

import "time"

// EchoSource says whose words an agent heard.
type EchoSource string

// The sources. Tree is for words of agents, Outside for those of programs and everybody
// else. Operator's words may command and can be repeated by mistake.
const (
	EchoOperator EchoSource = "operator"
	EchoTree     EchoSource = "tree"
	EchoOutside  EchoSource = "outside"
)

// Echo is a record of words that an agent heard and may repeat as a command.
type Echo struct {
	Agent AgentID
	// Key tells the words from others that the agent heard.
	Key string
	// Digest is what may be repeated out of the words (package bridge/echo). It is empty
	// in records of before, whose Key is the policy's CommandKey of one command.
	Digest []byte
	Source EchoSource
	// Author and Place say for people who wrote the words and what they are, such as
	// "docs-bot" and "the result of docs-bot".
	Author, Place string
	// Turn told the words, empty for a tool's answer. Seq is its number, or that of the
	// agent's next turn.
	Turn TurnID
	Seq  int64
	// At is when the words were heard last.
	At time.Time
}

// EchoAge is an age at which echoes expire: those heard in a turn up to Seq and not after At.
type EchoAge struct {
	Seq int64
	At  time.Time
}

// How long an echo lasts: until so many later turns have ended and the time is over.
const (
	EchoTurns = 20
	EchoTime  = 24 * time.Hour
)

// ExpiredEchoes is the age that echoes have reached which last no longer in the turn
// with a number, at a time.
func ExpiredEchoes(seq int64, now time.Time) EchoAge {
	return EchoAge{Seq: seq - EchoTurns - 1, At: now.Add(-EchoTime)}
}
