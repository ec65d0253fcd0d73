//go:build deep

package runner_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"drawbridge/relay/runner"
	"drawbridge/relay/wire"
)

// A crash can cut the file anywhere behind what was synced, and leave zeros there. Every cut is read, and all whole lines
// are known; the cuts at the ends of lines go through a real file.
func TestJournalCutAnywhere(t *testing.T) {
	t.Parallel()
	text, steps := sampleJournal(t)
	path := filepath.Join(t.TempDir(), "relay.journal")
	for cut := range len(text) + 1 {
		for _, tail := range []string{"", "\x00\x00\x00", "\x00{\x00}\n"} {
			if tail != "" && cut < steps[0].size {
				continue
			}
			// The end of a line alone may be missing; what is behind it would be another line.
			whole := cut
			if tail == "" && cut < len(text) && text[cut] == '\n' {
				whole++
			}
			m, err := runner.ParseJournal([]byte(string(text[:cut])+tail), time.Now)
			if err != nil {
				t.Fatalf("cut at %d of %d with %q: %v", cut, len(text), tail, err)
			}
			m.Interrupt()
			checkStatus(t, m, statusAt(steps, whole))
			if t.Failed() {
				t.Fatalf("cut at %d of %d with %q", cut, len(text), tail)
			}
		}
		nearEnd := cut == len(text) || text[cut] == '\n' || cut > 0 && text[cut-1] == '\n'
		if nearEnd && cut > 0 {
			write(t, path, string(text[:cut-1]), 0o600)
			j, err := runner.OpenJournal(path, time.Now)
			must(t, err)
			claim(t, j, "new", "a")
			must(t, j.Finish("new", answered("x")))
			must(t, j.Close())
			j, err = runner.OpenJournal(path, time.Now)
			must(t, err)
			checkStatus(t, j, map[string]wire.Status{"new": wire.StatusExecuted})
			must(t, j.Close())
		}
	}
}

// A changed byte anywhere but in an unfinished last line stops the start, and the file stays as it is.
func TestJournalChangedAnywhere(t *testing.T) {
	t.Parallel()
	text, _ := sampleJournal(t)
	for at := range text {
		for _, to := range []byte{text[at] ^ 1, text[at] ^ 0x20, '\n'} {
			changed := bytes.Clone(text)
			changed[at] = to
			if to == text[at] || at == len(text)-1 {
				continue
			}
			if m, err := runner.ParseJournal(changed, time.Now); err == nil {
				again, _ := runner.FormatJournal(m)
				t.Fatalf("byte %d changed from %q to %q was read as\n%s", at, text[at], to, again)
			}
		}
	}
}
