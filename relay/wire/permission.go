package wire

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"drawbridge/internal/strictjson"
)

// PermitPath stands in the signature of the operator's word on a question of a hosted agent.
const PermitPath = "/permit"

// Bounds of a question of a hosted agent, in bytes.
const (
	// MaxPermission bounds the arguments, and MaxPermissionText each other text.
	MaxPermission     = 256 << 10
	MaxPermissionText = 64 << 10
	maxPermissionKeys = 4096
)

// PermissionState says how far a question of a hosted agent has come.
type PermissionState string

// The states.
const (
	PermissionOpen PermissionState = "open"
	// PermissionYes and PermissionNo are answers that the agent has not got: its process has ended, and its next turn tells it.
	PermissionYes PermissionState = "yes"
	PermissionNo  PermissionState = "no"
	// PermissionGiven and PermissionRefused mean that the agent got yes or no.
	PermissionGiven   PermissionState = "given"
	PermissionRefused PermissionState = "refused"
)

// Permission is a question of a hosted agent, as its relay announces it. Everything but the ids is the agent's own claim.
type Permission struct {
	// ID names the question and no other; Hash names exactly this call.
	ID   string `json:"id"`
	Hash string `json:"hash"`
	// Agent is the entry of relay.yaml, Session and Turn are the bridge's.
	Agent   string `json:"agent"`
	Session string `json:"session"`
	Turn    string `json:"turn"`
	Kind    string `json:"kind"`
	Tool    string `json:"tool"`
	// Arguments are canonical JSON in ASCII, "" where the agent gave none.
	Arguments string   `json:"arguments,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	Workspace string   `json:"workspace"`
	// Reason says why no rule of the relay allows the call.
	Reason string `json:"reason"`
	// Bridge is true where the operator at the bridge may answer, and Machine where a person at the relay's machine may.
	Bridge  bool            `json:"bridge,omitempty"`
	Machine bool            `json:"machine,omitempty"`
	State   PermissionState `json:"state"`
	// By names the door of the answer.
	By string `json:"by,omitempty"`
	// Heard is true at the relay where the bridge has confirmed the state. It is not sent.
	Heard bool `json:"-"`
}

// check holds the bounds of a question.
func (p Permission) check() error {
	raw, err := hex.DecodeString(p.Hash)
	switch {
	case !ValidRequestID(p.ID) || !ValidAction(p.Agent) || !ValidRequestID(p.Session) || !ValidRequestID(p.Turn):
		return errors.New("a question of an agent without its id, agent, session or turn")
	case err != nil || len(raw) != 32:
		return errors.New("a question of an agent without its hash")
	case len(p.Arguments) > MaxPermission || len(p.Paths) > maxPermissionKeys:
		return errors.New("a question of an agent that is too large")
	}
	size := 0
	for _, text := range append([]string{p.Kind, p.Tool, p.Workspace, p.Reason, p.By}, p.Paths...) {
		if size += len(text); !utf8.ValidString(text) || size > MaxPermissionText {
			return errors.New("a question of an agent whose texts are too large, or not text")
		}
	}
	switch p.State {
	case PermissionOpen, PermissionYes, PermissionNo, PermissionGiven, PermissionRefused:
		return nil
	default:
		return errors.New("a question of an agent in an unknown state")
	}
}

// Permit is the operator's word on a question of a hosted agent. It counts only for the hash that the operator was shown.
type Permit struct {
	ID    string `json:"id"`
	Hash  string `json:"hash"`
	Allow bool   `json:"allow"`
}

// Permitted says that the bridge has recorded a question in this state.
type Permitted struct {
	ID    string          `json:"id"`
	State PermissionState `json:"state"`
}

func (p Permitted) check() error {
	if !ValidRequestID(p.ID) {
		return errors.New("a receipt of a question without an id")
	}
	return nil
}

// PermissionWait lists questions whose answer the relay waits for. The bridge answers with a permit for each that the operator has answered.
type PermissionWait struct {
	IDs []string `json:"ids"`
}

// maxPermissionWait bounds the questions that a relay waits for.
const maxPermissionWait = 64

func (p PermissionWait) check() error {
	if len(p.IDs) == 0 || len(p.IDs) > maxPermissionWait {
		return fmt.Errorf("a relay can wait for 1 to %d questions, but this relay asks for %d", maxPermissionWait, len(p.IDs))
	}
	for _, id := range p.IDs {
		if !ValidRequestID(id) {
			return errors.New("a relay waits for a question without an id")
		}
	}
	return nil
}

// SignPermit signs the operator's word for one relay.
func SignPermit(key ed25519.PrivateKey, relay string, p Permit, created time.Time) (Signed, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return Signed{}, fmt.Errorf("write permit: %w", err)
	}
	return signBody(key, Order{ID: p.ID, Relay: relay, Created: created, For: MaxAge}, PermitPath, string(body))
}

// VerifyPermit is [Verifier.Verify] for the operator's word. Seeing the same word twice does no harm: a question takes one answer.
func (v Verifier) VerifyPermit(s Signed) (p Permit, err error) {
	if err := v.genuine(s, PermitPath); err != nil {
		return Permit{}, err
	}
	if err := strictjson.DecodeExact([]byte(s.Body), &p); err != nil {
		return Permit{}, fmt.Errorf("the permit's body: %w", err)
	}
	if p.ID != s.ID || !ValidRequestID(p.ID) {
		return Permit{}, errors.New("the permit names another question than its signature")
	}
	return p, nil
}

// PermissionAsker is an [AgentHost] whose agents ask. Safe for concurrent use.
type PermissionAsker interface {
	// Permissions returns the questions that are open, and those whose state the bridge has not confirmed; changed is closed when that may
	// be another list.
	Permissions() (list []Permission, changed <-chan struct{})
	// PermissionHeard says that the bridge has recorded a state.
	PermissionHeard(id string, state PermissionState)
	// Permit takes the operator's word. An error says that it does not count; what does is in Permissions.
	Permit(p Permit) error
}
