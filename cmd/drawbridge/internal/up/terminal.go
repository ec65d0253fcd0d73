package up

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the input line of a person. What others write goes above the line, and what is typed stays in it. It is safe for concurrent use.
type terminal struct {
	*term.Terminal
	in  *os.File
	out io.Writer
	// reading is held by whoever reads the terminal: this line, or a program that it is lent to.
	reading sync.Mutex
	lent    atomic.Bool
	// before is the mode in which the terminal was found.
	before *term.State
	ended  chan struct{}
	// shown is the number of the question in the prompt, 0 for none; began is what it was when the first key of the line came.
	shown, began atomic.Int64
}

// noPrompt is what the line editor shows for no prompt. It would not show the next prompt after an empty one.
const noPrompt = " "

// typed is a line that a person ended. question is the number of the question that was in the prompt when the line began, 0 for none.
type typed struct {
	text     string
	question int
}

// openTerminal takes a terminal until close.
func openTerminal(in *os.File, out io.Writer) (*terminal, error) {
	t := &terminal{in: in, out: out, ended: make(chan struct{})}
	t.edits(struct {
		io.Reader
		io.Writer
	}{t, out})
	var err error
	if t.before, err = term.GetState(int(in.Fd())); err != nil {
		return nil, err
	}
	if err := t.take(); err != nil {
		return nil, err
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGCONT, syscall.SIGWINCH)
	go func() {
		defer signal.Stop(changes)
		for {
			select {
			case <-changes:
				if !t.lent.Load() { // a program that has the terminal looks after it
					_ = t.take()
					_, _ = t.Write(nil)
				}
			case <-t.ended:
				return
			}
		}
	}()
	return t, nil
}

// edits makes the line editor.
func (t *terminal) edits(both io.ReadWriter) {
	t.Terminal = term.NewTerminal(both, noPrompt)
	t.AutoCompleteCallback = func(line string, _ int, _ rune) (string, int, bool) {
		if line == "" {
			t.began.Store(t.shown.Load())
		}
		return "", 0, false
	}
}

// take sets the mode and the size: keys come one by one and without an echo, and Ctrl-C and Ctrl-Z stay signals.
func (t *terminal) take() error {
	fd := int(t.in.Fd())
	if _, err := term.MakeRaw(fd); err != nil {
		return err
	}
	mode, err := unix.IoctlGetTermios(fd, getMode)
	if err != nil {
		return err
	}
	mode.Lflag |= unix.ISIG
	mode.Oflag |= unix.OPOST | unix.ONLCR
	if err := unix.IoctlSetTermios(fd, setMode, mode); err != nil {
		return err
	}
	if width, height, err := term.GetSize(fd); err == nil && width > 0 && height > 0 {
		return t.SetSize(width, height)
	}
	return nil
}

// Read implements io.Reader for the line editor. It takes nothing while the terminal is lent.
func (t *terminal) Read(p []byte) (int, error) {
	for {
		select {
		case <-t.ended:
			return 0, io.EOF
		default:
		}
		t.reading.Lock()
		if t.ready() {
			n, err := t.in.Read(p)
			t.reading.Unlock()
			return n, err
		}
		t.reading.Unlock()
	}
}

// ready waits a moment for a key.
func (t *terminal) ready() bool {
	fd := int(t.in.Fd())
	var set unix.FdSet
	set.Set(fd)
	n, err := unix.Select(fd+1, &set, nil, nil, &unix.Timeval{Usec: 100_000})
	return err == nil && n > 0
}

// lines sends what a person types, until the end of the input or of ctx.
func (t *terminal) lines(ctx context.Context) <-chan typed {
	to := make(chan typed)
	go func() {
		defer close(to)
		for {
			text, err := t.ReadLine()
			if err != nil && !errors.Is(err, term.ErrPasteIndicator) {
				return
			}
			line := typed{text, int(t.shown.Load())}
			if text != "" {
				line.question = int(t.began.Load())
			}
			select {
			case to <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}

// ring rings the bell.
func (t *terminal) ring() { _, _ = t.out.Write([]byte("\a")) }

// ask shows a prompt. number is that of the question in it, 0 for none.
func (t *terminal) ask(prompt string, number int) {
	t.shown.Store(int64(number))
	t.SetPrompt(prompt)
	_, _ = t.Write(nil) // it writes the line again
}

// lend gives the terminal to another program until fn returns.
func (t *terminal) lend(fn func()) {
	t.reading.Lock()
	defer t.reading.Unlock()
	t.lent.Store(true)
	t.gives()
	fn()
	t.lent.Store(false)
	_ = t.take()
}

// close gives the terminal back as it was found.
func (t *terminal) close() {
	close(t.ended)
	t.gives()
}

// gives takes the prompt away, and sets the mode in which the terminal was found.
func (t *terminal) gives() {
	t.ask(noPrompt, 0)
	_, _ = t.out.Write([]byte("\r"))
	_ = term.Restore(int(t.in.Fd()), t.before)
}
