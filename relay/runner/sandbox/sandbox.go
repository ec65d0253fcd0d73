// Package sandbox limits what a program may touch to what its entry in relay.yaml lists, with what the platform has:
// Landlock and namespaces on Linux, bubblewrap where it is installed and the kernel's own means are not allowed; and what it may use.
//
// Landlock restricts the process that asks for it and cannot be undone, so the limits are applied by a stage: this same
// binary, started again under [StageName], which limits itself and becomes the program. It is no judge of paths: package
// settings checked them. Where a platform has nothing, the [Plan] says so instead of pretending. Rule of thumb: never claim a
// limit that the kernel was not seen to grant.
package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// StageName is the first argument vector element under which a binary that calls [Main] is a stage.
const StageName = "drawbridge-sandbox"

// Ability is what this machine lets us do. The zero Ability is nothing.
type Ability struct {
	// Landlock is the version of the kernel's interface, 0 without it.
	Landlock int
	// Namespace is true when a process can be given a network of its own.
	Namespace bool
	// Cover is true when a process can be given mounts of its own.
	Cover bool
	// Bubblewrap is the path of a bwrap that was seen to work, or empty.
	Bubblewrap string
}

// String is for people and for the line that a relay writes at its start.
func (a Ability) String() string {
	var means []string
	if a.Landlock > 0 {
		means = append(means, fmt.Sprintf("landlock %d", a.Landlock))
	}
	if a.Namespace {
		means = append(means, "network namespaces")
	}
	if a.Cover {
		means = append(means, "mount namespaces")
	}
	if a.Bubblewrap != "" {
		means = append(means, "bubblewrap")
	}
	if len(means) == 0 {
		return "none"
	}
	return strings.Join(means, ", ")
}

// Wish is what an action may touch, as in relay.yaml.
type Wish struct {
	Read, Write []string
	Network     bool
	// Hide are sockets that the action must not reach, such as the relay's control socket, wherever Read or Write lead.
	Hide []string
	// Connect are folders in which the program may connect to sockets. It cannot write there.
	Connect []string
	// Blind takes the right from a program of root's to read the variables and the memory of other processes through /proc. A plain user's
	// program does not have it.
	Blind bool
}

// Means of a [Plan].
const (
	viaNothing    = "open"
	viaLandlock   = "landlock"
	viaBubblewrap = "bubblewrap"
	viaNamespace  = "namespace"
	viaTCP        = "landlock, TCP only"
)

// Plan is how one wish is carried out on this machine. The zero Plan limits nothing. It is sent to the stage as JSON.
type Plan struct {
	Read  []string `json:"read"`
	Write []string `json:"write"`
	// Files and Network name the means; viaNothing where there is none, or none is wanted.
	Files   string `json:"files"`
	Network string `json:"network"`
	// Landlock is the version of the kernel's interface; it is used inside bubblewrap too.
	Landlock int `json:"landlock"`
	// Bubblewrap is the path of bwrap when one of the means is it.
	Bubblewrap string `json:"bubblewrap"`
	// Connect are folders in which the program may connect to sockets.
	Connect []string `json:"connect,omitempty"`
	// Hide are sockets that are kept out; Hiding names the means.
	Hide   []string `json:"hide,omitempty"`
	Hiding string   `json:"hiding,omitempty"`
	// NoNetwork is true when the wish was that nothing goes over a network.
	NoNetwork bool `json:"no_network"`
	Blind     bool `json:"blind,omitempty"`
}

// Plan chooses the strongest means that the machine has. Bubblewrap comes first, because outside its folders nothing is
// there at all; before version 9 Landlock leaves the sockets of other programs within reach.
func (a Ability) Plan(w Wish) Plan {
	p := Plan{Read: w.Read, Write: w.Write, Files: viaNothing, Network: viaNothing, NoNetwork: !w.Network, Landlock: a.Landlock, Blind: w.Blind}
	p.Hide, p.Hiding, p.Connect = w.Hide, a.hiding(), w.Connect
	if a.Bubblewrap != "" {
		p.Files, p.Bubblewrap = viaBubblewrap, a.Bubblewrap
		if !w.Network {
			p.Network = viaBubblewrap
		}
		return p
	}
	if a.Landlock > 0 {
		p.Files = viaLandlock
	}
	switch {
	case w.Network:
	case a.Namespace:
		p.Network = viaNamespace
	case a.Landlock >= 4:
		p.Network = viaTCP
	}
	return p
}

// unixLandlock is the version of Landlock that keeps a program from the sockets of others.
const unixLandlock = 9

// hiding chooses how a socket is kept out of a sandbox.
func (a Ability) hiding() string {
	switch {
	case a.Bubblewrap != "":
		return viaBubblewrap
	case a.Landlock >= unixLandlock:
		return viaLandlock
	case a.Cover:
		return viaNamespace
	}
	return viaNothing
}

// covers reports whether the stage has to cover sockets in mounts of its own.
func (p Plan) covers() bool { return len(p.Hide) > 0 && p.Hiding == viaNamespace }

// Missing says what was wished for and cannot be had here, or "".
func (p Plan) Missing() string {
	var missing []string
	if p.Files == viaNothing {
		missing = append(missing, "files are not limited")
	}
	switch {
	case !p.NoNetwork:
	case p.Network == viaNothing:
		missing = append(missing, "the network is not cut off")
	case p.Network == viaTCP:
		missing = append(missing, "only TCP is cut off, the rest of the network is not")
	}
	if len(p.Hide) > 0 && p.Hiding == viaNothing {
		missing = append(missing, "the relay's control socket is within reach")
	}
	return strings.Join(missing, ", ")
}

// String is for the audit: what is in force.
func (p Plan) String() string {
	network := p.Network
	if p.NoNetwork && network == viaNothing {
		network = "none"
	}
	files := p.Files
	if files == viaNothing {
		files = "none"
	}
	return "files: " + files + "; network: " + network
}

// Bounds are what the program and each process that it starts may use at most, whatever they ask for; 0 bounds nothing. Where the
// relay itself may use less, that counts. Only root can lift them again.
type Bounds struct {
	// Memory is the address space in bytes: what a program reserves counts, too.
	Memory uint64 `json:"memory,omitempty"`
	// OpenFiles is how many descriptors, FileSize how many bytes of one file that is written.
	OpenFiles uint64 `json:"open_files,omitempty"`
	FileSize  uint64 `json:"file_size,omitempty"`
	// CPU is seconds on processors; a process that goes on after SIGXCPU is killed a second later.
	CPU uint64 `json:"cpu,omitempty"`
}

// Order is what a stage is told on its descriptor for orders: what to limit and then what to become.
type Order struct {
	// Plan is nil when the program may touch whatever its user may.
	Plan   *Plan  `json:"plan,omitempty"`
	Bounds Bounds `json:"bounds"`
	// Argv and Env are the program's; Path is executed unless ByDescriptor is true, when the descriptor of the program is.
	Path         string   `json:"path"`
	Argv         []string `json:"argv"`
	Env          []string `json:"env"`
	ByDescriptor bool     `json:"by_descriptor"`
	// Script keeps the program's descriptor open, because its interpreter has to read it.
	Script bool `json:"script"`
}

// Descriptors of a stage: the program, its orders, and where it says why it failed.
const (
	ProgramFD = 3
	orderFD   = 4
	statusFD  = 5
)

// systemPaths are what nearly every program needs to start; none holds what is a user's own.
var (
	systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/alternatives"}
	systemFiles   = []string{
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group",
		"/etc/nsswitch.conf", "/etc/hosts", "/etc/resolv.conf", "/etc/services", "/etc/protocols", "/etc/gitconfig",
		"/etc/bash.bashrc", "/etc/bashrc", "/etc/os-release", "/etc/mime.types",
	}
	systemDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
)

// System reports whether every sandbox lets a program read this path.
func System(path string) bool {
	return slices.Contains(systemFiles, path) || slices.ContainsFunc(systemFolders, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
	})
}

// wrap is the bwrap command line for a plan, up to the command. self is our own binary, which has to be there inside.
func (p Plan) wrap(self, program string) []string {
	argv := []string{p.Bubblewrap, "--die-with-parent"}
	if p.Network == viaBubblewrap {
		argv = append(argv, "--unshare-net")
	}
	for _, path := range append(append(append([]string{}, systemFolders...), systemFiles...), slices.Concat(p.Read, p.Connect)...) {
		argv = append(argv, "--ro-bind-try", path, path)
	}
	argv = append(argv, "--proc", "/proc", "--dev", "/dev")
	for _, path := range p.Write {
		argv = append(argv, "--bind-try", path, path)
	}
	for _, path := range p.Hide {
		if p.shows(path) {
			argv = append(argv, "--ro-bind", "/dev/null", path)
		}
	}
	return append(argv, "--ro-bind-try", program, program, "--ro-bind", self, self, "--")
}

// shows reports whether a path lies in a folder that the plan lets the program see.
func (p Plan) shows(path string) bool {
	for _, folder := range append(append([]string{}, p.Read...), p.Write...) {
		rel, err := filepath.Rel(folder, path)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return true
		}
	}
	return false
}
