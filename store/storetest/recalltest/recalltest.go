// Package recalltest is the part of the store's contract that is about what
// agents keep: memory, door tokens, the record of runs, what was done once. It is run by package
// storetest and not alone. Rule of thumb: every store gives the same answer to the same
// search, whatever its own index is.
package recalltest

import (
	"errors"
	"testing"

	"drawbridge/bridge"
)

// Open is storetest.Open.
type Open = func(t *testing.T) bridge.Store

// Test is one subtest, on a database of its own.
type Test struct {
	Name string
	Run  func(*testing.T, Open)
}

// Tests are all of them.
func Tests() []Test {
	return []Test{
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

// Everything writes a row of each kind, Kinds in all.
func Everything(tx bridge.Tx) error {
	_, passageErr := tx.InsertPassage(passage("agt_full", 1, "text#tag"))
	_, runErr := tx.AppendRunMessage(runMessage("trn_full", 1, bridge.ToolCallMessage))
	return errors.Join(passageErr, runErr, tx.InsertToken(token("agt_full", 1)), tx.InsertDone(done("agt_full", "key")), tx.PutBlock(block("agt_full", "mood", 1)))
}

// Kinds is how many rows Everything writes.
const Kinds = 5

// Census counts the rows of Everything.
func Census(tx bridge.Tx) (int, error) {
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
