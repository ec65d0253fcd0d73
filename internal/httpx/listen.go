package httpx

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

// ListenError says why an address cannot be listened on, and what to do. setting names where the address is given, such as
// "listen in bridge.yaml".
func ListenError(addr, setting string, err error) error {
	host, port, _ := net.SplitHostPort(addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use by another program, perhaps by another one of this kind; stop that one, or choose another port (%s)", addr, setting)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this machine; use 127.0.0.1, or an address that this machine has (%s)", host, setting)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not listen on port %s; use a port from 1024 on (%s)", port, setting)
	}
	var name *net.DNSError
	if errors.As(err, &name) {
		return fmt.Errorf("the name %q is not known here; write an address such as 127.0.0.1 (%s)", name.Name, setting)
	}
	return fmt.Errorf("listen on %q (%s): %w", addr, setting, err)
}
