package bridge

import "slices"

// IsAnswer reports whether a notice brings an agent what it waits for in its mail:
// an answer to a message, or the news that none comes.
func IsAnswer(n Notice) bool {
	return len(n.Join) > len(messagePrefix) && n.Join[:len(messagePrefix)] == messagePrefix
}

const messagePrefix = "msg_"

// Doorless says why an agent has no tool of the bridge to answer with, "" when it has one. given says whether a Runtime gives its agents a door
// with their turns; the v0 API takes none. The revocation of a token that was made by hand does not end such a door. If given is nil, every
// Runtime gives a door, and any revocation ends it.
func Doorless(tx *Scene, a Agent, given func(runtime string) bool) (why string, err error) {
	tokens, err := tx.Tokens(a.ID)
	ended := func(t DoorToken) bool { return t.Revoked() && (given == nil || t.Generation > 0) } // the bridge gives no other then
	switch {
	case err != nil || slices.ContainsFunc(tokens, func(t DoorToken) bool { return !t.Revoked() }),
		a.API != APIv0 && (given == nil || given(a.Runtime)) && !slices.ContainsFunc(tokens, ended):
		return "", err
	case len(tokens) > 0:
		return "its token was revoked", nil
	}
	return "it is not connected to the bridge's tools, so it cannot answer", nil
}
