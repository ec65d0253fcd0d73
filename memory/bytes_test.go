package memory_test

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/memory"
)

// TestBytes bounds what blocks, their versions and passages hold together, and a full
// memory can still be changed.
func TestBytes(t *testing.T) {
	t.Parallel()
	s := service(t, memory.Options{Bytes: 100})
	ctx := t.Context()
	update := func(label string, n int) error {
		_, err := s.Update(ctx, "agt_1", memory.Draft{Label: label, Content: strings.Repeat("x", n)})
		return err
	}
	full := func(what string, err error) {
		t.Helper()
		if msg := bridge.SafeMessage(err); bridge.KindOf(err) != bridge.Conflict || !strings.Contains(msg, "at most 100 are allowed") || !strings.Contains(msg, "drawbridge memory AGENT --forget psg_") {
			t.Errorf("%s: %v", what, err)
		}
	}
	fine := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range 9 { // earlier versions make room
		fine("a block", update("a", 40))
	}
	p, err := s.Store(ctx, "agt_1", strings.Repeat("y", 15), []string{"12345"})
	fine("a passage", err)
	_, err = s.Store(ctx, "agt_1", strings.Repeat("y", 41), nil)
	full("a passage too many", err)
	full("a block too many", update("b", 41))
	full("a longer block", update("a", 81))
	if all, err := s.Blocks(ctx, "agt_1"); err != nil || len(all) != 1 || len(all[0].Content) != 40 {
		t.Errorf("a refused write changed blocks: %+v, %v", all, err)
	}
	fine("a longer block that fits", update("a", 80))
	fine("the same size again", update("a", 80))
	_, err = s.Store(ctx, "agt_1", "z", nil)
	full("nothing more fits", err)
	_, err = s.Store(ctx, "agt_2", strings.Repeat("y", 100), nil)
	fine("another agent", err)
	fine("the operator deletes", s.Forget(ctx, "agt_1", p.ID))
	_, err = s.Store(ctx, "agt_1", "z", nil)
	fine("after that", err)
}
