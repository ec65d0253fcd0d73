package sandbox

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// usualFiles is the soft limit on open files that systems give, see execWithin.
const usualFiles = 1024

// impose bounds this process and what comes of it in everything but memory.
func (b Bounds) impose() error {
	for _, bound := range []struct {
		name       string
		resource   int
		soft, hard uint64
	}{
		{"open_files", unix.RLIMIT_NOFILE, b.OpenFiles, b.OpenFiles},
		{"file_size", unix.RLIMIT_FSIZE, b.FileSize, b.FileSize},
		{"cpu", unix.RLIMIT_CPU, b.CPU, b.CPU + 1},
	} {
		if bound.soft == 0 {
			continue
		}
		limit, err := within(bound.resource, bound.soft, bound.hard)
		if err == nil {
			err = unix.Setrlimit(bound.resource, &limit)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", bound.name, err)
		}
	}
	return nil
}

// within is a limit that asks for no more than there may be here.
func within(resource int, soft, hard uint64) (unix.Rlimit, error) {
	var now unix.Rlimit
	err := unix.Getrlimit(resource, &now)
	return unix.Rlimit{Cur: min(soft, now.Max), Max: min(hard, now.Max)}, err
}

// execWithin becomes the program with its memory bounded, or ends the process after it has said why not. A Go process reserves more
// than most bounds allow, so that from the bound on it can allocate nothing; all is made ready before, and the rest is three calls of
// the kernel. [unix.Exec] would allocate. What else it does is to give the program the soft limit on open files that the Go runtime
// found, which nobody else is told; the usual one stands for that.
func (o Order) execWithin(path string) error {
	program, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(o.Argv)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(o.Env)
	if err != nil {
		return err
	}
	if o.Bounds.OpenFiles == 0 {
		files, err := within(unix.RLIMIT_NOFILE, usualFiles, ^uint64(0))
		if err == nil {
			err = unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
		}
		if err != nil {
			return fmt.Errorf("open files: %w", err)
		}
	}
	memory, err := within(unix.RLIMIT_AS, o.Bounds.Memory, o.Bounds.Memory)
	if err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	failed := fmt.Appendf(make([]byte, 0, 4<<10), "start %+.1000q: ", o.Path)
	_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_AS, uintptr(unsafe.Pointer(&memory)), 0, 0, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	}
	failed = append(failed, errno.Error()...)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, statusFD, uintptr(unsafe.Pointer(&failed[0])), uintptr(len(failed)))
	_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	runtime.KeepAlive([]any{program, argv, env})
	return errno
}
