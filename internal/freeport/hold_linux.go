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

// keep binds a socket that never listens to a port that somebody chose. It shares the port from the beginning, so that connections of an
// earlier server, which linger for a minute, do not stand in its way.
func keep(port int) (func() error, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		return nil, errors.Join(err, syscall.Close(fd))
	}
	return func() error { return syscall.Close(fd) }, nil
}
