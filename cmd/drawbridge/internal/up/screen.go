package up

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"drawbridge/internal/logs"
)

// screen is where a person reads. Several writers share it. It is safe for concurrent use.
type screen struct {
	out io.Writer

	mu sync.Mutex // guards the fields below
	// line is the input line of a terminal, nil where nobody types.
	line *terminal
	// asked is the prompt of the line.
	asked string
	last  time.Time
	// lent is true while another program has the terminal, and kept is what to write afterwards.
	lent bool
	kept []func()
}

// text writes whole lines.
func (s *screen) text(text string) { _ = s.to(s.out, text) }

// to writes whole lines to an output, which may be the terminal of the input line.
func (s *screen) to(out io.Writer, text string) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	if s.line != nil && (out == s.out || logs.IsTerminal(out)) {
		out = s.line
	}
	write := func() { _, err = fmt.Fprint(out, text) }
	if s.lent {
		s.kept = append(s.kept, write)
		return nil
	}
	write()
	return err
}

// open makes an input line on a terminal. Without one, because the terminal cannot be used so, nobody types.
func (s *screen) open(in io.Reader) *terminal {
	file, is := in.(*os.File)
	if !is {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line, _ = openTerminal(file, s.out)
	return s.line
}

// types reports whether a person can type.
func (s *screen) types() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line != nil
}

// listens reports whether a person can type now: nobody else has the terminal.
func (s *screen) listens() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line != nil && !s.lent
}

// ring rings the bell of a terminal, because a person is wanted.
func (s *screen) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != nil && !s.lent {
		s.line.ring()
	}
}

// prompt shows a prompt. number is that of the question in it, 0 for none. A prompt that changes counts as something that was written.
func (s *screen) prompt(text string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != nil && !s.lent && text != s.asked {
		s.asked, s.last = text, time.Now()
		s.line.ask(text, number)
	}
}

// width is how many columns the terminal has.
func (s *screen) width() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != nil {
		if width, _, err := term.GetSize(int(s.line.in.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// lend gives the terminal to another program until fn returns. Lines wait meanwhile. Where nobody types any more, fn is not called.
func (s *screen) lend(fn func()) {
	s.mu.Lock()
	s.lent, s.asked = true, ""
	line := s.line
	s.mu.Unlock()
	if line != nil { // else it was given back a moment ago
		line.lend(fn)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lent = false
	for _, write := range s.kept {
		write()
	}
	s.kept = nil
}

// close gives the terminal back.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line != nil {
		s.line.close()
		s.line = nil
	}
}

// wrote is when something was written last.
func (s *screen) wrote() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}
