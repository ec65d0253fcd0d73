package bridge

import "errors"

// MayRead reports whether an agent may read a message, and what happens to it: one in a
// conversation as a present member, any other as its writer or with a letter of it.
func MayRead(tx *Scene, m Message, agent AgentID) (bool, error) {
	if m.Conversation != "" {
		return tx.IsMember(m.Conversation, agent)
	}
	if m.From == agent {
		return true, nil
	}
	_, err := tx.Letter(m.ID, agent)
	if errors.Is(err, ErrNoRow) {
		return false, nil
	}
	return err == nil, err
}
