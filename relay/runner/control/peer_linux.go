package control

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// peerPidfd is SO_PEERPIDFD: the kernel's descriptor of the process that connected (Linux 6.5).
const peerPidfd = 77

// errGone means that the process that connected has ended, so that its number may belong to another process by now.
var errGone = errors.New("the process that connected has ended")

// judge asks the kernel who connected and returns why that process is refused, or "". It is called once, when the connection
// is accepted: later the process may be gone and its number may belong to a process that is let in.
func judge(conn net.Conn) (refusal string) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return unknownPeer(errors.New("the connection is not a Unix socket"))
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return unknownPeer(err)
	}
	if control := raw.Control(func(fd uintptr) { refusal = judgeSocket(int(fd)) }); control != nil {
		return unknownPeer(control)
	}
	return refusal
}

func judgeSocket(socket int) string {
	peer, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return unknownPeer(err)
	}
	if int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
		return otherUser
	}
	ours, err := startedByUs(socket, int(peer.Pid))
	switch {
	case err != nil:
		return unknownPeer(err)
	case ours:
		return startedHere
	}
	return ""
}

// Started asks the kernel who connected, and returns which child of this process it is or descends from, or why it is refused: only what
// this process has started itself is let in. It is called once, when the connection is accepted.
func Started(conn net.Conn) (child, refusal string) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return "", unknownPeer(errors.New("the connection is not a Unix socket"))
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return "", unknownPeer(err)
	}
	if control := raw.Control(func(fd uintptr) { child, refusal = startedSocket(int(fd)) }); control != nil {
		return "", unknownPeer(control)
	}
	return child, refusal
}

func startedSocket(socket int) (child, refusal string) {
	peer, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return "", unknownPeer(err)
	}
	if int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
		return "", otherUser
	}
	child, err = childOf(socket, int(peer.Pid))
	switch {
	case err != nil:
		return "", unknownPeer(err)
	case child == "":
		return "", notStartedHere
	}
	return child, ""
}

// startedByUs reports whether this process is among the parents of the one that connected. What an action starts stays
// below the relay, because its keeper, and behind that the relay, takes in every orphan.
// The descriptor names one process for as long as it is open. So the parents that were read are those of the process that
// connected if it still runs after they were read.
func startedByUs(socket, pid int) (bool, error) {
	child, err := childOf(socket, pid)
	return child != "", err
}

// childOf names the child of this process that another process is or descends from, "" when there is none.
func childOf(socket, pid int) (child string, err error) {
	if pid == os.Getpid() {
		return "", nil
	}
	if pid <= 0 {
		// The kernel gives no number to a process of a namespace that is not below ours.
		return "", errors.New("it runs in another process namespace")
	}
	handle, err := peerHandle(socket, pid)
	if err != nil {
		return "", err
	}
	defer handle.close()
	first, err := readStat(pid)
	if err != nil {
		return "", errGone
	}
	child, err = descends(pid, first)
	if err != nil {
		return "", err
	}
	last, err := readStat(pid)
	if err != nil || last.start != first.start || !handle.runs() {
		return "", errGone
	}
	return child, nil
}

// handle is a descriptor of a process; -1 on a kernel that has none (before 5.3), where only the start time is compared.
type handle int

// peerHandle asks the socket first. A kernel that cannot answer (before 6.5) leaves the process's number, which may have
// been given to another process between connect and accept.
func peerHandle(socket, pid int) (handle, error) {
	fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, peerPidfd)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return numberHandle(pid)
	}
	if err != nil {
		return -1, errGone
	}
	return handle(fd), nil
}

func numberHandle(pid int) (handle, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) {
		return -1, nil
	}
	if err != nil {
		return -1, errGone
	}
	return handle(fd), nil
}

func (h handle) close() {
	if h >= 0 {
		_ = unix.Close(int(h))
	}
}

// runs reports whether the process has not ended. A descriptor of a process is readable when it has; a signal would need rights.
func (h handle) runs() bool {
	if h < 0 {
		return true
	}
	watched := []unix.PollFd{{Fd: int32(h), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(watched, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 0
		}
	}
}

// maxParents bounds the walk; a process has fewer parents than a machine has numbers.
const maxParents = 1 << 16

// descends walks from a process to its parents, to this process or to the first one. A process gets a new parent only from
// among those above it, so a parent that is the same before and after a look at it is the one that was looked at.
func descends(pid int, at stat) (child string, err error) {
	for range maxParents {
		switch {
		case at.parent == os.Getpid():
			return fmt.Sprintf("%d at %s", pid, at.start), nil
		case at.parent <= 1:
			// 0 is a parent outside of our process namespace, as docker exec has it: not ours, and not below us.
			return "", nil
		}
		above, err := readStat(at.parent)
		again, gone := readStat(pid)
		if gone != nil || again.start != at.start {
			return "", errGone
		}
		if again.parent != at.parent {
			at = again
			continue
		}
		if err != nil {
			return "", fmt.Errorf("look at its parents: %w", err)
		}
		pid, at = at.parent, above
	}
	return "", errors.New("it has too many parents")
}

// stat is what /proc says of a process: its parent, and when it started in ticks since the machine did.
type stat struct {
	parent int
	start  string
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name in parentheses may hold anything, also parentheses and blanks.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return stat{}, errors.New("/proc is not as expected")
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return stat{parent: parent, start: string(fields[19])}, err
}
