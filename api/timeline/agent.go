package timeline

import (
	"context"
	"net/http"
	"strings"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Holders knows whose a door token is.
type Holders interface {
	// Holder returns the token that a secret is; Unauthenticated when it is none or revoked.
	Holder(ctx context.Context, secret string) (bridge.DoorToken, error)
}

// ForAgent makes the reader for an agent that shows its one token: it gets its
// own tree, under the seed's names too, while the token is good. Every credential
// that is shown must be right, so that no two readers of a request can differ.
func ForAgent(r *http.Request, src Source, tokens Holders) (*Reader, error) {
	shown := r.Header.Values("Authorization")
	scheme, secret, _ := strings.Cut(strings.Join(shown, ","), " ")
	if len(shown) != 1 || !strings.EqualFold(scheme, "Bearer") || r.Header.Get(httpx.TokenHeader) != "" {
		return nil, bridge.Errorf(bridge.Unauthenticated, "a token is required: the operator's, or an agent's own as Authorization: Bearer")
	}
	holder := func(ctx context.Context) (bridge.DoorToken, error) {
		return tokens.Holder(ctx, strings.TrimSpace(secret))
	}
	t, err := holder(r.Context())
	if err != nil {
		return nil, err
	}
	f := &Reader{Source: src, Seed: true, Valid: func(ctx context.Context) bool {
		_, err := holder(ctx)
		return bridge.KindOf(err) != bridge.Unauthenticated
	}}
	err = src.View(r.Context(), func(tx bridge.Tx) error {
		a, err := tx.Agent(t.Agent)
		f.Root = a.Root
		return err
	})
	return f, err
}
