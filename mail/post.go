package mail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// post is one change of the post office, on behalf of one agent or the operator.
type post struct {
	bridge.Change
	o    *Options
	from bridge.Agent
	// turn is the one that the agent is in, or else its last one; open says which.
	turn bridge.TurnID
	open bool
	// depth is that turn's. A person stands before every chain, at -1.
	depth int
}

// write runs fn for one who wants to write.
func (s *Service) write(ctx context.Context, from bridge.AgentID, fn func(*post) error) error {
	return s.change(ctx, from, func(p *post) error {
		if p.byUser() {
			return fn(p)
		}
		tree, err := p.Tree(p.from.Root)
		if err != nil {
			return err
		}
		if tree.Stopped() {
			return bridge.Errorf(bridge.Conflict, "the operator stopped this tree of agents; you can send messages again when the operator resumes the tree")
		}
		return fn(p)
	})
}

// send runs fn for one who writes a message, unless it wrote it before.
func (s *Service) send(ctx context.Context, from bridge.AgentID, fn func(*post) (Sent, error)) (sent Sent, err error) {
	err = s.write(ctx, from, func(p *post) error {
		if sent, err = s.before(p); err != nil || sent.Message.ID != "" {
			return err
		}
		if sent, err = fn(p); err != nil {
			return err
		}
		return s.once.Keep(p.Scene, from, string(sent.Message.ID), p.Now())
	})
	return sent, err
}

// do runs fn, unless the same request was made before under its key. It returns what fn returned then or now, which is never empty.
func (s *Service) do(p *post, fn func() (result string, err error)) (result string, err error) {
	if result, err = s.once.Earlier(p.Scene, p.from.ID); err != nil || result != "" {
		return result, err
	}
	if result, err = fn(); err != nil {
		return "", err
	}
	return result, s.once.Keep(p.Scene, p.from.ID, result, p.Now())
}

// before returns what the same request sent already, the zero Sent for nothing.
func (s *Service) before(p *post) (Sent, error) {
	id, err := s.once.Earlier(p.Scene, p.from.ID)
	if err != nil || id == "" {
		return Sent{}, err
	}
	m, err := p.Message(bridge.MessageID(id))
	if err != nil {
		return Sent{}, err
	}
	letters, err := p.Letters(m.ID)
	return Sent{Message: m, Waiting: m.Sync, Recipients: len(letters)}, err
}

// change runs fn in one change for an agent, or for the operator.
// Beside the agent and its turn it will look at more.
func (s *Service) change(ctx context.Context, from bridge.AgentID, fn func(*post) error, more ...bridge.Need) error {
	hints := []bridge.Need{bridge.NeedAgent{ID: from}, bridge.NeedTurnHead{Agent: from}}
	if from == bridge.User {
		hints = nil
	}
	return s.o.Steps.Change(ctx, func(c bridge.Change) error {
		p := &post{Change: c, o: &s.o, from: bridge.Agent{ID: bridge.User, Name: string(bridge.User)}, depth: -1}
		if from == bridge.User {
			return fn(p)
		}
		var err error
		if p.from, err = c.Agent(from); err != nil {
			return noRow(err, bridge.Errorf(bridge.NotFound, "no agent %.60q", from))
		}
		if err := p.from.MayAct(); err != nil {
			return err
		}
		if p.from.Quarantined {
			return bridge.Errorf(bridge.Conflict, "agent %s may not use mail: %s", p.from.Name, p.from.Trouble)
		}
		if err := p.findTurn(); err != nil {
			return err
		}
		return fn(p)
	}, append(hints, more...)...)
}

// findTurn looks which turn the agent is in. One that is still queued was not heard yet.
func (p *post) findTurn() error {
	t, err := p.CurrentTurn(p.from.ID)
	if errors.Is(err, bridge.ErrNoRow) {
		p.depth = 0
		return nil
	}
	p.turn, p.depth, p.open = t.ID, t.Depth, !t.State.Over()
	return err
}

// noRow replaces a store's "no such row" by words for the caller.
func noRow(err error, say *bridge.Error) error {
	if errors.Is(err, bridge.ErrNoRow) {
		return say
	}
	return err
}

func (p *post) byUser() bool { return p.from.ID == bridge.User }

// checkText returns an error unless a text may be a message.
func checkText(text string) error {
	switch {
	case len(text) > bridge.MaxMessage:
		return bridge.Errorf(bridge.TooLarge, "the message has %d bytes; at most %d are allowed; send a file instead", len(text), bridge.MaxMessage)
	case strings.ContainsRune(text, 0):
		return bridge.Errorf(bridge.Invalid, "the message holds a NUL character; leave it out")
	}
	return bridge.CheckText(text)
}

// message makes one by this sender, now.
func (p *post) message(kind bridge.MailKind, text string) bridge.Message {
	return bridge.Message{ID: bridge.MessageID(p.NewID("msg_")), Kind: kind, From: p.from.ID, FromName: p.from.Name, Text: text,
		Turn: p.turn, Depth: max(p.depth, 0), CreatedAt: p.Now()}
}

// target is one recipient of a message.
type target struct {
	agent bridge.Agent
	// loud ones get a turn for it.
	loud bool
	// direct and awaited are as in the letter.
	direct, awaited bool
	// answers is the message that this one answers, when its sender waits for that.
	answers bridge.MessageID
	// result says that the message is the one result of the sender's task.
	result bool
	// held is the broadcast whose answers come as one turn, "" for all others.
	held bridge.MessageID
}

// deliver records a message and leaves it with each recipient. text is what the
// recipients are told in the bridge's own words before the message's.
func (p *post) deliver(m bridge.Message, text bridge.Words, to []target) (Sent, error) {
	sent := Sent{Message: m, Waiting: m.Sync, Recipients: len(to)}
	if err := p.InsertMessage(m); err != nil {
		return sent, err
	}
	for _, t := range to {
		if t.loud {
			sent.Woken++
		}
		if err := p.leave(m, text, t); err != nil {
			return sent, err
		}
	}
	if err := p.awaitReply(m, to); err != nil {
		return sent, err
	}
	return sent, p.tell(bridge.EventMessageCreated, m)
}

func (p *post) leave(m bridge.Message, text bridge.Words, t target) error {
	l := bridge.Letter{Message: m.ID, Agent: t.agent.ID, From: m.From, Direct: t.direct, Awaited: t.awaited, CreatedAt: m.CreatedAt}
	if t.agent.ID == bridge.User {
		return p.InsertLetter(l)
	}
	n := bridge.Notice{Agent: t.agent.ID, Cause: bridge.CauseMessage, Text: text, Untrusted: m.Text, Depth: p.depth, Quiet: !t.loud, Message: m.ID}
	if t.answers != "" {
		n.Join = bridge.HeldFor(t.answers)
	}
	if t.held != "" {
		n.Join, n.Withheld = bridge.HeldFor(t.held), true
	}
	n.Source, n.Author = bridge.OriginTree, p.from.Name
	if p.byUser() || m.System {
		n.Source, n.Author = bridge.OriginOperator, bridge.AuthorBridge
		said := words.Own(m.Text)
		if p.byUser() {
			n.Author, said = "", words.Person(m.Text)
		}
		n.Text, n.Untrusted = trusted(text, said), ""
	}
	var err error
	if t.result {
		n.Cause, n.Join, n.Withheld = bridge.CauseCompletion, "", false
		n.Text = words.Reported(p.from, text)
		l.Notice, err = p.Conclude(p.from, n)
	} else {
		l.Notice, err = p.Notify(n)
	}
	if err != nil {
		return err
	}
	return p.InsertLetter(l)
}

// trusted is what the operator says, and what the bridge itself says, in a turn.
func trusted(head, text bridge.Words) bridge.Words {
	if head == "" {
		return text
	}
	return head + "\n\n" + text
}

// tell records an event of a message. Its text is an agent's, for people to read.
func (p *post) tell(kind string, m bridge.Message) error {
	fields := map[string]string{"message": string(m.ID), "kind": string(m.Kind), "from": string(m.From), "text": words.Clip(m.Text, 4000)}
	if m.Conversation != "" {
		fields["conversation"] = string(m.Conversation)
	}
	if len(m.To) > 0 {
		to := make([]string, len(m.To))
		for i, id := range m.To {
			to[i] = string(id)
		}
		fields["to"] = strings.Join(to, " ")
	}
	return p.record(kind, bridge.Event{Text: words.OneLine(m.Text, 300), Fields: fields})
}

func (p *post) record(kind string, ev bridge.Event) error {
	who := p.from
	if p.byUser() {
		who = bridge.Agent{Name: p.from.Name}
	}
	ev.Turn = p.turn
	return p.Record(kind, who, ev)
}

// limit refuses a sender who wrote too much lately. back returns when the n-th
// latest message that counts was written.
func (p *post) limit(whom string, back func(n int) (time.Time, error)) error {
	if p.byUser() || p.o.PerPair < 0 {
		return nil
	}
	at, err := back(p.o.PerPair)
	if errors.Is(err, bridge.ErrNoRow) {
		return nil
	}
	if err != nil {
		return err
	}
	free := at.Add(p.o.Window)
	if !free.After(p.Now()) {
		return nil
	}
	return &bridge.Error{Kind: bridge.RateLimited, RetryAfter: free.Sub(p.Now()), Message: fmt.Sprintf(
		"you wrote %s to %s within %s, which is the limit; write again after %s, and put what you have to say into one message",
		words.Count(p.o.PerPair, "message"), whom, p.o.Window, free.UTC().Format(time.RFC3339))}
}

func (p *post) pairLimit(to bridge.Agent) error {
	return p.limit(to.Name, func(n int) (time.Time, error) { return p.LetterBack(p.from.ID, to.ID, n) })
}

func (p *post) postLimit(c bridge.Conversation) error {
	return p.limit(string(c.ID), func(n int) (time.Time, error) { return p.PostBack(p.from.ID, c.ID, n) })
}

// receives returns a Conflict for an agent that will never get another turn.
func receives(a bridge.Agent) error {
	switch {
	case a.Forgotten():
		return bridge.Errorf(bridge.Conflict, "agent %s was forgotten and gets no more turns; write to another one", a.Name)
	case a.Quarantined:
		return bridge.Errorf(bridge.Conflict, "agent %s gets no turns: %s", a.Name, a.Trouble)
	case a.External == "" && a.State == bridge.AgentFailed:
		return bridge.Errorf(bridge.Conflict, "agent %s was never launched: %s; write to another one", a.Name, a.Trouble)
	}
	return nil
}

// find looks an agent up by id or name: for the operator any, for an agent one of
// its tree or, behind that, one with which it shares a channel. Another agent is
// not found in the same words as one that never was.
func (p *post) find(who string) (bridge.Agent, error) {
	if p.byUser() {
		return find(p.Change.Scene, who)
	}
	if strings.HasPrefix(who, "agt_") || len(who) > 200 {
		a, err := find(p.Change.Scene, who)
		if err != nil {
			return a, err
		}
		if ok, err := p.reaches(a); err != nil || !ok {
			return bridge.Agent{}, errors.Join(err, bridge.ErrNoRow)
		}
		return a, nil
	}
	a, err := bridge.FindInTree(p.Change.Scene, p.from.Root, who)
	if errors.Is(err, bridge.ErrNoRow) {
		return p.inChannels(who)
	}
	return a, err
}

// inChannels finds the only agent of a name among the members of the sender's channels.
func (p *post) inChannels(name string) (bridge.Agent, error) {
	channels, err := p.Conversations(bridge.ConversationFilter{Kind: bridge.MailChannel, Limit: 10_000})
	if err != nil {
		return bridge.Agent{}, err
	}
	found := map[bridge.AgentID]bridge.Agent{}
	for _, c := range channels {
		members, err := p.Members(c.ID)
		if err != nil {
			return bridge.Agent{}, err
		}
		if !slices.Contains(members, p.from.ID) {
			continue
		}
		for _, id := range members {
			if a, err := p.Agent(id); err == nil && a.Name == name {
				found[id] = a
			}
		}
	}
	return bridge.OnlyAgent(name, slices.SortedFunc(maps.Values(found), func(a, b bridge.Agent) int { return strings.Compare(string(a.ID), string(b.ID)) }))
}

func find(tx *bridge.Scene, who string) (bridge.Agent, error) {
	if len(who) > 200 {
		return bridge.Agent{}, bridge.ErrNoRow
	}
	if strings.HasPrefix(who, "agt_") {
		return tx.Agent(bridge.AgentID(who))
	}
	return tx.FindAgent(bridge.ByName, who)
}

var errSelf = bridge.Errorf(bridge.Invalid, "you cannot write to yourself; name another agent")

// neighbor finds a parent, child or sibling. Whoever else exists is not told.
func (p *post) neighbor(who string) (bridge.Agent, error) {
	a, err := p.find(who)
	if err != nil && !errors.Is(err, bridge.ErrNoRow) {
		return a, err
	}
	switch {
	case err == nil && a.ID == p.from.ID:
		return a, errSelf
	case err == nil && p.near(a):
		return a, receives(a)
	}
	return a, p.strange(who)
}

// near reports whether an agent is one hop away.
func (p *post) near(a bridge.Agent) bool {
	return a.ID == p.from.Parent || a.Parent == p.from.ID || (a.Parent != "" && a.Parent == p.from.Parent)
}

// strange says who can be written to instead.
func (p *post) strange(who string) error {
	near, err := p.Agents(bridge.AgentFilter{Parent: p.from.ID, Limit: 20})
	if err != nil {
		return err
	}
	if p.from.Parent != "" {
		parent, err := p.Agent(p.from.Parent)
		if err != nil {
			return err
		}
		siblings, err := p.Agents(bridge.AgentFilter{Parent: p.from.Parent, Limit: 20})
		if err != nil {
			return err
		}
		near = append(append([]bridge.Agent{parent}, near...), siblings...)
	}
	var names []string
	for _, a := range near {
		if a.ID != p.from.ID {
			names = append(names, a.Name)
		}
	}
	if p.from.Parent == "" {
		names = append(names, string(bridge.User))
	}
	return bridge.Errorf(bridge.NotFound, "%+.60q is not your parent, child or sibling; you can write to: %s", who, strings.Join(names, ", "))
}

// within finds an agent of the same tree or with whom a channel is shared.
func (p *post) within(who string) (bridge.Agent, error) {
	a, err := p.find(who)
	if err != nil && !errors.Is(err, bridge.ErrNoRow) {
		return a, err
	}
	if err == nil && a.ID == p.from.ID {
		return a, errSelf
	}
	if err == nil {
		ok, err := p.reaches(a)
		if err != nil {
			return a, err
		}
		if ok {
			return a, receives(a)
		}
	}
	return a, bridge.Errorf(bridge.NotFound, "no agent %+.60q in your tree or in a channel of yours; ask your parent or the operator for its name", who)
}

func (p *post) reaches(a bridge.Agent) (bool, error) {
	if p.byUser() || a.Root == p.from.Root {
		return true, nil
	}
	return p.ShareChannel(p.from.ID, a.ID)
}

// withinAll finds several agents, each once.
func (p *post) withinAll(who []string) ([]bridge.Agent, error) {
	if len(who) > bridge.MaxMembers {
		return nil, bridge.Errorf(bridge.Invalid, "%d agents are named; at most %d are allowed", len(who), bridge.MaxMembers)
	}
	var all []bridge.Agent
	for _, w := range who {
		a, err := p.within(w)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(b bridge.Agent) bool { return b.ID == a.ID }) {
			all = append(all, a)
		}
	}
	return all, nil
}
