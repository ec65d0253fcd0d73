package keeper

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// cgroupPrefix begins the name of each cgroup of a relay; its process id, its start time, its process namespace
// and a number follow. A process id alone may come to mean another process.
const cgroupPrefix = "drawbridge-"

// cgroups makes one cgroup (version 2) a job, below the relay's own.
type cgroups struct {
	base string
	// start is when this process started, as /proc says it.
	start string
	// pids is true when the number of processes can be bounded by the kernel.
	pids bool
}

// nextCgroup numbers the cgroups of this process, whichever pool makes them.
var nextCgroup atomic.Uint64

// findCgroups returns nil where the relay may make none. It changes nothing but the controllers of a folder that systemd
// delegated to the relay (Delegate=, DelegateSubgroup=relay), and ends and removes the cgroups of relays that are gone.
func findCgroups() *cgroups {
	base := ownCgroup()
	if base == "" {
		return nil
	}
	if filepath.Base(base) == "relay" && unix.Access(filepath.Join(filepath.Dir(base), "cgroup.subtree_control"), unix.W_OK) == nil {
		base = filepath.Dir(base)
		_ = os.WriteFile(filepath.Join(base, "cgroup.subtree_control"), []byte("+pids"), 0)
	}
	own, _ := readProc(os.Getpid())
	c := &cgroups{base: base, start: own.start}
	removeStale(base)
	dir, err := c.make(0)
	if err != nil {
		return nil
	}
	defer os.Remove(dir)
	if unix.Access(filepath.Join(dir, "cgroup.kill"), unix.W_OK) != nil {
		return nil
	}
	c.pids = unix.Access(filepath.Join(dir, "pids.max"), unix.W_OK) == nil
	return c
}

// ownCgroup is the folder of our own cgroup, or "".
func ownCgroup() string {
	mount, root := "", ""
	eachLine("/proc/self/mountinfo", func(line string) {
		fields := strings.Fields(line)
		before, after, found := strings.Cut(line, " - ")
		if found && len(fields) > 4 && strings.HasPrefix(after, "cgroup2 ") && mount == "" {
			root, mount = strings.Fields(before)[3], fields[4]
		}
	})
	own := ""
	eachLine("/proc/self/cgroup", func(line string) {
		if path, found := strings.CutPrefix(line, "0::"); found {
			own = path
		}
	})
	rel, err := filepath.Rel(root, own)
	if mount == "" || own == "" || err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	return filepath.Join(mount, rel)
}

func eachLine(path string, each func(string)) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		each(lines.Text())
	}
}

func removeStale(base string) {
	stale, _ := filepath.Glob(filepath.Join(base, cgroupPrefix+"*"))
	for _, path := range stale {
		if !ownerGone(strings.TrimPrefix(filepath.Base(path), cgroupPrefix)) {
			continue
		}
		// What is in it outlived its relay. It may need a moment to be gone, and the next start removes the folder then.
		if dir, err := os.Open(path); err == nil {
			killCgroup(dir)
			_ = dir.Close()
		}
		_ = os.Remove(path)
	}
}

// ownerGone reports whether the relay that made a cgroup of this name has ended.
func ownerGone(name string) bool {
	parts := strings.Split(name, "-")
	pid, err := strconv.Atoi(parts[0])
	if err != nil || len(parts) != 4 || parts[2] != pidNamespace() {
		return false
	}
	owner, there := readProc(pid)
	return !there || owner.start != parts[1]
}

// pidNamespace names the namespace in which our process ids mean something.
func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "unknown"
	}
	return strings.Trim(name, "pid:[]")
}

func (c *cgroups) make(limit int) (dir string, err error) {
	dir = filepath.Join(c.base, fmt.Sprintf("%s%d-%s-%s-%d", cgroupPrefix, os.Getpid(), c.start, pidNamespace(), nextCgroup.Add(1)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if c.pids && limit > 0 {
		// The keeper counts too, so that a refusal here is no reason to run nothing.
		_ = os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(limit)), 0)
	}
	return dir, nil
}

// killCgroup ends everything in a cgroup and below it at one stroke.
func killCgroup(dir *os.File) {
	fd, err := unix.Openat(int(dir.Fd()), "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Write(fd, []byte("1"))
}
