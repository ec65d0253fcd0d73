package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"drawbridge/relay/runner/approval"
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
	// file is relay.yaml, and write adds a rule to an agent's entry in it.
	file  string
	write func(entry, rule string) error
	say   func(format string, args ...any)

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
	text := fmt.Sprintf("may agent %s do this always?\n  allows       %s\n  line         - %s\n  place        agents: %s: permissions: execute: in %s\n", a.entry, a.rule.Allows, a.rule.YAML, a.entry, d.file)
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

// decide writes the rule on a yes, and lets the call pass that was asked about. A no leaves that question open.
func (d *ruleDesk) decide(ctx context.Context, q question, yes bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, open := d.wanted[q.key]
	if !open {
		return nil
	}
	if yes {
		if err := d.write(a.entry, a.rule.YAML); err != nil {
			return err
		}
		d.say("relay.yaml allows agent %s from now on: %s", a.entry, a.rule.Allows)
		if err := a.asked.desk.decide(ctx, a.asked.question, true); err != nil {
			d.say("question %d: %v", a.asked.number, err)
		}
	}
	delete(d.wanted, q.key)
	d.asked = slices.DeleteFunc(d.asked, func(o question) bool { return o.key == q.key })
	return nil
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
