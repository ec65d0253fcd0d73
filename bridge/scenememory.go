package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// What look-ups of memory, tokens and run records need.
type (
	// NeedBlock is the block of a label.
	NeedBlock struct {
		needs
		Agent AgentID
		Label string
	}
	// NeedBlocks is an agent's blocks.
	NeedBlocks struct {
		needs
		Agent AgentID
	}
	// NeedVersions is the newest versions of a block.
	NeedVersions struct {
		needs
		Agent AgentID
		Label string
		Limit int
	}
	// NeedOldVersions is the versions of a block up to one.
	NeedOldVersions struct {
		needs
		Agent AgentID
		Label string
		Last  int
	}
	// NeedMemoryBytes is how many bytes an agent's memory holds.
	NeedMemoryBytes struct {
		needs
		Agent AgentID
	}
	// NeedPassage is the passage of an id.
	NeedPassage struct {
		needs
		ID PassageID
	}
	// NeedPassageCount is how many passages an agent has, NeedLastPassage the highest number of one.
	NeedPassageCount struct {
		needs
		Agent AgentID
	}
	// NeedLastPassage is the highest number of an agent's passages, 0 without any.
	NeedLastPassage struct {
		needs
		Agent AgentID
	}
	// NeedToken is the token of an id.
	NeedToken struct {
		needs
		ID TokenID
	}
	// NeedTokenHash is the token of a hash.
	NeedTokenHash struct {
		needs
		Hash string
	}
	// NeedTokens is an agent's tokens.
	NeedTokens struct {
		needs
		Agent AgentID
	}
	// NeedRunMessages is the first messages of a turn behind a number.
	NeedRunMessages struct {
		needs
		Turn  TurnID
		After int64
		Limit int
	}
	// NeedRunCall is the messages of a turn's call.
	NeedRunCall struct {
		needs
		Turn   TurnID
		CallID string
	}
	// NeedLastRunMessage is the highest number of a turn's messages, 0 without any.
	NeedLastRunMessage struct {
		needs
		Turn TurnID
	}
)

func (n NeedVersions) limit() int    { return n.Limit }
func (n NeedRunMessages) limit() int { return n.Limit }

// BlockKey is the key of a block; it orders an agent's blocks by their labels.
func BlockKey(agent AgentID, label string) string { return string(agent) + "\x00" + label }

// VersionKey is the key of a version of a block.
func VersionKey(b *Block) string {
	return fmt.Sprintf("%s\x00%010d", BlockKey(b.Agent, b.Label), b.Version)
}

// RunKey is the key of a run's message.
func RunKey(m *RunMessage) string { return fmt.Sprintf("%s\x00%010d", m.Turn, m.Seq) }

// PutBlock stores the next version of a block, 1 for a new one. It fails with a Conflict error when
// another version is next. Versions that are KeptVersions behind are let go.
func (s *Scene) PutBlock(b Block) error {
	was, err := s.Block(b.Agent, b.Label)
	if err != nil && !errors.Is(err, ErrNoRow) {
		return err
	}
	if b.Version != was.Version+1 {
		return Errorf(Conflict, "block %q has another version by now; read it again", b.Label)
	}
	b.UpdatedAt = stamp(b.UpdatedAt)
	version := b
	if err := errors.Join(set(s, &s.Rows.Blocks, BlockKey(b.Agent, b.Label), &b), set(s, &s.Rows.Versions, VersionKey(&version), &version)); err != nil {
		return err
	}
	if err := s.growMemory(b.Agent, int64(len(b.Content))); err != nil || b.Version <= KeptVersions {
		return err
	}
	return s.dropVersions(b.Agent, b.Label, b.Version-KeptVersions)
}

// growMemory adds to the bytes that an agent's memory holds.
func (s *Scene) growMemory(agent AgentID, n int64) error {
	bytes, err := s.MemoryBytes(agent)
	if err != nil || n == 0 {
		return err
	}
	return set(s, &s.Rows.MemoryBytes, agent, &BytesRow{Agent: agent, Bytes: bytes + n})
}

// dropVersions deletes the versions of a block up to last.
func (s *Scene) dropVersions(agent AgentID, label string, last int) error {
	old, err := where(s, &s.Rows.Versions, NeedOldVersions{Agent: agent, Label: label, Last: last}, func(b *Block) bool {
		return b.Agent == agent && b.Label == label && b.Version <= last
	})
	if err != nil {
		return err
	}
	var freed int64
	for _, b := range old {
		freed += int64(len(b.Content))
		if err := set(s, &s.Rows.Versions, VersionKey(b), nil); err != nil {
			return err
		}
	}
	return s.growMemory(agent, -freed)
}

// Block returns the present version of a block, ErrNoRow when there is none.
func (s *Scene) Block(agent AgentID, label string) (Block, error) {
	return valueOf(row(s, &s.Rows.Blocks, NeedBlock{Agent: agent, Label: label}, BlockKey(agent, label)))
}

// Blocks returns an agent's blocks by label, in the order of its bytes.
func (s *Scene) Blocks(agent AgentID) ([]Block, error) {
	return valuesOf(where(s, &s.Rows.Blocks, NeedBlocks{Agent: agent}, func(b *Block) bool { return b.Agent == agent }))
}

// BlockVersions returns versions of a block, newest first, the present one included. Limit 0 means
// 100.
func (s *Scene) BlockVersions(agent AgentID, label string, limit int) ([]Block, error) {
	return valuesOf(first(s, &s.Rows.Versions, look[Block]{
		need:  func(limit int) Need { return NeedVersions{Agent: agent, Label: label, Limit: limit} },
		limit: limitOr(limit),
		match: func(b *Block) bool { return b.Agent == agent && b.Label == label },
		order: func(a, b *Block) int { return cmp.Compare(b.Version, a.Version) },
	}))
}

// DropVersions deletes the earlier versions of a block; the present one stays.
func (s *Scene) DropVersions(agent AgentID, label string) error {
	b, err := s.Block(agent, label)
	switch {
	case errors.Is(err, ErrNoRow):
		return nil
	case err != nil:
		return err
	}
	return s.dropVersions(agent, label, b.Version-1)
}

// MemoryBytes returns the bytes that an agent's memory holds: the contents of its passages with
// their tags, and of its blocks with all kept versions. It reads one row.
func (s *Scene) MemoryBytes(agent AgentID) (int64, error) {
	b, err := valueOf(row(s, &s.Rows.MemoryBytes, NeedMemoryBytes{Agent: agent}, agent))
	if errors.Is(err, ErrNoRow) {
		return 0, nil
	}
	return b.Bytes, err
}

// DropBlock takes a block away with all its versions; false when it is not there. The next version
// under the label is 1.
func (s *Scene) DropBlock(agent AgentID, label string) (bool, error) {
	b, err := s.Block(agent, label)
	switch {
	case errors.Is(err, ErrNoRow):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := s.dropVersions(agent, label, b.Version); err != nil {
		return false, err
	}
	return true, set(s, &s.Rows.Blocks, BlockKey(agent, label), nil)
}

// InsertPassage gives the passage the agent's next Seq, which is at least how many passages it has,
// and returns it.
func (s *Scene) InsertPassage(p Passage) (int64, error) {
	if s.Rows.Passages.Row(p.ID) != nil {
		return 0, fmt.Errorf("passage %q exists already", p.ID)
	}
	last, err := latest(s, &s.Rows.Passages, NeedLastPassage{Agent: p.Agent}, func(o *Passage) int64 {
		if o.Agent != p.Agent {
			return 0
		}
		return o.Seq
	})
	if err != nil {
		return 0, err
	}
	p.Seq, p.CreatedAt, p.Tags = last+1, stamp(p.CreatedAt), slices.Clone(p.Tags)
	if err := s.growMemory(p.Agent, p.Size()); err != nil {
		return 0, err
	}
	return p.Seq, set(s, &s.Rows.Passages, p.ID, &p)
}

// latest is the highest number of a table's rows: what the store says, or that of a row that is here.
func latest[K cmp.Ordered, V any](s *Scene, t *Table[K, V], n Need, number func(*V) int64) (int64, error) {
	if _, err := s.guess(n); err != nil {
		return 0, err
	}
	last := s.known[n].n
	for v := range t.All() {
		last = max(last, number(v))
	}
	return last, nil
}

// DropPassage takes a passage away; false when it is not there.
func (s *Scene) DropPassage(agent AgentID, id PassageID) (bool, error) {
	p, err := row(s, &s.Rows.Passages, NeedPassage{ID: id}, id)
	switch {
	case errors.Is(err, ErrNoRow), err == nil && p.Agent != agent:
		return false, nil
	case err != nil:
		return false, err
	}
	if err := s.growMemory(agent, -p.Size()); err != nil {
		return false, err
	}
	return true, set(s, &s.Rows.Passages, id, nil)
}

// CountPassages counts an agent's passages, which takes time that grows with them.
func (s *Scene) CountPassages(agent AgentID) (int64, error) {
	n, err := count(s, &s.Rows.Passages, NeedPassageCount{Agent: agent}, func(p *Passage) bool { return p.Agent == agent })
	return int64(n), err
}

// SearchPassages returns what matches, the best first and among equals the newest; the newest when
// the query asks for no words. While no more than SearchPool match, every store gives the same
// answer. Of more it compares the SearchPool best by its own measure, among the newest
// SearchNewest. Invalid for too many words. It is for views.
func (s *Scene) SearchPassages(q PassageQuery) ([]Passage, error) {
	if s.Search == nil {
		return nil, errors.New("passages are searched in a view")
	}
	return s.Search(q)
}

// InsertToken fails with a Conflict error when the id or the hash is there already; the transaction
// may go on after it.
func (s *Scene) InsertToken(t DoorToken) error {
	_, byHash := s.FindToken(t.Hash)
	_, byID := row(s, &s.Rows.Tokens, NeedToken{ID: t.ID}, t.ID)
	for _, err := range []error{byHash, byID} {
		switch {
		case err == nil:
			return Errorf(Conflict, "this door token exists already")
		case !errors.Is(err, ErrNoRow):
			return err
		}
	}
	return s.setToken(t)
}

func (s *Scene) setToken(t DoorToken) error {
	t.CreatedAt, t.LastUsed, t.RevokedAt = stamp(t.CreatedAt), stamp(t.LastUsed), stamp(t.RevokedAt)
	return set(s, &s.Rows.Tokens, t.ID, &t)
}

// FindToken looks a token up by its hash, a revoked one too.
func (s *Scene) FindToken(hash string) (DoorToken, error) {
	return valueOf(one(s, &s.Rows.Tokens, NeedTokenHash{Hash: hash}, func(t *DoorToken) bool { return t.Hash == hash }))
}

// Tokens returns an agent's tokens, newest first.
func (s *Scene) Tokens(agent AgentID) ([]DoorToken, error) {
	all, err := valuesOf(where(s, &s.Rows.Tokens, NeedTokens{Agent: agent}, func(t *DoorToken) bool { return t.Agent == agent }))
	slices.Reverse(all)
	return all, err
}

// UseToken notes that somebody came with the token; an earlier time than is noted changes nothing.
func (s *Scene) UseToken(id TokenID, at time.Time) error {
	t, err := valueOf(row(s, &s.Rows.Tokens, NeedToken{ID: id}, id))
	if err != nil || !stamp(at).After(t.LastUsed) {
		return err
	}
	t.LastUsed = at
	return s.setToken(t)
}

// RevokeToken ends a token for good; one that ended before keeps its time.
func (s *Scene) RevokeToken(id TokenID, at time.Time) error {
	t, err := valueOf(row(s, &s.Rows.Tokens, NeedToken{ID: id}, id))
	if err != nil || t.Revoked() {
		return err
	}
	t.RevokedAt = at
	return s.setToken(t)
}

// RevokeTokens ends all of an agent's good tokens and returns how many there were.
func (s *Scene) RevokeTokens(agent AgentID, at time.Time) (n int, err error) {
	all, err := s.Tokens(agent)
	for _, t := range all {
		if t.Revoked() {
			continue
		}
		if err := s.RevokeToken(t.ID, at); err != nil {
			return 0, err
		}
		n++
	}
	return n, err
}

// AppendRunMessage gives the message its turn's next Seq and returns it; 0, and nothing is
// recorded, when the turn has a message of that call and kind already.
func (s *Scene) AppendRunMessage(m RunMessage) (int64, error) {
	same, err := where(s, &s.Rows.RunMessages, NeedRunCall{Turn: m.Turn, CallID: m.CallID}, func(o *RunMessage) bool {
		return o.Turn == m.Turn && o.CallID == m.CallID && o.Kind == m.Kind
	})
	if err != nil {
		return 0, err
	}
	last, err := latest(s, &s.Rows.RunMessages, NeedLastRunMessage{Turn: m.Turn}, func(o *RunMessage) int64 {
		if o.Turn != m.Turn {
			return 0
		}
		return o.Seq
	})
	if err != nil || len(same) > 0 {
		return 0, err
	}
	m.Seq, m.At = last+1, stamp(m.At)
	return m.Seq, set(s, &s.Rows.RunMessages, RunKey(&m), &m)
}

// RunCall returns what is recorded of one call of a turn: the call and its return, as far as they are there.
func (s *Scene) RunCall(turn TurnID, call string) ([]RunMessage, error) {
	return valuesOf(where(s, &s.Rows.RunMessages, NeedRunCall{Turn: turn, CallID: call}, func(o *RunMessage) bool {
		return o.Turn == turn && o.CallID == call
	}))
}

// RunMessages returns a turn's messages behind after, in order. Limit 0 means 100.
func (s *Scene) RunMessages(turn TurnID, after int64, limit int) ([]RunMessage, error) {
	return valuesOf(first(s, &s.Rows.RunMessages, look[RunMessage]{
		need:  func(limit int) Need { return NeedRunMessages{Turn: turn, After: after, Limit: limit} },
		limit: limitOr(limit),
		match: func(m *RunMessage) bool { return m.Turn == turn && m.Seq > after },
		order: func(a, b *RunMessage) int { return cmp.Compare(a.Seq, b.Seq) },
	}))
}
