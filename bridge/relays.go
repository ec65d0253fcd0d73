package bridge

import (
	"context"
	"strings"
	"time"
)

// RelayState is where an enrolled relay stands.
type RelayState string

// The relay states. A revoked relay is refused until its name is enrolled again.
const (
	RelayEnrolled RelayState = "enrolled"
	RelayRevoked  RelayState = "revoked"
)

// Relay is a program on a user's machine that was enrolled and dials in. A relay that is called at an address of the
// configuration has no row.
type Relay struct {
	// Name is what the allowlist calls it.
	Name  string
	State RelayState
	// Key is the relay's public key, as package relay/wire writes it. NextKey is the one that replaces it as soon as it
	// is used, "" when there is none.
	Key, NextKey string
	// Pin is the id of the newest of our keys that the relay trusts.
	Pin string
	// Replica and Session say which connection holds it, "" when none does.
	Replica, Session string
	ConnectedAt      time.Time
	EnrolledAt       time.Time
	// SeenAt is when the relay last came or went.
	SeenAt time.Time
	// Epoch is the last one that the relay acknowledged, 0 for a relay that knows none. Offered is the highest one that was
	// given to any connection; it never goes back.
	Epoch, Offered int64
	// Process names the process of the relay that was let in last.
	Process string
	// StoppedAt is since when the relay's kill switch is on, the zero time while it is off.
	StoppedAt time.Time
	// OutdatedAt is since when relay.yaml is another than the one that the relay follows, the zero time while it is not.
	OutdatedAt time.Time
	// CopyAt is when a relay was last refused because it showed the epoch CopyEpoch, which is older than Epoch.
	CopyAt    time.Time
	CopyEpoch int64
	// AcceptedAt is when the operator said that the relay that shows CopyEpoch is to be let in. The word holds for AcceptFor.
	AcceptedAt time.Time
}

// AcceptFor is how long the operator's word holds that a relay is to be let in although its epoch is older.
const AcceptFor = time.Hour

// Accepts reports whether the operator said that the relay that shows an epoch is to be let in although it is older.
func (r Relay) Accepts(epoch int64, now time.Time) bool {
	return now.Sub(r.AcceptedAt) < AcceptFor && r.CopyEpoch == epoch
}

// RelayTie says which relay a request was given to.
type RelayTie struct {
	Request, Relay string
	// Process is the relay's process that the request was sent to, "" while it was not sent, and for relays that name none.
	Process string
	// CreatedAt is when the request was tied to the relay or, once it was sent, when it was sent first; SentAt is when it
	// was sent last, the zero time before.
	CreatedAt, SentAt time.Time
}

// RelayOffer is one action that a relay said it may run.
type RelayOffer struct {
	Relay, Action string
	// Approval is the relay's own rule: never, each, or once per a time.
	Approval string
	// Bridge is true when an operator's approval at the bridge satisfies that rule.
	Bridge bool
	// ApproveBy is machine, bridge or either where somebody has to approve; "" otherwise, and from relays that do not say it.
	ApproveBy string
	// Definition is a hash that changes whenever the action's definition or executable does.
	Definition string
	// Shows is what that definition would run, in the relay's words, for the operator who may approve it; untrusted.
	Shows string
}

// Approver says in words who may approve the action at its relay, "" when nobody has to.
func (o RelayOffer) Approver() string {
	switch {
	case o.Approval == "never":
		return ""
	case !o.Bridge:
		return "a person at the machine"
	case o.ApproveBy == "bridge":
		return "the operator"
	case o.ApproveBy == "either":
		return "the operator or a person at the machine"
	default:
		return "the operator, or also a person at the machine if the relay's file says approve_by: either"
	}
}

// RelayFilter selects relays by name. Zero fields select everything; Limit 0 means 100.
type RelayFilter struct {
	State   RelayState
	Replica string
	// After pages on: names greater than it.
	After string
	Limit int
}

// RelayJoin is a join token that was given out. Its secret is derived and nowhere stored.
type RelayJoin struct {
	ID        string
	Relay     string
	CreatedAt time.Time
	ExpiresAt time.Time
	// Key is the public key that joined with it, "" as long as nobody did.
	Key string
}

// RelayKey is one generation of the key that signs requests to relays. The key itself is derived and nowhere stored.
type RelayKey struct {
	// Generation counts from 1.
	Generation int64
	// Source is the id of the bridge key that it is derived from.
	Source    string
	CreatedAt time.Time
}

// LookupLane is where look-ups in the journal of a relay wait for one another.
func LookupLane(relay string) string { return "lookup/" + relay }

// ActionLane is where requests for an action at a relay wait for one another; relay is "" for an action that names none.
func ActionLane(relay, action string) string { return "action/" + relay + "/" + action }

// CallState says how far a call has come.
type CallState string

// The call states. Taken means that the request may have left for the relay.
const (
	CallWaiting CallState = "waiting"
	CallTaken   CallState = "taken"
	CallDone    CallState = "done"
)

// RelayCall is a request that one replica asks another to send, because that one holds the relay's connection.
type RelayCall struct {
	ID string
	// Replica is who is asked.
	Replica string
	Relay   string
	// Request is the idempotency key of the action.
	Request string
	// Ask and Outcome are JSON, as package relay/hub writes them.
	Ask       string
	State     CallState
	Outcome   string
	CreatedAt time.Time
}

// RelayView is an enrolled relay as a person looks at it.
type RelayView struct {
	Relay
	// KeyID is the id of the relay's key, as its machine shows it.
	KeyID  string
	Offers []RelayOffer
	// Connected is true while a living replica holds its connection.
	Connected bool
	// Running are the requests that this replica has with the relay.
	Running []RelayRun
}

// RelayRun is a request that a relay works on. Its output is untrusted text.
type RelayRun struct {
	Request, Action string
	Since           time.Time
	// Stdout and Stderr are the end of what it wrote so far.
	Stdout, Stderr string
}

// JoinToken is what enrolls one relay, once. Text is a secret.
type JoinToken struct {
	Relay     string
	Text      string
	ExpiresAt time.Time
	// BridgeKey is the id of the key that the token carries.
	BridgeKey string
}

// RelayAdmin is what an operator may do with relays. Safe for concurrent use. Errors are *Error: Invalid, NotFound, Conflict.
type RelayAdmin interface {
	// NewToken makes a join token for a name that is free or revoked, and ends those for that name that nobody has used.
	NewToken(ctx context.Context, relay string, life time.Duration) (JoinToken, error)
	// Withdraw ends the tokens for a name that nobody has used. Without any it returns a NotFound.
	Withdraw(ctx context.Context, relay string) error
	// Invitations lists the tokens that nobody has used and that are not over, by relay, at most 100. They hold no secret.
	Invitations(ctx context.Context) ([]RelayJoin, error)
	// RelayList lists up to limit relays by name, after a name.
	RelayList(ctx context.Context, after string, limit int) ([]RelayView, error)
	RelayByName(ctx context.Context, name string) (RelayView, error)
	// Revoke cuts the relay's connection and refuses it from then on. Twice is fine.
	Revoke(ctx context.Context, name string) (RelayView, error)
	// Accept lets the relay in that was refused as a copy. From then on the one that was let in before is the copy. Conflict
	// when none was refused. Twice is fine.
	Accept(ctx context.Context, name string) (RelayView, error)
	// Rotate makes a new signing key; each relay learns it when it is connected. Each call makes another one.
	Rotate(ctx context.Context) (RelayKey, error)
}

// CodeRelayApproval marks a command that a relay wants the operator's word for.
const CodeRelayApproval = "relay_needs_approval"

// CodeRelayAway marks a granted action that waits for its relay.
const CodeRelayAway = "relay_away"

// definitionKey is how an approval key names a definition at a relay, behind the policy's own key, which holds no colon.
const definitionKey = "definition:"

// DefinitionKey is the approval key for one definition of an action at a relay.
func DefinitionKey(definition string) string { return definitionKey + definition }

// BindDefinition binds a person's word on the command to one definition at a relay, and keeps the policy's own key.
func (c *Command) BindDefinition(definition string) {
	c.ApprovalKey = c.PolicyKey() + DefinitionKey(definition)
}

// PolicyKey is the part of the approval key that is the policy's own, or "".
func (c Command) PolicyKey() string {
	key, _, _ := strings.Cut(c.ApprovalKey, definitionKey)
	return key
}

// DefinitionToApprove returns the definition that the command is held or approved for, or "".
func (c Command) DefinitionToApprove() string {
	_, definition, _ := strings.Cut(c.ApprovalKey, definitionKey)
	return definition
}

// RelayApproval is a person's word on the command, as a relay takes it, or nil when there is none for a relay.
func (c Command) RelayApproval() *ActionApproval {
	if definition := c.DefinitionToApprove(); c.Approved && definition != "" {
		return &ActionApproval{Definition: definition, At: c.UpdatedAt}
	}
	return nil
}

// ApprovableAt returns the offer that the bridge may approve at the relay of that name, or at the only one that offers the
// action; the zero offer when there is none, or no telling which.
func ApprovableAt(offers []RelayOffer, relay string) RelayOffer {
	var found []RelayOffer
	for _, o := range offers {
		if relay == "" || o.Relay == relay {
			found = append(found, o)
		}
	}
	if len(found) != 1 || !found[0].Bridge {
		return RelayOffer{}
	}
	return found[0]
}
