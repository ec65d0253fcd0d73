package turns

import (
	"strings"
	"sync"
	"time"

	"drawbridge/internal/clip"
	"drawbridge/relay/agents"
	"drawbridge/relay/wire"
)

// stepLog keeps the latest steps of all agents of this machine in memory, for people who watch. Nothing depends on it, and a restart empties it. It is
// safe for concurrent use, and holds no other lock while it holds its own.
type stepLog struct {
	now  func() time.Time
	hide func(string) string

	mu sync.Mutex // guards the fields below
	// turns are those that are being said, by session.
	turns map[string]string
	steps []noted
	// last is the number of the latest step, and lost those of the latest steps that were forgotten, by session.
	last int64
	lost map[string]int64
}

// noted is a step of a session.
type noted struct {
	session string
	wire.Step
}

// Bounds of the log. From maxSteps on it forgets the older half.
const (
	maxSteps = 4000
	// maxLost bounds the sessions of which it is known that steps were forgotten.
	maxLost = 1000
	// maxStep bounds a step's text, in bytes.
	maxStep = 600
)

func newStepLog(now func() time.Time, hide func(string) string) *stepLog {
	return &stepLog{now: now, hide: hide, turns: map[string]string{}, lost: map[string]int64{}}
}

// begin says which turn the steps of a session belong to from now on, until the function that it returns is called.
func (j *stepLog) begin(session, turn string) (end func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.turns[session] = turn
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.turns, session)
	}
}

// teller returns what notes the steps of a session that works in a folder. Paths below the folder lose it. A step outside of a turn is left out.
func (j *stepLog) teller(session, dir string) func(agents.Step) {
	return func(s agents.Step) {
		if s.Kind != agents.StepSays {
			s.Text = strings.ReplaceAll(s.Text, dir+"/", "")
		}
		step := wire.Step{Kind: string(s.Kind), Tool: j.fit(s.Tool), Text: j.fit(s.Text)}
		j.mu.Lock()
		defer j.mu.Unlock()
		now := j.now()
		j.last = max(j.last+1, now.UnixMicro()) // a number grows over a restart, too
		if step.Turn = j.turns[session]; step.Turn == "" {
			return
		}
		step.Seq, step.At = j.last, now.UnixMilli()
		if j.steps = append(j.steps, noted{session, step}); len(j.steps) >= maxSteps {
			j.forget(maxSteps / 2)
		}
	}
}

// forget forgets the oldest steps. The caller holds the mutex.
func (j *stepLog) forget(n int) {
	if len(j.lost) > maxLost {
		clear(j.lost)
	}
	for _, old := range j.steps[:n] {
		j.lost[old.session] = old.Seq
	}
	j.steps = append(j.steps[:0], j.steps[n:]...)
}

// fit makes words of an agent's fit for the wire. Secrets are taken out before the text is cut: half a secret is not recognized.
func (j *stepLog) fit(text string) string {
	return clip.Text(strings.ToValidUTF8(j.hide(text), "?"), maxStep)
}

// since returns the steps of a session after the one with a number. Of many, it returns the latest. A number that is not one of this relay's, because
// the agent moved here or a clock was set back, counts as 0.
func (j *stepLog) since(session string, after int64) wire.Live {
	j.mu.Lock()
	defer j.mu.Unlock()
	if after > j.last {
		after = 0
	}
	live := wire.Live{Turn: j.turns[session], Steps: []wire.Step{}, Missed: after > 0 && after < j.lost[session]}
	at := len(j.steps)
	for at > 0 && (j.steps[at-1].Seq > after) {
		at--
	}
	for _, n := range j.steps[at:] {
		if n.session == session {
			live.Steps = append(live.Steps, n.Step)
		}
	}
	if more := len(live.Steps) - wire.MaxSteps; more > 0 {
		live.Steps, live.Missed = live.Steps[more:], true
	}
	return live
}
