package pg

import "syscall"

// EndsWithUs has the kernel kill a process that a test starts when the test is killed. Only Linux can do it.
func EndsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// inMemory returns a folder in memory with room for the databases of a test binary, or "" for the usual temporary folder.
// Each database is some 600 small files, which come and go many times faster there.
func inMemory() string {
	const dir, room = "/dev/shm", 1 << 30
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil || s.Bavail*uint64(s.Bsize) < room {
		return ""
	}
	return dir
}
