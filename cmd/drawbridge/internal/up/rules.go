package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/settings"
)

// always is a rule that a person wants, and the question at which it was wanted.
type always struct {
	// rule allows the call, and entry is the agent's in relay.yaml.
	rule  approval.Rule
	entry string
	asked *numbered
}

// ruleDesk asks whether rules may be written into relay.yaml.
type ruleDesk struct {
	// file is relay.yaml, and write adds a rule to an agent's entry in it, unless it is there.
	file  string
	write func(entry, rule string) error

	mu     sync.Mutex // guards the fields below
	asked  []question
	wanted map[string]always
}

// ruleKey begins the key of the question about a rule. The key of the question at which it was wanted follows.
const ruleKey = "rule/"

// ask opens the question about a rule.
func (d *ruleDesk) ask(a always) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := ruleKey + a.asked.key
	if _, open := d.wanted[key]; open {
		return errors.New("the question about its rule is open")
	}
	text := fmt.Sprintf("may all agents that use %s, on every clone, always do this without a question?\n  allows       %s\n  line         - %s\n  place        agents: %s: permissions: execute: in %s\n",
		a.entry, a.rule.Allows, a.rule.YAML, a.entry, d.file)
	d.asked = append(d.asked, question{id: "this rule", key: key, agent: a.asked.agent, text: text, desk: d})
	if d.wanted == nil {
		d.wanted = map[string]always{}
	}
	d.wanted[key] = a
	return nil
}

func (d *ruleDesk) open(context.Context) ([]question, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked), nil
}

// decide writes the rule on a yes.
func (d *ruleDesk) decide(_ context.Context, q question, yes bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, open := d.wanted[q.key]
	if !open {
		return errors.New("the question that the rule is for is not open any more")
	}
	if yes {
		if err := d.write(a.entry, a.rule.YAML); err != nil {
			return err
		}
	}
	d.drop(q.key)
	return nil
}

// keep closes the questions about rules whose own question is not among those that are open.
func (d *ruleDesk) keep(open []question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.wanted {
		if !slices.ContainsFunc(open, func(q question) bool { return ruleKey+q.key == key }) {
			d.drop(key)
		}
	}
}

// drop forgets a question. The caller holds the mutex.
func (d *ruleDesk) drop(key string) {
	delete(d.wanted, key)
	d.asked = slices.DeleteFunc(d.asked, func(o question) bool { return o.key == key })
}

func (d *ruleDesk) by(question) string { return "an editor: " + d.file }

// always asks about the rule that allows what a question is about.
func (c *console) always(q *numbered) error {
	switch {
	case q.rule == nil:
		return fmt.Errorf("question %d has no rule; type y or n", q.number)
	case q.rule.None != "":
		return fmt.Errorf("no rule allows what question %d asks: %s; type y or n", q.number, q.rule.None)
	}
	if err := c.u.rules.ask(always{*q.rule, q.entry, q}); err != nil {
		return fmt.Errorf("question %d: %w", q.number, err)
	}
	delete(c.over, ruleKey+q.key) // of an earlier no
	return nil
}

// wrote lets the call pass for which a rule was written, and the like from now on. A call that cannot pass now stays open.
func (c *console) wrote(ctx context.Context, key string) {
	at := slices.IndexFunc(c.open, func(q *numbered) bool { return q.key == key })
	if at < 0 {
		return
	}
	q := c.open[at]
	c.u.say("relay.yaml allows it now: %s", q.rule.Allows)
	ruler, is := q.desk.(interface {
		always(ctx context.Context, q question) error
	})
	if !is {
		return
	}
	if err := ruler.always(ctx, q.question); err != nil {
		c.u.say("question %d: %v", q.number, err)
		return
	}
	c.answered(key)
}

// addRule writes a rule for a command into relay.yaml, unless the file has it.
func (u *upping) addRule(entry, rule string) error {
	now, err := settings.Load(u.file("relay.yaml"), u.Getenv)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(now.Agents[entry].Permissions.Commands, func(c settings.Command) bool { return c.YAML() == rule }) {
		return nil
	}
	return u.edit("relay.yaml", func(text []byte) ([]byte, error) { return local.AllowCommand(text, entry, rule) })
}
