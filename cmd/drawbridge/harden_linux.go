package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// harden keeps other programs of the same user from reading this process: its
// memory, by making it undumpable, and what its environment was at the start,
// which /proc/PID/environ shows. The Go runtime has its own copy of that already.
func harden() {
	// The memory first: afterwards /proc/self/mem belongs to root.
	_ = wipeEnviron() // a kernel that refuses leaves what undumpable protects
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// wipeEnviron writes zeros over the environment that the kernel put into memory.
func wipeEnviron() error {
	start, end, err := environPlace()
	if err != nil || end <= start {
		return err
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	_, err = memory.WriteAt(make([]byte, end-start), start)
	return err
}

// environPlace reads env_start and env_end, the 50th and 51st field of /proc/self/stat (proc(5)).
func environPlace() (start, end int64, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	_, after, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")) // the name may hold blanks
	fields := strings.Fields(string(after))
	const third = 3 // the first field after the name
	if len(fields) < 52-third {
		return 0, 0, fmt.Errorf("/proc/self/stat has %d fields", len(fields)+third-1)
	}
	if start, err = strconv.ParseInt(fields[50-third], 10, 64); err != nil {
		return 0, 0, err
	}
	end, err = strconv.ParseInt(fields[51-third], 10, 64)
	return start, end, err
}
