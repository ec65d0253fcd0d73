package turns

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The relay remembers a bounded number of stops, on the disk and in memory, and forgets the oldest, over restarts, too.
func TestStopsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, stopsFolder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	begun := time.Now().Add(-time.Hour)
	for i := range maxStops { // as an earlier relay left them
		path := filepath.Join(folder, stopName(fmt.Sprint("t", i)))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, begun, begun.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := openStops(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range []string{"new", "new", "newer"} {
		if err := s.keep(turn); err != nil {
			t.Fatal(err)
		}
	}
	s.add("ended")
	s.forget("ended")
	s.forget("new") // it is on the disk
	if s, err = openStops(dir); err != nil {
		t.Fatal(err)
	}
	for turn, want := range map[string]bool{"t0": false, "t1": false, "t2": true, "t4095": true, "new": true, "newer": true, "ended": false, "NEW": false} {
		if s.has(turn) != want {
			t.Errorf("stopped(%s) is %v, want %v", turn, !want, want)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != maxStops {
		t.Errorf("%d files, want %d; %v", len(entries), maxStops, err)
	}
}
