package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drawbridge/bridge"
)

// anchor knows which files a SQLite database was opened with. SQLite goes on with
// files that were removed, moved or replaced: what it commits then is in no file
// that anybody finds again. Safe for concurrent use.
type anchor struct {
	// given is the path of the configuration, which may lead through links; path is the file's own.
	given, path string
	files       []anchored
	// lost is set once and for all. A file that was put back may have been changed meanwhile.
	lost atomic.Pointer[bridge.Error]
	// logSize is the size of the log in bytes when it was looked at last.
	logSize atomic.Int64
}

type fileID struct{ dev, ino uint64 }

type anchored struct {
	place string
	id    fileID
}

// companions are the files beside a database that hold a part of it.
var companions = []string{"-wal", "-shm"}

// newAnchor remembers the files as they stand. All of them exist from the first
// transaction until the last connection is closed.
func newAnchor(given, path string) (*anchor, error) {
	a := &anchor{given: given, path: path}
	for _, place := range a.places() {
		info, err := os.Stat(place)
		if err != nil {
			return nil, fmt.Errorf("look at the database's files: %w", err)
		}
		a.files = append(a.files, anchored{place, idOf(info)})
	}
	return a, nil
}

// places are the database itself first, and all that leads to it or holds a part of it.
func (a *anchor) places() []string {
	out := []string{a.path}
	if a.given != a.path {
		out = append(out, a.given)
	}
	for _, c := range companions {
		out = append(out, a.path+c)
	}
	return out
}

func idOf(info fs.FileInfo) fileID {
	st, _ := info.Sys().(*syscall.Stat_t)         //nolint:errcheck // every system that we run on has it
	return fileID{uint64(st.Dev), uint64(st.Ino)} //nolint:unconvert // their types differ by system
}

// check returns an Unavailable error when one of the files is not there any
// more, or is another one. From the first such answer on it stays.
func (a *anchor) check() error {
	for _, f := range a.files {
		if err := a.look(f); err != nil {
			return err
		}
	}
	return a.held()
}

// checkMain is check for the database alone, for those who only read.
func (a *anchor) checkMain() error {
	if err := a.look(a.files[0]); err != nil {
		return err
	}
	return a.held()
}

func (a *anchor) held() error {
	if lost := a.lost.Load(); lost != nil {
		return lost
	}
	return nil
}

func (a *anchor) look(f anchored) error {
	info, err := os.Stat(f.place)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		a.lose(f.place, "is gone: somebody removed or moved it")
	case err != nil:
		return &bridge.Error{Kind: bridge.Unavailable, Message: "the bridge cannot look at the database's file " + f.place + "; check the disk and the rights of its folder", Cause: err}
	case idOf(info) != f.id:
		a.lose(f.place, "is another file: somebody replaced it")
	case f.place == a.path+"-wal":
		a.logSize.Store(info.Size())
	}
	return nil
}

func (a *anchor) lose(place, what string) {
	a.lost.CompareAndSwap(nil, &bridge.Error{Kind: bridge.Unavailable, Message: fmt.Sprintf(
		"the database's file %s %s while this bridge serves it. The bridge accepts no more work. Stop this bridge: it then writes back what it still has. Then put %s and the files beside it (-wal, -shm) back, and start again", place, what, a.path)})
}

// Check reports whether the database's files are still those that were opened:
// Unavailable when somebody removed, moved or replaced one, and from then on for
// good. It costs a look at each file. On PostgreSQL it returns nil.
func (s *Store) Check() error {
	if d, ok := s.db.(*sqliteDB); ok && d.anchor != nil {
		return d.anchor.check()
	}
	return nil
}

// Watch calls Check every so often until ctx ends, and lost with the first error
// that lasts. It writes back what the log still has, so that a database which was
// moved without its log is whole.
func (s *Store) Watch(ctx context.Context, every time.Duration, lost func(error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if d, ok := s.db.(*sqliteDB); ok && s.Check() != nil && d.anchor.held() != nil {
			s.rescue(ctx, d)
			lost(d.anchor.held())
			<-ctx.Done()
			return nil
		}
	}
}

// rescue copies the log into the file as it is open, which may have another name by now.
func (s *Store) rescue(ctx context.Context, d *sqliteDB) {
	s.leader <- struct{}{}
	defer func() { <-s.leader }()
	if d.conn != nil {
		_, _ = d.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)") // Close tries once more
	}
}

// lockByte is where the lock on a database's own file is: far from the bytes that
// SQLite locks (https://www.sqlite.org/lockingv3.html), and from any that it writes.
const lockByte = 1 << 61

// lockInode keeps two bridges off one file whatever they call it: a lock file
// beside a path knows nothing of hard links, nor of a file that was moved. The
// lock belongs to the open file and not to the process, so that closing another
// descriptor does not drop it.
func lockInode(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), ofdSetLock, &unix.Flock_t{Type: unix.F_WRLCK, Start: lockByte, Len: 1})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return bridge.Errorf(bridge.Conflict, "the database %q is served by another drawbridge, under this or another name (a hard link, or the name before it was moved); stop it or use another file", f.Name())
	}
	if err != nil {
		return fmt.Errorf("lock the database: %w", err)
	}
	return nil
}

func unlockInode(f *os.File) error {
	return unix.FcntlFlock(f.Fd(), ofdSetLock, &unix.Flock_t{Type: unix.F_UNLCK, Start: lockByte, Len: 1})
}
