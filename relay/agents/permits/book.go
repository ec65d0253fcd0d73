package permits

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/turns"
	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

const (
	// maxOpen and maxOpenBytes bound the questions that wait for people.
	maxOpen      = 64
	maxOpenBytes = 1 << 20
	// answerLasts is how long an answer waits for a call that asks the same again.
	answerLasts = 24 * time.Hour
	// rest is how long the same call is refused unasked after a no.
	rest = time.Minute
	// keepOver is how long questions that are over stay on the record, and keepUnheard how long where the bridge does not know it.
	keepOver    = time.Hour
	keepUnheard = 30 * 24 * time.Hour
)

// Errors of [Book.Decide].
var (
	ErrUnknown = errors.New("no open question has this id; to list the open questions, run: drawbridge-relay approvals")
	ErrHash    = errors.New("the answer belongs to another question than the open one with this id; read the question again, then answer")
	ErrPlace   = errors.New("relay.yaml does not allow an answer to this question here; see approve_by: in relay.yaml")
)

// Options is what a [Book] is made of.
type Options struct {
	// Config has the entries and the state folder.
	Config settings.Config
	// Live is Config with the changes that count since.
	Live *settings.Live
	// Prompters show questions to a person at this machine.
	Prompters map[string]approval.Prompter
	// Note writes an audit line; nil writes none.
	Note func(audit.Event) error
	// Now is time.Now unless set.
	Now func() time.Time
	Log zerolog.Logger
}

// Book keeps the questions of all agents of a relay, and their answers. It is a turns.Asker, safe for concurrent use.
type Book struct {
	o Options

	mu sync.Mutex // guards the fields below
	j  *journal
	// turned is closed when questions have changed; nil while nobody waits for that.
	turned chan struct{}
	closed bool
}

var (
	_ turns.Asker          = (*Book)(nil)
	_ turns.Teller         = (*Book)(nil)
	_ wire.PermissionAsker = (*Book)(nil)
)

// OpenBook reads the record. One process at a time can have a state folder's record open.
func OpenBook(o Options) (*Book, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	j, err := openJournal(o.Config.State, o.Now())
	if err != nil {
		return nil, err
	}
	return &Book{o: o, j: j}, nil
}

// Close closes the record. Open questions stay open for the next process.
func (b *Book) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	return b.j.log.Close()
}

// Ask implements turns.Asker.
func (b *Book) Ask(ctx context.Context, w turns.Work, q acp.Question) acp.Reply {
	s := Subject{Agent: w.Agent, Session: w.Session, Dir: w.Dir, Question: q}
	v := Judge(b.o.Live.Now().Agents[w.Agent], s)
	switch {
	case v.Allowed:
		b.note(audit.Approved, entry{Agent: w.Agent, Turn: w.Turn, Kind: v.Kind, Hash: v.Hash}, "relay.yaml", "")
		return acp.Allow
	case v.Unfit:
		b.note(audit.Denied, entry{Agent: w.Agent, Turn: w.Turn, Kind: v.Kind, Hash: v.Hash}, "relay", v.Reason)
		return acp.Refuse
	}
	e, waiter, reply := b.enter(w, s, v)
	if e == nil {
		return reply
	}
	return b.wait(ctx, e.ID, waiter)
}

// enter finds the answer of an earlier question about the same call, or its open question that nobody waits for, or makes one. A nil
// entry means that reply is the answer.
func (b *Book) enter(w turns.Work, s Subject, v Verdict) (*entry, chan struct{}, acp.Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, acp.Unanswered
	}
	b.lapse()
	e := b.match(w.Session, v.Hash)
	switch {
	case e == nil:
	case e.State == Yes || e.State == No:
		return nil, nil, b.give(e, w.Turn)
	case e.State == Over || e.State == Given: // a no a moment ago
		b.note(audit.Denied, *e, "earlier", "a person said no to the same call a moment ago")
		return nil, nil, acp.Refuse
	}
	if e == nil {
		e = &entry{
			ID: "apr_" + strings.ToLower(rand.Text()[:16]), Agent: w.Agent, Session: w.Session, Turn: w.Turn, Dir: w.Dir, Kind: v.Kind, Tool: s.Title,
			Arguments: v.Arguments, Paths: s.Paths, Reason: v.Reason, Hash: v.Hash, Asked: b.o.Now().UTC(), State: Open, At: b.o.Now().UTC(),
		}
		if reason := b.full(e); reason != "" {
			b.note(audit.Denied, *e, "relay", reason)
			return nil, nil, acp.Refuse
		}
		if err := b.j.add(e); err != nil {
			b.o.Log.Error().Err(err).Str("agent", w.Agent).Msg("keep a question of an agent")
			return nil, nil, acp.Refuse
		}
		b.note(audit.Asked, *e, "", "")
	} else if err := b.j.set(e, func(e *entry) { e.Turn = w.Turn }); err != nil {
		b.o.Log.Error().Err(err).Str("agent", w.Agent).Msg("keep a question of an agent")
		return nil, nil, acp.Refuse
	}
	e.waiter = make(chan struct{})
	b.turn()
	return e, e.waiter, acp.Unanswered
}

// match returns what is known of a call: an answer that no call has got, an open question without a waiter, or a no of a moment ago. The
// caller holds the mutex.
func (b *Book) match(session, hash string) (found *entry) {
	now := b.o.Now()
	for _, id := range b.j.order {
		e := b.j.entries[id]
		if e.Session != session || e.Hash != hash || e.waiter != nil {
			continue
		}
		switch {
		case e.State == Yes || e.State == No:
			return e
		case e.State == Open:
			found = e
		case found == nil && e.By != "" && !e.Allowed && now.Sub(e.At).Abs() < rest:
			found = e
		}
	}
	return found
}

// full says why no further question can be opened. The caller holds the mutex.
func (b *Book) full(fresh *entry) string {
	count, size := 1, fresh.size()
	for _, e := range b.j.entries {
		if e.State == Open {
			count, size = count+1, size+e.size()
		}
	}
	if count > maxOpen || size > maxOpenBytes {
		return "too many questions wait for a person on this relay"
	}
	return ""
}

func (e *entry) size() int { return len(e.Arguments) + len(e.Tool) + pathBytes(e.Paths) + 1024 }

// give hands an answer to a call. It is on the disk before the agent gets it, so that no other call gets it, too. The caller holds the mutex.
func (b *Book) give(e *entry, turn string) acp.Reply {
	now := b.o.Now().UTC()
	if err := b.j.set(e, func(e *entry) { e.State, e.At, e.Turn = Given, now, turn }); err != nil {
		b.o.Log.Error().Err(err).Str("question", e.ID).Msg("keep an answer to an agent")
		return acp.Refuse
	}
	b.turn()
	if e.Allowed {
		return acp.Allow
	}
	return acp.Refuse
}

// wait waits for the answer to a question, shows it meanwhile, and gives it.
func (b *Book) wait(ctx context.Context, id string, waiter <-chan struct{}) acp.Reply {
	stop := b.prompt(ctx, id)
	select {
	case <-waiter:
	case <-ctx.Done():
	}
	stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.j.entries[id]
	e.waiter = nil
	b.turn()
	// An answer that came in the moment in which the process ended waits for the next one.
	if ctx.Err() != nil || e.State != Yes && e.State != No || b.closed {
		return acp.Unanswered
	}
	return b.give(e, e.Turn)
}

// prompt shows an open question to a person at this machine until stop is called.
func (b *Book) prompt(ctx context.Context, id string) (stop func()) {
	b.mu.Lock()
	e := *b.j.entries[id]
	b.mu.Unlock()
	if !b.mayAnswer(e, false) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for by, prompt := range b.o.Prompters {
		all.Go(func() {
			prompt(ctx, e.pending(), func(allow bool) { _ = b.Decide(Answer{ID: id, Hash: e.Hash, Allow: allow, By: by}) })
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// mayAnswer reports whether relay.yaml lets the person at this machine, or the operator at the bridge, answer.
func (b *Book) mayAnswer(e entry, bridge bool) bool {
	by := b.o.Config.Agents[e.Agent].ApproveBy
	return by == settings.AtEither || (by == settings.AtBridge) == bridge && by != ""
}

// Answer is a person's word on one question.
type Answer struct {
	// ID names the question, and Hash what the person was shown of it. The hash may be empty for an answer at this machine, which shows
	// a question under its id whole, and never changes it.
	ID, Hash string
	Allow    bool
	// By names the door. Bridge is true for the operator at the bridge.
	By     string
	Bridge bool
}

// Decide takes a person's word on an open question. The first word counts; a later one is [ErrUnknown]. The word is on the disk when Decide
// returns nil.
func (b *Book) Decide(a Answer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.j.entries[a.ID]
	switch {
	case b.closed || e == nil || e.State != Open:
		return ErrUnknown
	case a.Hash != e.Hash && (a.Bridge || a.Hash != ""):
		return ErrHash
	case !b.mayAnswer(*e, a.Bridge):
		return ErrPlace
	}
	now := b.o.Now().UTC()
	err := b.j.set(e, func(e *entry) {
		if e.State, e.Allowed, e.By, e.At = No, a.Allow, a.By, now; a.Allow {
			e.State = Yes
		}
	})
	if err != nil {
		return fmt.Errorf("keep the answer: %w", err)
	}
	b.note(map[bool]string{true: audit.Approved, false: audit.Denied}[a.Allow], *e, a.By, "")
	if e.waiter != nil {
		close(e.waiter)
		e.waiter = closedWaiter
	}
	b.turn()
	return nil
}

// closedWaiter stands for a waiter that has its answer and has not taken it.
var closedWaiter = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Pending lists the questions that a person at this machine may answer, the oldest first.
func (b *Book) Pending() (list []approval.Pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.j.order {
		if e := b.j.entries[id]; e.State == Open && b.mayAnswer(*e, false) {
			list = append(list, e.pending())
		}
	}
	return list
}

func (e entry) pending() approval.Pending {
	rule := &approval.Rule{}
	var err error
	if rule.Command, err = ruleFor(e); err != nil {
		rule.None = output.Line(err.Error())
	}
	return approval.Pending{ID: e.ID, Asked: e.Asked, Session: e.Session, Rule: rule, Question: approval.Question{
		Agent:      e.Agent,
		Permission: &approval.Permission{Kind: e.Kind, Tool: e.Tool, Arguments: e.Arguments, Paths: e.Paths, Workspace: e.Dir, Reason: e.Reason, Hash: e.Hash},
	}}
}

// DenyAll answers every open question with no, and takes back each yes that no call has got: the kill switch.
func (b *Book) DenyAll(by string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Now().UTC()
	var errs []error
	for _, id := range b.j.order {
		e := b.j.entries[id]
		if e.State != Open && e.State != Yes {
			continue
		}
		waits := e.State == Open
		errs = append(errs, b.j.set(e, func(e *entry) { e.State, e.Allowed, e.By, e.At = No, false, by, now }))
		if e.waiter != nil && waits {
			close(e.waiter)
			e.waiter = closedWaiter
		}
	}
	b.turn()
	return errors.Join(errs...)
}

// lapse ends answers for which no call came. The caller holds the mutex.
func (b *Book) lapse() {
	now := b.o.Now().UTC()
	for _, id := range b.j.order {
		e := b.j.entries[id]
		if (e.State == Yes || e.State == No || e.State == Given) && e.waiter == nil && now.Sub(e.At).Abs() > answerLasts {
			if err := b.j.set(e, func(e *entry) { e.State, e.At = Over, now }); err != nil {
				b.o.Log.Error().Err(err).Str("question", e.ID).Msg("expire an unused answer")
			}
		}
	}
	b.j.forget(now)
}

// turn wakes those who wait for a change. The caller holds the mutex.
func (b *Book) turn() {
	if b.turned != nil {
		close(b.turned)
		b.turned = nil
	}
}

// note writes an audit line. It never holds arguments.
func (b *Book) note(event string, e entry, by, reason string) {
	if b.o.Note == nil {
		return
	}
	err := b.o.Note(audit.Event{Event: event, Request: e.ID, Agent: output.Line(e.Agent), Action: "permission:" + e.Kind, Config: e.Hash, By: output.Line(by), Reason: reason})
	if err != nil {
		b.o.Log.Error().Err(err).Msg("audit")
	}
}

// Tell implements turns.Teller.
func (b *Book) Tell(session string) (text string, told func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lapse()
	states := map[string]State{}
	var lines []string
	for _, id := range b.j.order {
		e := b.j.entries[id]
		if e.Session != session || e.waiter != nil || e.State == Over || e.Told == e.State {
			continue
		}
		states[id] = e.State
		lines = append(lines, e.line())
	}
	if len(lines) == 0 {
		return "", func() {}
	}
	text = "You asked for permission, but your process ended before the call was over. The state of each request:\n" + strings.Join(lines, "\n") + "\n\n"
	return text, func() { b.tell(states) }
}

// tell notes that a turn has told the agent of these states.
func (b *Book) tell(states map[string]State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	for id, state := range states {
		e := b.j.entries[id]
		if e == nil || e.State != state {
			continue
		}
		next := state
		if state == Given || state == No {
			next = Over
		}
		now := b.o.Now().UTC()
		if err := b.j.set(e, func(e *entry) {
			e.Told = state
			if next != state {
				e.State, e.At = next, now
			}
		}); err != nil {
			b.o.Log.Error().Err(err).Str("question", id).Msg("record that an agent was told of a question")
		}
	}
}

// maxShownCall bounds how much of a call a turn repeats, in characters of ASCII.
const maxShownCall = 2000

// line says of a question what was asked and what the person said.
func (e entry) line() string {
	call := output.Line(e.Tool) + ", with the arguments " + output.Line(e.Arguments)
	if e.Arguments == "" {
		call = output.Line(e.Tool) + ", without exact arguments"
	}
	if len(call) > maxShownCall {
		call = call[:maxShownCall] + "..."
	}
	word := map[State]string{
		Open: "No person has answered yet. The question stays open: go on with other work, or end your turn; you get the answer in a later turn.",
		Yes:  "A person said yes. The call did not run. If you still want it, make exactly the same call again. The yes counts once.",
		No:   "A person said no. The call did not run.",
	}[e.State]
	switch {
	case e.State == Given && e.Allowed:
		word = "A person said yes, and you got the answer. The call may have run: check before you make it again."
	case e.State == Given:
		word = "A person said no. The call did not run."
	}
	return fmt.Sprintf("> %s (%s)\n%s", call, e.Kind, word)
}

// Ended implements turns.Teller.
func (b *Book) Ended(session, turn string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	now := b.o.Now().UTC()
	for _, id := range slices.Clone(b.j.order) {
		e := b.j.entries[id]
		if e.Session != session || e.Turn != turn || e.State != Given {
			continue
		}
		if err := b.j.set(e, func(e *entry) { e.State, e.At = Over, now }); err != nil {
			b.o.Log.Error().Err(err).Str("question", id).Msg("end a question")
		}
	}
}

// states are the words of the wire for states of a question, by whether the answer is yes.
var states = map[bool]map[State]wire.PermissionState{
	true:  {Open: wire.PermissionOpen, Yes: wire.PermissionYes, Given: wire.PermissionGiven, Over: wire.PermissionGiven},
	false: {Open: wire.PermissionOpen, No: wire.PermissionNo, Given: wire.PermissionRefused, Over: wire.PermissionRefused},
}

// Permissions implements wire.PermissionAsker: the questions whose state the bridge has not confirmed, and a channel that is closed when
// that may have changed.
func (b *Book) Permissions() (list []wire.Permission, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.j.order {
		e := b.j.entries[id]
		if e.waiter == closedWaiter { // the agent is about to get its answer
			continue
		}
		if p := e.announced(); p.State != e.Heard || e.State == Open {
			p.Heard = p.State == e.Heard
			p.Bridge, p.Machine = b.mayAnswer(*e, true), b.mayAnswer(*e, false)
			list = append(list, p)
		}
	}
	if b.turned == nil {
		b.turned = make(chan struct{})
	}
	return list, b.turned
}

func (e entry) announced() wire.Permission {
	return wire.Permission{
		ID: e.ID, Hash: e.Hash, Agent: e.Agent, Session: e.Session, Turn: e.Turn, Kind: e.Kind, Tool: e.Tool, Arguments: e.Arguments, Paths: e.Paths,
		Workspace: e.Dir, Reason: e.Reason, State: states[e.Allowed][e.State], By: e.By,
	}
}

// PermissionHeard implements wire.PermissionAsker.
func (b *Book) PermissionHeard(id string, state wire.PermissionState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.j.entries[id]
	if b.closed || e == nil || e.Heard == state || e.announced().State != state {
		return
	}
	if err := b.j.set(e, func(e *entry) { e.Heard = state }); err != nil {
		b.o.Log.Error().Err(err).Str("question", id).Msg("record that the bridge knows of a question")
	}
}

// Permit implements wire.PermissionAsker.
func (b *Book) Permit(p wire.Permit) error {
	return b.Decide(Answer{ID: p.ID, Hash: p.Hash, Allow: p.Allow, By: "bridge", Bridge: true})
}
