package keeper

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// census counts the processes below one, again and again as long as a program lives. It allocates nothing after the first counts, because
// a keeper collects no garbage.
type census struct {
	proc    int
	names   []byte
	text    []byte
	path    []byte
	entries []entry
	below   []int32
}

// entry is a process. A zombie may have children: it stands for a program whose first thread ended before the others.
type entry struct {
	pid, parent int32
	zombie      bool
}

// living returns how many processes root has started, directly or not, that are still alive.
func (c *census) living(root int) int {
	if c.names == nil {
		c.proc, c.names, c.text = -1, make([]byte, 32<<10), make([]byte, 1<<10)
	}
	if !c.list() {
		return living(descendants(root))
	}
	slices.SortFunc(c.entries, func(a, b entry) int { return cmp.Compare(a.parent, b.parent) })
	c.below = append(c.below[:0], int32(root))
	for n, at := 0, 0; ; at++ {
		if at == len(c.below) {
			return n
		}
		parent := c.below[at]
		first, _ := slices.BinarySearchFunc(c.entries, parent, func(e entry, p int32) int { return cmp.Compare(e.parent, p) })
		for _, e := range c.entries[first:] {
			if e.parent != parent {
				break
			}
			c.below = append(c.below, e.pid)
			if !e.zombie {
				n++
			}
		}
	}
}

// list reads the processes of the system, and reports whether it could.
func (c *census) list() bool {
	if c.proc < 0 {
		fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		c.proc = fd
	}
	if _, err := unix.Seek(c.proc, 0, unix.SEEK_SET); err != nil {
		return false
	}
	c.entries = c.entries[:0]
	for {
		n, err := unix.Getdents(c.proc, c.names)
		if err != nil {
			return false
		}
		if n <= 0 {
			return true
		}
		c.take(c.names[:n])
	}
}

// Offsets in a directory entry of the kernel.
const (
	direntLength = 16
	direntName   = 19
)

var zero, blank = []byte{0}, []byte{' '}

// take reads the processes that a part of /proc names.
func (c *census) take(names []byte) {
	for len(names) > direntName {
		size := int(binary.NativeEndian.Uint16(names[direntLength:]))
		if size < direntName || size > len(names) {
			return
		}
		name, _, _ := bytes.Cut(names[direntName:size], zero)
		names = names[size:]
		if len(name) == 0 || name[0] < '1' || name[0] > '9' {
			continue
		}
		if e, there := c.read(name); there {
			c.entries = append(c.entries, e)
		}
	}
}

// read reads one process, and reports false for one that is gone.
func (c *census) read(name []byte) (e entry, there bool) {
	c.path = append(append(c.path[:0], name...), "/stat\x00"...)
	fd, err := openat(c.proc, c.path)
	if err != nil {
		return entry{}, false
	}
	n, err := unix.Read(fd, c.text)
	_ = unix.Close(fd)
	// The name in parentheses may hold anything, also parentheses and blanks; then come the state and the parent.
	at := bytes.LastIndexByte(c.text[:max(n, 0)], ')')
	if err != nil || at < 0 || n < at+4 {
		return entry{}, false
	}
	rest := c.text[at+2 : n]
	parent, _, _ := bytes.Cut(rest[2:], blank)
	return entry{pid: decimal(name), parent: decimal(parent), zombie: rest[0] == 'Z' || rest[0] == 'X'}, true
}

func decimal(digits []byte) (n int32) {
	for _, d := range digits {
		if d < '0' || d > '9' {
			return -1
		}
		n = n*10 + int32(d-'0')
	}
	return n
}

// openat opens a path that ends with a zero byte. That of package unix would copy it.
func openat(dir int, path []byte) (int, error) {
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&path[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
