package up

import (
	"io"
	"os"
	"strings"
)

// keyboard reads lines of a person, one at a time and only when somebody waits for one: the login of an agent reads the same terminal.
type keyboard struct {
	in io.Reader
	// pending is the line that a goroutine reads now, nil while none does.
	pending chan typed
	// over is true where nobody types, or nobody any more.
	over bool
}

// typed is a line, or the end of the input.
type typed struct {
	text string
	err  error
}

// line shows a prompt and returns where the next line comes. It drops what was typed before the prompt. A terminal's read cannot be ended, so
// that a line nobody waits for any more stays pending.
func (k *keyboard) line(prompt func()) <-chan typed {
	select {
	case <-k.pending:
		k.pending = nil
	default:
	}
	k.drop()
	if k.pending != nil {
		prompt()
		return k.pending
	}
	prompt()
	k.pending = make(chan typed, 1)
	go read(k.in, k.pending)
	return k.pending
}

// drop drops what was typed at a terminal and not read, a line without its end among it.
func (k *keyboard) drop() {
	if f, is := k.in.(*os.File); is {
		flush(f)
	}
}

// read reads bytes one by one, so that nothing behind the line is taken.
func read(in io.Reader, to chan<- typed) {
	var text []byte
	for one := make([]byte, 1); ; {
		n, err := in.Read(one)
		if n > 0 && one[0] == '\n' {
			to <- typed{text: string(text)}
			return
		}
		if text = append(text, one[:n]...); err != nil {
			to <- typed{err: err}
			return
		}
	}
}

// took takes a line. It reports false at the end of the input.
func (k *keyboard) took(t typed) (text string, more bool) {
	k.pending = nil
	k.over = t.err != nil
	return strings.TrimSpace(t.text), t.err == nil
}

// free reports whether a person can be asked and another program may read the terminal.
func (k *keyboard) free() bool { return !k.over && k.pending == nil }
