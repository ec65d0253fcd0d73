package bridge

import (
	"errors"
	"slices"

	"drawbridge/internal/lookalike"
)

// NameTaken reports whether an agent below root may not get a name: an agent or
// a channel has it, or one of the tree or a channel has one that looks like it, so
// that nobody could tell the two apart. What it says holds for
// the transaction that it is given.
func NameTaken(tx Tx, root AgentID, name string) (bool, error) {
	_, err := tx.FindAgent(ByName, name)
	if err == nil || !errors.Is(err, ErrNoRow) {
		return err == nil, err
	}
	if taken, err := alikeInTree(tx, root, name); taken || err != nil {
		return taken, err
	}
	return alikeChannel(tx, name)
}

// namesPage is how many rows are read at once when names are compared.
const namesPage = 500

func alikeInTree(tx Tx, root AgentID, name string) (bool, error) {
	seen := lookalike.Skeleton(name)
	for f := (AgentFilter{Root: root, Limit: namesPage}); ; {
		page, err := tx.Agents(f)
		if err != nil || slices.ContainsFunc(page, func(a Agent) bool { return lookalike.Skeleton(a.Name) == seen }) {
			return err == nil, err
		}
		if len(page) < namesPage {
			return false, nil
		}
		f.Before = page[len(page)-1].ID
	}
}

func alikeChannel(tx Tx, name string) (bool, error) {
	seen := lookalike.Skeleton(name)
	for f := (ConversationFilter{Kind: MailChannel, Limit: namesPage}); ; {
		page, err := tx.Conversations(f)
		if err != nil || slices.ContainsFunc(page, func(c Conversation) bool { return lookalike.Skeleton(c.Name) == seen }) {
			return err == nil, err
		}
		if len(page) < namesPage {
			return false, nil
		}
		f.Before = page[len(page)-1].ID
	}
}
