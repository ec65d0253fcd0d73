package memory

import (
	"fmt"
	"slices"

	"drawbridge/bridge"
	"drawbridge/bridge/search"
)

// blockKey orders blocks of an agent by their label.
func blockKey(agent bridge.AgentID, label string) string { return string(agent) + "\x00" + label }

// PutBlock implements bridge.MemoryTx.
func (t *tx) PutBlock(b bridge.Block) error {
	key := blockKey(b.Agent, b.Label)
	var versions []bridge.Block
	if row := t.state.blocks.get(key); row != nil {
		versions = *row
	}
	if was := lastVersion(versions); b.Version != was+1 {
		return bridge.Errorf(bridge.Conflict, "block %q has another version by now; read it again", b.Label)
	}
	b.UpdatedAt = stamp(b.UpdatedAt)
	versions = append(slices.Clone(versions), b)
	versions = versions[max(len(versions)-bridge.KeptVersions, 0):]
	return set(t, &t.state.blocks, key, &versions)
}

func lastVersion(versions []bridge.Block) int {
	if len(versions) == 0 {
		return 0
	}
	return versions[len(versions)-1].Version
}

// Block implements bridge.MemoryTx.
func (t *tx) Block(agent bridge.AgentID, label string) (bridge.Block, error) {
	row := t.state.blocks.get(blockKey(agent, label))
	if row == nil {
		return bridge.Block{}, bridge.ErrNoRow
	}
	return (*row)[len(*row)-1], nil
}

// Blocks implements bridge.MemoryTx.
func (t *tx) Blocks(agent bridge.AgentID) (out []bridge.Block, err error) {
	t.state.blocks.oldest(func(row *[]bridge.Block) bool {
		if b := (*row)[len(*row)-1]; b.Agent == agent {
			out = append(out, b)
		}
		return true
	})
	return out, nil
}

// BlockVersions implements bridge.MemoryTx.
func (t *tx) BlockVersions(agent bridge.AgentID, label string, limit int) ([]bridge.Block, error) {
	row := t.state.blocks.get(blockKey(agent, label))
	if row == nil {
		return nil, nil
	}
	versions := slices.Clone(*row)
	slices.Reverse(versions)
	return cut(versions, limit), nil
}

// DropVersions implements bridge.MemoryTx.
func (t *tx) DropVersions(agent bridge.AgentID, label string) error {
	key := blockKey(agent, label)
	row := t.state.blocks.get(key)
	if row == nil {
		return nil
	}
	last := slices.Clone((*row)[len(*row)-1:])
	return set(t, &t.state.blocks, key, &last)
}

// MemoryBytes implements bridge.MemoryTx.
func (t *tx) MemoryBytes(agent bridge.AgentID) (n int64, err error) {
	for _, p := range t.state.passages.rows {
		if p.Agent == agent {
			n += p.Size()
		}
	}
	for _, row := range t.state.blocks.rows {
		for _, b := range *row {
			if b.Agent == agent {
				n += int64(len(b.Content))
			}
		}
	}
	return n, nil
}

// DropBlock implements bridge.MemoryTx.
func (t *tx) DropBlock(agent bridge.AgentID, label string) (bool, error) {
	key := blockKey(agent, label)
	if t.state.blocks.get(key) == nil {
		return false, nil
	}
	return true, set(t, &t.state.blocks, key, nil)
}

// DropPassage implements bridge.MemoryTx.
func (t *tx) DropPassage(agent bridge.AgentID, id bridge.PassageID) (bool, error) {
	if p := t.state.passages.get(id); p == nil || p.Agent != agent {
		return false, nil
	}
	return true, set(t, &t.state.passages, id, nil)
}

// CountPassages implements bridge.MemoryTx.
func (t *tx) CountPassages(agent bridge.AgentID) (n int64, err error) {
	for _, p := range t.state.passages.rows {
		if p.Agent == agent {
			n++
		}
	}
	return n, nil
}

// InsertPassage implements bridge.MemoryTx.
func (t *tx) InsertPassage(p bridge.Passage) (int64, error) {
	if t.state.passages.get(p.ID) != nil {
		return 0, fmt.Errorf("passage %q exists already", p.ID)
	}
	p.Seq = 1
	for _, other := range t.state.passages.rows {
		if other.Agent == p.Agent {
			p.Seq = max(p.Seq, other.Seq+1)
		}
	}
	p.CreatedAt, p.Tags = stamp(p.CreatedAt), slices.Clone(p.Tags)
	return p.Seq, set(t, &t.state.passages, p.ID, &p)
}

// SearchPassages implements bridge.MemoryTx.
func (t *tx) SearchPassages(q bridge.PassageQuery) ([]bridge.Passage, error) {
	query, err := search.Parse(q)
	if err != nil {
		return nil, err
	}
	var all []bridge.Passage
	for _, p := range t.state.passages.rows {
		all = append(all, *p)
	}
	best := query.Best(all)
	for i := range best {
		best[i].Tags = slices.Clone(best[i].Tags)
	}
	return best, nil
}
