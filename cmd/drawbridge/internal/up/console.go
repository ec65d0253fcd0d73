package up

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/settings"
)

// console shows the questions of all agents, each with a number, takes a person's answers in any order, and passes on what a person says to an
// agent. Without a person at the terminal a question stays open, and the command that answers it is printed.
type console struct {
	u     *upping
	desks []desk
	// only is the agent whose questions are shown, "" for all.
	only string
	// lines is where lines of a person come, nil when there is no input, or the input has ended.
	lines <-chan typed
	turns turns
	// focus is the agent to which a person speaks, "" for none yet.
	focus string
	// doing says what each busy agent does; nil for nothing.
	doing func(now time.Time) []string
	// interrupts is where Ctrl-C comes. stopping is true from then on until the turn is over that it stopped, which is halted, nil for none.
	interrupts chan struct{}
	stopping   atomic.Bool
	halted     atomic.Pointer[halted]

	open []*numbered
	// count numbers the questions.
	count int
	// addRule writes a rule for a command into relay.yaml.
	addRule func(entry string, rule settings.Command) error
	// over are the keys of the questions that were answered here.
	over map[string]bool
	// heard is what each desk had open when it was asked last with success.
	heard map[desk][]question
}

// numbered is an open question.
type numbered struct {
	question
	number int
}

// lookEvery is how often the desks are asked.
const lookEvery = 250 * time.Millisecond

// newConsole makes the console of an up, for the questions of one agent or of all.
func (u *upping) newConsole(ctx context.Context, only string) *console {
	known := &names{client: u.client}
	u.own = &ownDesk{}
	c := &console{u: u, only: only, addRule: u.addRule, turns: bridgeTurns{u.client}, doing: u.watcher.Doing, interrupts: make(chan struct{}, 1), over: map[string]bool{}, heard: map[desk][]question{}, desks: []desk{
		machineDesk{control.NewClient(u.relay.State), known, u.relayID, u.file("relay.yaml")}, bridgeDesk{u.client, u.where()}, u.own,
	}}
	if u.repo != nil {
		c.focus = u.agentName()
	}
	if !u.Person {
		return c
	}
	if line := u.screen.open(u.Stdin); line != nil {
		c.lines = line.lines(ctx)
	}
	return c
}

// run shows questions until ctx ends.
func (c *console) run(ctx context.Context) error {
	defer c.u.screen.close() // what stops now may take long, and a second Ctrl-C ends it at once
	defer c.u.TakeInterrupts(c.interrupted)()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	return c.answers(ctx, tick.C)
}

// answers shows questions and takes lines until ctx ends. It looks at each tick.
func (c *console) answers(ctx context.Context, tick <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, more := <-c.lines:
			if !more {
				c.ends(ctx)
				break
			}
			c.typed(ctx, line)
		case <-c.interrupts:
			c.halt(ctx)
		case <-tick:
		}
		c.rests(ctx)
		c.look(ctx)
	}
}

// look asks the desks, shows what is new, and says what is answered.
func (c *console) look(ctx context.Context) {
	all := c.gather(ctx)
	c.dropRules(all)
	still := c.open[:0:0]
	for _, q := range c.open {
		if at := slices.IndexFunc(all, func(o question) bool { return o.key == q.key }); at >= 0 {
			still = append(still, q)
			continue
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
	for _, d := range c.desks {
		if open, err := d.open(ctx); err == nil {
			c.heard[d] = open
		}
		for _, q := range c.heard[d] {
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
	text := fmt.Sprintf("Question %d, agent %s:\n%s", n.number, q.agent, strings.TrimRight(q.text, "\n"))
	at := len(c.open)
	if strings.HasPrefix(q.key, ruleKey) { // the person waits for it
		at = 0
	}
	c.open = slices.Insert(c.open, at, n)
	if c.lines != nil && q.rule != nil && q.rule.None == "" {
		text += "\n  A            allows always: " + q.rule.Command.String()
	}
	c.u.screen.text(c.u.Shown(text) + "\n")
	c.u.screen.ring()
	if c.lines == nil {
		c.u.say("answer it with: %s", q.desk.by(q))
	}
}

// prompt shows the oldest open question, or what the agents do and to which one a person speaks.
func (c *console) prompt() {
	switch {
	case c.lines == nil:
		return
	case len(c.open) == 0:
		c.u.screen.prompt(c.status(time.Now())+c.focus+"> ", 0)
		return
	}
	more := ""
	if n := len(c.open) - 1; n > 0 {
		more = fmt.Sprintf(", %d more", n)
	}
	c.u.screen.prompt(fmt.Sprintf("Question %d, approve %s%s? [y/N] ", c.open[0].number, c.open[0].id, more), c.open[0].number)
}

// status says in half a line what the busy agents do, "" for none.
func (c *console) status(now time.Time) string {
	if c.doing == nil {
		return ""
	}
	all := c.doing(now)
	if len(all) == 0 {
		return ""
	}
	if at := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, c.focus+" ") }); at >= 0 {
		first := strings.TrimPrefix(all[at], c.focus+" ") // its name follows
		all = slices.Insert(slices.Delete(all, at, at+1), 0, first)
	}
	text, room := all[0], c.u.screen.width()/2
	for n, one := range all[1:] {
		longer := text + "; " + one
		if len(longer) > room {
			text += fmt.Sprintf("; %d more", len(all)-1-n)
			break
		}
		text = longer
	}
	return "[" + c.u.Shown(text) + "] "
}

// ends notes that nobody types any more.
func (c *console) ends(ctx context.Context) {
	c.lines = nil
	c.u.screen.close()
	c.u.say("the input of this terminal has ended; press Ctrl-C to end drawbridge up")
	for _, q := range c.open {
		if q.desk == desk(c.u.own) {
			_ = q.desk.decide(ctx, q.question, false)
			continue
		}
		c.u.say("answer question %d with: %s", q.number, q.desk.by(q.question))
	}
}

// typed takes a line: an answer to a question, or words for an agent.
func (c *console) typed(ctx context.Context, line typed) {
	text := strings.TrimSpace(line.text)
	word := !strings.HasPrefix(text, "@") && len(strings.Fields(text)) == 1
	switch {
	case utf8.RuneCountInString(line.text) >= maxLine:
		c.u.say("the line is too long and was not sent; write it into a file, and type in another terminal: drawbridge say AGENT - <FILE")
	case text == "" && len(c.open) == 0:
	case !strings.Contains(line.text, "\n") && (answerLike.MatchString(text) || word && len(c.open) > 0):
		c.answer(ctx, text, line.question)
	default:
		c.say(ctx, text)
	}
}

// say gives an agent a turn with what a person says: the one in focus, or the one whose name stands in front.
func (c *console) say(ctx context.Context, text string) {
	name := c.focus
	if rest, named := strings.CutPrefix(text, "@"); named {
		name, text, _ = strings.Cut(rest, " ")
	}
	text = strings.TrimSpace(text)
	switch {
	case name == "":
		c.u.say("name the agent before your words: @NAME TEXT; drawbridge agents lists the names")
		return
	case text == "":
		c.focus = name
		return
	}
	turn, err := c.turns.say(ctx, name, text)
	if err != nil {
		c.u.say("agent %s did not get your words: %v", name, err)
		return
	}
	c.focus = name
	c.u.say("agent %s gets your words as its next turn (%s)", name, turn)
}

// answer takes y or n for the question in the prompt, or with a number for another. prompted is the question that was in the prompt when the answer
// was begun.
func (c *console) answer(ctx context.Context, text string, prompted int) {
	word, number, err := readAnswer(text)
	if err != nil {
		c.u.say("%v", err)
		return
	}
	switch {
	case len(c.open) == 0:
		c.u.say("no question is open; to say this to an agent: @NAME %s", text)
		return
	case number == 0 && c.open[0].number != prompted:
		c.u.say("the question changed while you typed; type y or n again")
		return
	case number == 0:
		number = prompted
	}
	at := slices.IndexFunc(c.open, func(q *numbered) bool { return q.number == number })
	if at < 0 {
		c.u.say("no question with the number %d is open", number)
		return
	}
	asked := c.open[at]
	if word == "a" {
		if err := c.always(asked); err != nil {
			c.u.say("%v", err)
		}
		return
	}
	if err := asked.desk.decide(ctx, asked.question, word == "y"); err != nil {
		c.u.say("question %d: %v", asked.number, err)
		return
	}
	c.answered(asked.key)
	if of, is := strings.CutPrefix(asked.key, ruleKey); is && word == "y" {
		c.wrote(ctx, of)
	}
}

// answered takes a question off the list that was answered here.
func (c *console) answered(key string) {
	c.over[key] = true
	c.open = slices.DeleteFunc(c.open, func(q *numbered) bool { return q.key == key })
}

// answerLike matches a line that can only be meant as an answer.
var answerLike = regexp.MustCompile(`(?i)^((y|yes|n|no|a|always|[0-9]+)(\s+|$))*$`)

// readAnswer reads one word, which is y, n or a, with the number of a question or without. An empty line is a no.
func readAnswer(text string) (word string, number int, err error) {
	for _, said := range strings.Fields(strings.ToLower(text)) {
		n, notNumber := strconv.Atoi(said)
		short, known := answers[said]
		switch {
		case notNumber == nil && n > 0 && number == 0:
			number = n
		case known && word == "":
			word = short
		default:
			return "", 0, fmt.Errorf("%.20q is not an answer; type y or n, or add the number of another question: y 2", text)
		}
	}
	switch {
	case number > 0 && word == "":
		return "", 0, fmt.Errorf("type y or n for question %d, such as: y %d", number, number)
	case word == "":
		word = "n"
	}
	return word, number, nil
}

// answers are the words that answer a question.
var answers = map[string]string{"y": "y", "yes": "y", "n": "n", "no": "n", "a": "a", "always": "a"}
