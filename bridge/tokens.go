package bridge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// TokenID is "tok_…"; it names a door token and opens nothing.
type TokenID string

// DoorToken lets one agent in at the doors (MCP). The token itself is shown
// once and never kept: who reads the database cannot enter with what is there.
type DoorToken struct {
	ID    TokenID
	Agent AgentID
	// Hash is HashDoorToken of the token.
	Hash string
	// Generation is 0 for a random token, and which of the agent's derived ones
	// it is from 1 (Keys.DoorToken).
	Generation int
	// Client names the program that the token was made for; "" for none in particular.
	Client    string
	CreatedAt time.Time
	// LastUsed is the zero time for a token that nobody came with yet, RevokedAt while it is good.
	LastUsed  time.Time
	RevokedAt time.Time
}

// Revoked reports whether the token lets nobody in any more.
func (t DoorToken) Revoked() bool { return !t.RevokedAt.IsZero() }

// doorTokenPrefix makes a token that leaked into a text easy to find.
const doorTokenPrefix = "dbt_"

// NewDoorToken returns a token of 256 random bits: "dbt_" and 52 characters.
func NewDoorToken() string {
	var raw [32]byte
	if _, err := rand.Read(raw[:]); err != nil {
		// crypto/rand never fails on the systems that we run on; see its documentation.
		panic(err)
	}
	return doorTokenPrefix + idText.EncodeToString(raw[:])
}

// HashDoorToken returns the hex SHA-256 under which a token is kept. A token has
// 256 bits, so that no salt and no slow hash is needed; because what is looked up is the
// hash, the time of a look-up says nothing about the token.
func HashDoorToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// DoorToken derives the token that a launch gives its agent, in the form of
// NewDoorToken. A launch that is repeated must send the same words, so the token is an
// HMAC of the launch's operation key and a generation from 1 and is there again
// after a crash or in a restored database, where the agent's own id may be
// another. The next generation is for an agent whose token was revoked. A new
// bridge key makes other tokens; what was recorded before stays good until it is revoked.
func (k Keys) DoorToken(a Agent, generation int) string {
	owner := a.OpKey
	if owner == "" {
		owner = string(a.ID)
	}
	return doorTokenPrefix + idText.EncodeToString(k.Current.derive("door token", owner, strconv.Itoa(generation)))
}
