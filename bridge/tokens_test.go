package bridge_test

import (
	"regexp"
	"testing"

	"drawbridge/bridge"
)

var doorToken = regexp.MustCompile(`^dbt_[0-9a-hjkmnp-tv-z]{52}$`)

func TestDoorTokenDependsOnEveryPart(t *testing.T) {
	t.Parallel()
	keys, agent := keysOf(1), bridge.Agent{ID: "agt_1", OpKey: "op"}
	plain := keys.DoorToken(agent, 1)
	if again := keysOf(1).DoorToken(bridge.Agent{ID: "agt_restored", OpKey: "op"}, 1); again != plain {
		t.Error("a restored database makes another token for the same launch")
	}
	seen := map[string]string{plain: "nothing", bridge.ExternalID("op"): "external id"}
	for part, token := range map[string]string{
		"bridge key":   keysOf(2).DoorToken(agent, 1),
		"operation":    keys.DoorToken(bridge.Agent{ID: "agt_1", OpKey: "op2"}, 1),
		"no operation": keys.DoorToken(bridge.Agent{ID: "agt_1"}, 1),
		"other agent":  keys.DoorToken(bridge.Agent{ID: "agt_2"}, 1),
		"generation":   keys.DoorToken(agent, 2),
		"border":       keys.DoorToken(bridge.Agent{OpKey: "op1"}, 1),
		"random":       bridge.NewDoorToken(),
		"random again": bridge.NewDoorToken(),
	} {
		if !doorToken.MatchString(token) {
			t.Errorf("%s: %q is no token", part, token)
		}
		if same, ok := seen[token]; ok {
			t.Errorf("%s and %s have one token", part, same)
		}
		seen[token] = part
	}
}

func TestHashDoorToken(t *testing.T) {
	t.Parallel()
	// printf dbt_x | sha256sum
	if got, want := bridge.HashDoorToken("dbt_x"), "769d38bd28d2d0a859ce4ee02f94eb9c20977e17671596872f92994f6fbbd07c"; got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}
