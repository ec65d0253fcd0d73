package runner

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"drawbridge/relay/wire"
)

// Limits of what relay.yaml may ask for.
const (
	maxConfigBytes   = 1 << 20
	minToken         = 32
	maxToken         = 512
	defaultTimeout   = time.Minute
	maxTimeout       = time.Hour
	defaultDir       = "/"
	defaultJournal   = "relay.journal"
	minRedacted      = 8
	maxConcurrent    = 64
	maxQueue         = 1024
	maxPerMinute     = 600
	hiddenValue      = "(hidden)"
	actionNameAdvice = "use 1 to 64 of a-z, 0-9, '_', '.', '-', beginning with a letter or digit"
)

// Config is a relay.yaml that was checked as a whole. The zero Config allows nothing and cannot be served.
type Config struct {
	// Listen is a loopback address; port 0 lets the system choose.
	Listen  netip.AddrPort
	Token   Secret
	Actions map[string]Action
	Limits  Limits
	// Journal is the absolute path for [OpenJournal]; relay.journal beside the file unless set.
	Journal string
	// secrets are the token, what ${file:…} put in, and variables named like secrets; they are taken out of every output.
	secrets []string
}

// String counts the actions and prints nothing that may be secret.
func (c Config) String() string {
	return fmt.Sprintf("relay configuration for %s with %d actions", c.Listen, len(c.Actions))
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
}

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
	// Concurrent is how many actions run at once; one action never runs twice at once.
	Concurrent int
	// Queue is how many requests may wait for their turn.
	Queue int
	// PerMinute is how many actions may start in any 60 seconds.
	PerMinute int
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

// ConfigError holds every problem that was found, in the order of the file.
type ConfigError struct {
	Problems []Problem
}

// Error puts each problem on a line of its own.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func defaultLimits() Limits {
	return Limits{Concurrent: 4, Queue: 16, PerMinute: 30}
}

func newAction() Action {
	return Action{Dir: defaultDir, Timeout: defaultTimeout, Output: wire.MaxOutput}
}
