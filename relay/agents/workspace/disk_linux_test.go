package workspace_test

import "golang.org/x/sys/unix"

func mountSmall(dir, size string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size) }

func mountLarger(dir, size string) error {
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size="+size)
}

func unmount(dir string) error { return unix.Unmount(dir, unix.MNT_DETACH) }

// swap puts each of two names in the place of the other at one stroke.
func swap(a, b string) { _ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) }
