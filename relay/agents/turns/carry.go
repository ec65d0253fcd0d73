package turns

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"drawbridge/internal/clip"
	"drawbridge/internal/failpoint"
	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/wire"
)

// errStopped is the cause of a turn that the bridge stopped.
var errStopped = &agents.Error{Cause: agents.Stopped, Reason: "the turn was stopped at the bridge"}

// job is one turn on its way through a lane.
type job struct {
	*lane
	r *run
	t wire.Turn
	// before is this turn as the record had it, nil for a new one; earlier is the turn that it repeats, nil for none.
	before, earlier *past
	place           *place
	w               *warm
	// noticed is what the relay noticed beside the answer, for the evidence.
	noticed []string
	// starts counts the processes that did not start.
	starts int
	// broken is why the agent's process ended in the turn, "" when it did not end while this relay runs.
	broken string
}

// carry takes a turn that is in hand to its end.
func (l *lane) carry(r *run, t wire.Turn) {
	j := &job{lane: l, r: r, t: t}
	end, again := j.do()
	l.finish(r, end, again)
}

// do waits for the session and does what the record asks for.
func (j *job) do() (end wire.TurnEnded, again bool) {
	select {
	case j.free <- struct{}{}:
	case <-j.r.ctx.Done():
		return j.unsaid(), false
	}
	defer func() { <-j.free }()
	j.mu.Lock()
	j.before, j.earlier = j.record.turns[j.t.ID], j.record.repeated(j.t.ID, j.t.Marker)
	j.mu.Unlock()
	var err error
	if j.place, err = j.host.settleIn(j.r.ctx, j.lane, j.t); err != nil {
		return j.refused(err), false
	}
	defer j.place.release()
	switch {
	case j.before != nil && j.before.last == stepAnswered:
		return j.conclude(j.before.id), false
	case (j.before == nil || !j.before.said) && j.earlier.answered():
		return j.same(), false
	}
	return j.say()
}

// refused is the refusal for a place that cannot be had.
func (j *job) refused(err error) wire.TurnEnded {
	var why *refusedError
	switch {
	case errors.As(err, &why):
		return why.end
	case j.r.ctx.Err() != nil:
		return j.unsaid()
	}
	return refusal(err)
}

// same gives the turn the answer of the one that it repeats.
func (j *job) same() wire.TurnEnded {
	j.mu.Lock()
	end, err := j.record.end(j.earlier.id)
	j.mu.Unlock()
	if err != nil {
		return refusal(err)
	}
	end.Error = "the agent already answered this turn under the id " + j.earlier.id
	return j.over(*end, "")
}

// unsaid is the end of a turn that was given up before the agent got it. One that may have reached the agent in an earlier process of
// the relay says so.
func (j *job) unsaid() wire.TurnEnded {
	end := wire.TurnEnded{Cause: wire.TurnUnsaid, Error: "the turn was stopped before the agent got it"}
	j.mu.Lock()
	p := j.record.turns[j.t.ID]
	has := p != nil && p.said
	got := has || j.record.repeated(j.t.ID, j.t.Marker) != nil
	j.mu.Unlock()
	stopped := context.Cause(j.r.ctx) == error(errStopped) || j.host.stopped(j.t.ID)
	switch {
	case !stopped && !has:
		return refusal(errEnding)
	case !stopped && j.ends():
		return wire.TurnEnded{}
	case got:
		end.Cause, end.Error = wire.TurnStopped, "the turn was stopped; the agent may have got it before"
	}
	return j.over(end, "")
}

// over records the end of a turn and returns it. An end that the disk does not take is returned all the same: the bridge records it, too.
func (j *job) over(end wire.TurnEnded, head string) wire.TurnEnded {
	end.ID, end.Replayed = j.t.ID, false
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.record.begin(j.t)
	if err == nil {
		marker, body := j.known()
		failpoint.Here("turns.ended.before")
		err = j.record.add(line{Step: stepEnded, Turn: j.t.ID, Marker: marker, Body: body, End: &end, Head: head})
		failpoint.Here("turns.ended.after")
	}
	if err != nil {
		j.host.o.Log.Error().Err(err).Str("session", j.session).Str("turn", j.t.ID).Msg("record the end of a turn")
	}
	return end
}

// failed is the end of a turn for an error that came before the agent got it.
func (j *job) failed(err error) wire.TurnEnded {
	if j.r.ctx.Err() != nil {
		return j.unsaid()
	}
	if errors.Is(err, errUnrecorded) {
		return j.unwritten(j.t.ID, err)
	}
	end := endOf(err)
	if end.Cause == wire.TurnSessionGone {
		// The next turn begins a session. The bridge knows that the agent remembers nothing.
		if err := j.write(line{Step: stepNamed}); err != nil {
			return refusal(err)
		}
	}
	if p := j.before; p != nil && p.said {
		return j.evidence(end)
	}
	end.Spent = &nothing
	return j.over(end, "")
}

// next is what follows after a try to say a turn.
type next int

// What may follow.
const (
	// done means that the turn has the end that came with it. The zero value is for a turn that stays open.
	done next = iota
	// onlyAsked means that somebody only wanted to know of the turn, and that the agent does not have it.
	onlyAsked
	// onceMore means that another process shall get the turn, or go on with it.
	onceMore
)

// say finds out whether the agent has the turn, says it if not, and takes the answer.
func (j *job) say() (end wire.TurnEnded, again bool) {
	follows := onceMore
	for follows == onceMore {
		end, follows = j.try()
	}
	return end, follows == onlyAsked
}

// try is say with one process.
func (j *job) try() (wire.TurnEnded, next) {
	if j.cut() {
		return j.unsaid(), done
	}
	used, err := j.openConversation()
	if err != nil {
		if j.startsAgain(err) {
			return wire.TurnEnded{}, onceMore
		}
		return j.failed(err), done
	}
	m, found := j.message()
	switch {
	case found != nil:
		j.w.rest()
		return *found, done
	case m.text == "":
		j.w.rest()
		return wire.TurnEnded{}, onlyAsked
	case j.cut():
		j.w.rest()
		return j.unsaid(), done
	}
	if err := j.begin(m); err != nil {
		j.w.rest()
		return j.unwritten(j.t.ID, err), done
	}
	return j.exchange(m.text, used)
}

// cut reports whether the turn was given up.
func (j *job) cut() bool { return j.r.ctx.Err() != nil || j.host.stopped(j.t.ID) }

// begin puts on the disk that the agent gets the turn.
func (j *job) begin(m message) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	failpoint.Here("turns.said.before")
	marker, body := j.known()
	err := j.record.add(line{Step: stepSaid, Turn: j.t.ID, Marker: marker, Body: body, Needle: m.needle, Since: j.since()})
	failpoint.Here("turns.said.after")
	if err == nil {
		j.before = j.record.turns[j.t.ID]
	}
	return err
}

// known returns the marker and the digest of the turn. Those of a turn that was said stand in the record: a look-up has another digest.
func (j *job) known() (marker, body string) {
	if p := j.before; p != nil && p.marker != "" {
		return p.marker, p.body
	}
	return j.t.Marker, j.t.BodyHash
}

// since is the commit at which the turn began.
func (j *job) since() string {
	if p := j.before; p != nil && p.since != "" {
		return p.since
	}
	return j.place.since
}

// exchange says the turn and takes its end. What the agent answered is on the disk before the relay looks at the work. used is true for a process
// that lived before the turn. It may have ended without having read the turn.
func (j *job) exchange(text string, used bool) (wire.TurnEnded, next) {
	j.mu.Lock()
	j.current = j.r
	j.mu.Unlock()
	j.turns(wire.TurnWorking)
	teller, tells := j.host.o.Asker.(Teller)
	told := func() {}
	if tells {
		var about string
		about, told = teller.Tell(j.session)
		text = about + text
	}
	if late := j.hearLate(j.w.Conversation); late != "" {
		text = quoteLate(late) + text
	}
	ctx, unwatch := j.watch()
	end := j.host.steps.begin(j.session, j.t.ID)
	answer, err := j.w.Prompt(ctx, text)
	end()
	unwatch()
	j.meets(err)
	if tells && err == nil {
		told()
		teller.Ended(j.session, j.t.ID)
	}
	j.mu.Lock()
	j.current = nil
	j.mu.Unlock()
	switch {
	case used && agents.Unread(err):
		j.w.end()
		if err := j.write(line{Step: stepWithdrawn, Turn: j.t.ID}); err != nil {
			return j.unwritten(j.t.ID, err), done
		}
		return wire.TurnEnded{}, onceMore
	case j.leaves(err):
		j.w.end()
		return wire.TurnEnded{}, done
	case j.goesOn(err):
		j.w.end()
		return wire.TurnEnded{}, onceMore
	}
	return j.answered(answer, err), done
}

// answered records what an agent answered, and ends the turn.
func (j *job) answered(answer acp.Answer, err error) wire.TurnEnded {
	noisy := j.notice(answer.Noise)
	end := endOf(err)
	end.ID, end.Text, end.Spent = j.t.ID, answer.Text(), j.spent(answer)
	end = fitting(end)
	failpoint.Here("turns.answered.before")
	recorded := j.write(line{Step: stepAnswered, Turn: j.t.ID, End: &end, Noisy: noisy, Noticed: j.noticed, Total: answer.Total})
	failpoint.Here("turns.answered.after")
	switch end.Cause {
	case wire.TurnHung, wire.TurnAsking, wire.TurnCrashed, wire.TurnFailed, wire.TurnLoginMissing: // the next process reads the login that a person makes
		j.w.end()
	default:
		j.w.rest()
	}
	if recorded != nil {
		j.host.o.Log.Error().Err(recorded).Str("session", j.session).Str("turn", j.t.ID).Msg("record the answer of a turn")
		return end
	}
	return j.evidence(end)
}

func (j *job) spent(answer acp.Answer) *wire.Spent {
	j.mu.Lock()
	defer j.mu.Unlock()
	return spentBy(answer, j.record.total)
}

// notice collects what the evidence tells beside the work: noise in the agent's output once for a session, and words that came late.
func (j *job) notice(noise agents.Noise) (noisy bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if noisy = noise.Lines > 0 && !j.record.noisy; noisy {
		j.noticed = append(j.noticed, clipped(noise.String()))
	}
	if j.record.fresh != "" {
		j.noticed = append(j.noticed, clipped("after the end of an earlier turn the agent wrote: "+j.record.fresh))
	}
	return noisy
}

// hearLate records what an agent said after the end of a turn, and returns all such words that it shall hear of.
func (l *lane) hearLate(c Conversation) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := ""
	if b, may := c.(Belated); may {
		said = joined("", b.Late())
	}
	if said == "" {
		return l.record.late
	}
	l.host.o.Log.Warn().Str("session", l.session).Int("bytes", len(said)).Msg("the agent wrote after the end of its turn; no command in it runs, and its next turn tells it so")
	if err := l.record.add(line{Step: stepLate, Late: said}); err != nil {
		l.host.o.Log.Error().Err(err).Str("session", l.session).Msg("record what an agent wrote after the end of its turn")
		l.record.belated(said) // until the relay ends
	}
	return l.record.late
}

// quoteLate tells an agent what it said too late.
func quoteLate(late string) string {
	return "You wrote this after the end of an earlier turn. It is not part of an answer, and no command in it ran:\n| " + strings.ReplaceAll(late, "\n", "\n| ") + "\n\n"
}

// conclude adds the evidence to an answer that the record has from an earlier process of the relay.
func (j *job) conclude(id string) wire.TurnEnded {
	j.mu.Lock()
	end, noticed, err := j.record.ending(id)
	j.mu.Unlock()
	if err != nil {
		return refusal(err)
	}
	j.noticed = noticed
	return j.evidence(*end)
}

// evidence adds what the relay itself sees of the work, and ends the turn.
func (j *job) evidence(end wire.TurnEnded) wire.TurnEnded {
	var head string
	// The work may be large, and the turn is over: its caller's end does not matter any more.
	end.Evidence, head = j.place.evidence(context.WithoutCancel(j.r.ctx), j.since(), j.noticed)
	return j.over(end, head)
}

// endOf is the end of a turn for an error of an agent's, nil for an answer.
func endOf(err error) wire.TurnEnded {
	end := wire.TurnEnded{Cause: causes[agents.CauseOf(err)]}
	if err == nil {
		return end
	}
	end.Error = clipped(err.Error())
	var why *agents.Error
	if errors.As(err, &why) {
		end.Error = clipped(why.Reason)
		if end.Cause == wire.TurnLimited && why.Until.Unix() > 0 {
			end.Until = why.Until.UnixMilli()
		}
	}
	return end
}

var causes = map[agents.Cause]wire.TurnCause{
	agents.Answered: wire.TurnAnswered, agents.Refused: wire.TurnRefused, agents.Limited: wire.TurnLimited, agents.Stopped: wire.TurnStopped,
	agents.Hung: wire.TurnHung, agents.Crashed: wire.TurnCrashed, agents.Failed: wire.TurnFailed, agents.Asking: wire.TurnAsking, agents.SessionGone: wire.TurnSessionGone,
	agents.LoginMissing: wire.TurnLoginMissing,
}

// fitting makes an end one that the wire takes. A reply that is too long is not cut: half a reply can mean something else.
func fitting(end wire.TurnEnded) wire.TurnEnded {
	end.Text = strings.ToValidUTF8(end.Text, "\uFFFD")
	if len(end.Text) <= wire.MaxReplyText {
		return end
	}
	was := end.Cause
	end.Error = clipped(fmt.Sprintf("the agent's reply has %d bytes, but the bridge accepts at most %d; the turn ended with the cause %s. %s", len(end.Text), wire.MaxReplyText, was, end.Error))
	end.Text = ""
	if was == wire.TurnAnswered {
		end.Cause = wire.TurnRefused
	}
	return end
}

// clipped makes a text fit for the error of an end.
func clipped(said string) string {
	return clip.Text(strings.ToValidUTF8(said, "?"), wire.MaxLine-len("..."))
}
