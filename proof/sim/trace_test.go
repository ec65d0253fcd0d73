package sim

import (
	"testing"
	"time"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	kept, quiet, other := newTrace(true), newTrace(false), newTrace(false)
	kept.add(time.Second, []string{"a", "bc"})
	quiet.add(time.Second, []string{"a", "bc"})
	other.add(time.Second, []string{"ab", "c"})
	if kept.hash != quiet.hash || kept.hash == other.hash {
		t.Errorf("hashes %x, %x, %x", kept.hash, quiet.hash, other.hash)
	}
	if len(kept.lines) != 1 || kept.lines[0] != "1s a bc" || len(quiet.lines) != 0 {
		t.Errorf("lines %q and %q", kept.lines, quiet.lines)
	}
}
