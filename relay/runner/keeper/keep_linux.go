package keeper

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"drawbridge/relay/runner/sandbox"
)

// keeperName is the first argument vector element of a keeper.
const keeperName = "drawbridge-keeper"

// lookEvery is how often a keeper looks whether its tree has grown; at every countEvery-th look it counts in any case.
const (
	lookEvery  = 10 * time.Millisecond
	countEvery = 50
	// noticeable is by how many processes the system has to grow for a count out of turn.
	noticeable = 16
)

// mains is true when Main was called, without which a keeper would be something else altogether.
var mains bool

func init() {
	if os.Args[0] == keeperName || os.Args[0] == guardName {
		// The kernel delivers the parent-death signal when the thread that forked ends, so the main thread has to do it.
		runtime.LockOSThread()
	}
}

// Main is a keeper, or a stage of package sandbox, if the process was started as one, and then never returns. The main of
// every binary that makes a [Pool] calls it before anything else.
func Main() {
	mains = true
	sandbox.Main()
	switch os.Args[0] {
	case guardName:
		if err := new(guard).watch(); err != nil {
			fmt.Fprintln(os.Stderr, "drawbridge-guard is started by a relay only:", err)
			os.Exit(2)
		}
		os.Exit(0)
	case keeperName:
	default:
		return
	}
	file := os.NewFile(3, "relay")
	conn, err := net.FileConn(file)
	_ = file.Close()
	relay, isSocket := conn.(*net.UnixConn)
	if err != nil || !isSocket {
		fmt.Fprintln(os.Stderr, "drawbridge-keeper is started by a relay only")
		os.Exit(2)
	}
	k := keeper{relay: relay, guard: os.NewFile(guardPipe, "guard")}
	if err := k.keep(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// keeper runs one job after the other; while one runs, everything below this process belongs to it. It is one thread that
// waits in the kernel and nowhere else: what starves a machine of its processors must not starve what puts an end to it.
type keeper struct {
	relay *net.UnixConn
	// guard is a pipe that ends with the guard.
	guard *os.File

	leader int
	status unix.WaitStatus
	over   bool
	most   int
	// threads is how many the system had when the tree was counted last.
	threads, looks int
	census         census
	cgroup         *os.File
}

// keep returns when the relay is gone, and with it everything that it had started here.
func (k *keeper) keep() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	secure()
	for {
		if k.idle() {
			// Without its guard it begins nothing.
			return io.EOF
		}
		var j job
		files, err := receive(k.relay, &j)
		if err != nil {
			return err
		}
		if j.End {
			// The job was over before the relay knew.
			continue
		}
		if err := k.run(j, files); err != nil {
			return err
		}
	}
}

// secure makes this process ready to watch over programs of its own user.
func secure() {
	// Such programs must not reach into it: a program that has its socket tells the relay that an action is over.
	hide(true)
	// What a program leaves in a core file may be secret.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// A file that the relay's parent left open is not for its programs either.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	// Caught and dropped, not ignored: a program would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	comeFirst()
}

// idle waits for the relay's word, and reports whether the guard is gone.
func (k *keeper) idle() (alone bool) {
	raw, err := k.relay.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		watched := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(k.guard.Fd()), Events: unix.POLLIN}}
		for watched[0].Revents == 0 && watched[1].Revents == 0 {
			poll(watched, time.Hour)
		}
		alone = watched[1].Revents != 0
	})
	return alone || err != nil
}

// hide takes the right to trace this process, and with it to read its memory and to copy its descriptors, from other programs
// of the same user, or gives it back. It does not hold against root, nor on a kernel that lets nobody trace anyway.
func hide(hidden bool) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(map[bool]int{false: 1}[hidden]), 0, 0, 0)
}

// run is one job, from its start to the end of the last process of it.
func (k *keeper) run(j job, files []*os.File) error {
	err := k.start(j, files)
	if err != nil {
		k.end()
		return send(k.relay, word{Failed: err.Error()})
	}
	if err := send(k.relay, word{Started: true}); err != nil {
		k.end()
		return err
	}
	e, gone := k.watch(j)
	e.Left = k.end()
	e.Code, e.Most = NoCode, k.most
	switch {
	case k.status.Exited():
		e.Code = k.status.ExitStatus()
	case k.status.Signaled():
		e.Signal = k.status.Signal()
	}
	if gone {
		return io.EOF
	}
	return send(k.relay, word{End: &e})
}

// watch returns when the program is over or has to be.
func (k *keeper) watch(j job) (e End, gone bool) {
	look := lookEvery
	if j.Look > 0 {
		look = j.Look
	}
	leader, err := unix.PidfdOpen(k.leader, 0)
	if err == nil {
		defer unix.Close(leader)
	} else {
		leader = -1
	}
	var kill time.Time
	for !k.reap() && !k.over {
		switch k.await(leader, look) {
		case relayGone:
			return e, true
		case relayEnds:
			if !e.Cut {
				e.Cut, kill, look = true, time.Now().Add(killAfter), lookEvery
				k.signal(unix.SIGTERM)
			}
		}
		if e.Cut && time.Now().After(kill) {
			return e, false
		}
		if k.reap() || k.over {
			// A count would make every short program a long one.
			return e, false
		}
		if k.grown() && j.Processes > 0 && k.most > j.Processes {
			e.Overgrown = true
			return e, false
		}
	}
	return e, false
}

// news is what a keeper waits for.
type news int

const (
	nothingNew news = iota
	relayEnds
	relayGone
)

// poll is poll(2) behind the runtime's back: told of it, the runtime may hand this thread's place to another thread, and on a
// starved machine that one does not give it back for a second. Nothing else in a keeper needs the place.
func poll(watched []unix.PollFd, most time.Duration) {
	limit := unix.NsecToTimespec(int64(most))
	var first *unix.PollFd
	if len(watched) > 0 {
		first = &watched[0]
	}
	_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(first)), uintptr(len(watched)), uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
}

// await waits until the program is over or the relay says something, and at most for a time.
func (k *keeper) await(leader int, most time.Duration) news {
	raw, err := k.relay.SyscallConn()
	if err != nil {
		return relayGone
	}
	said, alone := false, false
	err = raw.Control(func(fd uintptr) {
		// Without a descriptor for the program, which old kernels lack, the number is negative and not looked at.
		watched := []unix.PollFd{
			{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(k.guard.Fd()), Events: unix.POLLIN}, {Fd: int32(leader), Events: unix.POLLIN},
		}
		poll(watched, most)
		said, alone = watched[0].Revents != 0, watched[1].Revents != 0
	})
	if err != nil || alone {
		return relayGone
	}
	if !said {
		return nothingNew
	}
	var j job
	files, err := receive(k.relay, &j)
	closeAll(files)
	if err != nil || !j.End {
		return relayGone
	}
	return relayEnds
}

// grown counts the tree when the system as a whole has noticeably more processes than at the last count, and twice a second
// anyway: a count reads all of /proc, which is too much for every look. It reports whether it counted.
func (k *keeper) grown() bool {
	var system unix.Sysinfo_t
	err := unix.Sysinfo(&system)
	k.looks++
	if err == nil && int(system.Procs) < k.threads+noticeable && k.looks%countEvery != 1 {
		k.threads = min(k.threads, int(system.Procs))
		return false
	}
	k.threads = int(system.Procs)
	k.most = max(k.most, k.census.living(os.Getpid()))
	return true
}

func (k *keeper) signal(signal unix.Signal) {
	for _, p := range descendants(os.Getpid()) {
		p.signal(signal)
	}
}

// end leaves nothing of the job, and returns how many processes did not go.
func (k *keeper) end() (left int) {
	if k.cgroup != nil {
		killCgroup(k.cgroup)
		defer func() {
			_ = k.cgroup.Close()
			k.cgroup = nil
		}()
	}
	return endTree(func() []proc { return descendants(os.Getpid()) }, k.reap)
}

// reap collects what has ended and reports whether nothing is left: since all that lost its parent came to us, having no
// child means that there is no descendant.
func (k *keeper) reap() (none bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return false
		case pid == k.leader:
			k.status, k.over = status, true
		}
	}
}

// start starts the program and returns when it is the program, so that what kept it from being that is known.
func (k *keeper) start(j job, files []*os.File) error {
	defer closeAll(files)
	need := 2
	for _, more := range []bool{j.Stdin, j.Program, j.Cgroup} {
		if more {
			need++
		}
	}
	if len(files) != need {
		return fmt.Errorf("%d descriptors came for a job that needs %d", len(files), need)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	child := launch{job: j, files: []*os.File{null, files[0], files[1]}, attributes: &syscall.SysProcAttr{}}
	next := 2
	if j.Stdin {
		child.files[0], next = files[next], next+1
	}
	if j.Program {
		child.program = files[next]
	}
	if j.Sandbox != nil {
		child.attributes = sandbox.Attributes(*j.Sandbox)
	}
	child.attributes.Setsid, child.attributes.Pdeathsig = true, syscall.SIGKILL
	if j.Cgroup {
		k.cgroup, err = os.Open(procFD(files[need-1]))
		if err != nil {
			return fmt.Errorf("open cgroup: %w", err)
		}
		child.attributes.UseCgroupFD, child.attributes.CgroupFD = true, int(k.cgroup.Fd())
	}
	k.over, k.status, k.most, k.threads, k.looks = false, 0, 1, 0, 0
	defer bounded(j.Processes)()
	if child.attributes.UidMappings != nil {
		// The ids of a namespace are written to a file in /proc that belongs to root while we are hidden. Nothing of a job
		// runs here yet.
		hide(false)
		defer hide(true)
	}
	k.leader, err = child.start()
	return err
}

// bounded lets the kernel refuse processes beyond a number to a plain user's program that is started before the returned
// function is called. The kernel counts all that the user runs, so the number is put on top of what the whole machine runs
// now. Root is not bound by it; there a keeper comes before everybody else on a processor, and counts.
func bounded(processes int) (restore func()) {
	var before unix.Rlimit
	var system unix.Sysinfo_t
	if processes == 0 || unix.Sysinfo(&system) != nil || unix.Getrlimit(unix.RLIMIT_NPROC, &before) != nil {
		return func() {}
	}
	soft := min(before.Cur, uint64(system.Procs)+uint64(processes))
	if unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: soft, Max: before.Max}) != nil {
		return func() {}
	}
	return func() { _ = unix.Setrlimit(unix.RLIMIT_NPROC, &before) }
}

func procFD(file *os.File) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(file.Fd())))
}

// launch is one fork.
type launch struct {
	job        job
	files      []*os.File
	program    *os.File
	attributes *syscall.SysProcAttr
}

func (l launch) start() (pid int, err error) {
	if l.job.Sandbox != nil || l.job.Bounds != (sandbox.Bounds{}) {
		return l.staged()
	}
	path := l.job.Path
	if l.program != nil {
		// A binary is started by our own descriptor, which is gone when it runs; a script has to be readable for its
		// interpreter, at a number that it is told by the same name.
		path = procFD(l.program)
		if isScript(l.program) {
			l.files = append(l.files, l.program)
			path = "/proc/self/fd/" + strconv.Itoa(sandbox.ProgramFD)
		}
	}
	return l.fork(path, l.job.Argv)
}

// staged starts a stage and waits until it has become the program or said why not.
func (l launch) staged() (pid int, err error) {
	order := sandbox.Order{Plan: l.job.Sandbox, Bounds: l.job.Bounds, Path: l.job.Path, Argv: l.job.Argv, Env: l.job.Env, ByDescriptor: l.program != nil}
	if l.program == nil {
		l.program = l.files[0]
	} else {
		order.Script = isScript(l.program)
	}
	descriptor, err := order.Descriptor()
	if err != nil {
		return 0, err
	}
	defer descriptor.Close()
	status, said, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer status.Close()
	path, argv, err := order.Start()
	if err == nil {
		l.files = append(l.files, l.program, descriptor, said)
		// The stage needs nothing from an environment, and bwrap must not be led by one.
		l.job.Env = []string{}
		pid, err = l.fork(path, argv)
	}
	_ = said.Close()
	if err != nil {
		return 0, err
	}
	reason, err := io.ReadAll(io.LimitReader(status, 4<<10))
	if err != nil {
		return pid, err
	}
	if len(reason) > 0 {
		return pid, errors.New(string(reason))
	}
	return pid, nil
}

func (l launch) fork(path string, argv []string) (int, error) {
	descriptors := make([]uintptr, len(l.files))
	for i, file := range l.files {
		descriptors[i] = file.Fd()
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Dir: l.job.Dir, Env: l.job.Env, Files: descriptors, Sys: l.attributes})
	runtime.KeepAlive(l.files)
	if err != nil {
		return 0, fmt.Errorf("start %q: %w", l.job.Path, err)
	}
	return pid, nil
}

func isScript(file *os.File) bool {
	head := make([]byte, 2)
	n, _ := file.ReadAt(head, 0)
	return n == 2 && string(head) == "#!"
}
