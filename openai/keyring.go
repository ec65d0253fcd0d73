package openai

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
)

// SecretPrefix makes a token of this door that leaked into a text easy to find.
const SecretPrefix = "dbo_"

// SpeaksForOperator is the one value of Token.SpeaksFor besides "".
const SpeaksForOperator = "operator"

// Keyring makes, lists, finds and revokes the door's tokens. Safe for concurrent use.
type Keyring struct {
	Records Records
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (k Keyring) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}

// hashSecret is what is kept of a secret. A secret has more than 256 random bits, so that it needs no salt and no slow hash.
func hashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

var (
	tokenName  = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)
	modelNames = regexp.MustCompile(`^[!-)+-~]{1,200}\*?$|^\*$`)
)

// The bounds of a token.
const (
	maxTokenModels = 100
	maxBudget      = 1_000_000_000_000
	maxPerMinute   = 1_000_000
)

// check refuses what a token cannot be, in the words of the command line.
func (t Token) check() error {
	switch {
	case !tokenName.MatchString(t.Name):
		return bridge.Errorf(bridge.Invalid, "%q is not a name for a token: use 1 to 64 of a-z, 0-9, _ . and -", t.Name)
	case len(t.Models) > maxTokenModels:
		return bridge.Errorf(bridge.Invalid, "a token may list at most %d models, and this one lists %d: end a name with * to cover several models", maxTokenModels, len(t.Models))
	case t.Budget < 0 || t.Budget > maxBudget:
		return bridge.Errorf(bridge.Invalid, "the budget must be 0 (unlimited) to %d tokens a day", int64(maxBudget))
	case t.PerMinute < 0 || t.PerMinute > maxPerMinute:
		return bridge.Errorf(bridge.Invalid, "the rate must be 0 (unlimited) to %d turns a minute", maxPerMinute)
	case t.SpeaksFor != "" && t.SpeaksFor != SpeaksForOperator:
		return bridge.Errorf(bridge.Invalid, "your token may speak only as %q, not as %q; correct speaks_for, or leave it out", SpeaksForOperator, t.SpeaksFor)
	}
	for _, m := range t.Models {
		if !modelNames.MatchString(m) {
			return bridge.Errorf(bridge.Invalid, "%q is not the name of a model: use visible ASCII characters, and * only at the end", m)
		}
	}
	return nil
}

// Mint makes a token and returns its secret, which nobody can read again. Invalid for what cannot be, Conflict when a token in force
// has the name.
func (k Keyring) Mint(ctx context.Context, t Token) (secret string, made Token, err error) {
	if err := t.check(); err != nil {
		return "", Token{}, err
	}
	secret = SecretPrefix + strings.ToLower(rand.Text()+rand.Text())
	t.ID, t.Hash, t.CreatedAt = bridge.NewID("otk_"), hashSecret(secret), k.now().UTC().Truncate(time.Microsecond)
	t.LastUsed, t.RevokedAt = time.Time{}, time.Time{}
	err = k.Records.SaveToken(ctx, t)
	if errors.Is(err, ErrConflict) {
		return "", Token{}, bridge.Errorf(bridge.Conflict, "there is a token named %q: revoke it first (drawbridge token --openai %s --revoke), or choose another name", t.Name, t.Name)
	}
	if err != nil {
		return "", Token{}, err
	}
	return secret, t, nil
}

// Holder returns the token that a secret is: Unauthenticated when it is none, or revoked. LastUsed is recorded once a minute at most.
func (k Keyring) Holder(ctx context.Context, secret string) (Token, error) {
	t, err := k.Records.TokenBy(ctx, hashSecret(secret))
	if errors.Is(err, ErrNoToken) || err == nil && !t.RevokedAt.IsZero() {
		return Token{}, bridge.Errorf(bridge.Unauthenticated, "this token is unknown or revoked: make a new one with drawbridge token --openai NAME")
	}
	if err != nil {
		return Token{}, err
	}
	return t, k.used(ctx, &t)
}

// Named returns the token in force of a name; NotFound when there is none.
func (k Keyring) Named(ctx context.Context, name string) (Token, error) {
	list, err := k.Records.Tokens(ctx)
	if err != nil {
		return Token{}, err
	}
	at := slices.IndexFunc(list, func(t Token) bool { return t.Name == name && t.RevokedAt.IsZero() })
	if at < 0 {
		return Token{}, bridge.Errorf(bridge.NotFound, "there is no valid token named %q: drawbridge token --openai --list shows all tokens", name)
	}
	return list[at], nil
}

// Anonymous returns the token of callers that send none, and notes that it was used.
func (k Keyring) Anonymous(ctx context.Context, name string) (Token, error) {
	t, err := k.Named(ctx, name)
	if bridge.KindOf(err) == bridge.NotFound {
		return Token{}, bridge.Errorf(bridge.Unauthenticated, "callers without a token use the token named %q, which does not exist; make it with drawbridge token --openai %s", name, name)
	}
	if err != nil {
		return Token{}, err
	}
	return t, k.used(ctx, &t)
}

func (k Keyring) used(ctx context.Context, t *Token) error {
	if now := k.now().UTC().Truncate(time.Microsecond); now.Sub(t.LastUsed) >= time.Minute {
		t.LastUsed = now
		if err := k.Records.SaveToken(ctx, *t); err != nil {
			return fmt.Errorf("record that the token was used: %w", err)
		}
	}
	return nil
}

// List returns all tokens, by name.
func (k Keyring) List(ctx context.Context) ([]Token, error) { return k.Records.Tokens(ctx) }

// Revoke ends the token in force of a name; NotFound when there is none. Turns that it began go on.
func (k Keyring) Revoke(ctx context.Context, name string) (Token, error) {
	t, err := k.Named(ctx, name)
	if err != nil {
		return Token{}, err
	}
	t.RevokedAt = k.now().UTC().Truncate(time.Microsecond)
	return t, k.Records.SaveToken(ctx, t)
}

// Allows reports whether the token may use a model of that name. A token that lists none may use all but those of agents and
// repositories, which it has to list.
func (t Token) Allows(model string) bool {
	if len(t.Models) == 0 {
		return !strings.HasPrefix(model, "agent/") && !strings.HasPrefix(model, "cloud/")
	}
	return slices.ContainsFunc(t.Models, func(m string) bool {
		start, open := strings.CutSuffix(m, "*")
		return m == model || open && strings.HasPrefix(model, start)
	})
}
