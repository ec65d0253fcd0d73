package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// maxHeld bounds the held commands that are looked through at once.
const maxHeld = 10_000

// questionOf says what a yes to a held command would do now, and what helps to
// judge it. It changes nothing. Conflict when the command waits for nobody.
func (c *change) questionOf(id bridge.CommandID) (q bridge.Question, err error) {
	a, err := c.held(id, &q.Command)
	if err != nil {
		return q, err
	}
	if q, err = c.question(a, q.Command); err != nil {
		return q, err
	}
	return q, c.explain(a, &q)
}

// explain adds the context, and what a person reads.
func (c *change) explain(a bridge.Agent, q *bridge.Question) (err error) {
	if q.Context, err = c.context(a, q); err != nil {
		return err
	}
	q.Shown = words.Question(*q)
	q.Outside, err = c.heardOthers(a, q.Seq)
	return err
}

// maxHeard bounds the turns that are looked through for words of others; an agent with more counts as one that has heard some. maxEchoes bounds
// what it read by tools.
const (
	maxHeard  = 20
	maxEchoes = 100
)

// heardOthers reports whether somebody else's words than the operator's may stand behind a command of an agent's turn.
func (c *change) heardOthers(a bridge.Agent, seq int64) (bool, error) {
	if a.Parent != "" || a.ChatUser != "" || c.e.hosted(a) || seq > maxHeard {
		return true, nil // another agent's task, a user's chat, or a program that reads files on a machine
	}
	turns, err := c.Turns(bridge.TurnFilter{Agent: a.ID, Before: seq + 1, Limit: maxHeard})
	if err != nil {
		return true, err
	}
	for _, t := range turns {
		carried, err := c.CarriedNotices(t.ID)
		if err != nil || len(carried) > 0 || slices.ContainsFunc(t.Said, func(s bridge.Said) bool { return s.Source == bridge.OriginOutside }) {
			return true, err
		}
	}
	echoes, err := c.Echoes(a.ID, bridge.EchoAge{}, maxEchoes)
	return len(echoes) == maxEchoes || slices.ContainsFunc(echoes, func(e bridge.Echo) bool {
		byTool := e.Turn == "" // nobody knows in which turn it read that first
		return e.Source != bridge.EchoOperator && (byTool || e.Seq <= seq)
	}), err
}

// questions returns the questions that wait for a person, the newest first;
// of one agent, or of all when agent is empty. Identical commands are one. They have a context only when they are to be explained.
func (c *change) questions(agent bridge.AgentID, explained bool) ([]bridge.Question, error) {
	held, err := c.Commands(bridge.CommandFilter{Agent: agent, State: bridge.CommandHeld, Limit: maxHeld})
	if err != nil {
		return nil, err
	}
	agents := map[bridge.AgentID]bridge.Agent{}
	var all []bridge.Question
	for _, m := range slices.Backward(held) {
		if slices.ContainsFunc(all, func(q bridge.Question) bool { return slices.Contains(q.Same, m.ID) }) {
			continue
		}
		a, known := agents[m.Agent]
		if !known {
			if a, err = c.Agent(m.Agent); err != nil {
				return nil, err
			}
			agents[m.Agent] = a
		}
		q, err := c.questionAmong(a, m, held)
		if err != nil {
			return nil, err
		}
		if explained {
			if err := c.explain(a, &q); err != nil {
				return nil, err
			}
		}
		all = append(all, q)
	}
	slices.Reverse(all)
	return all, nil
}

// question is Question without its context.
func (c *change) question(a bridge.Agent, m bridge.Command) (bridge.Question, error) {
	held, err := c.Commands(bridge.CommandFilter{Agent: a.ID, State: bridge.CommandHeld, Verb: m.Parsed.Verb, Limit: maxHeld})
	if err != nil {
		return bridge.Question{}, err
	}
	return c.questionAmong(a, m, held)
}

// questionAmong finds the identical ones among the commands that are held, which are the newest first.
func (c *change) questionAmong(a bridge.Agent, m bridge.Command, held []bridge.Command) (bridge.Question, error) {
	e, err := c.effect(a, m)
	if err != nil {
		return bridge.Question{}, err
	}
	q := bridge.Question{Command: m, Effect: e.facts, Hash: bridge.EffectHash(e.facts), Refused: e.refused}
	for _, other := range slices.Backward(held) {
		if other.ID == m.ID {
			q.Same = append(q.Same, m.ID)
			continue
		}
		if !mayBeSame(m, other) {
			continue
		}
		e, err := c.effect(a, other)
		if err != nil {
			return q, err
		}
		if bridge.EffectHash(e.facts) == q.Hash {
			q.Same = append(q.Same, other.ID)
		}
	}
	return q, nil
}

// mayBeSame tells cheaply which commands cannot have one effect.
func mayBeSame(a, b bridge.Command) bool {
	x, y := a.Parsed, b.Parsed
	return a.Agent == b.Agent && x.Verb == y.Verb && x.Verb != bridge.VerbPermission && x.Prompt == y.Prompt && x.Message == y.Message && a.Canonical == b.Canonical
}

// effect is what a yes would do, and what the policy says of it.
type effect struct {
	facts   []bridge.Fact
	verdict policy.Verdict
	names   []string
	// refused says why it would not pass, "" when it would.
	refused string
	// definition is what a yes binds to at a relay, "" for nothing; shown is what the relay says of it.
	definition, shown string
	// lasts is for how long a yes also lets others pass.
	lasts time.Duration
}

func (e *effect) add(name, text string) {
	e.facts = append(e.facts, bridge.Fact{Name: name, Text: text})
}

// bind makes a yes count for one definition at a relay, of which the relay says something.
func (e *effect) bind(definition, says string) {
	e.definition, e.shown = definition, says
	e.add("definition", definition)
	e.add("relay says", says)
}

// effect asks the policy and the relays once more: what was true when the command
// was held may be so no longer.
func (c *change) effect(a bridge.Agent, m bridge.Command) (e effect, err error) {
	if e.names, err = c.Lineage(a); err != nil {
		return e, err
	}
	if p, asks := m.Asks(); asks {
		e.add("command", string(m.Parsed.Verb))
		e.add("agent", fmt.Sprintf("%s (%s)", a.Name, a.ID))
		e.facts = append(e.facts, p.Facts()...)
		return e, nil
	}
	e.verdict = c.reach(a, m.Parsed, c.policy().Grant(e.names, m.Parsed, true))
	if !e.verdict.Grant.Valid() {
		e.refused = e.verdict.Reason
	}
	m.Canonical, m.Relay, m.Runtime, m.API = cmp.Or(e.verdict.Canonical, m.Canonical), e.verdict.Relay, e.verdict.Runtime, e.verdict.API
	e.add("command", string(m.Parsed.Verb))
	e.add("agent", fmt.Sprintf("%s (%s)", a.Name, a.ID))
	switch m.Parsed.Verb {
	case parser.Subagent:
		c.launchEffect(&e, a, m)
	case parser.LocalAction:
		err = c.actionEffect(&e, m)
	case parser.Remind:
		c.remindEffect(&e, m)
	}
	if err != nil {
		return e, err
	}
	return e, c.lastingEffect(&e, a, m)
}

func (c *change) launchEffect(e *effect, a bridge.Agent, m bridge.Command) {
	e.add("repository", m.Canonical)
	e.add("runtime", bridge.Through(c.homeOf(a, m.Runtime, m.API)))
	for _, f := range []bridge.Fact{{Name: "name", Text: m.Parsed.Name}, {Name: "role", Text: m.Parsed.Role}, {Name: "subfolder", Text: m.Parsed.Subdir}} {
		if f.Text != "" {
			e.facts = append(e.facts, f)
		}
	}
	m.Runtime, _ = c.homeOf(a, m.Runtime, m.API)
	if shared, err := c.e.shares(a, m); err == nil && shared {
		e.add("workspace", "that of "+a.Name)
	}
	e.add("prompt", m.Parsed.Prompt)
}

func (c *change) actionEffect(e *effect, m bridge.Command) error {
	e.add("action", m.Canonical)
	e.add("relay", cmp.Or(m.Relay, "the one that offers it"))
	if m.Code == bridge.CodeRelayApproval {
		e.bind(m.DefinitionToApprove(), m.Reason)
		return nil
	}
	offers, err := c.OfferedBy(m.Canonical)
	if err != nil {
		return err
	}
	if offer := bridge.ApprovableAt(offers, m.Relay); offer.Shows != "" {
		e.bind(offer.Definition, fmt.Sprintf("relay %s offers definition %.12s: %s", offer.Relay, offer.Definition, offer.Shows))
		return nil
	}
	e.add("relay says", "nothing that the bridge may approve: its own file decides what runs, and it may also ask a person for approval")
	return nil
}

func (c *change) remindEffect(e *effect, m bridge.Command) {
	e.add("when", m.Parsed.When)
	due, err := words.RemindAt(m.Parsed.When, c.now)
	later, laterErr := words.RemindAt(m.Parsed.When, c.now.Add(time.Second))
	switch {
	case err != nil:
		e.refused = cmp.Or(e.refused, err.Error())
		e.add("due", "never")
	case laterErr == nil && !later.Equal(due):
		e.add("due", "counted from your yes")
	default:
		e.add("due", due.UTC().Format(time.RFC3339))
	}
	e.add("message", m.Parsed.Message)
}

// lastingEffect adds what a "once per" approval lets pass beside this command, by
// the rule as it stands now. A command that repeats outside text never begins one.
func (c *change) lastingEffect(e *effect, a bridge.Agent, m bridge.Command) error {
	v := e.verdict
	if v.ApprovalKey == "" || (m.Code != string(policy.CodeNeedsApproval) && m.Code != string(policy.CodeDuplicate)) {
		return nil
	} else if stands, err := c.Approved(a.Root, v.ApprovalKey, c.now); err != nil || stands {
		return err
	}
	if e.lasts = v.Approval.For; e.lasts > 0 {
		e.add("your approval lasts", fmt.Sprintf("%s, for every %s on %s by agents of this tree", e.lasts, m.Parsed.Verb, m.Canonical))
	}
	return nil
}

// target is what a yes is remembered under.
func target(m bridge.Command) string {
	return strings.TrimSpace(string(m.Parsed.Verb) + " " + m.Canonical)
}

// context collects who wrote the command, what caused it, and what changed since the last yes, and sets Seq and Again.
func (c *change) context(a bridge.Agent, q *bridge.Question) ([]bridge.Fact, error) {
	m := q.Command
	lineage, err := c.lineage(a)
	if err != nil {
		return nil, err
	}
	turn, err := c.Turn(m.Turn)
	if err != nil {
		return nil, fmt.Errorf("load turn %q: %w", m.Turn, err)
	}
	q.Seq = turn.Seq
	where := words.Where(m.Parsed.Line)
	facts := []bridge.Fact{{Name: "written by", Text: fmt.Sprintf("%s, %s of its turn %d (%s), at %s", lineage, where, turn.Seq, turn.ID, m.CreatedAt.UTC().Format(time.RFC3339))}}
	causes, err := c.heldCauses(a, turn)
	if err != nil {
		return nil, err
	}
	for _, cause := range causes {
		facts = append(facts, bridge.Fact{Name: "turn made by", Text: cause})
	}
	facts = append(facts, bridge.Fact{Name: "held because", Text: m.Reason})
	if m.Parsed.Verb == bridge.VerbPermission { // each is a question of its own, and the relay has the rules
		return facts, nil
	}
	since := "no person has approved " + target(m) + " in this tree yet"
	switch last, err := c.LastYes(a.Root, target(m)); {
	case err == nil:
		since, q.Again = words.Since(last, q.Effect), bridge.EffectHash(last.Effect) == q.Hash
	case !errors.Is(err, bridge.ErrNoRow):
		return nil, err
	}
	facts = append(facts, bridge.Fact{Name: "last yes", Text: since})
	if len(q.Same) > 1 {
		facts = append(facts, bridge.Fact{Name: "the same", Text: words.Listed(q.Same, maxListed)})
	}
	return facts, nil
}

// maxListed and maxHeldCauses bound what is named one by one; maxSaid is in characters.
const (
	maxListed     = 20
	maxHeldCauses = 10
	maxSaid       = 300
)

// lineage names the agent and its ancestors, root first.
func (c *change) lineage(a bridge.Agent) (string, error) {
	text := fmt.Sprintf("%s (%s, on %s)", a.Name, a.ID, a.Repo)
	for a.Parent != "" {
		var err error
		if a, err = c.Agent(a.Parent); err != nil {
			return "", fmt.Errorf("load parent: %w", err)
		}
		text = a.Name + " > " + text
	}
	return text, nil
}

// causes says what an agent had heard when it wrote: a person's words, results, mail.
func (c *change) heldCauses(a bridge.Agent, t bridge.Turn) ([]string, error) {
	var all []string
	switch {
	case t.Cause == bridge.CauseLaunch:
		all = append(all, "its launch: "+words.SafeLine(t.Text, maxSaid))
	case t.Text != "":
		all = append(all, "a person, who said: "+words.SafeLine(t.Text, maxSaid))
	}
	carried, err := c.CarriedNotices(t.ID)
	if err != nil {
		return nil, err
	}
	for _, n := range carried[:min(len(carried), maxHeldCauses)] {
		cause, err := c.causeOf(n)
		if err != nil {
			return nil, err
		}
		all = append(all, cause)
	}
	if more := len(carried) - maxHeldCauses; more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	if len(all) == 0 {
		all = append(all, string(t.Cause))
	}
	return all, nil
}

func (c *change) causeOf(n bridge.Notice) (string, error) {
	if n.Message == "" {
		return string(n.Cause) + ": " + words.SafeLine(string(n.Text), maxSaid), nil
	}
	mail, err := c.Message(n.Message)
	if err != nil {
		return "", fmt.Errorf("load message %q: %w", n.Message, err)
	}
	return fmt.Sprintf("mail from %s (%s)", mail.FromName, mail.ID), nil
}

// Question says what a yes to a held command would do now. Conflict when the command waits for nobody.
func (e *Engine) Question(ctx context.Context, id bridge.CommandID) (q bridge.Question, err error) {
	err = e.View(ctx, func(tx *bridge.Scene) (err error) {
		q, err = e.look(tx).questionOf(id)
		return err
	})
	return q, notFound(err, "command", string(id))
}

// Questions returns what waits for a person, the newest first; of one agent, or of
// all when agent is empty. Identical commands of one agent are one question.
func (e *Engine) Questions(ctx context.Context, agent bridge.AgentID) (all []bridge.Question, err error) {
	err = e.View(ctx, func(tx *bridge.Scene) (err error) {
		all, err = e.look(tx).questions(agent, true)
		return err
	})
	return all, err
}

// Waiting is Questions of all agents in a transaction of the caller, without what explains them: Context, Shown, Seq, Outside and Again.
func (e *Engine) Waiting(tx *bridge.Scene) ([]bridge.Question, error) {
	return e.look(tx).questions("", false)
}

// look is a transaction in which nothing is written.
func (e *Engine) look(tx *bridge.Scene) *change {
	return &change{Scene: tx, e: e, now: e.o.Now(), ids: e.o.NewID}
}
