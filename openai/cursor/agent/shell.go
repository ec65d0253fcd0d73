package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"golang.org/x/sys/unix"

	"drawbridge/internal/clip"
	"drawbridge/openai/cursor/wire"
)

const (
	// shellFor is how long a command runs that names no time, and shellMost how long one may run.
	shellFor  = 10 * time.Minute
	shellMost = time.Hour
	// Output is said each tellEach, or when tellAt bytes are there: each piece is a message of its own.
	tellEach = 100 * time.Millisecond
	tellAt   = 16 << 10
	// maxOutput bounds what is kept of each output of a command, in bytes; the rest is counted.
	maxOutput = 1 << 20
	// drainFor is how long a command may take to end when it is told to, and how long its outputs are read behind its end while children hold them open.
	drainFor = 2 * time.Second
)

// shell is the program that runs commands.
func shell() string {
	if path, err := exec.LookPath("bash"); err == nil {
		return path
	}
	return "/bin/sh"
}

// teller writes what a command came to in one of the two forms that the service has.
type teller struct {
	a   *wire.ShellArgs
	dir string
	say func(*wire.ExecClientMessage)
	// pieces has each piece of output said at once.
	pieces bool
}

// form chooses between them.
type form func(*wire.ShellArgs) *teller

func outcome(a *wire.ShellArgs) *teller  { return &teller{a: a} }
func streamed(a *wire.ShellArgs) *teller { return &teller{a: a, pieces: true} }

func shellResult(r *wire.ShellResult) *wire.ExecClientMessage {
	return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_ShellResult{ShellResult: r}}
}

func shellEvent(s *wire.ShellStream) *wire.ExecClientMessage {
	return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_ShellStream{ShellStream: s}}
}

func (t *teller) refused(why string) *wire.ExecClientMessage {
	no := &wire.ShellRejected{Command: t.a.GetCommand(), WorkingDirectory: t.a.GetWorkingDirectory(), Reason: why}
	if t.pieces {
		return shellEvent(&wire.ShellStream{Event: &wire.ShellStream_Rejected{Rejected: no}})
	}
	return shellResult(&wire.ShellResult{Result: &wire.ShellResult_Rejected{Rejected: no}})
}

// broken says that a command did not begin.
func (t *teller) broken(err error) string {
	if t.pieces {
		t.say(shellEvent(&wire.ShellStream{Event: &wire.ShellStream_Rejected{Rejected: &wire.ShellRejected{Command: t.a.GetCommand(), WorkingDirectory: t.a.GetWorkingDirectory(), Reason: plain(err)}}}))
	} else {
		t.say(shellResult(&wire.ShellResult{Result: &wire.ShellResult_SpawnError{SpawnError: &wire.ShellError{Command: t.a.GetCommand(), WorkingDirectory: t.a.GetWorkingDirectory(), Error: plain(err)}}}))
	}
	return plain(err)
}

// begun says that a command runs.
func (t *teller) begun() {
	if t.pieces {
		t.say(shellEvent(&wire.ShellStream{Event: &wire.ShellStream_Start{Start: &wire.Empty{}}}))
	}
}

// piece says a piece of output at once.
func (t *teller) piece(text string, trouble bool) {
	switch {
	case !t.pieces || text == "":
	case trouble:
		t.say(shellEvent(&wire.ShellStream{Event: &wire.ShellStream_Stderr{Stderr: &wire.ShellOutput{Data: text}}}))
	default:
		t.say(shellEvent(&wire.ShellStream{Event: &wire.ShellStream_Stdout{Stdout: &wire.ShellOutput{Data: text}}}))
	}
}

// ran is how a command ended.
type ran struct {
	code   int
	signal string
	// why is set where the command was ended.
	why  *wire.ShellAbortReason
	took time.Duration
	// limit is how long it was allowed to run.
	limit    time.Duration
	out, err string
}

// over says how a command ended.
func (t *teller) over(r ran) string {
	trouble := ""
	switch {
	case r.why != nil && *r.why == wire.ShellAbortReason_SHELL_ABORT_REASON_TIMEOUT:
		trouble = fmt.Sprintf("the command did not end within %s", r.limit)
	case r.why != nil:
		trouble = "the command was ended"
	case r.signal != "":
		trouble = "the command was ended by " + r.signal
	case r.code != 0:
		trouble = fmt.Sprintf("exit code %d", r.code)
	}
	code := r.code
	if r.why != nil {
		code = -1
	}
	done := &wire.ShellOutcome{Command: t.a.GetCommand(), WorkingDirectory: t.dir, ExitCode: int32(code), Signal: r.signal, Stdout: r.out, Stderr: r.err, ExecutionTime: int32(r.took.Milliseconds())}
	switch {
	case t.pieces:
		t.say(shellEvent(&wire.ShellStream{Event: &wire.ShellStream_Exit{Exit: &wire.ShellExit{Code: uint32(int32(code)), Cwd: t.dir, Aborted: r.why != nil, AbortReason: r.why}}}))
	case trouble == "":
		t.say(shellResult(&wire.ShellResult{Result: &wire.ShellResult_Success{Success: done}}))
	default:
		done.Aborted, done.AbortReason = r.why != nil, r.why
		t.say(shellResult(&wire.ShellResult{Result: &wire.ShellResult_Failure{Failure: done}}))
	}
	return trouble
}

func (h hands) shell(a *wire.ShellArgs, as form) *deed {
	t := as(a)
	dir := h.place(a.GetWorkingDirectory(), false)
	input := map[string]any{"command": a.GetCommand(), "cwd": dir.real}
	if a.GetDescription() != "" {
		input["description"] = a.GetDescription()
	}
	return &deed{
		kind: acp.ToolKindExecute, title: a.GetCommand(), input: input, never: dir.never, refuse: t.refused,
		do: func(ctx context.Context, say func(*wire.ExecClientMessage)) string {
			t.say = say
			err := h.still(dir, false)
			if err == nil {
				var at os.FileInfo
				if at, err = h.root.Stat(dir.rel); err == nil && !at.IsDir() {
					err = syscall.ENOTDIR
				}
			}
			if err != nil {
				return t.broken(errors.New("the folder of the command: " + plain(err)))
			}
			t.dir = dir.real
			return h.run(ctx, t, filepath.Join(h.real, dir.rel))
		},
	}
}

// limit is how long a command may run.
func limit(a *wire.ShellArgs) time.Duration {
	ms := int64(a.GetTimeout())
	if a.GetHardTimeout() > 0 {
		ms = int64(a.GetHardTimeout())
	}
	if ms <= 0 {
		return shellFor
	}
	return min(shellMost, time.Duration(ms)*time.Millisecond)
}

// run runs a command with all its children, and ends what is left of them.
func (h hands) run(ctx context.Context, t *teller, dir string) string {
	most := limit(t.a)
	within, stop := context.WithTimeout(ctx, most)
	defer stop()
	cmd := exec.CommandContext(within, shell(), "-c", t.a.GetCommand())
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append([]string{"PWD=" + dir}, h.a.o.Env...), drainFor
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	out, trouble := &output{tell: func(text string) { t.piece(text, false) }}, &output{tell: func(text string) { t.piece(text, true) }}
	cmd.Stdout, cmd.Stderr = out, trouble
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return t.broken(err)
	}
	t.begun()
	over := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(tellEach)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				out.flush()
				trouble.flush()
			case <-over:
				return
			}
		}
	})
	err := cmd.Wait()
	close(over)
	telling.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	r := ran{took: time.Since(begun), limit: most, out: out.rest(), err: trouble.rest()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		r.why = wire.ShellAbortReason_SHELL_ABORT_REASON_USER_ABORT.Enum()
	case within.Err() != nil:
		r.why = wire.ShellAbortReason_SHELL_ABORT_REASON_TIMEOUT.Enum()
	}
	if errors.As(err, &exit) {
		r.code = exit.ExitCode() // -1 behind a signal
		if status, is := exit.Sys().(syscall.WaitStatus); is && status.Signaled() {
			r.signal = unix.SignalName(status.Signal())
		}
	}
	return t.over(r)
}

// output keeps what a command writes, and says each piece of whole characters.
type output struct {
	tell func(text string)

	mu   sync.Mutex // guards what follows
	all  strings.Builder
	told int // of all
	half []byte
	more int
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	data := append(o.half, p...)
	room := max(0, maxOutput-o.all.Len())
	if o.more > 0 { // nothing follows a gap
		room = 0
	}
	whole := clip.Whole(data[:min(len(data), room)]) // a character that is cut waits for its rest
	if o.half = nil; len(data) > room {
		o.more += len(data) - whole
	} else {
		o.half = append(o.half, data[whole:]...)
	}
	o.all.WriteString(strings.ToValidUTF8(string(data[:whole]), "\ufffd"))
	if o.all.Len()-o.told >= tellAt {
		o.tellRest()
	}
	return len(p), nil
}

// flush says what was not said yet.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tellRest()
}

// tellRest is flush for a caller that holds the lock.
func (o *output) tellRest() {
	if text := o.all.String()[o.told:]; text != "" {
		o.told += len(text)
		o.tell(text)
	}
}

// rest is all of it, when nothing comes any more.
func (o *output) rest() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.half) > 0 {
		o.all.WriteString("\ufffd")
		o.half = nil
	}
	if o.more > 0 {
		fmt.Fprintf(&o.all, "\n(%d more bytes are left out)\n", o.more)
		o.more = 0
	}
	o.tellRest()
	return o.all.String()
}
