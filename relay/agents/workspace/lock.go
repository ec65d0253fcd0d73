package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"drawbridge/internal/trust"
)

// retryLock is how often a lock that another process holds is tried again.
const retryLock = 20 * time.Millisecond

// lockFile opens a lock file. Lock files stay, because removing one lets two processes hold the same lock.
func (st *Store) lockFile(agent, kind string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(st.dir, locksName, agent+"."+kind), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock workspace %s: %w", agent, err)
	}
	return file, nil
}

// work takes the lock of everything that changes a workspace or the relay's copy of its objects. It waits until ctx is done.
func (st *Store) work(ctx context.Context, agent string) (release func(), err error) {
	file, err := st.lockFile(agent, "work")
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(retryLock)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("lock workspace %s: %w", agent, err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for the workspace of %s: %w", agent, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// Hold keeps the workspace from being removed until release is called or this process ends. The relay holds a workspace
// while a process of the agent, or of an agent below it, runs there. Any number of holders may hold it at once.
func (s *Space) Hold() (release func(), err error) {
	file, err := s.store.lockFile(s.agent, "held")
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		// A removal that came first has taken the folder away.
		_, err = os.Lstat(filepath.Join(s.dir, recordName))
	}
	if err != nil {
		_ = file.Close()
		return nil, trust.Because("the workspace of "+s.agent+" is being removed", "start the agent again to make a new workspace")
	}
	return func() { _ = file.Close() }, nil
}

// Held is a workspace in which a process of its agent runs.
type Held struct{ Agent string }

// Error says what to do.
func (e *Held) Error() string {
	return "agent " + e.Agent + " runs in its workspace now; to end the agent and remove its workspace: drawbridge discard " + e.Agent
}

// alone makes sure that nobody holds the workspace.
func (st *Store) alone(agent string) (release func(), err error) {
	file, err := st.lockFile(agent, "held")
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, &Held{Agent: agent}
	}
	return func() { _ = file.Close() }, nil
}
