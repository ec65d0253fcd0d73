//go:build deep

package config_test

import (
	"testing"
	"time"
)

// TestWatchWrites writes in place, as some editors do: the debounce is long enough
// that nobody sees the file between its truncation and its text.
func TestWatchWrites(t *testing.T) {
	t.Parallel()
	w := loaded(t, 300*time.Millisecond)
	write(t, w.path, "repos: [*]")
	w.want(t, "broken: is not YAML: did not find expected alphabetic or numeric character")
	// The old rules come back: that is told too, since the file is good again.
	write(t, w.path, repos("github.com/a/b"))
	w.want(t, "github.com/a/b")
	write(t, w.path, "")
	w.want(t, "nothing")
}
