package bridge

import (
	"errors"
	"slices"
	"strings"

	"drawbridge/internal/lookalike"
)

// FindInTree finds an agent by name as the agents of its tree do: what other trees
// call theirs is nobody's business. ErrNoRow when the tree has none of that name.
func FindInTree(tx *Scene, root AgentID, name string) (Agent, error) {
	if name == "" {
		return Agent{}, ErrNoRow
	}
	all, err := tx.Agents(AgentFilter{Root: root, Name: name, Limit: 1})
	if err == nil && len(all) == 0 {
		err = ErrNoRow
	}
	if err != nil {
		return Agent{}, err
	}
	return all[0], nil
}

// OnlyAgent returns the agent of a name: ErrNoRow when there is none, and a
// Conflict that lists ids when agents of several trees have it.
func OnlyAgent(name string, all []Agent) (Agent, error) {
	switch len(all) {
	case 0:
		return Agent{}, ErrNoRow
	case 1:
		return all[0], nil
	}
	ids := make([]string, len(all))
	for i, a := range all {
		ids[i] = string(a.ID)
	}
	return Agent{}, Errorf(Conflict, "several trees have an agent named %q: %s; name one by its id", name, strings.Join(ids, ", "))
}

// NameTaken reports whether an agent below root may not get a name: one of the
// tree, or a channel that the tree can see, has it or one that looks
// like it, so that nobody could tell the two apart. Names of other trees do not
// count: an answer would tell of them. What it says holds for the transaction that
// it is given.
func NameTaken(tx *Scene, root AgentID, name string) (bool, error) {
	if taken, err := alikeInTree(tx, root, name); taken || err != nil {
		return taken, err
	}
	return alikeChannel(tx, root, name)
}

// namesPage is how many rows are read at once when names are compared.
const namesPage = 500

func alikeInTree(tx *Scene, root AgentID, name string) (bool, error) {
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

func alikeChannel(tx *Scene, root AgentID, name string) (bool, error) {
	shape := lookalike.Skeleton(name)
	for f := (ConversationFilter{Kind: MailChannel, Limit: namesPage}); ; {
		page, err := tx.Conversations(f)
		if err != nil {
			return false, err
		}
		for _, c := range page {
			if lookalike.Skeleton(c.Name) != shape {
				continue
			}
			if seen, err := seenInTree(tx, root, c.ID); seen || err != nil {
				return seen, err
			}
		}
		if len(page) < namesPage {
			return false, nil
		}
		f.Before = page[len(page)-1].ID
	}
}

// seenInTree reports whether an agent of a tree is a member of a conversation.
func seenInTree(tx *Scene, root AgentID, id ConversationID) (bool, error) {
	members, err := tx.Members(id)
	if err != nil {
		return false, err
	}
	for _, m := range members {
		a, err := tx.Agent(m)
		if errors.Is(err, ErrNoRow) {
			continue // the operator
		}
		if err != nil || a.Root == root {
			return err == nil, err
		}
	}
	return false, nil
}
