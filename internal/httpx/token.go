package httpx

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
)

// TokenHeader is the seed's header for the bridge's token, beside Authorization.
const TokenHeader = "X-Bridge-Token"

// Token is a bearer token, kept as its hash only, so that it cannot be printed.
type Token struct{ sum [sha256.Size]byte }

// NewToken refuses an empty or blank token: a door without a token does not open.
func NewToken(secret string) (Token, error) {
	if strings.TrimSpace(secret) == "" {
		return Token{}, errors.New("a token is required; set one before the server starts")
	}
	return Token{sum: sha256.Sum256([]byte(secret))}, nil
}

// Allows reports whether the request shows the token, as x-bridge-token or as
// Authorization: Bearer. Every credential that it shows must be right, so that
// no two readers of one request can differ. The comparison takes the same time
// whatever was shown.
func (t Token) Allows(r *http.Request) bool {
	shown := append([]string{}, r.Header.Values(TokenHeader)...)
	for _, value := range r.Header.Values("Authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			token = ""
		}
		shown = append(shown, strings.TrimLeft(token, " "))
	}
	right := 1
	for _, token := range shown {
		sum := sha256.Sum256([]byte(token))
		right &= subtle.ConstantTimeCompare(sum[:], t.sum[:])
	}
	return len(shown) > 0 && right == 1
}
