package bridge_test

import (
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/proof/memstore"
)

// A token that was made by hand and revoked takes no tool from an agent that gets a door with its turns, at a relay or as a chat model. The
// revocation of a token that the bridge gave does.
func TestDoorless(t *testing.T) {
	t.Parallel()
	const revoked, noDoor = "its token was revoked", "it is not connected to the bridge's tools, so it cannot answer"
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	gone := func(generation int) []bridge.DoorToken {
		return []bridge.DoorToken{{ID: "tok_1", Agent: "agt_1", Hash: "h1", Generation: generation, CreatedAt: at, RevokedAt: at}}
	}
	lives := bridge.DoorToken{ID: "tok_2", Agent: "agt_1", Hash: "h2", CreatedAt: at}
	always, never := func(string) bool { return true }, func(string) bool { return false }
	for name, tt := range map[string]struct {
		api    string
		given  func(string) bool
		tokens []bridge.DoorToken
		want   string
	}{
		"a door with its turns":                           {"", always, nil, ""},
		"a door, and a revoked token made by hand":        {"", always, gone(0), ""},
		"a door, and the revoked token that came with it": {"", always, gone(1), revoked},
		"one of its tokens lives":                         {"", never, append(gone(1), lives), ""},
		"no door, and a revoked token":                    {"", never, gone(0), revoked},
		"no door":                                         {"", never, nil, noDoor},
		"v0 takes no door":                                {bridge.APIv0, always, nil, noDoor},
		"v0 with a revoked token":                         {bridge.APIv0, always, gone(0), revoked},
		"where all give one":                              {"", nil, nil, ""},
		"where all give one, and it was revoked":          {"", nil, gone(0), revoked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := memstore.NewDisk().Open().Update(t.Context(), func(tx *bridge.Scene) error {
				a := bridge.Agent{ID: "agt_1", Name: "main", Root: "agt_1", State: bridge.AgentIdle, Runtime: "lap", API: tt.api}
				if err := tx.InsertAgent(a); err != nil {
					return err
				}
				for _, token := range tt.tokens {
					if err := tx.InsertToken(token); err != nil {
						return err
					}
				}
				why, err := bridge.Doorless(tx, a, tt.given)
				if why != tt.want {
					t.Errorf("%q, want %q", why, tt.want)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
