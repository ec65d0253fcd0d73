package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drawbridge/relay/runner/sandbox"
)

const (
	// idleFor is how long a keeper without a job is kept: starting one takes longer than a short action.
	idleFor = 15 * time.Second
	// wakeEvery is how often a keeper that has to end its tree is told to go on: the program can stop it, since both belong
	// to the same user.
	wakeEvery = 100 * time.Millisecond
	// patience is how long a keeper may take to end its tree before it is ended itself. It is long, because what it could not
	// do with its priority the relay can hardly do without.
	patience = time.Minute
)

// Bounds is true where a Pool honors Processes and Bounds of a Command.
const Bounds = true

// Pool runs programs under keepers. It is safe for concurrent use.
type Pool struct {
	cgroups *cgroups

	mu     sync.Mutex
	idle   []*watch
	closed bool
}

// keepers are the process ids of the guards of this process, whichever pool started them: to tell them from orphans, which
// come to the process and not to a pool. The mutex is held while one is started and while orphans are ended.
var keepers = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// watch is a keeper as its relay sees it.
type watch struct {
	// cmd is its guard, which leads the process group of both.
	cmd  *exec.Cmd
	conn *net.UnixConn
	rest *time.Timer
	// pipe is open as long as this process lives; its other end is the guard's.
	pipe *os.File
}

// signal reaches the guard and the keeper. The guard is not waited for before its keeper is let go, so that the number is its own.
func (w *watch) signal(signal unix.Signal) { _ = unix.Kill(-w.cmd.Process.Pid, signal) }

// close lets the guard and the keeper go, and waits until both have ended.
func (w *watch) close() {
	_ = w.conn.Close()
	_ = w.pipe.Close()
	_ = w.cmd.Wait()
}

// NewPool returns a Pool that starts keepers when they are needed. It makes this process the one to which everything comes
// back that loses its keeper. withCgroups allows to use them where that is possible.
func NewPool(withCgroups bool) (*Pool, error) {
	if !mains {
		return nil, errors.New("make pool: this program does not call keeper.Main, so that it cannot be a keeper")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("make pool: %w", err)
	}
	p := &Pool{}
	if withCgroups {
		p.cgroups = findCgroups()
	}
	return p, nil
}

// String says by what means trees are ended.
func (p *Pool) String() string {
	switch {
	case p.cgroups == nil:
		return "subreaper"
	case p.cgroups.pids:
		return "subreaper, cgroup with pids"
	default:
		return "subreaper, cgroup"
	}
}

// Close ends the keepers that rest, and with them nothing else; no Run may be under way.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	rest := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, w := range rest {
		w.rest.Stop()
		p.dismiss(w)
	}
}

// Warm starts a keeper ahead of the first program. After an error the first program tries again.
func (p *Pool) Warm() error {
	w, err := p.take()
	if err != nil {
		return err
	}
	p.give(w)
	return nil
}

// Run runs a program to its end, and returns when nothing of it is left. When ctx is done it ends the whole tree. The error
// is [ErrLost] when the program ran and nobody saw its end; any other says that nothing ran.
func (p *Pool) Run(ctx context.Context, c Command) (End, error) {
	defer c.closeStdin()
	w, err := p.take()
	if err != nil {
		return End{}, err
	}
	streams, err := newStreams(c)
	if err != nil {
		p.give(w)
		return End{}, err
	}
	j, passed, cgroup := p.job(c, streams)
	w, err = p.hand(w, j, passed)
	streams.closeWriters()
	c.closeStdin()
	if cgroup != nil {
		defer os.Remove(cgroup.Name())
		defer cgroup.Close()
	}
	if w == nil {
		streams.close()
		return End{}, err
	}
	done := streams.copy()
	end, err := p.await(ctx, w, err)
	if errors.Is(err, ErrLost) {
		p.lost(w, cgroup)
	} else if end.Left > 0 {
		// What does not die would belong to the next job.
		p.lost(w, nil)
	} else {
		p.give(w)
	}
	streams.finish(done)
	return end, err
}

func (p *Pool) job(c Command, s *streams) (j job, passed []int, cgroup *os.File) {
	j = job{Path: c.Path, Argv: c.Argv, Dir: c.Dir, Env: c.Env, Processes: c.Processes, Look: c.Look, Bounds: c.Bounds, Sandbox: c.Sandbox}
	passed = []int{s.writers[0], s.writers[1]}
	if c.Stdin != nil {
		j.Stdin, passed = true, append(passed, int(c.Stdin.Fd()))
	}
	if c.Program != nil {
		j.Program, passed = true, append(passed, int(c.Program.Fd()))
	}
	if p.cgroups == nil {
		return j, passed, nil
	}
	// The administrator of the machine may take the right away at any time. Then the keeper does without.
	dir, err := p.cgroups.make(c.Processes)
	if err != nil {
		return j, passed, nil
	}
	if cgroup, err = os.Open(dir); err != nil {
		_ = os.Remove(dir)
		return j, passed, nil
	}
	j.Cgroup = true
	return j, append(passed, int(cgroup.Fd())), cgroup
}

// hand tells a keeper its job. One that was killed while it rested has begun nothing, so that a fresh one takes its place. The
// error of a keeper that is there says that nobody knows what it heard.
func (p *Pool) hand(w *watch, j job, passed []int) (*watch, error) {
	if send(w.conn, j, passed...) == nil {
		return w, nil
	}
	p.lost(w, nil)
	w, err := hire()
	if err != nil {
		return nil, err
	}
	return w, send(w.conn, j, passed...)
}

// await waits for the keeper's words; sent is the error of telling it the job.
func (p *Pool) await(ctx context.Context, w *watch, sent error) (End, error) {
	if sent != nil {
		return End{}, ErrLost
	}
	words := make(chan word)
	go func() {
		defer close(words)
		for {
			var said word
			files, err := receive(w.conn, &said)
			closeAll(files)
			if err != nil {
				return
			}
			words <- said
			if said.End != nil || said.Failed != "" {
				return
			}
		}
	}()
	done := ctx.Done()
	var late, again <-chan time.Time
	for {
		select {
		case said, open := <-words:
			switch {
			case !open:
				return End{Code: NoCode}, ErrLost
			case said.Failed != "":
				return End{}, errors.New(said.Failed)
			case said.End != nil:
				return *said.End, nil
			}
		case <-done:
			wake := time.NewTicker(wakeEvery)
			defer wake.Stop()
			done, late, again = nil, time.After(patience), wake.C
			// An error means that the keeper is gone, which shows next.
			_ = send(w.conn, job{End: true})
		case <-again:
			w.signal(unix.SIGCONT)
		case <-late:
			w.signal(unix.SIGKILL)
		}
	}
}

// take returns a keeper that has nothing to do.
func (p *Pool) take() (*watch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the pool is closed")
	}
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		w.rest.Stop()
		return w, nil
	}
	return hire()
}

func hire() (*watch, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "keeper"), os.NewFile(uintptr(ends[1]), "relay")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	pipe, held, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start keeper: %w", err), conn.Close())
	}
	defer pipe.Close()
	cmd := &exec.Cmd{
		Path: sandbox.Self, Args: []string{guardName, strconv.Itoa(os.Getpid())}, Dir: "/", // A collection of garbage needs threads that a starved machine does not give.
		// The runtime does not know that guard and keeper wait in the kernel, and would wake them with a signal a hundred times a second.
		Env:        []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=48MiB", "GODEBUG=asyncpreemptoff=1"},
		ExtraFiles: []*os.File{theirs, pipe}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	keepers.Lock()
	defer keepers.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start keeper: %w", err), conn.Close(), held.Close())
	}
	keepers.pids[cmd.Process.Pid] = true
	return &watch{cmd: cmd, conn: conn.(*net.UnixConn), pipe: held}, nil
}

// give puts a keeper to rest.
func (p *Pool) give(w *watch) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle = append(p.idle, w)
		w.rest = time.AfterFunc(idleFor, func() { p.retire(w) })
	}
	p.mu.Unlock()
	if closed {
		p.dismiss(w)
	}
}

// retire ends a keeper that still rests.
func (p *Pool) retire(w *watch) {
	p.mu.Lock()
	resting := false
	for i, other := range p.idle {
		if other == w {
			p.idle, resting = append(p.idle[:i:i], p.idle[i+1:]...), true
			break
		}
	}
	p.mu.Unlock()
	if resting {
		p.dismiss(w)
	}
}

// dismiss ends a keeper that has no job and waits for it.
func (p *Pool) dismiss(w *watch) {
	w.close()
	keepers.Lock()
	defer keepers.Unlock()
	delete(keepers.pids, w.cmd.Process.Pid)
}

// lost ends a keeper that cannot be relied on, and everything that came to us because it is gone.
func (p *Pool) lost(w *watch, cgroup *os.File) {
	w.signal(unix.SIGKILL)
	w.close()
	if cgroup != nil {
		killCgroup(cgroup)
	}
	keepers.Lock()
	defer keepers.Unlock()
	delete(keepers.pids, w.cmd.Process.Pid)
	sweep()
}

// sweep ends our children that are neither guards nor ours: every job has a session of its own, and what we start for
// ourselves has our own. The caller holds the mutex of keepers.
func sweep() {
	session, err := unix.Getsid(0)
	if err != nil {
		return
	}
	orphans := func() (found []proc) {
		below := map[int]bool{}
		// Parents come before their children.
		for _, p := range descendants(os.Getpid()) {
			if p.parent == os.Getpid() {
				sid, err := unix.Getsid(p.pid)
				below[p.pid] = err == nil && sid != session && !keepers.pids[p.pid]
			} else {
				below[p.pid] = below[p.parent]
			}
			if below[p.pid] {
				found = append(found, p)
			}
		}
		return found
	}
	promptly(func() {
		endTree(orphans, func() (none bool) {
			found := orphans()
			for _, p := range found {
				if p.zombie && p.parent == os.Getpid() {
					_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
				}
			}
			return len(found) == 0
		})
	})
}

// streams are the pipes through which a program's output comes.
type streams struct {
	readers [2]*os.File
	writers [2]int
	into    [2]io.Writer
}

func newStreams(c Command) (*streams, error) {
	s := &streams{into: [2]io.Writer{c.Stdout, c.Stderr}, writers: [2]int{-1, -1}}
	for i := range s.readers {
		var ends [2]int
		// The writing end stays blocking, as programs expect it.
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			s.close()
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		s.writers[i] = ends[1]
		_ = unix.SetNonblock(ends[0], true)
		s.readers[i] = os.NewFile(uintptr(ends[0]), "output")
	}
	return s, nil
}

func (s *streams) closeWriters() {
	for i, fd := range s.writers {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		s.writers[i] = -1
	}
}

func (s *streams) close() {
	s.closeWriters()
	for _, reader := range s.readers {
		if reader != nil {
			_ = reader.Close()
		}
	}
}

func (s *streams) copy() <-chan struct{} {
	done := make(chan struct{})
	var both sync.WaitGroup
	for i, reader := range s.readers {
		both.Go(func() {
			// The end of the pipe, or of our patience.
			if _, err := io.Copy(struct{ io.Writer }{s.into[i]}, reader); errors.Is(err, os.ErrDeadlineExceeded) {
				takeRest(s.into[i], reader)
			}
		})
	}
	go func() {
		defer close(done)
		both.Wait()
	}()
	return done
}

// maxRest bounds what is taken out of a pipe after our patience, in bytes; a pipe holds 64 KiB.
const maxRest = 1 << 20

// takeRest copies what stands in a pipe already. A program that wrote it and ended must not lose it because the relay was slow.
func takeRest(into io.Writer, from *os.File) {
	_ = from.SetReadDeadline(time.Time{})
	raw, err := from.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 64<<10)
	_ = raw.Read(func(fd uintptr) bool {
		for taken := 0; taken < maxRest; {
			n, err := unix.Read(int(fd), buffer)
			if n <= 0 || err != nil {
				break
			}
			_, _ = into.Write(buffer[:n])
			taken += n
		}
		return true
	})
}

// finish returns when both streams are at their end, or after drainFor: a process that got away may hold one open.
func (s *streams) finish(done <-chan struct{}) {
	select {
	case <-done:
	default:
		for _, reader := range s.readers {
			_ = reader.SetReadDeadline(time.Now().Add(drainFor))
		}
		<-done
	}
	s.close()
}
