package turns

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// stopsFolder holds an empty file for each turn that was stopped and had no end, below the folder of the records. A stop may come before its
// turn, and even before the session's record. A relay that starts again must not say such a turn.
const stopsFolder = "stopped"

// maxStops bounds the turns that the relay remembers as stopped. It forgets the oldest.
const maxStops = 4096

// stops are the turns that are not to be said. Safe for concurrent use.
type stops struct {
	dir string

	mu   sync.Mutex // guards the fields below
	all  map[string]bool
	kept []string // the names of files, oldest first
}

// openStops reads which turns an earlier relay was to leave unsaid.
func openStops(records string) (*stops, error) {
	s := &stops{dir: filepath.Join(records, stopsFolder), all: map[string]bool{}}
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make folder of stopped turns: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("read stopped turns: %w", err)
	}
	ages := map[string]int64{}
	for _, e := range entries {
		if at, err := e.Info(); err == nil {
			ages[e.Name()] = at.ModTime().UnixNano()
			s.kept = append(s.kept, e.Name())
			s.all[e.Name()] = true
		}
	}
	slices.SortFunc(s.kept, func(a, b string) int { return cmp.Or(cmp.Compare(ages[a], ages[b]), cmp.Compare(a, b)) })
	return s, nil
}

// has reports whether a turn was stopped.
func (s *stops) has(turn string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[stopName(turn)]
}

// add remembers a stop in this process.
func (s *stops) add(turn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[stopName(turn)] = true
}

// forget is for a turn that has its end, or gets one on the disk: nothing says it again.
func (s *stops) forget(turn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := stopName(turn); !slices.Contains(s.kept, name) {
		delete(s.all, name)
	}
}

// keep makes a stop durable. Twice is fine.
func (s *stops) keep(turn string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := stopName(turn)
	if slices.Contains(s.kept, name) {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(s.dir, name), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("record that turn %q was stopped: %w", turn, err)
	}
	if err := errors.Join(file.Sync(), file.Close(), syncDir(s.dir)); err != nil {
		return fmt.Errorf("record that turn %q was stopped: %w", turn, err)
	}
	s.all[name] = true
	s.kept = append(s.kept, name)
	return s.prune()
}

// prune forgets the oldest stops beyond the bound.
func (s *stops) prune() error {
	for len(s.kept) > maxStops {
		oldest := s.kept[0]
		if err := os.Remove(filepath.Join(s.dir, oldest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget an old stop: %w", err)
		}
		s.kept = slices.Delete(s.kept, 0, 1)
		delete(s.all, oldest)
	}
	return nil
}

// stopName names the file of a turn. The bridge's id of a turn may differ from another in case alone.
func stopName(turn string) string {
	sum := sha256.Sum256([]byte(turn))
	return hex.EncodeToString(sum[:16])
}

// syncDir makes the entries of a folder durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
