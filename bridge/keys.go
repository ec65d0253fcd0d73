package bridge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"drawbridge/parser"
)

// Key is one version of the bridge key. ID stands in webhook paths, so that a
// delivery names the key that its secret was made from.
type Key struct {
	ID     string
	Secret []byte
}

// Keys holds the bridge key and the earlier ones whose webhooks still count.
type Keys struct {
	Current Key
	Old     []Key
}

// derive returns the HMAC-SHA256 of the parts, each of which is length-prefixed
// so that no two lists of parts give the same input.
func (k Key) derive(parts ...string) []byte {
	h := hmac.New(sha256.New, k.Secret)
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p + "|"))
	}
	return h.Sum(nil)
}

// Print identifies a key without telling anything of it: 16 hex digits that are
// the same wherever they are made.
func (k Key) Print() string { return hex.EncodeToString(k.derive("print")[:8]) }

// OperationKey derives the hex key of one command of one turn: the same
// command of the same turn always has the same key, whoever computes it
// (facts: Effects over an unreliable API).
func (k Keys) OperationKey(a Agent, t Turn, ordinal int, c parser.Command) string {
	// What the vendor shows of the turn outlives a restored database: its run, or the
	// name in the text that was sent.
	turn := t.Run
	if turn == "" {
		turn = t.Name()
	}
	owner := a.External
	if owner == "" {
		owner = string(a.ID)
	}
	return hex.EncodeToString(k.Current.derive("command", owner, turn, strconv.Itoa(ordinal), string(c.Verb),
		strings.Join([]string{c.Repo, c.Prompt, c.Action, c.When, c.Message, c.AgentID, c.Status}, "\x00")))
}

// OperatorKey derives the operation key of a launch that a person asked for.
func (k Keys) OperatorKey(id AgentID) string {
	return hex.EncodeToString(k.Current.derive("operator", string(id)))
}

// ExternalID makes the v1 agentId of an operation key: "bc-" and a name-based
// UUID. A repeated launch carries the same id and meets 409.
func ExternalID(opKey string) string {
	sum := sha256.Sum256([]byte("agent|" + opKey))
	var id uuid.UUID
	copy(id[:], sum[:16])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return "bc-" + id.String()
}

// WebhookSecret derives the secret that signs one operation's webhooks: 64 hex digits.
func (k Key) WebhookSecret(op AgentID) string {
	return hex.EncodeToString(k.derive("webhook", string(op)))
}

// ByID returns the key of that id, current or old.
func (k Keys) ByID(id string) (Key, bool) {
	for _, c := range append([]Key{k.Current}, k.Old...) {
		if c.ID == id {
			return c, true
		}
	}
	return Key{}, false
}
