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

// MemoryTx keeps agents' memory. Every look-up is one agent's: there is none over all.
type MemoryTx interface {
	// PutBlock stores the next version of a block, 1 for a new one. It fails with a
	// Conflict error when another version is next. Versions that are
	// KeptVersions behind are let go.
	PutBlock(b Block) error
	Block(agent AgentID, label string) (Block, error)
	// Blocks returns an agent's blocks by label, in the order of its bytes.
	Blocks(agent AgentID) ([]Block, error)
	// BlockVersions returns versions of a block, newest first, the present one included. Limit 0 means 100.
	BlockVersions(agent AgentID, label string, limit int) ([]Block, error)
	// InsertPassage gives the passage the agent's next Seq, which is at least how
	// many passages it has, and returns it.
	InsertPassage(p Passage) (int64, error)
	// DropBlock takes a block away with all its versions, and DropPassage a
	// passage; false when it is not there. What comes next under the label is version 1.
	DropBlock(agent AgentID, label string) (bool, error)
	DropPassage(agent AgentID, id PassageID) (bool, error)
	// CountPassages counts an agent's passages, which takes time that grows with them.
	CountPassages(agent AgentID) (int64, error)
	// DropVersions deletes the earlier versions of a block; the present one stays.
	DropVersions(agent AgentID, label string) error
	// MemoryBytes returns the bytes that an agent's memory holds: the contents of its
	// passages with their tags, and of its blocks with all kept versions. It
	// reads one row.
	MemoryBytes(agent AgentID) (int64, error)
	// SearchPassages returns what matches, the best first and among equals the newest;
	// the newest when the query asks for no words. While no more than SearchPool
	// match, every store gives the same answer. Of more it compares the SearchPool best
	// by its own measure, among the newest SearchNewest. Invalid for too many words.
	SearchPassages(q PassageQuery) ([]Passage, error)
}

// The bounds of a search, so that a word which stands everywhere costs no more
// than others do.
const (
	SearchPool   = 200
	SearchNewest = 2000
)
