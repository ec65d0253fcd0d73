package runner

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"drawbridge/internal/failpoint"
	"drawbridge/internal/linelog"
	"drawbridge/internal/trust"
	"drawbridge/relay/wire"
)

const (
	// interruptedByEnd and interruptedByDisk are why nobody knows what an action came to.
	interruptedByEnd  = "the relay ended while this action ran; it may have run"
	interruptedByDisk = "the relay could not record the result of this action; it may have run"
	// interruptedByBackup is for what another record than the journal says.
	interruptedByBackup = "the relay's audit log shows that this action was started, but its journal lacks the request, as after a restored backup; the relay does not run it again"

	journalHeader = `{"journal":"drawbridge-relay","version":1}`
	// maxRecord bounds a line of the journal in bytes: an answer as the wire takes it, and room for the rest.
	maxRecord = wire.MaxBody + wire.MaxAnswer
)

// recordState is what a line of the journal says of a request id.
type recordState string

const (
	// recordAccepted is a claim that waits for a person; nothing of it has begun.
	recordAccepted recordState = "accepted"
	// recordClaimed is a claim of which the action may have begun.
	recordClaimed   recordState = "claimed"
	recordFinished  recordState = "finished"
	recordWithdrawn recordState = "withdrawn"
	// recordEpoch is about no request: it keeps the epoch of the last connection.
	recordEpoch recordState = "epoch"
)

// record is a line of the journal.
type record struct {
	State  recordState `json:"state"`
	ID     string      `json:"id"`
	Action string      `json:"action"`
	Body   string      `json:"body,omitempty"`
	At     time.Time   `json:"at"`
	// Started is set in the records of ends, when it differs from At.
	Started *time.Time   `json:"started,omitempty"`
	Answer  *wire.Answer `json:"answer,omitempty"`
	// Epoch is set in records of epochs, and only there.
	Epoch int64 `json:"epoch,omitempty"`
}

// check reports what no relay would write.
func (r record) check() error {
	ends := r.State == recordFinished
	if r.State == recordEpoch && r.ID == "" && r.Action == "" && r.Epoch > 0 && r.Epoch <= wire.MaxEpoch {
		return nil
	}
	switch {
	case r.Epoch != 0:
		return errors.New("its epoch is malformed")
	case !ends && r.State != recordClaimed && r.State != recordWithdrawn && r.State != recordAccepted:
		return errors.New("its state is unknown")
	case !wire.ValidRequestID(r.ID):
		return errors.New("its request id is malformed")
	case !wire.ValidAction(r.Action):
		return errors.New("its action is malformed")
	case len(r.Body) > 2*sha256.Size:
		return errors.New("its digest is malformed")
	case ends != (r.Answer != nil) || ends && !r.Answer.Status.Known():
		return errors.New("its state and its answer do not belong together")
	}
	return nil
}

func encodeRecord(r record) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("record request: %w", err)
	}
	return json.Marshal(r)
}

// FileJournal is a [Journal] that outlives the process: a claim is on the disk before Begin returns, a result before
// Finish returns (facts: relay, rule 8). What was claimed and never finished is answered with wire.StatusInterrupted by
// the next process and never runs again. It holds a day of ids and the output of the newest 256, in 8 MiB at most, as
// [Memory] does. Safe for concurrent use; only one process at a time can have a path open.
type FileJournal struct {
	memory *Memory
	// interrupted counts what the process before left unfinished.
	interrupted int

	// mu is held while something is written. Lookups need only the mutex of memory, so that no answer waits for a disk.
	mu  sync.Mutex
	log *linelog.Log
}

var _ Journal = (*FileJournal)(nil)

// OpenJournal opens the journal at path, or creates it (mode 0600), takes its lock, which is path with ".lock" added, and
// writes the file again with what is still needed. A last line that a crash cut off is dropped; any other damage, a file or
// folder that others can write, and a journal that another relay has open are errors that say what to do.
func OpenJournal(path string, now func() time.Time) (*FileJournal, error) {
	j, err := openJournal(path, now)
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	return j, nil
}

func openJournal(path string, now func() time.Time) (*FileJournal, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := trust.Place(path, "journal"); err != nil {
		return nil, err
	}
	j := &FileJournal{memory: NewMemory(now)}
	if j.log, err = linelog.Open(j.memory.lines(path)); err != nil {
		return nil, unusable(err)
	}
	j.interrupted = j.memory.interrupt()
	if err := j.log.Rewrite(); err != nil {
		return nil, errors.Join(err, j.log.Close())
	}
	return j, nil
}

// lines describes the file that holds m.
func (m *Memory) lines(path string) linelog.Options {
	return linelog.Options{
		Path: path, Header: journalHeader, MaxRecord: maxRecord,
		Keep: func(line []byte) error {
			var r record
			if err := json.Unmarshal(line, &r); err != nil {
				return errors.New("it does not hold a record")
			}
			return m.restore(r)
		},
		Needed: func(emit func([]byte) error) error {
			for _, r := range m.records() {
				line, err := encodeRecord(r)
				if err != nil {
					return err
				}
				if err := emit(line); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// unusable says what to do about a file that cannot be the journal.
func unusable(err error) error {
	var damage *linelog.DamageError
	switch {
	case errors.Is(err, linelog.ErrInUse):
		return trust.Because("is in use by another relay", "stop that one, or give this one a file of its own with journal: in relay.yaml")
	case errors.Is(err, linelog.ErrForeign):
		return trust.Because("is not a journal of this version of drawbridge-relay",
			"name another file with journal: in relay.yaml, or move this one away")
	case errors.As(err, &damage):
		return trust.Because(fmt.Sprintf("is damaged in line %d: %v", damage.Line, damage.Cause),
			"restore it, or move it away; even then the relay does not rerun requests that the audit log shows as started in the last 24 hours")
	}
	return err
}

// Begin is described at [Journal]. An error that is [ErrUnrecorded] says that the disk did not take the claim.
func (j *FileJournal) Begin(ctx context.Context, c Claim) (*wire.Answer, error) {
	answer, err := j.memory.Begin(ctx, c)
	if answer != nil || err != nil {
		return answer, err
	}
	state := recordClaimed
	if c.Later {
		state = recordAccepted
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.append(record{State: state, ID: c.ID, Action: c.Action, Body: c.Body, At: j.now()}); err != nil {
		// The claim is ours and open, so that this cannot fail.
		_ = j.memory.Withdraw(c.ID)
		return nil, fmt.Errorf("%w: %w", ErrUnrecorded, err)
	}
	return nil, nil
}

// Start is described at [Journal]. After an error nothing may run; the id stays claimed, for Withdraw.
func (j *FileJournal) Start(id string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, err := j.memory.claimed(id)
	if err != nil {
		return err
	}
	if err := j.append(record{State: recordClaimed, ID: id, Action: e.action, Body: e.body, At: j.now()}); err != nil {
		return fmt.Errorf("%w: %w", ErrUnrecorded, err)
	}
	return j.memory.Start(id)
}

// Starts is described at [Memory.Starts].
func (j *FileJournal) Starts() []time.Time { return j.memory.Starts() }

// Finish is described at [Journal]. After an error the id stays claimed: asking again gives wire.StatusInterrupted, in
// this process and in the next one.
func (j *FileJournal) Finish(id string, answer wire.Answer) error {
	return j.end(id, record{State: recordFinished, Answer: &answer}, func() error { return j.memory.Finish(id, answer) })
}

// Withdraw is described at [Journal]. After an error the id stays claimed, as with Finish.
func (j *FileJournal) Withdraw(id string) error {
	return j.end(id, record{State: recordWithdrawn}, func() error { return j.memory.Withdraw(id) })
}

// Epoch returns the last epoch that was kept, 0 for none.
func (j *FileJournal) Epoch() int64 { return j.memory.Epoch() }

// KeepEpoch puts an epoch on the disk. It stands in the journal, so that a person who copies, restores or removes the journal
// copies, restores or removes the epoch.
func (j *FileJournal) KeepEpoch(epoch int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch <= j.Epoch() {
		return nil
	}
	failpoint.Here("relay.epoch.before")
	if err := j.append(record{State: recordEpoch, Epoch: epoch, At: j.now()}); err != nil {
		return fmt.Errorf("keep epoch: %w", err)
	}
	failpoint.Here("relay.epoch.after")
	j.memory.setEpoch(epoch)
	_ = j.log.Tidy() // as at the end of a claim
	return nil
}

func (m *Memory) setEpoch(epoch int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = max(m.epoch, epoch)
}

// Lookup is described at [Memory.Lookup].
func (j *FileJournal) Lookup(id, action, body string) (known bool, answer *wire.Answer) {
	return j.memory.Lookup(id, action, body)
}

// Recorded is described at [Memory.Recorded].
func (j *FileJournal) Recorded(id, action, body string) *wire.Answer {
	return j.memory.Recorded(id, action, body)
}

// knows reports whether the journal has an id, in whatever state.
func (j *FileJournal) knows(id string) bool {
	j.memory.mu.Lock()
	defer j.memory.mu.Unlock()
	return j.memory.entries[id] != nil
}

// recall takes in ids that were started although the journal does not know them. They are answered as interrupted, for a day
// from now, because nobody knows here what they came to.
func (j *FileJournal) recall(started map[string]record) error {
	if len(started) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.memory.recall(started)
	return j.log.Rewrite()
}

func (m *Memory) recall(started map[string]record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(started)) {
		r := started[id]
		e := newEntry(Claim{Action: r.Action, Body: r.Body}, r.At)
		m.entries[id] = e
		m.end(id, e, wire.Interrupted(e.action, interruptedByBackup), m.now())
	}
}

// Close lets another relay have the journal. What is claimed stays so.
func (j *FileJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.Close()
}

func (j *FileJournal) now() time.Time { return j.memory.now().UTC() }

// end makes the end of a claim durable and only then known.
func (j *FileJournal) end(id string, r record, known func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, err := j.memory.claimed(id)
	if err != nil {
		return err
	}
	r.ID, r.Action, r.Body, r.At = id, e.action, e.body, j.now()
	if err := j.append(r); err != nil {
		return errors.Join(err, j.memory.Finish(id, wire.Interrupted(e.action, interruptedByDisk)))
	}
	err = known()
	// This comes after memory knows, because the new file is made from memory. Nothing is lost when it fails, and a disk
	// that stays bad shows at the next claim.
	_ = j.log.Tidy()
	return err
}

// append makes a record durable. The caller holds the mutex.
func (j *FileJournal) append(r record) error {
	line, err := encodeRecord(r)
	if err != nil {
		return err
	}
	return j.log.Append(line)
}

// claimed returns what is known of an id that is claimed and not over.
func (m *Memory) claimed(id string) (entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.open(id)
	if err != nil {
		return entry{}, err
	}
	return *e, nil
}

// restore puts in what a file says, in the order of the file. An error means that no relay wrote such an order.
func (m *Memory) restore(r record) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.State == recordEpoch {
		m.setEpoch(r.Epoch)
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	// A clock that was ahead must not make an id stay forever.
	at := r.At
	if now := m.now(); at.After(now) {
		at = now
	}
	e := m.entries[r.ID]
	open := e != nil && e.answer == nil
	switch {
	case r.State == recordClaimed || r.State == recordAccepted:
		// An earlier claim is one that waited, or one that the disk took although it reported an error, so that nothing ran;
		// an earlier end was interrupted and might be run again, or was a day old, and the clock was set back since.
		if e != nil && !open {
			m.finished = slices.DeleteFunc(m.finished, func(id string) bool { return id == r.ID })
		}
		m.entries[r.ID] = newEntry(Claim{Action: r.Action, Body: r.Body, Later: r.State == recordAccepted}, at)
	case open && e.action != r.Action:
		return errors.New("its id is claimed for another action")
	case r.State == recordFinished && (open || e == nil):
		if e == nil {
			e = newEntry(Claim{Action: r.Action, Body: r.Body}, at)
			m.entries[r.ID] = e
		}
		if r.Started != nil && r.Started.Before(at) {
			e.started = *r.Started
		}
		m.end(r.ID, e, *r.Answer, at)
	case r.State == recordWithdrawn && open:
		delete(m.entries, r.ID)
	default:
		return errors.New("its id is not claimed")
	}
	return nil
}

// interrupt ends every open claim of a process that is gone and returns their number. They are kept for a day from now:
// whoever asked may have waited for the relay to come back.
func (m *Memory) interrupt() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost := m.openIDs()
	lost = slices.DeleteFunc(lost, func(id string) bool {
		// What waited for a person did not begin.
		waited := m.entries[id].started.IsZero()
		if waited {
			delete(m.entries, id)
		}
		return waited
	})
	for _, id := range lost {
		e := m.entries[id]
		m.end(id, e, wire.Interrupted(e.action, interruptedByEnd), m.now())
	}
	return len(lost)
}

// records returns everything that a new file has to hold, in the order in which restore needs it.
func (m *Memory) records() []record {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	all := make([]record, 0, len(m.entries)+1)
	if m.epoch > 0 {
		all = append(all, record{State: recordEpoch, Epoch: m.epoch, At: m.now().UTC()})
	}
	for _, id := range m.finished {
		e := m.entries[id]
		r := record{State: recordFinished, ID: id, Action: e.action, Body: e.body, At: e.at.UTC(), Answer: e.answer}
		if started := e.started.UTC(); !started.Equal(e.at) {
			r.Started = &started
		}
		all = append(all, r)
	}
	for _, id := range m.openIDs() {
		e := m.entries[id]
		state := recordClaimed
		if e.started.IsZero() {
			state = recordAccepted
		}
		all = append(all, record{State: state, ID: id, Action: e.action, Body: e.body, At: e.at.UTC()})
	}
	return all
}

// openIDs returns what is claimed and not over, the oldest first. The caller holds the mutex.
func (m *Memory) openIDs() []string {
	var ids []string
	for id, e := range m.entries {
		if e.answer == nil {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		if c := m.entries[a].at.Compare(m.entries[b].at); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return ids
}
