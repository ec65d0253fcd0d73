// Package freeport finds ports on 127.0.0.1 for programs that are told theirs in a
// configuration, and keeps them for those programs: one that is only free now may
// be taken by whoever is quicker, in particular while its program is down between
// a crash and the next start. It starts nothing and listens nowhere. Rule of
// thumb: hold a port for as long as its program may be started again.
package freeport

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Hold finds a port of five digits that nobody uses. Until release it is given to nobody else, neither by another Hold, in
// this process or in another, nor by the system to an outgoing connection; a server that is told the port can listen on it as
// often as it likes. Where the system cannot do that (all but Linux) the port is only free now. Safe for concurrent use.
func Hold() (port string, release func() error, err error) {
	var tooShort []func() error
	defer func() {
		for _, letGo := range tooShort {
			err = errors.Join(err, letGo())
		}
	}()
	for {
		n, letGo, err := hold()
		if err != nil {
			return "", nil, fmt.Errorf("find a free port: %w", err)
		}
		if n >= 10_000 {
			return strconv.Itoa(n), letGo, nil
		}
		tooShort = append(tooShort, letGo) // and kept till the end, so that it does not come again
	}
}

// Keep holds the port of an address on 127.0.0.1 that a program was told, until release: nobody is given it by the system while the program is
// down. The program itself listens on it as it likes. Of any other address it holds nothing. The error says that somebody else has
// the port. Safe for concurrent use; nothing but Linux holds anything.
func Keep(address string) (release func() error, err error) {
	host, text, err := net.SplitHostPort(address)
	port, wrong := strconv.Atoi(text)
	if err != nil || wrong != nil || port == 0 || host != "127.0.0.1" {
		return func() error { return nil }, nil
	}
	if release, err = keep(port); err != nil {
		return nil, fmt.Errorf("hold port %d: %w", port, err)
	}
	return release, nil
}

// freeNow asks the system for a port that nobody uses now.
func freeNow() (int, func() error, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	return l.Addr().(*net.TCPAddr).Port, func() error { return nil }, l.Close()
}
