package probe

import (
	"path/filepath"
	"strings"
	"testing"

	"drawbridge/config"
)

// TestNearlyFullDisk: a disk below the bound is a problem, with the space that is left and what to do.
func TestNearlyFullDisk(t *testing.T) {
	t.Parallel()
	const leastFree = 512 << 20
	for free, want := range map[uint64]string{
		0:             "is nearly full: 0 MiB are free; make at least 512 MiB free",
		leastFree - 1: "is nearly full: 511 MiB are free",
		leastFree:     "has 512 MiB free",
		1 << 50:       "has 1073741824 MiB free",
	} {
		f := diskFinding("/data", free, leastFree)
		if f.OK != (free >= leastFree) || !strings.HasPrefix(f.Detail, want) || f.What != "disk of /data" {
			t.Errorf("%d bytes: %+v, want %q", free, f, want)
		}
	}
}

// TestDisksOfAConfiguration: the disks are those of the database and of the files, each once, also before serve makes their folders.
func TestDisksOfAConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		database, files string
		want            []string
	}{
		{filepath.Join(dir, "drawbridge.db"), filepath.Join(dir, "files", "more"), []string{dir}},
		{"postgres://127.0.0.1/x", dir, []string{dir}},
		{"postgres://127.0.0.1/x", "", nil},
	} {
		found := Disks(&config.Bridge{Database: tt.database, Files: tt.files}, 0)
		if len(found) != len(tt.want) {
			t.Fatalf("%+v: %+v", tt, found)
		}
		for i, f := range found {
			if f.What != "disk of "+tt.want[i] || !strings.Contains(f.Detail, "MiB") {
				t.Errorf("%+v: %+v", tt, f)
			}
		}
	}
}
