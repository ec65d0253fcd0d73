package keeper

import (
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Job and Word are the frames between a relay and its keeper.
type (
	Job  = job
	Word = word
)

// MaxFrame bounds a frame.
const MaxFrame = maxFrame

// Send and Receive carry frames.
var (
	Send    = send
	Receive = receive
)

// Census counts processes.
type Census struct{ census }

// Living returns how many live processes root has started.
func (c *Census) Living(root int) int { return c.living(root) }

// Kill ends a process.
func (p Proc) Kill() error { return unix.Kill(p.pid, unix.SIGKILL) }

// Proc is a process.
type Proc struct{ proc }

// Descendants returns what root has started.
func Descendants(root int) (list []Proc) {
	for _, p := range descendants(root) {
		list = append(list, Proc{p})
	}
	return list
}

// SlowOutput plays a program that writes first and then rest and ends, beside a relay that is busy with first until its patience is
// over. It returns what the relay took.
func SlowOutput(first, rest string) (string, error) {
	busy := &slowWriter{began: make(chan struct{}), goOn: make(chan struct{})}
	s, err := newStreams(Command{Stdout: busy, Stderr: io.Discard})
	if err != nil {
		return "", err
	}
	done := s.copy()
	_, err = unix.Write(s.writers[0], []byte(first))
	<-busy.began
	_, late := unix.Write(s.writers[0], []byte(rest))
	_ = s.readers[0].SetReadDeadline(time.Unix(1, 0))
	close(busy.goOn)
	s.closeWriters()
	<-done
	s.close()
	return busy.String(), errors.Join(err, late)
}

// slowWriter is busy with its first write until it may go on.
type slowWriter struct {
	strings.Builder
	began, goOn chan struct{}
	once        sync.Once
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.began); <-w.goOn })
	return w.Builder.Write(p)
}
