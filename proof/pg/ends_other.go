//go:build !linux

package pg

import "syscall"

// EndsWithUs sets nothing here. After a killed test a person ends the processes that the test started.
func EndsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// inMemory names no folder: there is none that every machine has.
func inMemory() string { return "" }
