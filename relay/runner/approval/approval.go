// Package approval is the desk at which a person agrees to an action or does not.
//
// A question shows everything that will happen and everything that an agent wrote, on lines of plain ASCII; an answer counts
// for exactly the definition that was shown. Open questions and standing answers are kept in a file, so that they outlive the
// relay. The package knows no network and runs no action. Rule of thumb: no answer is a no.
package approval

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drawbridge/internal/trust"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
)

const (
	// maxOpen bounds the open questions: nobody judges more, and an agent must not be able to tire a person out.
	maxOpen = 16
	maxFile = 1 << 20
)

// Errors of a [Desk].
var (
	// ErrTooMany means that too many questions are open already.
	ErrTooMany = errors.New("too many approvals are pending on this relay")
	// ErrUnknown means that no open question has the id.
	ErrUnknown = errors.New("no approval is pending under this id; see drawbridge-relay approvals")
)

// Question is what a person is asked. Agent and Line are an agent's own text.
type Question struct {
	Request    string   `json:"request"`
	Action     string   `json:"action"`
	Definition string   `json:"definition"`
	Argv       []string `json:"argv"`
	Dir        string   `json:"dir"`
	EnvNames   []string `json:"env_names"`
	Sandbox    string   `json:"sandbox"`
	// Files are those whose content is checked before the start.
	Files []string `json:"files,omitempty"`
	Agent string   `json:"agent"`
	Line  string   `json:"line"`
	// Once is how long a yes stands for the same definition; 0 means for this request only.
	Once time.Duration `json:"once,omitempty"`
	// Permission is set for a question of an agent on this machine. Of the fields above only Agent is set then.
	Permission *Permission `json:"permission,omitempty"`
}

// Summary is what would run, and how long a yes lasts, on one line of printable ASCII. hide takes the secrets out of each argument.
func (q Question) Summary(hide func(string) string) string {
	words := make([]string, len(q.Argv))
	for i, word := range q.Argv {
		words[i] = strconv.QuoteToASCII(hide(word))
	}
	text := fmt.Sprintf("it would run %s in %s, environment %s, sandbox %s",
		strings.Join(words, " "), output.Line(q.Dir), strings.Join(q.environment(), " "), q.Sandbox)
	for _, path := range q.Files {
		text += ", pinned file " + strconv.QuoteToASCII(hide(path))
	}
	if q.Once > 0 {
		text += ", and your approval lasts " + q.Once.String()
	}
	return text
}

// environment is the names of all variables.
func (q Question) environment() []string {
	names := []string{"PATH"}
	for _, name := range q.EnvNames {
		if name != "PATH" {
			names = append(names, output.Line(name))
		}
	}
	return names
}

// Pending is an open question, or one that was answered with yes while nobody waited for it.
type Pending struct {
	ID string `json:"id"`
	Question
	// Rule would allow such a call of an agent from now on, nil for an action.
	Rule *Rule `json:"rule,omitempty"`
	// Session is the bridge's name of the conversation in which an agent asks for a permission, "" for an action.
	Session string    `json:"session,omitempty"`
	Asked   time.Time `json:"asked"`
	Until   time.Time `json:"until"`
	// By names the door of a yes, and is empty while the question is open.
	By string `json:"by,omitempty"`
}

// Rule is a rule of relay.yaml that would allow a call of an agent.
type Rule struct {
	Command settings.Command `json:"command,omitzero"`
	// None says why there is no such rule, "" where Command is one.
	None string `json:"none,omitempty"`
}

// Text is the question on lines of printable ASCII, whatever it holds.
func (p Pending) Text(now time.Time) string {
	if p.Permission != nil {
		return p.Permission.text(p.ID, p.Agent)
	}
	var b strings.Builder
	show := func(name, value string) { fmt.Fprintf(&b, "  %-12s %s\n", name, value) }
	fmt.Fprintf(&b, "%s: may action %s run?\n", p.ID, output.Line(p.Action))
	for i, word := range p.Argv {
		name := ""
		if i == 0 {
			name = "program"
		}
		show(name, output.Line(word))
	}
	show("folder", output.Line(p.Dir))
	show("environment", strings.Join(p.environment(), " "))
	show("sandbox", p.Sandbox)
	for _, path := range p.Files {
		show("pinned file", output.Line(path))
	}
	show("agent", output.Line(p.Agent))
	show("wrote", output.Line(p.Line))
	if p.Once > 0 {
		show("your approval lasts", p.Once.String())
	}
	show("no answer", fmt.Sprintf("counts as a no in %s", p.Until.Sub(now).Round(time.Second)))
	return b.String()
}

// Verdict is a person's word, or that there was none.
type Verdict struct {
	Approved bool
	// By names the door: terminal, command line, earlier.
	By string
	// Reason says why not.
	Reason string
}

// standing is a yes that lasts.
type standing struct {
	Action     string    `json:"action"`
	Definition string    `json:"definition"`
	Until      time.Time `json:"until"`
}

// Prompter shows a question where a person may see it. It must return when ctx is done. decide may be called by it, at most
// once; a person who answers elsewhere ends ctx.
type Prompter func(ctx context.Context, p Pending, decide func(approve bool))

// Options is what a [Desk] is made of. Path is the file; Wait is how long a question stays open.
type Options struct {
	Path      string
	Now       func() time.Time
	Wait      time.Duration
	Prompters map[string]Prompter
}

// Desk keeps questions and answers. It is safe for concurrent use.
type Desk struct {
	o Options

	mu       sync.Mutex
	pending  map[string]*Pending
	verdicts map[string]chan Verdict
	// decided are the questions that somebody has answered and whose answer is on its way to the one who waits.
	decided  map[string]bool
	standing []standing
	noes     []no
	// asked is when somebody was asked about each action within the last hour, the oldest first.
	asked map[string][]time.Time
	// turned is closed when the open questions have changed; nil while nobody waits for that.
	turned chan struct{}
}

// Open reads the file, which need not exist. A file that others can write, or that no relay wrote, is an error.
func Open(o Options) (*Desk, error) {
	d := &Desk{o: o, pending: map[string]*Pending{}, verdicts: map[string]chan Verdict{}, decided: map[string]bool{}, asked: map[string][]time.Time{}}
	if err := d.load(); err != nil {
		return nil, fmt.Errorf("open approvals %s: %w", o.Path, err)
	}
	return d, nil
}

// file is what is kept.
type file struct {
	Version  int        `json:"version"`
	Pending  []*Pending `json:"pending"`
	Standing []standing `json:"standing"`
	Noes     []no       `json:"noes,omitempty"`
}

func (d *Desk) load() error {
	if err := trust.Place(d.o.Path, "state"); err != nil {
		return err
	}
	text, err := trust.Read(d.o.Path, maxFile)
	if _, statErr := os.Lstat(d.o.Path); errors.Is(statErr, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil || f.Version != 1 {
		return trust.Because("is not a file of approvals of this version of drawbridge-relay", "move it away; the relay then asks again for the approvals in it")
	}
	for _, p := range f.Pending {
		d.pending[p.ID] = p
	}
	d.standing = f.Standing
	d.noes = slices.DeleteFunc(f.Noes, func(n no) bool { return n.Row < 1 })
	return nil
}

// save writes the file again; a crash leaves the old one or the new one. The caller holds the mutex.
func (d *Desk) save() error {
	f := file{Version: 1, Pending: d.list(), Standing: d.standing, Noes: d.noes}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	fresh := d.o.Path + ".new"
	_ = os.Remove(fresh)
	out, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep approvals: %w", err)
	}
	_, err = out.Write(text)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	if err == nil {
		err = os.Rename(fresh, d.o.Path)
	}
	if err != nil {
		return fmt.Errorf("keep approvals: %w", err)
	}
	folder, err := os.Open(filepath.Dir(d.o.Path))
	if err != nil {
		return fmt.Errorf("keep approvals: %w", err)
	}
	defer folder.Close()
	return folder.Sync()
}

// list returns what is pending, the oldest first. The caller holds the mutex.
func (d *Desk) list() []*Pending {
	all := make([]*Pending, 0, len(d.pending))
	for _, p := range d.pending {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Pending) int {
		if c := a.Asked.Compare(b.Asked); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// Pending returns the open questions, the oldest first.
func (d *Desk) Pending() []Pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unanswered()
}

// Open is [Desk.Pending], and a channel that is closed when that may have changed.
func (d *Desk) Open() (questions []Pending, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	questions = d.unanswered()
	if d.turned == nil {
		d.turned = make(chan struct{})
	}
	return questions, d.turned
}

// turn wakes those who wait for a change of the open questions. The caller holds the mutex.
func (d *Desk) turn() {
	if d.turned != nil {
		close(d.turned)
		d.turned = nil
	}
}

// unanswered lists the open questions, the oldest first. The caller holds the mutex.
func (d *Desk) unanswered() []Pending {
	d.expire()
	var open []Pending
	for _, p := range d.list() {
		if p.By == "" {
			open = append(open, *p)
		}
	}
	return open
}

// remove ends a question. The caller holds the mutex.
func (d *Desk) remove(id string) {
	if d.pending[id] != nil {
		delete(d.pending, id)
		d.turn()
	}
}

// expire drops what nobody answered in time and what no longer stands. An end that is further away than it could be was
// written under a clock that has been set back since, and counts as over. The caller holds the mutex.
func (d *Desk) expire() {
	now := d.o.Now()
	for id, p := range d.pending {
		over := !now.Before(p.Until) || p.Until.Sub(now) > d.o.Wait
		if over && d.verdicts[id] == nil {
			d.remove(id)
		}
	}
	d.standing = slices.DeleteFunc(d.standing, func(s standing) bool { return !now.Before(s.Until) })
}

// Ask returns a person's verdict on q. It waits for one until the question's time is over, which is a no, or until ctx is
// done, which leaves the question open: whoever asks again for the same request and definition finds it, and its answer. The
// error is [ErrTooMany], an *[UnaskedError], ctx's cause, or that the question could not be kept.
func (d *Desk) Ask(ctx context.Context, q Question) (Verdict, error) {
	p, answer, err := d.open(q)
	if err != nil || answer.By != "" {
		return answer, err
	}
	prompting, answered := context.WithCancel(ctx)
	var prompts sync.WaitGroup
	for by, prompt := range d.o.Prompters {
		prompts.Go(func() {
			prompt(prompting, p, func(approve bool) { _ = d.Decide(p.ID, approve, by) })
		})
	}
	defer prompts.Wait()
	defer answered()
	timer := time.NewTimer(p.Until.Sub(d.o.Now()))
	defer timer.Stop()
	d.mu.Lock()
	word := d.verdicts[p.ID]
	d.mu.Unlock()
	select {
	case v := <-word:
		return v, d.close(p.ID, v, q)
	case <-timer.C:
		return d.expired(p.ID, word, q)
	case <-ctx.Done():
		return Verdict{}, errors.Join(context.Cause(ctx), d.leave(p.ID, word))
	}
}

// expired ends a question whose time is over. An answer that came before counts; a later one finds no question.
func (d *Desk) expired(id string, word <-chan Verdict, q Question) (Verdict, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := Verdict{By: "nobody", Reason: "no person approved it within " + d.o.Wait.String()}
	select {
	case v = <-word:
	default:
	}
	return v, d.settle(id, v, q)
}

// leave lets the question wait for whoever asks again. A word that came in the same moment is not lost.
func (d *Desk) leave(id string, word <-chan Verdict) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.verdicts, id)
	delete(d.decided, id)
	select {
	case v := <-word:
		return d.keep(id, v)
	default:
		return nil
	}
}

// keep records a word for which nobody waits: the bridge will ask again. A no needs no memory, because asking again asks a
// person again. The caller holds the mutex.
func (d *Desk) keep(id string, v Verdict) error {
	p := d.pending[id]
	switch {
	case p == nil:
		return nil
	case v.Approved:
		d.answered(p.Action, true)
		p.By, p.Until = v.By, d.o.Now().Add(d.o.Wait).UTC()
		d.turn()
	default:
		d.answered(p.Action, false)
		d.remove(id)
	}
	return d.save()
}

// Known is what [Desk.Ask] would say without asking anybody: an answer that was given before, why nobody would be asked, or the
// zero verdict.
func (d *Desk) Known(q Question) (Verdict, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, v, err := d.find(q)
	return v, err
}

// find returns the open question for the same request and definition that nobody waits for, or nil, or an answer that was given
// before, or why no further question can be opened. The caller holds the mutex.
func (d *Desk) find(q Question) (*Pending, Verdict, error) {
	d.expire()
	if d.stands(q) {
		return nil, Verdict{Approved: true, By: "earlier"}, nil
	}
	for id, p := range d.pending {
		switch {
		case p.Request != q.Request || d.verdicts[id] != nil:
		case p.Definition != q.Definition:
			// What was shown is not what would run.
			d.remove(id)
		case p.By != "":
			v := Verdict{Approved: true, By: p.By}
			return nil, v, d.settle(id, v, q)
		default:
			return p, Verdict{}, nil
		}
	}
	if len(d.pending) >= maxOpen {
		return nil, Verdict{}, ErrTooMany
	}
	return nil, Verdict{}, d.unasked(q.Action, d.o.Now())
}

// open finds or makes the question, or finds its answer.
func (d *Desk) open(q Question) (Pending, Verdict, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, v, err := d.find(q)
	if err != nil || v.By != "" {
		return Pending{}, v, err
	}
	if p == nil {
		now := d.o.Now()
		p = &Pending{ID: "apr_" + strings.ToLower(rand.Text()[:8]), Question: q, Asked: now.UTC(), Until: now.Add(d.o.Wait).UTC()}
		d.pending[p.ID] = p
		if err := d.save(); err != nil {
			d.remove(p.ID)
			return Pending{}, Verdict{}, err
		}
		d.turn()
		d.asked[q.Action] = append(d.asked[q.Action], now)
	}
	d.verdicts[p.ID] = make(chan Verdict, 1)
	return *p, Verdict{}, nil
}

// Withdraw ends the questions of a request that somebody answered elsewhere. Here that is neither a yes nor a no.
func (d *Desk) Withdraw(request string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, p := range d.pending {
		if p.Request != request {
			continue
		}
		d.remove(id)
		if word := d.verdicts[id]; word != nil {
			select {
			case word <- Verdict{By: "elsewhere", Reason: "it was answered elsewhere"}:
			default: // a person was faster here, and whoever waits for it wants it no more
			}
		}
	}
}

// Decide is a person's word on an open question; by names the door. The error is [ErrUnknown], or that the word could not
// be kept.
func (d *Desk) Decide(id string, approve bool, by string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire()
	p := d.pending[id]
	if p == nil || p.By != "" || d.decided[id] {
		return ErrUnknown
	}
	v := Verdict{Approved: approve, By: by}
	if !approve {
		v.Reason = "a person denied it"
	}
	if word := d.verdicts[id]; word != nil {
		select {
		case word <- v:
			d.decided[id] = true // the word may be taken before the question is ended
			return nil
		default:
			return ErrUnknown
		}
	}
	return d.keep(id, v)
}

func (d *Desk) close(id string, v Verdict, q Question) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settle(id, v, q)
}

// settle ends a question. A yes to one that [Desk.DenyAll] has ended does not stand. The caller holds the mutex.
func (d *Desk) settle(id string, v Verdict, q Question) error {
	asked := d.pending[id] != nil
	if asked {
		d.answered(q.Action, v.Approved)
	}
	d.remove(id)
	delete(d.verdicts, id)
	delete(d.decided, id)
	if v.Approved && q.Once > 0 && asked {
		d.stand(q)
	}
	return d.save()
}

// stand lets a yes to q last. The caller holds the mutex.
func (d *Desk) stand(q Question) {
	d.standing = append(d.standing, standing{Action: q.Action, Definition: q.Definition, Until: d.o.Now().Add(q.Once).UTC()})
}

// stands reports whether a yes to q still lasts. The caller holds the mutex.
func (d *Desk) stands(q Question) bool {
	return q.Once > 0 && slices.ContainsFunc(d.standing, func(s standing) bool {
		// The period is part of the definition. A yes that has longer to go was given under a clock that was set back since.
		left := s.Until.Sub(d.o.Now())
		return s.Action == q.Action && s.Definition == q.Definition && left > 0 && left <= q.Once
	})
}

// Stand keeps a yes to q that was given elsewhere, if it is one that lasts. A word that is repeated does not make it last longer.
func (d *Desk) Stand(q Question) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.Once == 0 || d.stands(q) {
		return nil
	}
	d.expire()
	d.stand(q)
	return d.save()
}

// Stands reports whether a yes to q was given before and still lasts.
func (d *Desk) Stands(q Question) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stands(q)
}

// DenyAll answers every open question with no, and forgets every yes that stands or that nobody has come for yet. It forgets the
// noes, too: afterwards a person is asked again.
func (d *Desk) DenyAll(by string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.pending {
		if word := d.verdicts[id]; word != nil {
			select {
			case word <- Verdict{By: by, Reason: "a person denied it"}:
			default: // a person was faster; whoever waits for it is refused by the caller's own switch
			}
		}
	}
	clear(d.pending)
	d.turn()
	d.standing, d.noes = nil, nil
	return d.save()
}
