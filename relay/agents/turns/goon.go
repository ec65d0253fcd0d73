package turns

import (
	"context"
	"errors"
	"fmt"

	"drawbridge/relay/agents"
	"drawbridge/relay/wire"
)

// A process may end in the middle of its turn: it was killed, it failed, or its relay ended. The session's record says that the turn was said, and the
// agent's own history says whether the agent has it. So the relay goes on by itself: it lets the agent continue, or says the turn.

// maxAgain is how often a turn goes on by itself, and how often a process of it is started again.
const maxAgain = 3

// goesOn reports whether another process goes on with a turn whose process ended, and notes it.
func (j *job) goesOn(err error) bool {
	if !agents.Ended(err) || j.before.broke() > maxAgain || j.cut() {
		return false
	}
	j.broken = reasonOf(err)
	j.note(fmt.Sprintf("the agent's process ended in the middle of the turn (%s); the relay lets the agent continue (%d of %d)", j.broken, j.before.broke(), maxAgain))
	return true
}

// startsAgain reports whether a process is started again that did not open its session, and notes it. Nothing was said to it.
func (j *job) startsAgain(err error) bool {
	if !agents.Ended(err) && agents.CauseOf(err) != agents.Hung || j.starts == maxAgain || j.cut() {
		return false
	}
	j.starts++
	j.note(fmt.Sprintf("the agent did not start (%s); the relay starts it again (%d of %d)", reasonOf(err), j.starts, maxAgain))
	return true
}

// leaves reports whether the relay ended the turn because it ends itself. The next relay goes on with the turn.
func (j *job) leaves(err error) bool {
	if err == nil || !j.ends() || j.host.stopped(j.t.ID) || agents.CauseOf(err) != agents.Stopped && !agents.Ended(err) {
		return false
	}
	if err := j.write(line{Step: stepLeft, Turn: j.t.ID}); err != nil {
		j.host.o.Log.Error().Err(err).Str("session", j.session).Str("turn", j.t.ID).Msg("record that the relay ended in the middle of a turn")
	}
	return true
}

// noteRestart notes that an agent goes on with a turn that an earlier relay began.
func (j *job) noteRestart(p *past) {
	switch {
	case j.broken != "":
	case p.last == stepLeft:
		j.note("the relay was stopped in the middle of the turn; the agent continues the turn")
	default:
		j.note(fmt.Sprintf("the relay ended in the middle of the turn; the agent continues the turn (%d of %d)", p.broke(), maxAgain))
	}
}

// ends reports whether the turn's time is over because the relay ends.
func (j *job) ends() bool { return errors.Is(context.Cause(j.r.ctx), wire.ErrEnding) }

// note says in a line what happened to the turn: to those who look it up, and in its evidence.
func (j *job) note(text string) {
	text = clipped(text)
	j.host.o.Log.Warn().Str("session", j.session).Str("turn", j.t.ID).Msg(text)
	j.says(text)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.noticed = append(j.noticed, text)
}

// says tells those who look the turn up what happens to it, "" for nothing special.
func (j *job) says(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.r.note = clipped(text)
}

// turns notes what the turn does from now on.
func (j *job) turns(state wire.TurnState) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.r.state, j.r.since = state, j.host.o.Now()
}

// reasonOf is the reason of an agent's error.
func reasonOf(err error) string {
	var why *agents.Error
	if errors.As(err, &why) {
		return why.Reason
	}
	return err.Error()
}
