package stores

import (
	"errors"

	"drawbridge/bridge"
)

// recallTests are about what agents keep: memory, door tokens, the record of runs, what was done once.
func recallTests() []contractTest {
	return []contractTest{
		{"Blocks", testBlocks},
		{"Passages", testPassages},
		{"Forgetting", testForgetting},
		{"MemoryBytes", testMemoryBytes},
		{"Search", testSearch},
		{"SearchModel", testSearchModel},
		{"Tokens", testTokens},
		{"Runs", testRuns},
		{"Once", testOnce},
	}
}

// everythingKept writes a row of each kind, keptKinds in all.
func everythingKept(tx *bridge.Scene) error {
	_, passageErr := tx.InsertPassage(passage("agt_full", 1, "text#tag"))
	_, runErr := tx.AppendRunMessage(runMessage("trn_full", 1, bridge.ToolCallMessage))
	return errors.Join(passageErr, runErr, tx.InsertToken(token("agt_full", 1)), tx.InsertDone(done("agt_full", "key")), tx.PutBlock(block("agt_full", "mood", 1)))
}

// keptKinds is how many rows everythingKept writes.
const keptKinds = 5

// keptCensus counts the rows of everythingKept.
func keptCensus(tx *bridge.Scene) (int, error) {
	tokens, tokenErr := tx.Tokens("agt_full")
	run, runErr := tx.RunMessages("trn_full", 0, 0)
	blocks, blockErr := tx.Blocks("agt_full")
	found, searchErr := tx.SearchPassages(bridge.PassageQuery{Agent: "agt_full", Text: "text", Tags: []string{"tag"}})
	all := len(tokens) + len(run) + len(blocks) + len(found)
	_, doneErr := tx.FindDone("agt_full", "key")
	if doneErr == nil {
		all++
	} else if errors.Is(doneErr, bridge.ErrNoRow) {
		doneErr = nil
	}
	return all, errors.Join(tokenErr, runErr, blockErr, searchErr, doneErr)
}
