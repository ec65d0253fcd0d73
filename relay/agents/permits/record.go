package permits

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"drawbridge/internal/linelog"
	"drawbridge/internal/trust"
	"drawbridge/relay/wire"
)

// FileName is the name of the record of questions in the relay's state folder.
const FileName = "relay.questions"

const (
	bookHeader = "drawbridge questions 1"
	// maxLine bounds a record: the arguments as JSON in JSON, and the rest of the question.
	maxLine = 4*MaxArguments + 6*(maxTitle+maxPathBytes) + 16<<10
)

// State says how far a question has come.
type State string

// The states. Each change is on the disk before anything follows from it.
const (
	// Open waits for a person.
	Open State = "open"
	// Yes and No are answers that no call has got yet.
	Yes State = "yes"
	No  State = "no"
	// Given means that a call got the answer. Its turn has not ended in order.
	Given State = "given"
	// Over means that nothing follows from the question any more.
	Over State = "over"
)

// Known reports whether s is one of the states.
func (s State) known() bool { return s == Open || s == Yes || s == No || s == Given || s == Over }

// entry is a question as it is kept.
type entry struct {
	ID      string `json:"id"`
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
	Turn    string `json:"turn,omitempty"`
	Dir     string `json:"dir,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Tool    string `json:"tool,omitempty"`
	// Arguments are canonical.
	Arguments string    `json:"arguments,omitempty"`
	Paths     []string  `json:"paths,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Hash      string    `json:"hash,omitempty"`
	Asked     time.Time `json:"asked,omitzero"`

	State State `json:"state"`
	// Allowed and By are the answer and its door; At is when the state changed last.
	Allowed bool      `json:"allowed,omitempty"`
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// Told is the state that a turn has told the agent, "" for none.
	Told State `json:"told,omitempty"`
	// Heard is the state that the bridge has confirmed, "" for none.
	Heard wire.PermissionState `json:"heard,omitempty"`

	// waiter gets the answer while a call of a living process waits for it, else nil.
	waiter chan struct{}
}

// change is the line of a later state.
func (e entry) change() entry {
	return entry{ID: e.ID, Turn: e.Turn, State: e.State, Allowed: e.Allowed, By: e.By, At: e.At, Told: e.Told, Heard: e.Heard}
}

// journal keeps entries in a file. The caller of each method holds the book's mutex.
type journal struct {
	log     *linelog.Log
	entries map[string]*entry
	order   []string
}

func openJournal(state string, now time.Time) (*journal, error) {
	path := filepath.Join(state, FileName)
	j := &journal{entries: map[string]*entry{}}
	err := trust.Place(path, "state")
	if err == nil {
		j.log, err = linelog.Open(linelog.Options{Path: path, Header: bookHeader, MaxRecord: maxLine, Keep: j.keep, Needed: j.needed})
	}
	if err == nil {
		j.forget(now)
		if err = j.log.Rewrite(); err != nil {
			err = errors.Join(err, j.log.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the record of questions %s: %w (to go on, move the file away; the open questions are lost then)", path, err)
	}
	return j, nil
}

// keep reads one line of the file.
func (j *journal) keep(line []byte) error {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil || !wire.ValidRequestID(e.ID) || !e.State.known() {
		return errors.New("it does not hold a question")
	}
	old := j.entries[e.ID]
	switch {
	case old == nil && e.Hash == "":
		return errors.New("it changes a question that was never asked")
	case old == nil:
		j.entries[e.ID] = &e
		j.order = append(j.order, e.ID)
	default:
		old.State, old.Allowed, old.By, old.At, old.Told, old.Turn, old.Heard = e.State, e.Allowed, e.By, e.At, e.Told, e.Turn, e.Heard
	}
	return nil
}

func (j *journal) needed(emit func([]byte) error) error {
	for _, id := range j.order {
		line, err := json.Marshal(j.entries[id])
		if err == nil {
			err = emit(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add puts a new question on the disk.
func (j *journal) add(e *entry) error {
	if err := j.append(*e); err != nil {
		return err
	}
	j.entries[e.ID] = e
	j.order = append(j.order, e.ID)
	return nil
}

// set puts a change on the disk, and makes it.
func (j *journal) set(e *entry, change func(*entry)) error {
	next := *e
	change(&next)
	if err := j.append(next.change()); err != nil {
		return err
	}
	change(e)
	return nil
}

func (j *journal) append(e entry) error {
	line, err := json.Marshal(e)
	if err == nil {
		err = j.log.Append(line)
	}
	if err == nil {
		err = j.log.Tidy()
	}
	return err
}

// forget drops questions from which nothing follows any more.
func (j *journal) forget(now time.Time) {
	kept := j.order[:0]
	for _, id := range j.order {
		e := j.entries[id]
		age := now.Sub(e.At).Abs()
		if e.State == Over && (age > keepUnheard || age > keepOver && e.Heard == e.announced().State) {
			delete(j.entries, id)
			continue
		}
		kept = append(kept, id)
	}
	j.order = kept
}
