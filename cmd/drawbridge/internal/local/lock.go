package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// LockName is the file that the process which runs a folder holds.
const LockName = "up.lock"

// ErrRuns means that another process runs the bridge and the relay of a folder.
var ErrRuns = errors.New("another drawbridge up already runs")

// Lock is the right to run the bridge and the relay of a folder.
type Lock struct{ file *os.File }

// Hold takes the lock of a folder until Release or the end of the process. While another process holds it the error is ErrRuns, with the
// number of that process.
func Hold(dir string) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, LockName), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := tryLock(file); err != nil {
		pid, _ := io.ReadAll(io.LimitReader(file, 20))
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (process %s, folder %s)", ErrRuns, strings.TrimSpace(string(pid)), dir)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := fmt.Fprintf(file, "%d\n", os.Getpid()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Lock{file}, nil
}

// tryLock takes the lock of a file. Runs may have it for a moment, so that one refusal is not the last word.
func tryLock(file *os.File) (err error) {
	for range 3 {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// Runs reports whether a process holds the lock of a folder.
func Runs(dir string) bool {
	file, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.file.Close() }
