package wire

import (
	"context"
	"errors"
)

// TurnPeekPath stands in the signature of a question about workspaces. It counts for nothing else.
const TurnPeekPath = "/turn/peek"

// Bounds of a question about workspaces, in bytes.
const (
	// MaxPeekFile is the largest file that a relay reads for its agent. Its base64 fits MaxBody.
	MaxPeekFile = 4 << 20
	maxPeekPath = 4096
	// MaxPeeked bounds the answer to a question about workspaces.
	MaxPeeked = 6 << 20
)

// PeekWhat is what a bridge wants to know of a relay's workspaces.
type PeekWhat string

// The questions. None of them changes a workspace or starts a program of an agent's.
const (
	// PeekAll asks for every workspace of the relay. The turn names neither an agent nor a session.
	PeekAll PeekWhat = "all"
	// PeekState asks for the workspace in which a session works.
	PeekState PeekWhat = "state"
	// PeekFile asks for a file below the folder in which a session works.
	PeekFile PeekWhat = "file"
)

// Peek is a question about workspaces. A turn of any other use has the zero Peek.
type Peek struct {
	What PeekWhat `json:"what"`
	// Path belongs to PeekFile: relative to the folder in which the session works, or absolute and below it.
	Path string `json:"path,omitempty"`
}

// check reports what no bridge writes. A turn that asks for UsePeek has a Peek, and no other turn has one.
func (p Peek) check(use TurnUse) error {
	switch {
	case (use == UsePeek) != (p != Peek{}):
		return errors.New("the turn asks about workspaces without a question, or has one beside another wish")
	case use != UsePeek:
		return nil
	case p.What != PeekAll && p.What != PeekState && p.What != PeekFile:
		return errors.New("the question about workspaces is not a known one")
	case (p.What == PeekFile) != (p.Path != ""):
		return errors.New("the question about workspaces names a file without need, or none")
	}
	return checkText("the file's path", p.Path, maxPeekPath)
}

// Peeked answers a [Peek]. Exactly one of Data and Error is set.
type Peeked struct {
	// Data is JSON, or the file in base64 with padding for PeekFile.
	Data string `json:"data,omitempty"`
	// Error says why the relay does not answer, and what to do. Missing is true where the relay has no workspace for the session.
	Error   string `json:"error,omitempty"`
	Missing bool   `json:"missing,omitempty"`
}

func (p *Peeked) check() error {
	switch {
	case p == nil:
		return nil
	case (p.Error == "") == (p.Data == "") || p.Missing && p.Error == "":
		return errors.New("a question about workspaces is answered in no way, or in two")
	}
	return errors.Join(checkText("the answer", p.Data, MaxPeeked), checkText("the error", p.Error, MaxLine))
}

// AgentPeeker is an [AgentHost] that answers questions about workspaces. Safe for concurrent use.
type AgentPeeker interface {
	// PeekTurn looks at workspaces until ctx ends. It changes nothing and starts no agent.
	PeekTurn(ctx context.Context, t Turn) Peeked
}
