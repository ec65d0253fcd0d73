package bridge

import (
	"context"
	"encoding/hex"
	"time"
)

// ItemID names one thing that one agent is to hear: 16 hex digits of a MAC. It is
// derived from what the thing is about, so that a bridge whose database was put
// back to an older copy gives the same thing the same id.
type ItemID string

// Origin says where the words of an item come from, in the words of the echo guard.
// The bridge's own words count as the operator's.
type Origin = EchoSource

// The origins.
const (
	OriginOperator = EchoOperator
	OriginTree     = EchoTree
	OriginOutside  = EchoOutside
)

// AuthorBridge is the author of what the bridge says itself.
const AuthorBridge = "bridge"

// Said is one item among a turn's own words: what a person or a launch says. Turn
// is the one that was to say it first.
type Said struct {
	Turn   TurnID `json:"turn"`
	Item   ItemID `json:"item"`
	Source Origin `json:"source"`
	Author string `json:"author,omitempty"`
}

// AnyItem stands for every item that was there before a turn's run began. The
// operator says so of a run whose prompt nobody can read.
const AnyItem ItemID = "*"

// Item derives the id of what an agent is told. The owner is the operation key of
// that agent's launch, so that the same news has another id for another agent.
func (k Keys) Item(owner string, about ...string) ItemID {
	return ItemID(hex.EncodeToString(k.Current.derive(append([]string{"item", owner}, about...)...)[:8]))
}

// Name is how a turn is named in what is derived from it: the vendor's id of its
// run or else the id that stands in its marker. Both outlive a restored database.
// An agent's first turn has neither in time, and there is one such turn only.
func (t Turn) Name() string {
	switch {
	case t.IsLaunch():
		return "launch"
	case t.Run != "":
		return t.Run
	}
	return string(t.ID)
}

// SentRun is one run that a Runtime shows of an agent, and what it was sent.
type SentRun struct {
	// Run is the vendor's id; empty at v0, which has none.
	Run string
	// Text is what was sent, marker and all; Shown is false when the Runtime does
	// not show it.
	Text  string
	Shown bool
	// Over says that the run has ended. v0 does not tell that of one message.
	Over bool
	// Begun is zero where the Runtime does not tell.
	Begun time.Time
}

// Transcriber is a Runtime that shows what its agents were sent. It is optional.
// Without it a restored database tells again what it has forgotten.
type Transcriber interface {
	// SentSince returns runs of r.Agent that came after r.Run, oldest first: at most
	// MaxSent of them, so call it again behind the last. r.Run "" at v0 is all.
	// NotFound when the agent is gone; other errors as for Observe. Safe for
	// concurrent use; twice is fine.
	SentSince(ctx context.Context, r RunRef) ([]SentRun, error)
}

// MaxSent is how many runs SentSince returns at v1; v0 returns all.
const MaxSent = 3

// Restored is the operator's word on runs that nobody can read after a database
// was put back: whether they told what the database holds. It holds for runs that
// began before At.
type Restored struct {
	Told bool
	At   time.Time
}

// Covers reports whether the word speaks of a run. One without a time began before.
func (r Restored) Covers(run SentRun) bool { return !r.At.IsZero() && !run.Begun.After(r.At) }
