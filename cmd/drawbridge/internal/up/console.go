package up

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drawbridge/relay/runner/control"
)

// console shows the questions of all agents, each with a number, and takes a person's answers in any order. Without a person at the terminal a
// question stays open, and the command that answers it is printed.
type console struct {
	u     *upping
	desks []desk
	// only is the agent whose questions are shown, "" for all.
	only string

	mu   sync.Mutex // guards the fields below; whoever holds it has the keyboard
	keys *keyboard
	open []*numbered
	// count numbers the questions.
	count int
	// current is the question in the prompt, nil for none.
	current *numbered
	// over are the keys of the questions that were answered here.
	over map[string]bool
	// heard is what each desk had open when it was asked last with success.
	heard [2][]question
	// lines is where the next line comes, nil while nobody is asked.
	lines <-chan typed
}

// numbered is an open question.
type numbered struct {
	question
	number int
}

// lookEvery is how often the desks are asked.
const lookEvery = 250 * time.Millisecond

// newConsole makes the console of an up, for the questions of one agent or of all.
func (u *upping) newConsole(only string) *console {
	known := &names{client: u.client}
	keys := &keyboard{in: u.Stdin, over: !u.Person}
	u.screen.drop = keys.drop
	return &console{u: u, only: only, over: map[string]bool{}, keys: keys, desks: []desk{
		machineDesk{control.NewClient(u.relay.State), known, u.name, u.file("relay.yaml")}, bridgeDesk{u.client, u.file("bridge.yaml")},
	}}
}

// run shows questions until ctx ends.
func (c *console) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-c.lines:
			c.mu.Lock()
			c.typed(ctx, line)
		case <-tick.C:
			c.mu.Lock()
		}
		c.look(ctx)
		c.mu.Unlock()
	}
}

// borrow lends the keyboard to fn, which reads the terminal. It reports false, and calls nothing, when a question waits for a line or nobody types.
func (c *console) borrow(fn func(*keyboard) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys.free() && fn(c.keys)
}

// look asks the desks, shows what is new, and says what is answered. The caller holds the mutex.
func (c *console) look(ctx context.Context) {
	all := c.gather(ctx)
	still := c.open[:0:0]
	for _, q := range c.open {
		if at := slices.IndexFunc(all, func(o question) bool { return o.key == q.key }); at >= 0 {
			still = append(still, q)
			continue
		}
		if q == c.current {
			c.current = nil
			c.u.screen.answered(false)
		}
		c.u.say("question %d (%s) is not open any more", q.number, q.id)
	}
	c.open = still
	for _, q := range all {
		if !c.over[q.key] && !slices.ContainsFunc(c.open, func(o *numbered) bool { return o.key == q.key }) {
			c.add(q)
		}
	}
	c.prompt()
}

// gather returns the open questions of all desks, each once: the bridge lists what a person at the machine may answer, too. A desk that cannot be asked
// now, because its program starts again, has what it had.
func (c *console) gather(ctx context.Context) (all []question) {
	for i, d := range c.desks {
		if open, err := d.open(ctx); err == nil {
			c.heard[i] = open
		}
		for _, q := range c.heard[i] {
			same := func(o question) bool { return o.key == q.key }
			if !slices.ContainsFunc(all, same) && (c.only == "" || q.agent == c.only || strings.HasPrefix(q.agent, c.only+" (")) {
				all = append(all, q)
			}
		}
	}
	return all
}

// add shows a new question.
func (c *console) add(q question) {
	c.count++
	n := &numbered{q, c.count}
	c.open = append(c.open, n)
	text := fmt.Sprintf("Question %d, agent %s:\n%s", n.number, q.agent, strings.TrimRight(q.text, "\n"))
	c.u.screen.text(c.u.Shown(text) + "\n")
	if c.keys.over {
		c.u.say("answer it with: %s", q.desk.by(q))
	}
}

// prompt asks the oldest open question, unless one is asked. What was typed before is no answer to it.
func (c *console) prompt() {
	if c.current != nil || len(c.open) == 0 || c.keys.over {
		return
	}
	c.current = c.open[0]
	more := ""
	if n := len(c.open) - 1; n > 0 {
		more = fmt.Sprintf(", %d more", n)
	}
	c.lines = c.keys.line(func() {
		c.u.screen.ask(fmt.Sprintf("Question %d, approve %s%s? [y/N] ", c.current.number, c.current.id, more))
	})
}

// typed takes a line: y or n for the question in the prompt, or with a number for another.
func (c *console) typed(ctx context.Context, line typed) {
	c.lines = nil
	text, more := c.keys.took(line)
	asked := c.current
	c.current = nil
	c.u.screen.answered(true)
	if !more {
		for _, q := range c.open {
			c.u.say("answer question %d with: %s", q.number, q.desk.by(q.question))
		}
		return
	}
	yes, number, err := readAnswer(text)
	if err != nil {
		c.u.say("%v", err)
		return
	}
	if number != 0 {
		at := slices.IndexFunc(c.open, func(q *numbered) bool { return q.number == number })
		if at < 0 {
			c.u.say("no question with the number %d is open", number)
			return
		}
		asked = c.open[at]
	}
	if asked == nil { // it was answered elsewhere while the line was typed
		return
	}
	if err := asked.desk.decide(ctx, asked.question, yes); err != nil {
		c.u.say("question %d: %v", asked.number, err)
		return
	}
	c.over[asked.key] = true
	c.open = slices.DeleteFunc(c.open, func(q *numbered) bool { return q == asked })
}

// readAnswer reads one yes or no, with the number of a question or without. An empty line is a no.
func readAnswer(text string) (yes bool, number int, err error) {
	answered := false
	for _, word := range strings.Fields(strings.ToLower(text)) {
		n, notNumber := strconv.Atoi(word)
		is, not := word == "y" || word == "yes", word == "n" || word == "no"
		switch {
		case notNumber == nil && n > 0 && number == 0:
			number = n
		case (is || not) && !answered:
			yes, answered = is, true
		default:
			return false, 0, fmt.Errorf("%.20q is no answer; type y or n, or with a number for another question: y 2", text)
		}
	}
	if number > 0 && !answered {
		return false, 0, fmt.Errorf("say y or n for question %d: y %d", number, number)
	}
	return yes, number, nil
}
