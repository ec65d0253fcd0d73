package wire

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// transcript is what both ends sign: everything that was said so far, under a word of their own, so that neither
// signature can stand for the other or for any other message of this package.
func transcript(word string, h Hello, c Challenge) []byte {
	return lines(word, h.Relay, h.Key, h.Nonce, strings.Join(h.Pins, ","), c.Key, c.Nonce)
}

// Prove signs the bridge's challenge to h: c comes back with its signature.
func (c Challenge) Prove(key ed25519.PrivateKey, h Hello) Challenge {
	c.Sig = sign(key, transcript("relay-challenge-v1", h, c))
	return c
}

// Proved reports whether the challenge was made for h, now, by the holder of key.
func (c Challenge) Proved(key ed25519.PublicKey, h Hello) bool {
	return len(c.Nonce) == nonceText && c.Key == KeyID(key) && verified(key, transcript("relay-challenge-v1", h, c), c.Sig)
}

// Prove signs the relay's answer to a challenge, its epoch and process included: p comes back with its signature.
func (p Proof) Prove(key ed25519.PrivateKey, h Hello, c Challenge) Proof {
	p.Sig = sign(key, p.base(h, c))
	return p
}

func (p Proof) base(h Hello, c Challenge) []byte {
	return lines("relay-proof-v2", string(transcript64(h, c)), strconv.FormatInt(p.Epoch, 10), p.Process)
}

// transcript64 is the transcript as one line.
func transcript64(h Hello, c Challenge) []byte {
	return text64.AppendEncode(nil, transcript("relay-proof-v2", h, c))
}

// Proved reports whether the holder of the relay's key answered this challenge.
func (p Proof) Proved(key ed25519.PublicKey, h Hello, c Challenge) bool {
	return h.Key == KeyID(key) && verified(key, p.base(h, c), p.Sig)
}

func epochBase(h Hello, c Challenge, epoch int64) []byte {
	return lines("relay-epoch-v1", h.Relay, h.Nonce, c.Nonce, strconv.FormatInt(epoch, 10))
}

// Give signs an epoch for the connection that h and c opened: w comes back with it.
func (w Welcome) Give(key ed25519.PrivateKey, h Hello, c Challenge, epoch int64) Welcome {
	w.Epoch, w.Sig = epoch, sign(key, epochBase(h, c, epoch))
	return w
}

// Gives reports whether the holder of key gave the epoch in w to this connection.
func (w Welcome) Gives(key ed25519.PublicKey, h Hello, c Challenge) bool {
	return w.Epoch > 0 && w.Epoch <= MaxEpoch && verified(key, epochBase(h, c, w.Epoch), w.Sig)
}

// NewKeys signs a newer key of the bridge with one that a relay trusts already. It is for one relay alone.
func NewKeys(by ed25519.PrivateKey, relay string, next ed25519.PublicKey) (Keys, error) {
	public, ok := by.Public().(ed25519.PublicKey)
	if !ok {
		return Keys{}, errors.New("sign key: the signing key is not an Ed25519 key")
	}
	k := Keys{Public: KeyText(next), By: KeyID(public)}
	k.Sig = sign(by, k.base(relay))
	return k, nil
}

func (k Keys) base(relay string) []byte { return lines("relay-key-v1", relay, k.By, k.Public) }

// Next returns the newer key when one of the trusted keys, by id, vouches for it.
func (k Keys) Next(relay string, trusted map[string]ed25519.PublicKey) (ed25519.PublicKey, error) {
	next, err := ReadKey(k.Public)
	if err != nil {
		return nil, err
	}
	if by, known := trusted[k.By]; !known || !verified(by, k.base(relay), k.Sig) {
		return nil, errors.New("no key that this relay trusts has signed the new key of the bridge")
	}
	return next, nil
}

// Token is what a join command carries: the id that the bridge looks up, the secret that proves it, which is never sent,
// and the bridge's public key, so that already the first contact is with the right bridge.
type Token struct {
	ID     string
	Secret string
	Bridge ed25519.PublicKey
}

// tokenPrefix makes a token recognizable for people and for scanners of leaked secrets.
const tokenPrefix = "dbj_"

// String is the text of the token, a secret: dbj_<id>.<secret>.<key>, all of characters that no shell looks at.
func (t Token) String() string {
	return tokenPrefix + t.ID + "." + t.Secret + "." + KeyText(t.Bridge)
}

// ReadToken reads a token's text.
func ReadToken(text string) (Token, error) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 || !ValidRequestID(parts[0]) || len(parts[1]) != nonceText {
		return Token{}, errors.New("this is not a join token; copy it whole from `drawbridge relay token <name>`")
	}
	key, err := ReadKey(parts[2])
	if err != nil {
		return Token{}, errors.New("the join token is cut off; copy it whole from `drawbridge relay token <name>`")
	}
	return Token{ID: parts[0], Secret: parts[1], Bridge: key}, nil
}

// Join is the body of POST [JoinPath]: the holder of a token hands in the public key of the relay.
type Join struct {
	Token string `json:"token"`
	// Public is the relay's new key and Nonce makes the answer fresh.
	Public string `json:"public"`
	Nonce  string `json:"nonce"`
	// MAC proves the token's secret, Sig the relay's key.
	MAC string `json:"mac"`
	Sig string `json:"sig"`
}

func (j Join) base(bridge ed25519.PublicKey) []byte {
	return lines("relay-join-v1", j.Token, j.Public, j.Nonce, KeyID(bridge))
}

func (j Join) mac(secret string, bridge ed25519.PublicKey) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write(j.base(bridge))
	return text64.EncodeToString(h.Sum(nil))
}

// NewJoin makes the body for a token and the relay's key.
func NewJoin(t Token, key ed25519.PrivateKey) (Join, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return Join{}, errors.New("join: the relay's key is not an Ed25519 key")
	}
	nonce, err := NewNonce()
	if err != nil {
		return Join{}, err
	}
	j := Join{Token: t.ID, Public: KeyText(public), Nonce: nonce}
	j.MAC, j.Sig = j.mac(t.Secret, t.Bridge), sign(key, j.base(t.Bridge))
	return j, nil
}

// Check returns the relay's key when both proofs hold for a token.
func (j Join) Check(t Token) (ed25519.PublicKey, error) {
	key, err := ReadKey(j.Public)
	if err != nil {
		return nil, err
	}
	base := j.base(t.Bridge)
	if base == nil || len(j.Nonce) != nonceText || !hmac.Equal([]byte(j.MAC), []byte(j.mac(t.Secret, t.Bridge))) || !verified(key, base, j.Sig) {
		return nil, errors.New("the request does not prove the join token and the relay's key")
	}
	return key, nil
}

// Joined is the bridge's answer: the name under which the relay is known from now on, signed.
type Joined struct {
	Relay string `json:"relay"`
	Sig   string `json:"sig"`
}

func (d Joined) base(j Join, bridge ed25519.PublicKey) []byte {
	return lines("relay-joined-v1", d.Relay, j.Token, j.Public, j.Nonce, KeyID(bridge))
}

// NewJoined signs the answer to j with the bridge's key that the token carried.
func NewJoined(key ed25519.PrivateKey, relay string, j Join) (Joined, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return Joined{}, errors.New("join: the bridge's key is not an Ed25519 key")
	}
	d := Joined{Relay: relay}
	d.Sig = sign(key, d.base(j, public))
	return d, nil
}

// Proved reports whether the bridge of the token answered j.
func (d Joined) Proved(t Token, j Join) bool {
	return ValidAction(d.Relay) && verified(t.Bridge, d.base(j, t.Bridge), d.Sig)
}

// Rekey is the body of POST [RekeyPath]: the relay's next key, signed with the one in use and with itself.
type Rekey struct {
	Relay  string `json:"relay"`
	Key    string `json:"key"`
	Public string `json:"public"`
	// Created is in Unix milliseconds, within MaxSkew.
	Created int64 `json:"created"`
	// Pins are the bridge's keys that the relay trusts; one of them signs the answer.
	Pins []string `json:"pins"`
	Sig  string   `json:"sig"`
	Next string   `json:"next"`
}

func (r Rekey) base(word string) []byte {
	return lines(word, r.Relay, r.Key, r.Public, strconv.FormatInt(r.Created, 10), strings.Join(r.Pins, ","))
}

// Prove signs r with the relay's key in use and with its next one.
func (r Rekey) Prove(key, next ed25519.PrivateKey) Rekey {
	r.Sig, r.Next = sign(key, r.base("relay-rekey-v1")), sign(next, r.base("relay-rekey-next-v1"))
	return r
}

// Check returns the next key when the holder of key asks for it now.
func (r Rekey) Check(key ed25519.PublicKey, now time.Time) (ed25519.PublicKey, error) {
	next, err := ReadKey(r.Public)
	if err != nil {
		return nil, err
	}
	if r.Key != KeyID(key) || !verified(key, r.base("relay-rekey-v1"), r.Sig) || !verified(next, r.base("relay-rekey-next-v1"), r.Next) {
		return nil, errors.New("the request does not prove the relay's old and new key")
	}
	if off := now.Sub(time.UnixMilli(r.Created)).Abs(); off > MaxSkew {
		return nil, fmt.Errorf("the request is %s off; compare the clocks of both machines", off.Round(time.Second))
	}
	return next, nil
}

// Rekeyed is the bridge's answer to r, signed with one of r's pins.
type Rekeyed struct {
	Key string `json:"key"`
	Sig string `json:"sig"`
}

// NewRekeyed signs the answer to r.
func NewRekeyed(key ed25519.PrivateKey, r Rekey) (Rekeyed, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return Rekeyed{}, errors.New("rekey: the bridge's key is not an Ed25519 key")
	}
	return Rekeyed{Key: KeyID(public), Sig: sign(key, r.base("relay-rekeyed-v1"))}, nil
}

// Proved reports whether the bridge, by one of the trusted keys, took r.
func (d Rekeyed) Proved(trusted map[string]ed25519.PublicKey, r Rekey) bool {
	key, known := trusted[d.Key]
	return known && verified(key, r.base("relay-rekeyed-v1"), d.Sig)
}
