package approval

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Terminal shows questions on a terminal and reads answers from it. An answer names its question, so that a key pressed for
// something else, or a question that came up a moment before, decides nothing.
type Terminal struct {
	out io.Writer

	mu   sync.Mutex
	open map[string]func(approve bool)
}

// NewTerminal returns a Terminal that writes to out.
func NewTerminal(out io.Writer) *Terminal {
	return &Terminal{out: out, open: map[string]func(bool){}}
}

// Prompt is a [Prompter].
func (t *Terminal) Prompt(ctx context.Context, p Pending, decide func(approve bool)) {
	t.mu.Lock()
	t.open[p.ID] = decide
	// Terminals end lines with both characters when they are not cooked.
	fmt.Fprintf(t.out, "\n%s  Type  y %s  or  n %s  and Enter.\n", p.Text(time.Now()), p.ID, p.ID)
	t.mu.Unlock()
	<-ctx.Done()
	t.mu.Lock()
	delete(t.open, p.ID)
	t.mu.Unlock()
}

// Read takes answers from in, line by line, until it ends.
func (t *Terminal) Read(in io.Reader) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		t.mu.Lock()
		decide := func(bool) { fmt.Fprintln(t.out, "no question with this id is open; type  y apr_...  or  n apr_...") }
		if len(words) == 2 && (words[0] == "y" || words[0] == "n") {
			if known := t.open[words[1]]; known != nil {
				decide = known
				delete(t.open, words[1])
			}
		}
		t.mu.Unlock()
		decide(words[0] == "y")
	}
}
