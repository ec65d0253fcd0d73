package memory_test

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/memory"
)

// Deleting makes room: the bound is on what an agent keeps, not on what it ever stored.
func TestForget(t *testing.T) {
	t.Parallel()
	e := still(t)
	s := service(t, memory.Options{Steps: e, Blocks: 1, Passages: 2})
	store := func(text string) (bridge.PassageID, error) {
		p, err := s.Store(t.Context(), "agt_1", text, nil)
		return p.ID, err
	}
	first, err := store("one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store("two"); err != nil {
		t.Fatal(err)
	}
	if _, err := store("three"); bridge.KindOf(err) != bridge.Conflict || !strings.Contains(err.Error(), "--forget psg_") {
		t.Errorf("one too many: %v", err)
	}
	if err := s.Forget(t.Context(), "agt_2", first); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("another agent's passage: %v", err)
	}
	if err := s.Forget(t.Context(), "agt_1", first); err != nil {
		t.Fatal(err)
	}
	if err := s.Forget(t.Context(), "agt_1", first); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("twice: %v", err)
	}
	if _, err := store("three"); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if _, err := store("four"); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("one too many again: %v", err)
	}

	for _, step := range []struct {
		label string
		kind  bridge.ErrorKind
	}{{"plan", ""}, {"mood", bridge.Conflict}} {
		if _, err := s.Update(t.Context(), "agt_1", memory.Draft{Label: step.label, Content: "x"}); bridge.KindOf(err) != step.kind {
			t.Errorf("block %s: %v", step.label, err)
		}
	}
	if err := s.ForgetBlock(t.Context(), "agt_1", "plan"); err != nil {
		t.Fatal(err)
	}
	if b, err := s.Update(t.Context(), "agt_1", memory.Draft{Label: "mood", Content: "x"}); err != nil || b.Version != 1 {
		t.Errorf("there is room for a block again: %+v, %v", b, err)
	}
	if err := s.ForgetBlock(t.Context(), "agt_1", "plan"); bridge.KindOf(err) != bridge.NotFound {
		t.Errorf("a block that is gone: %v", err)
	}
	told := 0
	if err := e.View(t.Context(), func(tx *bridge.Scene) error {
		events, err := tx.Events(0, 100)
		for _, ev := range events {
			if ev.Kind == bridge.EventMemory && strings.HasPrefix(ev.Text, "the operator deleted ") {
				told++
			}
		}
		return err
	}); err != nil || told != 2 {
		t.Errorf("%d events tell of it, %v", told, err)
	}
}
