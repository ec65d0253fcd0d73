package stores

import (
	"testing"

	"drawbridge/bridge"
)

// testForgetting deletes blocks and passages: what is gone is in no list and in
// no search, and what is another's stays.
func testForgetting(t *testing.T, open Open) {
	s := open(t)
	passages(t, s, "agt_1", "red wine", "red bread#tag", "red salt")
	passages(t, s, "agt_2", "red wine")
	found := func(agent bridge.AgentID, text string, tags ...string) int {
		return len(read(t, s, func(tx *bridge.Scene) ([]bridge.Passage, error) {
			return tx.SearchPassages(bridge.PassageQuery{Agent: agent, Text: text, Tags: tags})
		}))
	}
	drop := func(fn func(*bridge.Scene) (bool, error)) (dropped bool) {
		mustUpdate(t, s, func(tx *bridge.Scene) (err error) { dropped, err = fn(tx); return err })
		return dropped
	}
	passage := func(agent bridge.AgentID, id bridge.PassageID) bool {
		return drop(func(tx *bridge.Scene) (bool, error) { return tx.DropPassage(agent, id) })
	}
	equal(t, "another's passage is dropped", passage("agt_2", "psg_agt_1_0002"), false)
	equal(t, "none is dropped", passage("agt_1", "psg_none"), false)
	equal(t, "a passage is dropped", passage("agt_1", "psg_agt_1_0002"), true)
	equal(t, "it is dropped again", passage("agt_1", "psg_agt_1_0002"), false)
	equal(t, "found by a word that others have", found("agt_1", "red"), 2)
	equal(t, "found by its own word", found("agt_1", "bread"), 0)
	equal(t, "found by its tag", found("agt_1", "", "tag"), 0)
	equal(t, "found without words", found("agt_1", ""), 2)
	equal(t, "found of the other", found("agt_2", "red"), 1)
	equal(t, "counted", read(t, s, func(tx *bridge.Scene) (int64, error) { return tx.CountPassages("agt_1") }), 2)
	var seq int64
	mustUpdate(t, s, func(tx *bridge.Scene) (err error) {
		seq, err = tx.InsertPassage(bridge.Passage{ID: "psg_new", Agent: "agt_1", Content: "red bread again", Tags: []string{}, CreatedAt: at(0)})
		return err
	})
	equal(t, "the next number", seq, 4)
	equal(t, "found by the word again", found("agt_1", "bread"), 1)

	mustUpdate(t, s, func(tx *bridge.Scene) error {
		for _, b := range []bridge.Block{block("agt_1", "mood", 1), block("agt_1", "mood", 2), block("agt_1", "zeal", 1), block("agt_2", "mood", 1)} {
			if err := tx.PutBlock(b); err != nil {
				return err
			}
		}
		return nil
	})
	mood := func(agent bridge.AgentID, label string) bool {
		return drop(func(tx *bridge.Scene) (bool, error) { return tx.DropBlock(agent, label) })
	}
	equal(t, "a block is dropped", mood("agt_1", "mood"), true)
	equal(t, "it is dropped again", mood("agt_1", "mood"), false)
	blocks := func(agent bridge.AgentID) []bridge.Block {
		return read(t, s, func(tx *bridge.Scene) ([]bridge.Block, error) { return tx.Blocks(agent) })
	}
	equal(t, "blocks that are left", blocks("agt_1"), []bridge.Block{block("agt_1", "zeal", 1)})
	equal(t, "blocks of the other", blocks("agt_2"), []bridge.Block{block("agt_2", "mood", 1)})
	mustUpdate(t, s, func(tx *bridge.Scene) error { return tx.PutBlock(block("agt_1", "mood", 1)) }) // it begins again
	equal(t, "its versions", read(t, s, func(tx *bridge.Scene) ([]bridge.Block, error) { return tx.BlockVersions("agt_1", "mood", 0) }),
		[]bridge.Block{block("agt_1", "mood", 1)})
}
