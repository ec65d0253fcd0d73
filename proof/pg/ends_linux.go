package pg

import "syscall"

// EndsWithUs has the kernel kill a process that a test starts when the test is killed. Only Linux can do it.
func EndsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
