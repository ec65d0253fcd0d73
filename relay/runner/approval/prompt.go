package approval

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
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
		decide := func(bool) { fmt.Fprintln(t.out, "no such question is open; type  y apr_...  or  n apr_...") }
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

// maxNotification is how many bytes of an agent's question a notification shows whole.
const maxNotification = 1200

// Desktop shows questions as notifications with two buttons, through notify-send (libnotify 0.8 or later; an older one
// refuses --action, which is no answer). env is what it needs to find the desktop.
func Desktop(path string, env []string) Prompter {
	return func(ctx context.Context, p Pending, decide func(approve bool)) {
		if p.Permission != nil && len(p.Text(time.Now())) > maxNotification {
			return // a notification would hide a part of it
		}
		left := time.Hour
		if !p.Until.IsZero() {
			left = max(time.Second, time.Until(p.Until))
		}
		// Notification servers read the body as markup.
		body := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(p.Text(time.Now()))
		cmd := exec.CommandContext(ctx, path, "--app-name=drawbridge-relay", "--urgency=critical",
			"--expire-time="+strconv.FormatInt(left.Milliseconds(), 10), "--action=approve=Approve", "--action=deny=Deny",
			"--", "Drawbridge asks", body)
		cmd.Env, cmd.WaitDelay = env, time.Second
		said, err := cmd.Output()
		if err != nil {
			return
		}
		switch strings.TrimSpace(string(said)) {
		case "approve":
			decide(true)
		case "deny":
			decide(false)
		}
	}
}
