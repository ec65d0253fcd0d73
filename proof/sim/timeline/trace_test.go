package timeline

import (
	"testing"
	"time"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	kept, quiet, other := NewTrace(true), NewTrace(false), NewTrace(false)
	kept.Add(time.Second, []string{"a", "bc"})
	quiet.Add(time.Second, []string{"a", "bc"})
	other.Add(time.Second, []string{"ab", "c"})
	if kept.Hash != quiet.Hash || kept.Hash == other.Hash {
		t.Errorf("hashes %x, %x, %x", kept.Hash, quiet.Hash, other.Hash)
	}
	if len(kept.Lines) != 1 || kept.Lines[0] != "1s a bc" || len(quiet.Lines) != 0 {
		t.Errorf("lines %q and %q", kept.Lines, quiet.Lines)
	}
}
