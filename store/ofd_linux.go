package store

import "golang.org/x/sys/unix"

const ofdSetLock = unix.F_OFD_SETLK
