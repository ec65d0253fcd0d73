package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"drawbridge/config"
	"drawbridge/store"
)

// Disks looks at the space below the database and below the files that agents hand over. A disk with less than least bytes free
// is nearly full.
func Disks(cfg *config.Bridge, least uint64) (out []Finding) {
	var folders []string
	if !store.IsURL(cfg.Database) {
		folders = append(folders, existing(filepath.Dir(cfg.Database)))
	}
	if cfg.Files != "" {
		folders = append(folders, existing(cfg.Files))
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		var s syscall.Statfs_t
		if err := syscall.Statfs(folder, &s); err != nil {
			out = append(out, Finding{What: "disk of " + folder, Detail: "cannot be examined: " + err.Error() + "; correct the path in bridge.yaml"})
			continue
		}
		out = append(out, diskFinding(folder, uint64(s.Bavail)*uint64(s.Bsize), least))
	}
	return out
}

// existing is the folder itself, or the nearest one above it that exists: serve makes the rest.
func existing(folder string) string {
	for folder != filepath.Dir(folder) {
		if _, err := os.Stat(folder); err == nil {
			break
		}
		folder = filepath.Dir(folder)
	}
	return folder
}

// diskFinding judges the free space of a disk. free and least are bytes.
func diskFinding(folder string, free, least uint64) Finding {
	f := Finding{What: "disk of " + folder, OK: free >= least, Detail: fmt.Sprintf("has %d MiB free", free>>20)}
	if !f.OK {
		f.Detail = fmt.Sprintf("is nearly full: %d MiB are free; make at least %d MiB free, or the bridge refuses work that it cannot record", free>>20, least>>20)
	}
	return f
}
