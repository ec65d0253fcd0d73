package turns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"drawbridge/internal/clip"
	"drawbridge/internal/linelog"
	"drawbridge/internal/trust"
	"drawbridge/relay/wire"
)

const (
	recordHeader = `{"journal":"drawbridge-relay-session","version":1}`
	// maxLine bounds a line of a record in bytes: a reply as the wire takes it, and room for the rest.
	maxLine = wire.MaxBody + 64<<10
)

// step is what a line of a session's record says.
type step string

const (
	// stepBegin is the first line. It says which session this is and does not change.
	stepBegin step = "session"
	// stepNamed keeps the agent's own id of the session; an empty one means that the agent has lost it.
	stepNamed step = "named"
	// stepSaid is on the disk before the agent gets a turn.
	stepSaid step = "said"
	// stepWithdrawn means that the agent does not have a turn that was said: its process ended first.
	stepWithdrawn step = "withdrawn"
	// stepLeft means that the relay ended in order in the middle of the turn. It does not say whether the agent has the turn.
	stepLeft step = "left"
	// stepAnswered keeps the end of a turn as the agent gave it, before the relay looks at the work.
	stepAnswered step = "answered"
	// stepEnded keeps the whole end. It is the last line of a turn.
	stepEnded step = "ended"
	// stepClosed means that the relay ended the agent's process in order, so that the agent had time to save the session.
	stepClosed step = "closed"
	// stepOpened means that a process of the agent has the session open.
	stepOpened step = "opened"
	// stepLate keeps words that the agent said after the end of a turn.
	stepLate step = "late"
)

// line is one line of a session's record.
type line struct {
	Step step      `json:"step"`
	At   time.Time `json:"at"`
	// Session, Agent and Home belong to stepBegin.
	Session string     `json:"session,omitempty"`
	Agent   string     `json:"agent,omitempty"`
	Home    *wire.Home `json:"home,omitempty"`
	// Name belongs to stepNamed.
	Name string `json:"name,omitempty"`
	// Turn belongs to the steps of a turn.
	Turn string `json:"turn,omitempty"`
	// Marker and Body are the turn's, and Needle the words that show in a replay that the agent has it.
	Marker string `json:"marker,omitempty"`
	Body   string `json:"body,omitempty"`
	Needle string `json:"needle,omitempty"`
	// Since is the commit at which the turn began.
	Since string          `json:"since,omitempty"`
	End   *wire.TurnEnded `json:"end,omitempty"`
	// Head is the commit at which the turn ended.
	Head string `json:"head,omitempty"`
	// Late belongs to stepLate.
	Late string `json:"late,omitempty"`
	// Noisy and Noticed belong to stepAnswered: the evidence tells of noise in the agent's output, and all that it tells beside the work.
	Noisy   bool     `json:"noisy,omitempty"`
	Noticed []string `json:"noticed,omitempty"`
	// Total belongs to stepAnswered, too: what the session took so far, of that which the agent counts so.
	Total *wire.Spent `json:"total,omitempty"`
}

// check reports what no relay would write.
func (l line) check() error {
	switch l.Step {
	case stepBegin:
		if !wire.ValidRequestID(l.Session) || !wire.ValidAction(l.Agent) || l.Home == nil || l.Home.Check() != nil || *l.Home == (wire.Home{}) {
			return errors.New("its session is malformed")
		}
		return nil
	case stepNamed, stepOpened, stepClosed, stepLate:
		return nil
	case stepSaid, stepLeft, stepWithdrawn, stepAnswered, stepEnded:
	default:
		return errors.New("its step is unknown")
	}
	ends := l.Step == stepAnswered || l.Step == stepEnded
	switch {
	case !wire.ValidRequestID(l.Turn):
		return errors.New("its turn is malformed")
	case ends != (l.End != nil):
		return errors.New("its step and its end do not match")
	case ends && (!l.End.Valid(l.Turn) || l.End.Cause == ""):
		return errors.New("its end is malformed")
	case l.Step == stepSaid && (l.Marker == "" || l.Needle == ""):
		return errors.New("its turn has no marker")
	}
	return nil
}

// past is what the record says of a turn, without the text of its end.
type past struct {
	id, marker, body, needle, since string
	// last is the last step of the turn.
	last step
	// said is true when the agent may have got the turn. tries counts how often it was said, or the agent was to continue it, and left how
	// often the relay ended in order meanwhile.
	said        bool
	tries, left int
	cause       wire.TurnCause
}

// answered reports whether the turn's answer is in the record.
func (p *past) answered() bool { return p != nil && p.cause == wire.TurnAnswered }

// broke is how often the turn broke off, the last time among it. A relay that ends in order breaks nothing.
func (p *past) broke() int { return p.tries - p.left }

// over reports whether the turn has an end.
func (p *past) over() bool { return p != nil && p.last == stepEnded }

// record is the record of one session, open for writing. It is not safe for concurrent use.
type record struct {
	path string
	log  *linelog.Log
	now  func() time.Time

	session, agent string
	home           wire.Home
	// name is the agent's own id of the session, "" before the first process and after the agent lost it.
	name string
	// torn is true when a process of the agent had the session open and did not end in order.
	torn  bool
	turns map[string]*past
	// order are the ids of turns in the order in which they were first named.
	order []string
	// head is the commit at which the last turn ended.
	head string
	// late is what the agent said too late and shall hear of, and fresh is the part of it that no evidence told.
	late, fresh string
	// total is what the session took so far, as the agent said last.
	total wire.Spent
	// noisy is true once the evidence of a turn told of noise in the agent's output.
	noisy bool
	// lines counts the lines that were taken in. One that the disk refused may stand behind them.
	lines int
}

// openRecord opens the record of a session at path, or makes an empty one. Another relay with the file, and damage but for a line that a
// crash cut off, are errors that say what to do.
func openRecord(path string, now func() time.Time) (*record, error) {
	if err := trust.Place(path, "session"); err != nil {
		return nil, fmt.Errorf("open the record of a session %s: %w", path, err)
	}
	r := &record{path: path, now: now, turns: map[string]*past{}}
	var err error
	if r.log, err = linelog.Open(linelog.Options{Path: path, Header: recordHeader, MaxRecord: maxLine, Keep: r.keep, Needed: r.needed}); err != nil {
		return nil, fmt.Errorf("open the record of a session %s: %w", path, unusable(err))
	}
	if err := r.log.Rewrite(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the record of a session %s: %w", path, err), r.log.Close())
	}
	return r, nil
}

func unusable(err error) error {
	var damage *linelog.DamageError
	switch {
	case errors.Is(err, linelog.ErrInUse):
		return trust.Because("is in use by another relay", "stop the other relay, or give this relay a state folder of its own")
	case errors.Is(err, linelog.ErrForeign):
		return trust.Because("is not a record of this version of drawbridge-relay", "move it away; the agent then begins a new session")
	case errors.As(err, &damage):
		return trust.Because(fmt.Sprintf("is damaged in line %d: %v", damage.Line, damage.Cause),
			"restore it, or move it away; the agent then begins a new session, and the bridge cannot know what the agent got")
	}
	return err
}

// keep takes in one line of the file.
func (r *record) keep(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return errors.New("it does not hold a record")
	}
	return r.apply(l)
}

// apply takes in one line. Its error means that no relay would have written this line here.
func (r *record) apply(l line) error {
	if err := l.check(); err != nil {
		return err
	}
	if begins := l.Step == stepBegin; begins && !r.empty() || !begins && r.session == "" {
		return errors.New("it is not the first line of a session, or the session begins twice")
	}
	r.lines++
	switch l.Step {
	case stepBegin:
		r.session, r.agent, r.home = l.Session, l.Agent, *l.Home
	case stepNamed:
		if l.Name != r.name {
			r.total = wire.Spent{}
		}
		r.name = l.Name
	case stepOpened:
		r.torn = true
	case stepClosed:
		r.torn = false
	case stepLate:
		r.belated(l.Late)
	default:
		return r.applyTurn(l)
	}
	return nil
}

func (r *record) applyTurn(l line) error {
	p := r.turns[l.Turn]
	if p.over() {
		return errors.New("its turn has ended before")
	}
	if p == nil {
		p = &past{id: l.Turn}
		r.turns[l.Turn] = p
		r.order = append(r.order, l.Turn)
	}
	p.last = l.Step
	switch l.Step {
	case stepSaid:
		p.marker, p.body, p.needle, p.since, p.said = l.Marker, l.Body, l.Needle, l.Since, true
		p.tries++
	case stepLeft:
		p.left++
	case stepWithdrawn:
		p.said = false
	default:
		p.cause = l.End.Cause
		if l.Marker != "" {
			p.marker, p.body = l.Marker, l.Body
		}
		if l.Head != "" {
			r.head = l.Head
		}
		r.noisy = r.noisy || l.Noisy
	}
	if l.Step == stepAnswered {
		r.fresh, r.total = "", later(r.total, l.Total)
		if p.answered() { // the agent has read the turn, and what was told in it
			r.late = ""
		}
	}
	return nil
}

// maxLate is how much of words that came late an agent reads again, in bytes.
const maxLate = 4 << 10

// belated takes in words that came late.
func (r *record) belated(words string) {
	r.late, r.fresh = joined(r.late, words), joined(r.fresh, words)
}

// joined adds words that came late to others.
func joined(late, more string) string { return clip.Text(strings.TrimSpace(late+"\n"+more), maxLate) }

// needed gives what a new file has to hold: all that the present one does. The texts of replies are not kept in memory.
func (r *record) needed(emit func([]byte) error) error {
	file, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	left := r.lines
	return linelog.Read(file, linelog.Options{Header: recordHeader, MaxRecord: maxLine, Keep: func(text []byte) error {
		if left--; left < 0 {
			return nil
		}
		return emit(text)
	}})
}

// add makes a line durable and takes it in. After an error nothing may follow from it.
func (r *record) add(l line) error {
	l.At = r.now().UTC()
	if err := l.check(); err != nil {
		return fmt.Errorf("record of session %q: %w", r.session, err)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("record of session %q: %w", r.session, err)
	}
	if err := r.log.Append(text); err != nil {
		return fmt.Errorf("record of session %q: %w: %w", r.session, errUnrecorded, err)
	}
	return r.apply(l)
}

// errUnrecorded means that the disk did not take a line.
var errUnrecorded = errors.New("the disk did not accept the record")

// fits reports why a turn cannot be one of this session.
func (r *record) fits(t wire.Turn) error {
	switch {
	case r.empty():
		return nil
	case r.agent != t.Agent:
		return trust.Because(fmt.Sprintf("session %q belongs to agent %q of relay.yaml", t.Session, r.agent), "begin a new session for another agent")
	}
	was, is := r.home, t.Home
	was.Ref, is.Ref = "", ""
	if is != (wire.Home{}) && is != was {
		return trust.Because(fmt.Sprintf("session %q works in another workspace", t.Session), "begin a new session for another workspace")
	}
	return nil
}

// empty reports whether nothing came of the session yet: a turn that was refused leaves it open where the next one works.
func (r *record) empty() bool { return len(r.turns) == 0 && r.name == "" && !r.torn }

// begin writes the first line where there is none. That of an empty session gives way to another.
func (r *record) begin(t wire.Turn) error {
	home := t.Home
	if r.session != "" && (!r.empty() || home == (wire.Home{}) || r.agent == t.Agent && r.home == home) {
		return nil
	}
	return r.add(line{Step: stepBegin, Session: t.Session, Agent: t.Agent, Home: &home})
}

// end reads the end of a turn from the file.
func (r *record) end(id string) (*wire.TurnEnded, error) {
	end, _, err := r.ending(id)
	return end, err
}

// ending reads the end of a turn from the file, and what its evidence tells beside the work.
func (r *record) ending(id string) (found *wire.TurnEnded, noticed []string, err error) {
	err = r.needed(func(text []byte) error {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Turn == id && l.End != nil {
			found, noticed = l.End, l.Noticed
		}
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("the record of session %q has no end of turn %q", r.session, id)
	}
	return found, noticed, err
}

// repeated is the newest other turn that has the marker, nil for none.
func (r *record) repeated(id, marker string) *past {
	for i := len(r.order) - 1; i >= 0; i-- {
		if p := r.turns[r.order[i]]; p.id != id && p.marker == marker && p.said {
			return p
		}
	}
	return nil
}

// lastAnswered is the newest turn that was said and answered, nil for none.
func (r *record) lastAnswered() *past {
	for i := len(r.order) - 1; i >= 0; i-- {
		if p := r.turns[r.order[i]]; p.answered() && p.said {
			return p
		}
	}
	return nil
}

// lastSaid are words of the last message that the agent surely got, "" for none: of a turn that it has answered.
func (r *record) lastSaid() string {
	if p := r.lastAnswered(); p != nil {
		return p.needle
	}
	return ""
}

func (r *record) close() error { return r.log.Close() }
