package bridge

import "time"

// Block is memory that an agent always has in view: a text under a label, its
// own and replaced whole. One stands for each (agent, label).
type Block struct {
	Agent   AgentID
	Label   string
	Content string
	// Version counts what was written under the label, from 1.
	Version   int
	UpdatedAt time.Time
}

// PassageID is "psg_…".
type PassageID string

// Passage is memory that is searched: written once and never changed.
type Passage struct {
	ID    PassageID
	Agent AgentID
	// Seq numbers an agent's passages from 1.
	Seq     int64
	Content string
	// Tags are in the order in which the agent gave them.
	Tags      []string
	CreatedAt time.Time
}

// Size returns the bytes of the content and the tags.
func (p Passage) Size() (n int64) {
	for _, tag := range p.Tags {
		n += int64(len(tag))
	}
	return n + int64(len(p.Content))
}

// PassageQuery asks for passages of one agent. Package search says what matches.
type PassageQuery struct {
	Agent AgentID
	// Text is words of which each must be in the passage. It has no syntax. Empty lets all pass.
	Text string
	// Tags must all be on the passage, in these very words.
	Tags []string
	// Limit 0 means DefaultPassages.
	Limit int
}

// DefaultPassages is how many passages a search returns when nobody said.
const DefaultPassages = 10

// KeptVersions is how many versions of a block are kept, the present one included.
const KeptVersions = 1000

// The bounds of a search, so that a word which stands everywhere costs no more
// than others do.
const (
	SearchPool   = 200
	SearchNewest = 2000
)
