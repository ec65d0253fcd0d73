//go:build !failpoint

package failpoint_test

import (
	"os"
	"path/filepath"
	"testing"

	"drawbridge/internal/failpoint"
)

// TestReleaseCannotKillItself: without the tag no variable has any effect.
func TestReleaseCannotKillItself(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("DRAWBRIDGE_FAILPOINT", "a.point#1")
	t.Setenv("DRAWBRIDGE_FAILPOINT_LOG", log)
	failpoint.Here("a.point")
	if _, err := os.Stat(log); err == nil || failpoint.Armed {
		t.Errorf("armed: %v; log: %v", failpoint.Armed, err)
	}
}
