package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"drawbridge/internal/lifecycle"
	"drawbridge/internal/pause"
)

// Program is one process that is kept running.
type Program struct {
	// Name is for people.
	Name string
	Path string
	Args []string
	Dir  string
	// Log is the file that takes what it prints.
	Log string
	// Begun reports whether a line that it printed says that it is ready.
	Begun func(line string) bool
	// Ready returns nil once the program does its work. It is asked after Begun, until it does.
	Ready func(ctx context.Context) error
	// Grace is how long it has to end after SIGTERM.
	Grace time.Duration
}

// Times of a supervised program.
const (
	startFor   = time.Minute
	firstPause = time.Second
	maxPause   = 30 * time.Second
	// steady is how long a program runs before its next end counts as the first.
	steady = time.Minute
	look   = 50 * time.Millisecond
)

// Keeper keeps one program running. Restart and Pid are safe for concurrent use, Start and Run are for one goroutine.
type Keeper struct {
	Program
	// Say gets each sentence for the person at the terminal.
	Say func(format string, args ...any)

	again chan struct{}
	child *child
}

// NewKeeper returns a Keeper of a program that does not run yet.
func NewKeeper(p Program, say func(format string, args ...any)) *Keeper {
	return &Keeper{Program: p, Say: say, again: make(chan struct{}, 1)}
}

// child is one process of a program.
type child struct {
	cmd   *exec.Cmd
	begun chan struct{}
	ended chan struct{}
	err   error
	last  *lines
	alive *os.File
}

// Start starts the program and returns when it is ready. An error carries the last words of the program, and nothing of it is left.
func (k *Keeper) Start(ctx context.Context) error {
	c, err := k.spawn()
	if err != nil {
		return fmt.Errorf("start the %s: %w", k.Name, err)
	}
	if err := k.until(ctx, c); err != nil {
		k.end(c)
		return err
	}
	k.child = c
	return nil
}

// until waits until the program is ready.
func (k *Keeper) until(ctx context.Context, c *child) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startFor, fmt.Errorf("the %s was not ready within %s; see %s", k.Name, startFor, k.Log))
	defer cancel()
	select {
	case <-c.begun:
	case <-c.ended:
		return c.failed(k)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for k.Ready(ctx) != nil {
		select {
		case <-tick.C:
		case <-c.ended:
			return c.failed(k)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// failed says why the program ended at its start.
func (c *child) failed(k *Keeper) error {
	if words := c.last.plain(); words != "" {
		return fmt.Errorf("the %s cannot start: %s", k.Name, words)
	}
	return fmt.Errorf("the %s cannot start (%v); see %s", k.Name, c.err, k.Log)
}

// Run keeps the started program running until ctx is done, and returns when nothing of it is left. A program that ends by itself is started again,
// after a pause that grows from a second to half a minute.
func (k *Keeper) Run(ctx context.Context) error {
	span, since := firstPause, time.Now()
	for {
		select {
		case <-ctx.Done():
			k.end(k.child)
			return nil
		case <-k.again:
			k.end(k.child)
		case <-k.child.ended:
			k.end(k.child)
			if time.Since(since) > steady {
				span = firstPause
			}
			k.Say("the %s ended (%s); it starts again in %s", k.Name, k.child.why(), span)
			if pause.For(ctx, span) != nil {
				return nil
			}
			span = min(2*span, maxPause)
		}
		for {
			err := k.Start(ctx)
			if err == nil {
				since = time.Now()
				k.Say("the %s runs again", k.Name)
				break
			}
			if ctx.Err() != nil {
				return nil
			}
			k.Say("%v; the next try is in %s", err, span)
			if pause.For(ctx, span) != nil {
				return nil
			}
			span = min(2*span, maxPause)
		}
	}
}

// Restart ends the program and starts it again, in the background.
func (k *Keeper) Restart() {
	select {
	case k.again <- struct{}{}:
	default: // it is about to
	}
}

// why says how a process ended.
func (c *child) why() string {
	if c.err == nil {
		return "exit code 0"
	}
	if words := c.last.plain(); words != "" {
		return fmt.Sprintf("%v: %s", c.err, words)
	}
	return c.err.Error()
}

// spawn starts a process in a group of its own: an interrupt at the terminal reaches its keeper alone, which then stops it in order. The process
// ends when its keeper is gone, however that came.
func (k *Keeper) spawn() (*child, error) {
	log, err := openLog(k.Log, maxLog)
	if err != nil {
		return nil, err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	defer theirs.Close()
	c := &child{cmd: exec.Command(k.Path, k.Args...), begun: make(chan struct{}), ended: make(chan struct{}), alive: ours}
	c.last = &lines{log: log, begun: c.begun, is: k.Begun}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = k.Dir, c.last, c.last
	c.cmd.Env = append(os.Environ(), lifecycle.ParentPipe+"=3")
	c.cmd.ExtraFiles = []*os.File{theirs}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = time.Second // a child of the child may hold its output open
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(err, ours.Close(), log.Close())
	}
	go func() {
		defer close(c.ended)
		c.err = c.cmd.Wait()
		_ = log.Close()
	}()
	return c, nil
}

// end ends a process gently, and returns when it is gone.
func (k *Keeper) end(c *child) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	grace := time.NewTimer(k.Grace)
	defer grace.Stop()
	select {
	case <-c.ended:
	case <-grace.C:
		k.Say("the %s did not stop within %s and is killed", k.Name, k.Grace)
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		<-c.ended
	}
	_ = c.alive.Close()
}

// maxLine is how much of a line is looked at.
const maxLine = 8 << 10

// lines copies what a program prints into its log and looks at each line.
type lines struct {
	log   io.Writer
	begun chan struct{}
	is    func(line string) bool

	mu    sync.Mutex // guards the fields below
	rest  []byte
	last  string
	known bool
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.log.Write(p) // a full disk must not end the program
	l.rest = append(l.rest, p...)
	for {
		at := bytes.IndexByte(l.rest, '\n')
		if at < 0 {
			break
		}
		l.line(string(l.rest[:at]))
		l.rest = l.rest[at+1:]
	}
	if len(l.rest) > maxLine {
		l.rest = append([]byte(nil), l.rest[len(l.rest)-maxLine:]...)
	}
	return len(p), nil
}

func (l *lines) line(text string) {
	if !l.known && l.is(text) {
		l.known = true
		close(l.begun)
	}
	if trimmed := strings.TrimSpace(text); trimmed != "" && !strings.HasPrefix(trimmed, "{") {
		l.last = trimmed
	}
}

// plain returns the last line that a person is meant to read, "" where all lines are JSON.
func (l *lines) plain() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
