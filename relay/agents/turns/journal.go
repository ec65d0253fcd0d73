package turns

import (
	"strings"
	"sync"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/wire"
)

// journal keeps the latest steps of all agents of this machine in memory, for people who watch. Nothing depends on it, and a restart empties it. It is
// safe for concurrent use, and holds no other lock while it holds its own.
type journal struct {
	now  func() time.Time
	hide func(string) string

	mu sync.Mutex // guards the fields below
	// turns are those that are being said, by session.
	turns map[string]string
	steps []noted
	// last is the number of the latest step, and lost that of the latest one that was forgotten.
	last, lost int64
}

// noted is a step of a session.
type noted struct {
	session string
	wire.Step
}

// maxSteps bounds the steps that are kept.
const maxSteps = 4000

func newJournal(now func() time.Time, hide func(string) string) *journal {
	return &journal{now: now, hide: hide, turns: map[string]string{}}
}

// begin says which turn the steps of a session belong to from now on, until the function that it returns is called.
func (j *journal) begin(session, turn string) (end func()) {
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
func (j *journal) teller(session, dir string) func(agents.Step) {
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
		if j.steps = append(j.steps, noted{session, step}); len(j.steps) > maxSteps {
			j.lost = j.steps[maxSteps/2].Seq
			j.steps = append(j.steps[:0], j.steps[maxSteps/2+1:]...)
		}
	}
}

// fit makes words of an agent's fit for the wire.
func (j *journal) fit(text string) string {
	return clipped(j.hide(text))
}

// since returns the steps of a session after the one with a number. Of many, it returns the latest.
func (j *journal) since(session string, after int64) wire.Live {
	j.mu.Lock()
	defer j.mu.Unlock()
	live := wire.Live{Turn: j.turns[session], Steps: []wire.Step{}, Missed: after > 0 && after < j.lost}
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
