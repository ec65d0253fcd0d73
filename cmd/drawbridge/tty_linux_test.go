package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openTTY returns both ends of a new terminal: what a person types into, and what a program reads.
func openTTY() (keys, terminal *os.File, err error) {
	keys, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	return keys, terminal, err
}

// cooked reports whether a terminal takes lines and shows what is typed, as a shell wants it.
func cooked(keys *os.File) bool {
	mode, err := unix.IoctlGetTermios(int(keys.Fd()), unix.TCGETS)
	const want = unix.ICANON | unix.ECHO | unix.ISIG
	return err == nil && mode.Lflag&want == want && mode.Iflag&unix.ICRNL != 0
}
