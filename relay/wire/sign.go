package wire

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"drawbridge/internal/strictjson"
)

// The one algorithm, Ed25519, stands nowhere in a message: what is not said cannot be negotiated down.

// nonceText is the length of a nonce as text: 32 random bytes.
const nonceText = 43

var text64 = base64.RawURLEncoding.Strict()

// NewNonce returns 32 fresh random bytes as text.
func NewNonce() (string, error) {
	var raw [32]byte
	if _, err := io.ReadFull(rand.Reader, raw[:]); err != nil {
		return "", fmt.Errorf("make nonce: %w", err)
	}
	return text64.EncodeToString(raw[:]), nil
}

// keyIDSize is how many bytes of a digest name a key.
const keyIDSize = 8

// KeyID names a public key: the first 16 hex digits of its SHA-256.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:keyIDSize])
}

// KeyText writes a public key as text.
func KeyText(key ed25519.PublicKey) string { return text64.EncodeToString(key) }

// ReadKey reads what KeyText wrote.
func ReadKey(text string) (ed25519.PublicKey, error) {
	raw, err := text64.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("this is not a public key")
	}
	return raw, nil
}

// lines joins what is signed. No part may hold a line end, or two messages could read as one; a part that does makes a
// message that nothing verifies.
func lines(parts ...string) []byte {
	for _, p := range parts {
		if strings.ContainsAny(p, "\r\n") {
			return nil
		}
	}
	return []byte(strings.Join(parts, "\n"))
}

func sign(key ed25519.PrivateKey, message []byte) string {
	if message == nil {
		return ""
	}
	return text64.EncodeToString(ed25519.Sign(key, message))
}

func verified(key ed25519.PublicKey, message []byte, sig string) bool {
	raw, err := text64.DecodeString(sig)
	return err == nil && message != nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, message, raw)
}

// Ask is the body of a signed request. Only Action chooses anything; the rest is for whoever approves and for the audit.
type Ask struct {
	Action   string    `json:"action"`
	Line     string    `json:"line,omitempty"`
	Agent    string    `json:"agent,omitempty"`
	Approved *Approval `json:"approved,omitempty"`
}

// Signed is a request on its way: the envelope, the body as the exact text that was signed, and the signature.
type Signed struct {
	ID  string `json:"id"`
	Key string `json:"key"`
	// Created and Expires are Unix milliseconds.
	Created int64  `json:"created"`
	Expires int64  `json:"expires"`
	Body    string `json:"body"`
	Sig     string `json:"sig"`
}

// base is what is signed (facts: relay, rule 7). The path keeps a look-up from being taken for a request that runs.
func (s Signed) base(path, relay string) []byte {
	sum := sha256.Sum256([]byte(s.Body))
	return lines("relay-v1", "POST", path, relay, s.Key, strconv.FormatInt(s.Created, 10), strconv.FormatInt(s.Expires, 10), s.ID, hex.EncodeToString(sum[:]))
}

// Order is what a bridge signs: one request for one relay, good for as long as it says.
type Order struct {
	ID, Relay string
	Ask       Ask
	Created   time.Time
	// For is at most MaxAge.
	For time.Duration
	// Lookup is true when the relay is asked what it knows of the request, and nothing is to run.
	Lookup bool
}

func pathOf(lookup bool) string {
	if lookup {
		return LookupPath
	}
	return RunPath
}

// Sign signs an order. The same order of the same key gives the same bytes.
func Sign(key ed25519.PrivateKey, o Order) (Signed, error) {
	body, err := json.Marshal(o.Ask)
	if err != nil {
		return Signed{}, fmt.Errorf("write request: %w", err)
	}
	return signBody(key, o, pathOf(o.Lookup), string(body))
}

// signBody signs a body for a path under an order's id, relay and time.
func signBody(key ed25519.PrivateKey, o Order, path, body string) (Signed, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok || !ValidRequestID(o.ID) || !ValidAction(o.Relay) {
		return Signed{}, errors.New("cannot sign a request whose key, id or relay is empty")
	}
	s := Signed{ID: o.ID, Key: KeyID(public), Created: o.Created.UnixMilli(), Expires: o.Created.Add(o.For).UnixMilli(), Body: body}
	s.Sig = sign(key, s.base(path, o.Relay))
	return s, nil
}

// Verifier is what a relay checks requests against.
type Verifier struct {
	// Relay is the relay's own name; a request for another is foreign.
	Relay string
	// Keys are the bridge's keys that count now, by id.
	Keys map[string]ed25519.PublicKey
	Now  time.Time
	// Lookup is true for a look-up. Neither signature counts for the other.
	Lookup bool
}

// Verify returns what a signed request asks for, or why it is refused. Signature first: nothing else of what a stranger
// sent is looked at. It knows of no earlier request; whether this one was seen before is the caller's to say.
func (v Verifier) Verify(s Signed) (Request, error) {
	if err := v.genuine(s, pathOf(v.Lookup)); err != nil {
		return Request{}, err
	}
	r, err := s.request()
	if err != nil {
		return Request{}, err
	}
	r.Created, r.Expires = time.UnixMilli(s.Created), time.UnixMilli(s.Expires)
	return r, nil
}

// genuine checks the signature for a path, and the time.
func (v Verifier) genuine(s Signed, path string) error {
	key, known := v.Keys[s.Key]
	if !known {
		return errors.New("the request is signed with a key that this relay does not trust")
	}
	if !verified(key, s.base(path, v.Relay), s.Sig) {
		return errors.New("the request's signature is wrong: the request was changed, or is for another relay")
	}
	age := s.Expires - s.Created
	switch {
	case age <= 0 || age > MaxAge.Milliseconds():
		return fmt.Errorf("the request must be valid for at most %s", MaxAge)
	case time.UnixMilli(s.Created).After(v.Now.Add(MaxSkew)):
		return errors.New("the request is from the future; compare the clocks of both machines")
	case time.UnixMilli(s.Expires).Before(v.Now.Add(-MaxSkew)):
		return errors.New("the request is too old; compare the clocks of both machines")
	}
	return nil
}

func (s Signed) request() (Request, error) {
	if !ValidRequestID(s.ID) {
		return Request{}, errors.New("the request's id is malformed")
	}
	var ask Ask
	if err := strictjson.DecodeExact([]byte(s.Body), &ask); err != nil {
		return Request{}, fmt.Errorf("the request's body: %w", err)
	}
	if !ValidAction(ask.Action) {
		return Request{}, errors.New("the request names no action")
	}
	if err := errors.Join(checkText("the agent's line", ask.Line, MaxLine), checkText("the agent's name", ask.Agent, MaxAgent)); err != nil {
		return Request{}, err
	}
	if a := ask.Approved; a != nil && (len(a.Definition) != 2*sha256.Size || len(a.By) > MaxAgent) {
		return Request{}, errors.New("the request's approval is malformed")
	}
	return Request{ID: s.ID, Action: ask.Action, Line: ask.Line, Agent: ask.Agent, KeyID: s.Key, BodyHash: ask.hash(), Approved: ask.Approved}, nil
}

// hash is [Request.BodyHash]. Each part is length-prefixed, so that no two lists of parts give the same input.
func (a Ask) hash() string {
	h := sha256.New()
	for _, part := range []string{a.Action, a.Line, a.Agent} {
		fmt.Fprintf(h, "%d:%s|", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Digest names a request as it was signed: the same envelope and body, for the same relay, have the same digest.
func (s Signed) Digest(relay string) [32]byte { return sha256.Sum256(s.base(RunPath, relay)) }
