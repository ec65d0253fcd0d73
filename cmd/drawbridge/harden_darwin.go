package main

import "golang.org/x/sys/unix"

// harden keeps debuggers of the same user's programs off this process.
func harden() { _ = unix.PtraceDenyAttach() }
