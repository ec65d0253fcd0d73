package stores

import (
	"errors"
	"testing"

	"drawbridge/bridge"
)

// testMemoryBytes writes and deletes memory; the bytes are those that are left, in
// bytes and not in characters, also after a transaction that failed.
func testMemoryBytes(t *testing.T, open Open) {
	s := open(t)
	held := func(what string, want int64) {
		t.Helper()
		equal(t, what, read(t, s, func(tx *bridge.Scene) (int64, error) { return tx.MemoryBytes("agt_1") }), want)
	}
	put := func(version int, content string) func(*bridge.Scene) error {
		return func(tx *bridge.Scene) error {
			return tx.PutBlock(bridge.Block{Agent: "agt_1", Label: "mood", Version: version, Content: content, UpdatedAt: at(0)})
		}
	}
	held("nothing", 0)
	for _, p := range []bridge.Passage{{ID: "psg_1", Agent: "agt_1", Content: "größe", Tags: []string{"ä", "\"<"}}, {ID: "psg_2", Agent: "agt_2", Content: "other", Tags: []string{}}} {
		p.CreatedAt = at(0)
		mustUpdate(t, s, func(tx *bridge.Scene) error { return second(tx.InsertPassage(p)) })
	}
	held("a passage with its tags", 7+4)
	mustUpdate(t, s, put(1, "12345"))
	mustUpdate(t, s, put(2, "ü"))
	held("both versions of a block", 11+5+2)
	broken := errors.New("broken")
	if err := s.Update(t.Context(), func(tx *bridge.Scene) error { return errors.Join(put(3, "1")(tx), broken) }); !errors.Is(err, broken) {
		t.Errorf("a transaction that fails: %v", err)
	}
	held("a transaction failed", 18)
	mustUpdate(t, s, func(tx *bridge.Scene) error {
		return errors.Join(tx.DropVersions("agt_1", "mood"), tx.DropVersions("agt_1", "none"))
	})
	held("the present version", 13)
	equal(t, "versions left", len(read(t, s, func(tx *bridge.Scene) ([]bridge.Block, error) { return tx.BlockVersions("agt_1", "mood", 0) })), 1)
	mustUpdate(t, s, put(3, "123"))
	held("the next version", 16)
	for v := 4; v <= bridge.KeptVersions+3; v++ {
		mustUpdate(t, s, put(v, "1"))
	}
	held("versions that were let go do not count", 11+bridge.KeptVersions)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return second(tx.DropBlock("agt_1", "mood")) })
	held("the block is deleted", 11)
	mustUpdate(t, s, func(tx *bridge.Scene) error { return second(tx.DropPassage("agt_1", "psg_1")) })
	held("the passage is deleted", 0)
}
