package control

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// judge asks the kernel whose process connected and returns why it is refused, or "". Here nothing says whether the relay
// has started that process.
func judge(conn net.Conn) (refusal string) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return unknownPeer(errors.New("the connection is not a Unix socket"))
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return unknownPeer(err)
	}
	control := raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		switch {
		case err != nil:
			refusal = unknownPeer(err)
		case int(peer.Uid) != os.Geteuid() && peer.Uid != 0:
			refusal = otherUser
		}
	})
	if control != nil {
		return unknownPeer(control)
	}
	return refusal
}

// Started is judge: here nothing says which process the relay has started, so that child is the same for all.
func Started(conn net.Conn) (child, refusal string) { return "a process of this user", judge(conn) }
