package bridge

import (
	"errors"
	"slices"
	"strings"
)

// NameTaken reports whether an agent below root may not get a name: an agent or
// a channel has it, or one of the tree or a channel has one that differs in its
// case alone, so that nobody could tell the two apart. What it says holds for
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
	for f := (AgentFilter{Root: root, Limit: namesPage}); ; {
		page, err := tx.Agents(f)
		if err != nil || slices.ContainsFunc(page, func(a Agent) bool { return strings.EqualFold(a.Name, name) }) {
			return err == nil, err
		}
		if len(page) < namesPage {
			return false, nil
		}
		f.Before = page[len(page)-1].ID
	}
}

func alikeChannel(tx Tx, name string) (bool, error) {
	for f := (ConversationFilter{Kind: MailChannel, Limit: namesPage}); ; {
		page, err := tx.Conversations(f)
		if err != nil || slices.ContainsFunc(page, func(c Conversation) bool { return strings.EqualFold(c.Name, name) }) {
			return err == nil, err
		}
		if len(page) < namesPage {
			return false, nil
		}
		f.Before = page[len(page)-1].ID
	}
}
