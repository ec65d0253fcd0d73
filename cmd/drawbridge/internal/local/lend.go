package local

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Terminal is what a program at a person's terminal reads and writes.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
}

// Lend runs a program on the person's terminal and waits for its end, at most 10 s after ctx ends. It stays in this program's group, so that Ctrl-C
// reaches both.
func (t Terminal) Lend(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = t.In, t.Out, t.Err, os.Environ()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}
