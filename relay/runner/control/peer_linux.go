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

// peerOf asks the kernel who connected.
func peerOf(conn net.Conn) peer {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return peer{err: errors.New("no Unix socket")}
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return peer{err: err}
	}
	var p peer
	err = raw.Control(func(fd uintptr) {
		var credentials *unix.Ucred
		if credentials, p.err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); p.err == nil {
			p.uid, p.pid = int(credentials.Uid), int(credentials.Pid)
		}
	})
	if err != nil {
		p.err = err
	}
	return p
}

// startedByUs reports whether a process is ours: one of us is among its parents, or it is gone, so that nobody can tell.
// What an action starts stays below the relay, because its keeper, and behind that the relay, takes in every orphan.
func startedByUs(pid int) bool {
	if pid == os.Getpid() {
		return false
	}
	// The kernel gives no number to a process of a namespace that is not below ours.
	for range 1 << 16 {
		if pid == os.Getpid() || pid <= 0 {
			return true
		}
		if pid == 1 {
			return false
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		at := bytes.LastIndexByte(text, ')')
		if err != nil || at < 0 {
			return true
		}
		fields := bytes.Fields(text[at+1:])
		if len(fields) < 2 {
			return true
		}
		if pid, err = strconv.Atoi(string(fields[1])); err != nil {
			return true
		}
	}
	return true
}
