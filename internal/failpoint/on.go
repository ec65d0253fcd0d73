//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The variables that a proof sets for a process of this build.
const (
	// killVariable is "<point>#<n>": the process kills itself when it comes to the point for the nth time.
	killVariable = "DRAWBRIDGE_FAILPOINT"
	// logVariable names a file that gets a line with the point's name each time one is met.
	logVariable = "DRAWBRIDGE_FAILPOINT_LOG"
	// leaseVariable shortens the leases of work, so that a proof need not wait for real ones.
	leaseVariable = "DRAWBRIDGE_FAILPOINT_LEASE"
)

// Armed tells whether this build can kill itself.
const Armed = true

var points = struct {
	mu  sync.Mutex // guards met
	met map[string]int
}{met: map[string]int{}}

// Here marks a point. It does not return from the one that the environment names. Safe for concurrent use.
func Here(name string) {
	points.mu.Lock()
	defer points.mu.Unlock() // nobody passes another point while the process dies
	points.met[name]++
	if path := os.Getenv(logVariable); path != "" {
		note(path, name)
	}
	if os.Getenv(killVariable) == name+"#"+strconv.Itoa(points.met[name]) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal is there
	}
}

// Lease is how long leases last in this process, 0 when nothing says otherwise.
func Lease() time.Duration {
	text := os.Getenv(leaseVariable)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", leaseVariable, err))
	}
	return d
}

// note opens the file again each time, because a relay closes what it did not open.
func note(path, name string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(strings.TrimSpace(name) + "\n")
	}
	if err != nil {
		panic(fmt.Sprintf("note fail point: %v", err))
	}
	_ = f.Close()
}
