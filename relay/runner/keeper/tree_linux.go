package keeper

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// proc is one living process; pid and start together are never used again.
type proc struct {
	pid, parent int
	// group is its process group when it was looked at.
	group  int
	start  string
	zombie bool
	frozen bool
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
	group, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return proc{}, false
	}
	state := fields[0][0]
	return proc{
		pid: pid, parent: parent, group: group, start: string(fields[19]),
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
	// endFor is how long one process may take to be gone after SIGKILL.
	endFor = 5 * time.Second
)

// endTree kills everything that list finds, and calls reap, which collects what is over and belongs to us, until nothing is
// left. It returns how many are left when all of them were sent SIGKILL endFor ago: those wait in the kernel. However long a tree
// goes on growing, it is not given up. All are stopped before the first is killed: a tree that forks takes the place of each
// that goes, and one that stands still cannot.
func endTree(list func() []proc, reap func() (none bool)) (left int) {
	killed := map[proc]time.Time{}
	for {
		if reap() {
			return 0
		}
		found := freeze(list)
		signalGroups(found, unix.SIGKILL)
		fresh := false
		for _, p := range found {
			if p.zombie {
				continue
			}
			key := proc{pid: p.pid, start: p.start}
			if killed[key].IsZero() {
				killed[key] = time.Now()
			}
			fresh = fresh || time.Since(killed[key]) < endFor
			p.signal(unix.SIGKILL)
		}
		if reap() {
			return 0
		}
		if n := living(found); n > 0 && !fresh {
			return n
		}
		// Not time.Sleep: it comes back through a thread of the runtime that a starved machine may not run.
		poll(nil, 2*time.Millisecond)
	}
}

// freeze stops everything that list finds and returns what it found last.
func freeze(list func() []proc) []proc {
	stopped := map[proc]bool{}
	for range freezeRounds {
		found, fresh := list(), false
		signalGroups(found, unix.SIGSTOP)
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
	return list()
}

// signalGroups reaches whole groups at one stroke, also what is forked at the same moment. A group lies within a session, and
// the sessions below us were made by what we started, so that nobody else is in one.
func signalGroups(found []proc, signal unix.Signal) {
	done := map[int]bool{unix.Getpgrp(): true, 0: true, 1: true}
	for _, p := range found {
		if p.zombie || p.frozen && signal == unix.SIGSTOP || done[p.group] {
			continue
		}
		done[p.group] = true
		if now, err := unix.Getpgid(p.pid); err == nil && now == p.group {
			_ = unix.Kill(-p.group, signal)
		}
	}
}

// promptly runs do on a thread of its own, before everybody else on a processor where the kernel lets us.
func promptly(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked, so that the thread ends with its priority.
		runtime.LockOSThread()
		comeFirst()
		do()
	}()
	<-done
}

// comeFirst gives this thread real-time priority, which it does not hand down. Only root may; a plain user has the limit on
// processes instead, see bounded.
func comeFirst() {
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0)
}
