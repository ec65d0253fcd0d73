package keeper

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// proc is one living process; pid and start together are never used again.
type proc struct {
	pid, parent int
	start       string
	zombie      bool
	frozen      bool
}

// readProc reads what /proc says of a process, or reports false when it is gone.
func readProc(pid int) (proc, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	// The name in parentheses may hold anything, also parentheses and blanks.
	at := bytes.LastIndexByte(text, ')')
	if at < 0 {
		return proc{}, false
	}
	fields := bytes.Fields(text[at+1:])
	if len(fields) < 20 {
		return proc{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return proc{}, false
	}
	state := fields[0][0]
	return proc{
		pid: pid, parent: parent, start: string(fields[19]),
		zombie: state == 'Z' || state == 'X', frozen: state == 'T' || state == 't',
	}, true
}

// descendants returns what root has started, directly or not, and is still there.
func descendants(root int) []proc {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil
	}
	children := map[int][]proc{}
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, there := readProc(pid); there {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found := children[root]
	for at := 0; at < len(found); at++ {
		found = append(found, children[found[at].pid]...)
	}
	return found
}

func living(found []proc) (n int) {
	for _, p := range found {
		if !p.zombie {
			n++
		}
	}
	return n
}

// signal reaches exactly the process that was seen: a descriptor of a process cannot come to mean another one.
func (p proc) signal(signal unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ENOSYS) {
		_ = unix.Kill(p.pid, signal)
		return
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, there := readProc(p.pid); there && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, signal, nil, 0)
	}
}

const (
	// freezeRounds bounds the looks at a tree that goes on growing while it is stopped.
	freezeRounds = 100
	// endFor is how long everything may take to be gone after SIGKILL.
	endFor = 5 * time.Second
)

// endTree kills everything below root and calls reap, which collects what is over and belongs to us, until nothing is left
// or endFor is over; it returns how many are. All are stopped before the first is killed: a tree that forks takes the place of
// each that goes, and one that stands still cannot.
func endTree(root int, reap func() (none bool)) (left int) {
	deadline := time.Now().Add(endFor)
	for {
		if reap() {
			return 0
		}
		found := freeze(root)
		for _, p := range found {
			if !p.zombie {
				p.signal(unix.SIGKILL)
			}
		}
		if reap() {
			return 0
		}
		if time.Now().After(deadline) {
			return living(found)
		}
		// Not time.Sleep: it comes back through a thread of the runtime that a starved machine may not run.
		_, _ = unix.Poll(nil, 2)
	}
}

// freeze stops everything below root and returns what it found last.
func freeze(root int) []proc {
	stopped := map[proc]bool{}
	for range freezeRounds {
		found, fresh := descendants(root), false
		for _, p := range found {
			key := proc{pid: p.pid, start: p.start}
			if p.zombie || p.frozen || stopped[key] {
				continue
			}
			stopped[key], fresh = true, true
			p.signal(unix.SIGSTOP)
		}
		if !fresh {
			return found
		}
	}
	return descendants(root)
}
