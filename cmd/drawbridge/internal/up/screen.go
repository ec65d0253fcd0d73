package up

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// screen is the terminal of a person. Lines of several writers and one prompt share it: a line that comes while a prompt waits for an answer goes
// above the prompt. It is safe for concurrent use.
type screen struct {
	out io.Writer
	// rewrites is true for a terminal, where a prompt can be taken away and shown again.
	rewrites bool
	// drop drops what was typed and is not shown any more when the prompt is written again. It may be nil.
	drop func()

	mu     sync.Mutex // guards the fields below
	prompt string
	last   time.Time
	// lent is true while another program has the terminal, and kept is what to write afterwards.
	lent bool
	kept []func()
}

// text writes whole lines.
func (s *screen) text(text string) { s.beside(func() { fmt.Fprint(s.out, text) }) }

// beside lets fn write lines.
func (s *screen) beside(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	if s.lent {
		s.kept = append(s.kept, fn)
		return
	}
	if s.prompt != "" && s.drop != nil {
		s.drop()
	}
	switch {
	case s.prompt == "":
	case s.rewrites:
		fmt.Fprint(s.out, "\r\x1b[K")
	default:
		fmt.Fprintln(s.out)
	}
	fn()
	fmt.Fprint(s.out, s.prompt)
}

// ask shows a prompt until [screen.answered].
func (s *screen) ask(prompt string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompt, s.last = prompt, time.Now()
	fmt.Fprint(s.out, prompt)
}

// answered takes the prompt away. typed is true when a person ended its line.
func (s *screen) answered(typed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prompt != "" && !typed {
		fmt.Fprintln(s.out)
	}
	s.prompt = ""
}

// lend gives the terminal to another program until fn returns. Lines wait meanwhile.
func (s *screen) lend(fn func()) {
	s.mu.Lock()
	s.lent = true
	s.mu.Unlock()
	fn()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lent = false
	for _, write := range s.kept {
		write()
	}
	s.kept = nil
}

// wrote is when something was written last.
func (s *screen) wrote() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}
