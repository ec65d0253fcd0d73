package engine

import (
	"testing"

	"drawbridge/bridge"
	"drawbridge/bridge/moving"
)

// The first turn after a move has the marker of its session, also when it goes on after a limit. Words of a person that look like one do not.
func TestMarkerAfterMove(t *testing.T) {
	t.Parallel()
	head := moving.Transcript("It is here.", nil, 3)
	for name, tt := range map[string]struct {
		turn  bridge.Turn
		first bool
	}{
		"the first turn after a move": {bridge.Turn{ID: "trn_4", Seq: 4, Text: "go", Sent: head + "go"}, true},
		"a later turn":                {bridge.Turn{ID: "trn_5", Seq: 5, Text: "go", Sent: "go"}, false},
		"words that look like one":    {bridge.Turn{ID: "trn_6", Seq: 6, Text: head, Sent: head}, false},
		"the launch":                  {bridge.Turn{ID: "trn_1", Seq: 1, Text: "go", Sent: "go"}, true},
	} {
		if got := followUpOf(job{turn: tt.turn}).Marker; (got == "") != tt.first {
			t.Errorf("%s: marker %q", name, got)
		}
	}
}
