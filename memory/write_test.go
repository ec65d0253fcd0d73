package memory_test

import (
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/memory"
)

// What the operator writes is versioned with what the agent writes, is bound by the same
// limits, and the timeline says who wrote.
func TestOperatorWritesABlock(t *testing.T) {
	t.Parallel()
	e := still(t)
	s := service(t, memory.Options{Steps: e, Blocks: 1})
	write := func(label, content string, version ...int) (bridge.Block, error) {
		var at *int
		if len(version) > 0 {
			at = &version[0]
		}
		return s.Write(t.Context(), bridge.Block{Agent: "agt_1", Label: label, Content: content}, at)
	}
	if _, err := s.Update(t.Context(), "agt_1", memory.Draft{Label: "plan", Content: "mine"}); err != nil {
		t.Fatal(err)
	}
	if b, err := write(" plan ", "the operator's", 1); err != nil || b.Version != 2 || b.Label != "plan" || b.UpdatedAt.IsZero() {
		t.Errorf("the operator's write: %+v, %v", b, err)
	}
	for what, try := range map[string]struct {
		write func() (bridge.Block, error)
		kind  bridge.ErrorKind
	}{
		"an older version":     {func() (bridge.Block, error) { return write("plan", "x", 1) }, bridge.Conflict},
		"a new one":            {func() (bridge.Block, error) { return write("plan", "x", 0) }, bridge.Conflict},
		"one block too many":   {func() (bridge.Block, error) { return write("mood", "x") }, bridge.Conflict},
		"no label":             {func() (bridge.Block, error) { return write(" ", "x") }, bridge.Invalid},
		"a label of two lines": {func() (bridge.Block, error) { return write("a\nb", "x") }, bridge.Invalid},
		"a NUL":                {func() (bridge.Block, error) { return write("plan", "\x00") }, bridge.Invalid},
		"too much":             {func() (bridge.Block, error) { return write("plan", strings.Repeat("x", memory.MaxText+1)) }, bridge.TooLarge},
		"an unknown agent": {func() (bridge.Block, error) {
			return s.Write(t.Context(), bridge.Block{Agent: "agt_9", Label: "plan"}, nil)
		}, bridge.NotFound},
	} {
		if _, err := try.write(); bridge.KindOf(err) != try.kind {
			t.Errorf("%s: %v", what, err)
		}
	}
	stale := 1
	if _, err := s.Update(t.Context(), "agt_1", memory.Draft{Label: "plan", Content: "x", IfVersion: &stale}); bridge.KindOf(err) != bridge.Conflict {
		t.Errorf("the agent overwrites what it has not read: %v", err)
	}
	versions, err := s.Versions(t.Context(), "agt_1", "plan", 0)
	if err != nil || len(versions) != 2 || versions[0].Content != "the operator's" || versions[1].Content != "mine" {
		t.Errorf("versions: %+v, %v", versions, err)
	}
	var by []string
	if err := e.View(t.Context(), func(tx *bridge.Scene) error {
		events, err := tx.Events(0, 100)
		for _, ev := range events {
			if ev.Kind == bridge.EventMemory {
				by = append(by, ev.Fields["by"]+" "+ev.Fields["label"]+" "+ev.Fields["version"])
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(by, ", "); got != "agent plan 1, operator plan 2" {
		t.Errorf("the timeline says %q", got)
	}
}
