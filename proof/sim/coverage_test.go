package sim

import "testing"

// TestMissing: what was never reached is named.
func TestMissing(t *testing.T) {
	t.Parallel()
	var c Coverage
	c.Add(Coverage{})
	all := c.Missing()
	if want := len(allFaults) + 30; len(all) < want {
		t.Fatalf("%d things are missing from nothing, want at least %d", len(all), want)
	}
	for _, f := range allFaults {
		c.Faults[f] = 1
	}
	c.Edges[Edge{Noun: "turn", From: "queued", To: "delivering"}] = 1
	if n := len(c.Missing()); n != len(all)-len(allFaults)-1 {
		t.Errorf("%d things are missing, want %d", n, len(all)-len(allFaults)-1)
	}
}
