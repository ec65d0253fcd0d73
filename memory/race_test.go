package memory_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"drawbridge/bridge"
	"drawbridge/memory"
)

// TestCountedBounds: writers who come at the same moment to what one of them may still have do not all get it, be they the
// agent or the operator.
func TestCountedBounds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options memory.Options
		write   func(s *memory.Service, i int) error
		want    int
	}{
		"blocks": {memory.Options{Blocks: 5}, func(s *memory.Service, i int) error {
			label := fmt.Sprint("block ", i)
			if i%2 == 0 {
				_, err := s.Write(t.Context(), bridge.Block{Agent: "agt_1", Label: label, Content: "x"}, nil)
				return err
			}
			_, err := s.Update(t.Context(), "agt_1", memory.Draft{Label: label, Content: "x"})
			return err
		}, 5},
		"passages": {memory.Options{Passages: 4}, func(s *memory.Service, i int) error {
			_, err := s.Store(t.Context(), "agt_1", fmt.Sprint("passage ", i), nil)
			return err
		}, 4},
		"bytes": {memory.Options{Bytes: 350}, func(s *memory.Service, i int) error {
			_, err := s.Store(t.Context(), "agt_1", fmt.Sprintf("%02d%s", i, strings.Repeat("x", 98)), nil)
			return err
		}, 3},
		"a version": {memory.Options{}, func(s *memory.Service, i int) error {
			_, err := s.Update(t.Context(), "agt_1", memory.Draft{Label: "plan", Content: fmt.Sprint(i), IfVersion: version(0)})
			return err
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.options.Steps = still(t)
			services := []*memory.Service{service(t, tt.options), service(t, tt.options)}
			start, errs := make(chan struct{}), make([]error, 16)
			var writers sync.WaitGroup
			for i := range errs {
				writers.Go(func() {
					<-start
					errs[i] = tt.write(services[i/2%2], i)
				})
			}
			close(start)
			writers.Wait()
			passed := 0
			for _, err := range errs {
				switch {
				case err == nil:
					passed++
				case bridge.KindOf(err) != bridge.Conflict:
					t.Errorf("refused with %v", err)
				}
			}
			if passed != tt.want {
				t.Errorf("%d of 16 passed, want %d", passed, tt.want)
			}
		})
	}
}
