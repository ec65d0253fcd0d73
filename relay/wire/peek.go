package wire

import (
	"context"
	"errors"
)

// TurnPeekPath stands in the signature of a question about workspaces or about steps. It counts for nothing else.
const TurnPeekPath = "/turn/peek"

// Bounds of a question about workspaces, in bytes.
const (
	// MaxPeekFile is the largest file that a relay reads for its agent. Its base64 fits MaxBody.
	MaxPeekFile = 4 << 20
	maxPeekPath = 4096
	// MaxPeeked bounds the answer to a question about workspaces.
	MaxPeeked = 6 << 20
	// MaxSteps is how many steps an answer has at most.
	MaxSteps = 500
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
	// PeekLive asks for the latest steps of a session, see [Live].
	PeekLive PeekWhat = "live"
)

// Peek is a question about workspaces. A turn of any other use has the zero Peek.
type Peek struct {
	What PeekWhat `json:"what"`
	// Path belongs to PeekFile: relative to the folder in which the session works, or absolute and below it.
	Path string `json:"path,omitempty"`
	// After belongs to PeekLive: the number of the latest step that is known, 0 for none.
	After int64 `json:"after,omitempty"`
}

// Live answers PeekLive: what an agent did since a step, the oldest first.
type Live struct {
	// Turn is the id of the turn that is said now, "" for none.
	Turn  string `json:"turn,omitempty"`
	Steps []Step `json:"steps"`
	// Missed is true where steps before these are left out.
	Missed bool `json:"missed,omitempty"`
}

// Step is a thing that an agent did, in the agent's own words. It decides nothing.
type Step struct {
	// Seq numbers the steps of a relay. It grows, with gaps, also over a restart of the relay.
	Seq int64 `json:"seq"`
	// At is when it was heard, in milliseconds since 1970.
	At   int64  `json:"at"`
	Turn string `json:"turn"`
	// Kind is says, uses or fails. Tool is the kind of tool, or its name.
	Kind string `json:"kind"`
	Tool string `json:"tool,omitempty"`
	Text string `json:"text,omitempty"`
}

// check reports what no bridge writes. A turn that asks for UsePeek has a Peek, and no other turn has one.
func (p Peek) check(use TurnUse) error {
	switch {
	case (use == UsePeek) != (p != Peek{}):
		return errors.New("a turn must have a question about workspaces if it asks about them, and only then")
	case use != UsePeek:
		return nil
	case p.What != PeekAll && p.What != PeekState && p.What != PeekFile && p.What != PeekLive:
		return errors.New("the question about workspaces is not a known one")
	case (p.What == PeekFile) != (p.Path != ""):
		return errors.New("the question about workspaces must name a file if it asks for one, and only then")
	case p.After < 0 || p.After > 0 && p.What != PeekLive:
		return errors.New("the question about workspaces names a step without need")
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
		return errors.New("the answer to a question about workspaces must be either data or an error")
	}
	return errors.Join(checkText("the answer", p.Data, MaxPeeked), checkText("the error", p.Error, MaxLine))
}

// AgentPeeker is an [AgentHost] that answers questions about workspaces. Safe for concurrent use.
type AgentPeeker interface {
	// PeekTurn looks at workspaces until ctx ends. It changes nothing and starts no agent.
	PeekTurn(ctx context.Context, t Turn) Peeked
}
