package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	probeArg = "probe"
	coverArg = "cover"
	becomes  = "become"
	// Self is this binary, also after its file was replaced.
	Self = "/proc/self/exe"
	// probeTimeout bounds each look at what the machine can do. A busy machine needs seconds to start a program, and a
	// look that is cut off says that the machine cannot do it.
	probeTimeout = time.Minute
)

// Probe tries what the machine can do; it starts this binary as a stage, so its main has to call [Main]. lookPath finds
// bwrap; nil means exec.LookPath.
func Probe(ctx context.Context, lookPath func(string) (string, error)) Ability {
	var a Ability
	if version, err := llsyscall.LandlockGetABIVersion(); err == nil {
		a.Landlock = version
	}
	a.Namespace = try(ctx, Self, []string{StageName, probeArg}, Attributes(Plan{Network: viaNamespace}))
	a.Cover = try(ctx, Self, []string{StageName, coverArg}, Attributes(coverProbe))
	if lookPath == nil {
		lookPath = exec.LookPath
	}
	if path, err := lookPath("bwrap"); err == nil {
		if self, err := os.Executable(); err == nil && filepath.IsAbs(path) {
			argv := append(Plan{Bubblewrap: path, Network: viaBubblewrap, Files: viaBubblewrap}.wrap(self, self), self, "--help")
			// Under its own name the binary would be no stage; that it starts at all is what counts.
			if try(ctx, path, argv, &syscall.SysProcAttr{}) {
				a.Bubblewrap = path
			}
		}
	}
	return a
}

func try(ctx context.Context, path string, argv []string, attributes *syscall.SysProcAttr) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Env, cmd.SysProcAttr, cmd.WaitDelay = argv, []string{}, attributes, time.Second
	return cmd.Run() == nil
}

// Attributes are the clone flags by which a plan's namespaces come into being.
func Attributes(p Plan) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{}
	if p.Network == viaNamespace {
		attributes.Cloneflags |= syscall.CLONE_NEWNET
	}
	if p.covers() {
		attributes.Cloneflags |= syscall.CLONE_NEWNS
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if attributes.Cloneflags == 0 || uid == 0 {
		return attributes
	}
	if p.covers() {
		// The stage mounts, and drops the right to it before it becomes the program.
		attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	// Only in a user namespace of its own may a plain user make another one. The ids stay what they are.
	attributes.Cloneflags |= syscall.CLONE_NEWUSER
	attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	return attributes
}

// Start says what to execute for an order, and with which arguments: this binary as a stage, behind bwrap if need be.
func (o Order) Start() (path string, argv []string, err error) {
	stage := []string{StageName, becomes}
	if o.Plan == nil || o.Plan.Bubblewrap == "" {
		return Self, stage, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	// bwrap takes the first argument for the path, so the stage has to be told by the second.
	return o.Plan.Bubblewrap, append(o.Plan.wrap(self, o.Path), self, becomes), nil
}

// Main is a stage if the process was started as one, and then never returns. A main calls it before anything else.
func Main() {
	staged := len(os.Args) == 2 && (os.Args[0] == StageName || os.Args[1] == becomes && isOrder(orderFD))
	if !staged {
		return
	}
	switch os.Args[1] {
	case probeArg:
		os.Exit(0)
	case coverArg:
		if coverProbe.cover() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	err := become()
	status := os.NewFile(statusFD, "status")
	_, _ = io.WriteString(status, err.Error())
	os.Exit(127)
}

// isOrder reports whether fd is a sealed memory file, which nobody has there by chance.
func isOrder(fd int) bool {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	return err == nil && seals&unix.F_SEAL_WRITE != 0
}

// Descriptor writes the order into a sealed memory file, to be the stage's descriptor for orders.
func (o Order) Descriptor() (*os.File, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write order: %w", err)
	}
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make order: %w", err)
	}
	file := os.NewFile(uintptr(fd), "order")
	_, err = file.Write(text)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write order: %w", err), file.Close())
	}
	return file, nil
}

// become limits this process and turns it into the program. It returns only with an error.
func become() error {
	file := os.NewFile(orderFD, "order")
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<24))
	if err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	var o Order
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	unix.CloseOnExec(orderFD)
	unix.CloseOnExec(statusFD)
	if !o.Script {
		unix.CloseOnExec(ProgramFD)
	}
	if o.Plan != nil {
		if err := o.Plan.cover(); err != nil {
			return fmt.Errorf("keep the program from the relay's sockets: %w", err)
		}
		if err := o.Plan.blind(); err != nil {
			return fmt.Errorf("keep the program from other processes: %w", err)
		}
		if err := o.restrict(); err != nil {
			return fmt.Errorf("limit the program: %w", err)
		}
	}
	if err := o.Bounds.impose(); err != nil {
		return fmt.Errorf("bound the program: %w", err)
	}
	path := o.Path
	if o.ByDescriptor {
		path = fmt.Sprintf("/proc/self/fd/%d", ProgramFD)
	}
	if o.Bounds.Memory > 0 {
		return o.execWithin(path)
	}
	if err := unix.Exec(path, o.Argv, o.Env); err != nil {
		return fmt.Errorf("start %q: %w", o.Path, err)
	}
	return nil
}

// restrict applies Landlock. What the plan does not name is not there for the program and for all that it starts.
func (o Order) restrict() error {
	if o.Plan.Landlock == 0 {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	config := landlock.V11
	if !o.Plan.NoNetwork {
		config.HandledAccessNet = 0
	}
	// The plan was made from what the kernel was seen to have, so the best effort is not none.
	rules, err := o.rules()
	if err != nil {
		return err
	}
	return config.BestEffort().Restrict(rules...)
}

func (o Order) rules() ([]landlock.Rule, error) {
	rules := []landlock.Rule{
		landlock.RODirs(systemFolders...).IgnoreIfMissing(),
		landlock.ROFiles(systemFiles...).IgnoreIfMissing(),
		landlock.RWFiles(systemDevices...).IgnoreIfMissing(),
		landlock.ROFiles(o.Path),
	}
	for _, path := range o.Plan.Read {
		found, err := hold(path)
		if err != nil {
			return nil, err
		}
		rules = append(rules, found.rule(landlock.RODirs, landlock.ROFiles))
	}
	for _, path := range o.Plan.Connect {
		found, err := hold(path)
		if err != nil {
			return nil, err
		}
		r := found.rule(landlock.RODirs, landlock.ROFiles)
		if o.Plan.Landlock >= unixLandlock {
			r = r.WithResolveUnix()
		}
		rules = append(rules, r)
	}
	for _, path := range o.Plan.Write {
		found, err := hold(path)
		if err != nil {
			return nil, err
		}
		r := found.rule(landlock.RWDirs, landlock.RWFiles)
		if found.folder && o.Plan.Landlock >= 2 {
			r = r.WithRefer()
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// held is a path of the plan that was opened: a name of what was opened, which cannot come to mean something else.
type held struct {
	name   string
	folder bool
}

// hold opens a path of the plan, in which no element may be a link: settings resolved it at the start, and another action may
// have put a link in its place since. The descriptor is open until the stage becomes its program.
func hold(path string) (held, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ELOOP) {
		return held{}, fmt.Errorf("%q has become a symbolic link since the relay started; restore the file or folder that was there, or restart the relay", path)
	}
	if err != nil {
		return held{}, fmt.Errorf("open %q: %w", path, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return held{}, fmt.Errorf("look at %q: %w", path, err)
	}
	return held{name: fmt.Sprintf("/proc/self/fd/%d", fd), folder: stat.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

func (h held) rule(folder, file func(...string) landlock.FSRule) landlock.FSRule {
	if h.folder {
		return folder(h.name)
	}
	return file(h.name)
}
