// Package settings reads relay.yaml: what a relay may run and how, strictly, with every problem at once and a remedy for each.
//
// It opens no listener, runs nothing and keeps no state. Rule of thumb: what the file does not say is not allowed, and what
// it says is checked here once, so that nothing behind it has to.
package settings

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"drawbridge/relay/runner/output"
	"drawbridge/relay/wire"
)

// Limits of what relay.yaml may ask for.
const (
	maxConfigBytes  = 1 << 20
	minToken        = 32
	maxToken        = 512
	defaultTimeout  = time.Minute
	maxTimeout      = time.Hour
	defaultDir      = "/"
	defaultJournal  = "relay.journal"
	maxConcurrent   = 64
	maxQueue        = 1024
	maxPerMinute    = 600
	maxPerDay       = 50_000
	maxConcurrency  = 16
	maxProcesses    = 4096
	minMemory       = 16 << 20
	minOpenFiles    = 16
	maxOpenFiles    = 1 << 20
	maxBytes        = 1 << 50
	maxApprovalWait = 24 * time.Hour
	maxApprovalFor  = 30 * 24 * time.Hour
	maxPaths        = 64
	// maxActions is how many a bridge takes from one relay.
	maxActions = wire.MaxOffers
	// maxWord bounds one argument or variable in bytes, name and end included: Linux starts no program with a longer one.
	maxWord = 128 << 10
	// maxWords bounds all arguments and variables of an action in bytes. macOS starts no program with more, pointers included.
	maxWords = 768 << 10
	maxFiles = 64
	// maxFilesText bounds what the files take in a line of the audit log, in bytes.
	maxFilesText     = 8 << 10
	maxRedact        = 64
	hiddenValue      = "(hidden)"
	actionNameAdvice = "use 1 to 64 of a-z, 0-9, '_', '.', '-', beginning with a letter or digit"
)

// Config is a relay.yaml that was checked as a whole. The zero Config allows nothing and cannot be served.
type Config struct {
	// Listen is a loopback address; port 0 lets the system choose. It is the zero value when Socket is set, or when nothing
	// listens because the relay only dials out.
	Listen netip.AddrPort
	// Socket is the absolute path of a Unix socket to listen on instead.
	Socket string
	// Token is empty only when nothing listens.
	Token   Secret
	Actions map[string]Action
	// Agents are the programs that take turns here, and Repos the clones of the user's that they may work on; none unless listed.
	Agents map[string]Agent
	Repos  map[string]Repo
	Limits Limits
	// State is the absolute folder for everything that outlives the process: audit, approvals, kill switch, control socket.
	State string
	// Journal is the absolute path of the journal; relay.journal in State unless set.
	Journal string
	// SHA256 is the digest in hex of the file itself, without what ${…} put in.
	SHA256 string
	// File is the path that it was read from.
	File string
	// Warnings are problems of single agents, such as a missing program. They keep nothing else from working.
	Warnings []Problem
	// secrets are the token, what ${file:…} put in, variables named like secrets, and redact; they are taken out of every
	// output.
	secrets  []string
	patterns []*regexp.Regexp
}

// Listens reports whether the relay serves POST /run at all.
func (c Config) Listens() bool { return c.Socket != "" || c.Listen.IsValid() }

// Redactor finds the secrets of the whole file.
func (c Config) Redactor() *output.Redactor { return output.NewRedactor(c.secrets, c.patterns) }

// String counts the actions and prints nothing that may be secret.
func (c Config) String() string {
	return fmt.Sprintf("relay configuration for %s with %d actions", c.Door(), len(c.Actions))
}

// Door is where the relay listens, for people.
func (c Config) Door() string {
	switch {
	case c.Socket != "":
		return "unix:" + c.Socket
	case c.Listen.IsValid():
		return c.Listen.String()
	default:
		return "no address"
	}
}

// GoString is String, so that %#v prints no secret either.
func (c Config) GoString() string { return c.String() }

// Action is one entry of the relay's own list. A request chooses it by id and adds nothing to it.
type Action struct {
	// Argv is run as it stands, without a shell; its first element is an absolute path.
	Argv []string
	// Dir is the absolute working folder, "/" unless set.
	Dir string
	// Env is the whole environment but for PATH, which is fixed unless set here.
	Env []EnvVar
	// Timeout bounds the process and everything that it started, at most an hour.
	Timeout time.Duration
	// Output is how many bytes are kept of each stream, at most wire.MaxOutput.
	Output int
	// Concurrency is how often the action may run at once, 1 unless set.
	Concurrency int
	// Processes is how many processes it may be at a time; one more ends them all.
	Processes int
	// Bounds hold for each of its processes.
	Bounds Bounds
	// Approval says when a person has to agree, and where.
	Approval Approval
	// Idempotent allows to run it again under the same request id when the relay ended in the middle of it.
	Idempotent bool
	// SHA256 is the digest of the program in hex, or empty. It is compared with the bytes that are executed.
	SHA256 string
	// Files are what the program reads and what has to be as it was, such as the script of an interpreter.
	Files []File
	// Sandbox is nil when the action may touch whatever its user may.
	Sandbox *Sandbox

	secrets  []string
	patterns []*regexp.Regexp
}

// Redactor finds the secrets of the file and of this action.
func (a Action) Redactor(whole *output.Redactor) *output.Redactor {
	if len(a.secrets)+len(a.patterns) == 0 {
		return whole
	}
	return whole.With(a.secrets, a.patterns)
}

// EnvNames are the names of the environment that the action gets, for people.
func (a Action) EnvNames() []string {
	names := make([]string, len(a.Env))
	for i, v := range a.Env {
		names[i] = v.Name
	}
	return names
}

// FilePaths are the paths of the files that the action relies on.
func (a Action) FilePaths() []string {
	var paths []string
	for _, f := range a.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

// File is a file whose content is known: an absolute path, and the digest in hex.
type File struct {
	Path, SHA256 string
}

// Bounds are what each process of an action may use at most; 0 is as much as the relay itself may.
type Bounds struct {
	// Memory is its address space in bytes, which is more than what it touches.
	Memory int64
	// OpenFiles counts its descriptors; FileSize is the size in bytes of a file that it writes.
	OpenFiles, FileSize int64
	// CPU is its time on processors, in whole seconds.
	CPU time.Duration
}

// String names what is bounded, for people; "" when nothing is.
func (b Bounds) String() string {
	var parts []string
	for _, bound := range []struct {
		name  string
		value any
		set   bool
	}{
		{"memory", sized(b.Memory), b.Memory > 0}, {"open_files", b.OpenFiles, b.OpenFiles > 0},
		{"file_size", sized(b.FileSize), b.FileSize > 0}, {"cpu", b.CPU, b.CPU > 0},
	} {
		if bound.set {
			parts = append(parts, fmt.Sprintf("%s %v", bound.name, bound.value))
		}
	}
	return strings.Join(parts, ", ")
}

// Sandbox is what an action may touch beside the system's own programs and libraries.
type Sandbox struct {
	// Read and Write are absolute paths of files and folders; what is written may also be read.
	Read  []string `json:"read"`
	Write []string `json:"write"`
	// Network is false when nothing may go over a network.
	Network bool `json:"network"`
}

// Modes of an [Approval].
const (
	ApproveNever = "never"
	ApproveEach  = "each"
	ApproveOnce  = "once"
)

// Places where an [Approval] can be given.
const (
	AtMachine = wire.AtMachine
	AtBridge  = wire.AtBridge
	AtEither  = wire.AtEither
)

// Approval is when a person has to agree to an action, and where that counts.
type Approval struct {
	// Mode is one of the Approve constants; For is how long ApproveOnce lasts.
	Mode string
	For  time.Duration
	// By is one of the At constants.
	By string
}

// String is never, each, or once per <duration>.
func (a Approval) String() string {
	if a.Mode == ApproveOnce {
		return "once per " + a.For.String()
	}
	return a.Mode
}

// Needed reports whether anybody has to agree.
func (a Approval) Needed() bool { return a.Mode != ApproveNever }

// Machine reports whether a word at this machine counts.
func (a Approval) Machine() bool { return a.Needed() && a.By != AtBridge }

// Bridge reports whether the operator's word at the bridge counts.
func (a Approval) Bridge() bool { return a.Needed() && a.By != AtMachine }

// EnvVar is one variable of an action's environment.
type EnvVar struct {
	Name, Value string
}

// String leaves the value out, which may be secret.
func (v EnvVar) String() string { return v.Name + "=" + hiddenValue }

// GoString leaves the value out.
func (v EnvVar) GoString() string { return v.String() }

// Limits bound what all callers together can make the relay do.
type Limits struct {
	// Concurrent is how many actions run at once.
	Concurrent int
	// Queue is how many requests may wait for their turn.
	Queue int
	// PerMinute is how many actions may start in any 60 seconds.
	PerMinute int
	// PerDay is how many actions may start in any 24 hours, also over restarts.
	PerDay int
	// ApprovalWait is how long a person has to agree before the answer is no.
	ApprovalWait time.Duration
}

// Secret is a text that prints as "(hidden)" however it is printed.
type Secret string

// String hides the secret from %v and %s.
func (Secret) String() string { return hiddenValue }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return hiddenValue }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(hiddenValue), nil }

// Problem is one thing that is wrong with relay.yaml, and what to do about it. It never holds a secret.
type Problem struct {
	File string
	// Line is 0 for a problem with the file as a whole.
	Line int
	// Key is the dotted path of the setting, such as actions.backup.timeout.
	Key, Value     string
	Reason, Remedy string
}

// String is one line: file:line: key: "value": reason; remedy.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Key != "" {
		fmt.Fprintf(&b, ": %s", p.Key)
	}
	if p.Value != "" {
		fmt.Fprintf(&b, ": %+.120q", p.Value)
	}
	fmt.Fprintf(&b, ": %s", p.Reason)
	if p.Remedy != "" {
		fmt.Fprintf(&b, "; %s", p.Remedy)
	}
	return b.String()
}

// Error holds every problem that was found, in the order of the file.
type Error struct {
	Problems []Problem
}

// Error puts each problem on a line of its own.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func defaultLimits() Limits {
	return Limits{Concurrent: 4, Queue: 16, PerMinute: 30, PerDay: 2000, ApprovalWait: time.Minute}
}

func newAction() Action {
	return Action{
		Dir: defaultDir, Timeout: defaultTimeout, Output: wire.DefaultOutput, Concurrency: 1, Processes: 256,
		Approval: Approval{Mode: ApproveNever, By: AtMachine},
	}
}
