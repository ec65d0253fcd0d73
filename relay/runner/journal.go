package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"drawbridge/relay/wire"
)

// Errors of a [Journal].
var (
	// ErrOtherAction means that the request id stands for another action already.
	ErrOtherAction = errors.New("this request id was used for another action")
	// ErrOtherBody means that the request id stands for the same action in another request.
	ErrOtherBody = errors.New("this request id was used for another request")
	// ErrJournalFull means that no further id can be remembered, so nothing further may run.
	ErrJournalFull = errors.New("the relay's record of requests is full; try again later")
	// ErrUnrecorded means that the claim could not be made durable, so nothing ran and the id is free.
	ErrUnrecorded = errors.New("the relay cannot record requests now, so nothing runs")
)

// Claim is what a request id is claimed for.
type Claim struct {
	ID, Action string
	// Body is the hex SHA-256 of what may not change under one id.
	Body string
	// Later is true when the action does not start at once: somebody has to agree first. Until [Journal.Start] a crash leaves
	// the id free.
	Later bool
	// Rerun allows to claim an id again of which nobody knows whether it ran.
	Rerun bool
}

// Journal makes a request id run at most once. All methods are safe for concurrent use.
type Journal interface {
	// Begin claims an id. It returns nil when the caller is to run it, and then call Finish or Withdraw, or the recorded
	// answer. While another caller has it, Begin waits until ctx is done.
	Begin(ctx context.Context, c Claim) (*wire.Answer, error)
	// Start makes a claim for later one that has begun.
	Start(id string) error
	// Finish records what came of a claimed id. The answer may go out when Finish returned.
	Finish(id string, answer wire.Answer) error
	// Withdraw gives up a claimed id of which nothing ran, so that it may be asked for again.
	Withdraw(id string) error
	// Epoch is the last epoch of the relay's connection that KeepEpoch kept, 0 for none. A lower one changes nothing.
	Epoch() int64
	KeepEpoch(epoch int64) error
}

const (
	// rememberFor is how long an id cannot run again (facts: relay, rule 8).
	rememberFor = 24 * time.Hour
	// maxRemembered holds a day of the default 30 starts a minute.
	maxRemembered = 1 << 16
	// maxWithOutput is how many answers keep their output, and maxOutputKept how many bytes that may be in all; older ones keep the
	// rest.
	maxWithOutput = 256
	maxOutputKept = 8 << 20
)

// Memory is a Journal that lasts as long as the process. A relay that a bridge relies on needs a [FileJournal], which
// keeps what it knows in a Memory too.
type Memory struct {
	now func() time.Time

	mu      sync.Mutex
	entries map[string]*entry
	// finished holds the ids in the order of their end, the oldest first.
	finished []string
	// epoch is the last one that was kept.
	epoch int64
}

type entry struct {
	action, body string
	// started is when it may have begun to run, the zero time before.
	started time.Time
	// over is closed when the entry has an answer or was withdrawn.
	over   chan struct{}
	answer *wire.Answer
	// at is when it was claimed, and later when it ended.
	at time.Time
}

// NewMemory returns an empty Memory that takes the time from now.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, entries: map[string]*entry{}}
}

// Epoch is described at [Journal].
func (m *Memory) Epoch() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// KeepEpoch is described at [Journal].
func (m *Memory) KeepEpoch(epoch int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch = max(m.epoch, epoch)
	return nil
}

// Begin is described at [Journal].
func (m *Memory) Begin(ctx context.Context, c Claim) (*wire.Answer, error) {
	for {
		earlier, err := m.claim(c)
		if err != nil || earlier == nil {
			return nil, err
		}
		select {
		case <-earlier.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if answer := m.recorded(earlier); answer != nil {
			return answer, nil
		}
		// It was withdrawn, so that the next claim may be ours.
	}
}

// claim returns nil when the id is the caller's now, or the entry of whoever has it.
func (m *Memory) claim(c Claim) (*entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	earlier := m.entries[c.ID]
	switch {
	case earlier == nil && len(m.entries) >= maxRemembered:
		return nil, ErrJournalFull
	case earlier == nil:
		m.entries[c.ID] = newEntry(c, m.now())
		return nil, nil
	case earlier.action != c.Action:
		return nil, ErrOtherAction
	case earlier.body != c.Body:
		return nil, ErrOtherBody
	case c.Rerun && earlier.answer != nil && earlier.answer.Status == wire.StatusInterrupted:
		m.finished = slices.DeleteFunc(m.finished, func(id string) bool { return id == c.ID })
		m.entries[c.ID] = newEntry(c, m.now())
		return nil, nil
	default:
		return earlier, nil
	}
}

// Start is described at [Journal].
func (m *Memory) Start(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.open(id)
	if err == nil {
		e.started = m.now()
	}
	return err
}

// Starts returns when actions started within the last 24 hours, the oldest first.
func (m *Memory) Starts() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var starts []time.Time
	for _, e := range m.entries {
		if !e.started.IsZero() && m.now().Sub(e.started) < rememberFor {
			starts = append(starts, e.started)
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	return starts
}

func (m *Memory) recorded(e *entry) *wire.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.answer
}

// forget drops what is old enough. The caller holds the mutex.
func (m *Memory) forget() {
	for len(m.finished) > 0 {
		oldest := m.entries[m.finished[0]]
		if m.now().Sub(oldest.at) < rememberFor {
			return
		}
		delete(m.entries, m.finished[0])
		m.finished = m.finished[1:]
	}
}

// Finish is described at [Journal].
func (m *Memory) Finish(id string, answer wire.Answer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.open(id)
	if err != nil {
		return err
	}
	m.end(id, e, answer, m.now())
	return nil
}

// end gives an entry its answer, and takes the output from those that are no longer among the newest. The caller holds
// the mutex.
func (m *Memory) end(id string, e *entry, answer wire.Answer, at time.Time) {
	e.answer, e.at = &answer, at
	m.finished = append(m.finished, id)
	kept := 0
	for n, id := range slices.Backward(m.finished) {
		old := m.entries[id]
		size := len(old.answer.Stdout) + len(old.answer.Stderr)
		kept += size
		newer := len(m.finished) - 1 - n
		if size > 0 && (newer >= maxWithOutput || kept > maxOutputKept) {
			slim := withoutOutput(*old.answer)
			old.answer = &slim
		}
		if newer >= maxWithOutput {
			break // what is older lost its output before
		}
	}
	close(e.over)
}

// Withdraw is described at [Journal].
func (m *Memory) Withdraw(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.open(id)
	if err != nil {
		return err
	}
	delete(m.entries, id)
	close(e.over)
	return nil
}

// open returns the entry of an id that is claimed and not over. The caller holds the mutex.
func (m *Memory) open(id string) (*entry, error) {
	e := m.entries[id]
	if e == nil || e.answer != nil {
		return nil, errors.New("the request id is not open")
	}
	return e, nil
}

// Lookup reports whether an id of this action and body is known, with its answer once it is over. It claims nothing.
func (m *Memory) Lookup(id, action, body string) (known bool, answer *wire.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	if e := m.entries[id]; e != nil && e.action == action && e.body == body {
		return true, e.answer
	}
	return false, nil
}

// Recorded returns what an id came to, or nil when it is not over or stands for another request. It claims nothing.
func (m *Memory) Recorded(id, action, body string) *wire.Answer {
	_, answer := m.Lookup(id, action, body)
	return answer
}

func newEntry(c Claim, at time.Time) *entry {
	e := &entry{action: c.Action, body: c.Body, over: make(chan struct{}), at: at}
	if !c.Later {
		e.started = at
	}
	return e
}

// withoutOutput moves the output of an answer to what was omitted.
func withoutOutput(a wire.Answer) wire.Answer {
	a.StdoutOmitted += int64(len(a.Stdout))
	a.StderrOmitted += int64(len(a.Stderr))
	a.Stdout, a.Stderr = "", ""
	return a
}
