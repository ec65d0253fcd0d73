package freeport

import (
	"errors"
	"net"
	"strconv"
	"syscall"
)

// hold binds a socket that never listens. It is bound alone, without SO_REUSEADDR, and shares its address only afterwards:
// with a server, which sets the option before it binds, as Go's and PostgreSQL's do, but with no other hold.
func hold() (int, func() error, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	letGo := func() error { return syscall.Close(fd) }
	port, err := bind(fd)
	if err != nil {
		return 0, nil, errors.Join(err, letGo())
	}
	// A kernel that only claims to be Linux may see it otherwise.
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		if err := letGo(); err != nil {
			return 0, nil, err
		}
		return freeNow()
	}
	return port, letGo, l.Close()
}

func bind(fd int) (port int, err error) {
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	return name.(*syscall.SockaddrInet4).Port, nil
}
