package bridge

import "slices"

// IsAnswer reports whether a notice brings an agent what it waits for in its mail:
// an answer to a message, or the news that none comes.
func IsAnswer(n Notice) bool {
	return len(n.Join) > len(messagePrefix) && n.Join[:len(messagePrefix)] == messagePrefix
}

const messagePrefix = "msg_"

// Doorless says why an agent has no tool of the bridge to answer with, "" when it
// has one. given says of an API whether its agents get a door with their turns;
// nil means that all do but those of v0.
func Doorless(tx *Scene, a Agent, given func(api string) bool) (why string, err error) {
	tokens, err := tx.Tokens(a.ID)
	switch {
	case err != nil || slices.ContainsFunc(tokens, func(t DoorToken) bool { return !t.Revoked() }):
		return "", err
	case len(tokens) > 0:
		return "its token was revoked", nil
	case given == nil && a.API != APIv0, given != nil && given(a.API):
		return "", nil
	}
	return "it has no door to the bridge, and so no tool to answer with", nil
}
