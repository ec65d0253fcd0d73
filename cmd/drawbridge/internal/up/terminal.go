package up

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the input line of a person. What others write goes above the line, and what is typed stays in it. It is safe for concurrent use.
type terminal struct {
	*term.Terminal
	in  *os.File
	out io.Writer
	now func() time.Time
	// reading is held by whoever reads the terminal: this line, or a program that it is lent to.
	reading sync.Mutex
	ended   chan struct{}

	mode sync.Mutex // guards the fields below
	// was is the mode in which the terminal was found.
	was *unix.Termios
	// away is true while the terminal has that mode: it is lent, or given back for good.
	away bool

	prompts sync.Mutex // guards the fields below
	// shown is the number of the question in the prompt, 0 for none. changed is when it was set. began is what shown was at the first key of the line.
	shown, began int
	changed      time.Time
}

// typed is a line that a person ended. question is the number of the question that was in the prompt when the line began, 0 for none, and unsure where
// nobody can tell that the person saw it.
type typed struct {
	text     string
	question int
}

const (
	unsure = -1
	// seenAfter is how long a question must have been in the prompt, so that a key may be meant for it.
	seenAfter = 500 * time.Millisecond
	// noPrompt is what the line editor shows for no prompt. It would not show the next prompt after an empty one.
	noPrompt = " "
	// maxLine is how many characters of a line the editor keeps.
	maxLine = 4096
)

// openTerminal takes a terminal until close. A program in the background has none.
func openTerminal(in *os.File, out io.Writer) (*terminal, error) {
	t := &terminal{in: in, out: out, now: time.Now, ended: make(chan struct{})}
	t.edits(struct {
		io.Reader
		io.Writer
	}{t, out})
	var err error
	switch t.was, err = unix.IoctlGetTermios(int(in.Fd()), getMode); {
	case err != nil:
		return nil, err
	case !t.foreground():
		return nil, errors.New("the program runs in the background")
	}
	changes := make(chan os.Signal, 8)
	signal.Notify(changes, syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGTSTP)
	t.take()
	go func() {
		defer signal.Stop(changes)
		for {
			select {
			case s := <-changes:
				t.signalled(s)
			case <-t.ended:
				return
			}
		}
	}()
	return t, nil
}

// signalled gives the terminal back before the program is stopped, and takes it again when it goes on or its size changes.
func (t *terminal) signalled(s os.Signal) {
	t.mode.Lock()
	away := t.away
	t.mode.Unlock()
	switch {
	case away && s == syscall.SIGTSTP:
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case away:
	case s == syscall.SIGTSTP:
		t.restore()
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	default:
		t.take()
		_, _ = t.Write(nil)
	}
}

// edits makes the line editor.
func (t *terminal) edits(both io.ReadWriter) {
	t.Terminal = term.NewTerminal(both, noPrompt)
	t.began = unsure
	t.AutoCompleteCallback = func(line string, _ int, _ rune) (string, int, bool) {
		if line == "" {
			t.prompts.Lock()
			t.began = t.seen()
			t.prompts.Unlock()
		}
		return "", 0, false
	}
}

// seen is the question in the prompt, unsure where it came a moment ago. The caller holds the mutex.
func (t *terminal) seen() int {
	if t.now().Sub(t.changed) < seenAfter {
		return unsure
	}
	return t.shown
}

// foreground reports whether the program may use its terminal.
func (t *terminal) foreground() bool {
	group, err := unix.IoctlGetInt(int(t.in.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // without a terminal of its own no program is in the background
}

// take sets the mode and the size: keys come one by one and without an echo, and Ctrl-C and Ctrl-Z stay signals.
func (t *terminal) take() {
	t.mode.Lock()
	defer t.mode.Unlock()
	if t.away || !t.foreground() {
		return
	}
	mode := *t.was
	mode.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.IXON
	mode.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.IEXTEN
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME], mode.Cc[unix.VQUIT] = 1, 0, noKey // Ctrl-\ would leave the terminal as it is now
	_ = unix.IoctlSetTermios(int(t.in.Fd()), setMode, &mode)
	t.SetBracketedPasteMode(true)
	if width, height, err := term.GetSize(int(t.in.Fd())); err == nil && width > 0 && height > 0 {
		_ = t.SetSize(width, height)
	}
}

// restore sets the mode in which the terminal was found.
func (t *terminal) restore() {
	if t.foreground() {
		t.SetBracketedPasteMode(false)
		_ = unix.IoctlSetTermios(int(t.in.Fd()), setMode, t.was)
	}
}

// Read implements io.Reader for the line editor. It takes nothing while the terminal is lent. A sequence of keys that never ends ends the input.
func (t *terminal) Read(p []byte) (int, error) {
	for len(p) > 0 {
		select {
		case <-t.ended:
			return 0, io.EOF
		default:
		}
		t.reading.Lock()
		ready, err := t.ready()
		n := 0
		if ready && err == nil {
			n, err = t.in.Read(p)
		}
		t.reading.Unlock()
		if n > 0 || err != nil {
			return copy(p, bytes.ToValidUTF8(p[:n], nil)), err // the editor would keep what follows other bytes until the next key
		}
	}
	return 0, io.EOF
}

// ready waits a moment for a key.
func (t *terminal) ready() (bool, error) {
	var keys unix.FdSet
	fd, most := int(t.in.Fd()), 0
	if t.foreground() {
		keys.Set(fd)
		most = fd + 1
	}
	n, err := unix.Select(most, &keys, nil, nil, &unix.Timeval{Usec: 100_000})
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}

// lines sends what a person types, until the end of the input or of ctx. It takes each line at once, so that a line belongs to the prompt at which it
// was typed. Lines of a paste wait for the line that a person ends.
func (t *terminal) lines(ctx context.Context) <-chan typed {
	to := make(chan typed, 1024)
	go func() {
		defer close(to)
		var pasted []string
		for {
			text, err := t.ReadLine()
			if errors.Is(err, term.ErrPasteIndicator) {
				pasted = append(pasted, text)
				continue
			}
			if err != nil {
				return
			}
			line := typed{strings.Join(append(pasted, text), "\n"), t.question(text == "" && pasted == nil)}
			if pasted != nil {
				line.question = unsure
			}
			pasted = nil
			select {
			case to <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	return to
}

// question is the number of the question for which a line was typed.
func (t *terminal) question(empty bool) (number int) {
	t.prompts.Lock()
	defer t.prompts.Unlock()
	if empty {
		return t.seen()
	}
	number, t.began = t.began, unsure
	return number
}

// ring rings the bell.
func (t *terminal) ring() { _, _ = t.out.Write([]byte("\a")) }

// ask shows a prompt. number is that of the question in it, 0 for none.
func (t *terminal) ask(prompt string, number int) {
	t.prompts.Lock()
	if number != t.shown {
		t.shown, t.changed = number, t.now()
	}
	t.prompts.Unlock()
	t.SetPrompt(prompt)
	_, _ = t.Write(nil) // it writes the line again
}

// lend gives the terminal to another program until fn returns.
func (t *terminal) lend(fn func()) {
	t.reading.Lock()
	defer t.reading.Unlock()
	t.give()
	fn()
	t.mode.Lock()
	t.away = false
	t.mode.Unlock()
	select {
	case <-t.ended:
	default:
		t.take()
	}
}

// close gives the terminal back for good.
func (t *terminal) close() {
	close(t.ended)
	t.give()
}

// give takes the prompt and what was typed off the screen, and sets the mode in which the terminal was found.
func (t *terminal) give() {
	t.ask(noPrompt, 0)
	_, _ = t.out.Write([]byte("\r\x1b[J"))
	t.mode.Lock()
	defer t.mode.Unlock()
	t.away = true
	t.restore()
}
