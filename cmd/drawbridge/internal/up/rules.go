package up

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drawbridge/cmd/drawbridge/internal/local"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/settings"
)

// ruleKey begins the key of the question about a rule. The key of the question at which it was wanted follows.
const ruleKey = "rule/"

// always asks about the rule that allows what a question is about.
func (c *console) always(q *numbered) error {
	switch {
	case q.rule == nil:
		return fmt.Errorf("question %d cannot be always allowed; type y or n", q.number)
	case q.rule.None != "":
		return fmt.Errorf("this program cannot write a rule for question %d: %s; type y or n", q.number, q.rule.None)
	}
	rule, file := q.rule.Command, c.u.file("relay.yaml")
	allows := rule.String()
	if !rule.Exact {
		allows += " (… means any further arguments)"
	}
	text := fmt.Sprintf("may all agents that use %s, on every clone, always do this without a question?\n  allows       %s\n  rule         %s\n  place        agents: %s: permissions: execute: in %s\n",
		q.entry, allows, local.Rule(rule), q.entry, file)
	err := c.u.own.ask(question{id: "this rule", key: ruleKey + q.key, agent: q.agent, text: text, elsewhere: "an editor: " + file}, func(yes bool) error {
		if !yes {
			return nil
		}
		return c.addRule(q.entry, rule)
	})
	if err != nil {
		return fmt.Errorf("the rule for question %d: %w", q.number, err)
	}
	delete(c.over, ruleKey+q.key) // of an earlier no
	return nil
}

// dropRules closes the questions about rules whose own question is not among those that are open.
func (c *console) dropRules(open []question) {
	c.u.own.drop(func(r question) bool {
		of, is := strings.CutPrefix(r.key, ruleKey)
		return is && !slices.ContainsFunc(open, func(q question) bool { return q.key == of })
	})
}

// wrote lets the call pass for which a rule was written. The relay reads the rule itself. A call that cannot pass now stays open.
func (c *console) wrote(ctx context.Context, key string) {
	at := slices.IndexFunc(c.open, func(q *numbered) bool { return q.key == key })
	if at < 0 {
		return
	}
	q := c.open[at]
	c.u.say("relay.yaml allows it now: %s", q.rule.Command)
	if err := q.desk.decide(ctx, q.question, true); err != nil {
		c.u.say("question %d: %v", q.number, err)
		return
	}
	c.answered(key)
	if s, err := control.NewClient(c.u.relay.State).Status(ctx); err == nil && s.Outdated {
		c.u.say("relay.yaml has another change that waits for a restart of the relay; the rule counts after that restart")
	}
}

// addRule writes a rule for a command into relay.yaml, unless the file has it.
func (u *upping) addRule(entry string, rule settings.Command) error {
	now, err := settings.Load(u.file("relay.yaml"), u.Getenv)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(now.Agents[entry].Permissions.Commands, func(c settings.Command) bool { return local.Rule(c) == local.Rule(rule) }) {
		return nil
	}
	return u.edit("relay.yaml", func(text []byte) ([]byte, error) { return local.AllowCommand(text, entry, rule) })
}
