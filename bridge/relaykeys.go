package bridge

import (
	"crypto/ed25519"
	"encoding/base64"
	"strconv"
)

// RelayKey derives one generation of the key that signs requests to relays, so that it is the same on every replica, survives
// restarts, and needs no file beside the bridge key.
func (k Key) RelayKey(generation int64) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(k.derive("relay signing key", strconv.FormatInt(generation, 10)))
}

// JoinSecret derives the secret of a join token. It is stored nowhere: who reads the database cannot join.
func (k Key) JoinSecret(id, relay string) string {
	return base64.RawURLEncoding.EncodeToString(k.derive("relay join", id, relay))
}
