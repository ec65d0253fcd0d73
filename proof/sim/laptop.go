package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/relay/hosted"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// hostEntry is the entry of the agents in the file of each relay.
const hostEntry = "scripted"

// laptop is a relay that hosts agents. Its record of sessions outlives its processes. What it holds in memory does not.
type laptop struct {
	// Turns is nil: turns come by sends, because nothing waits in a play, and nobody peeks.
	hosted.Turns
	w *world
	// runtime is its name at the bridge, relay its own.
	runtime, relay string
	// life numbers the relay's processes, and line its connections. A request travels on one connection.
	life, line int
	downUntil  time.Time
	// slots bounds the agents that work at a time.
	slots    int
	sessions map[string]*session
	// looks counts how often turns were looked for, by their ids.
	looks map[string]int
	// unsaid are turns that the relay does not say, because they were stopped. They are on its disk.
	unsaid map[string]bool
	// attending is true while a look at the questions is on the agenda.
	attending bool
}

// session is one conversation: the relay's record of it, and the agent's own history.
type session struct {
	agent *cloudAgent
	// tells is false for an agent that only resumes and never shows its history.
	tells bool
	// launch made the session.
	launch bridge.Launch
	// turns are the record, in the order in which the turns came.
	turns []*hostedTurn
	// history is what the agent itself has. It may lack what came a moment before its process ended.
	history []*prompt
}

// prompt is what an agent got, and its answer, "" for none. again is the turn that asked it to go on, "" where it got the whole text.
type prompt struct{ marker, again, answer string }

// hostedTurn is one turn as the relay knows it.
type hostedTurn struct {
	host *laptop
	call hub.TurnCall
	// launch makes the session, empty for a later turn.
	launch bridge.Launch
	text   string
	// marker is the turn's in the truth, "" for the first one of an agent.
	marker string
	// life is the process of the relay that has it in hand.
	life int
	// said is on the disk before the agent gets the turn, again that the agent was asked to go on with it.
	said, again bool
	// waited says that it had to wait for a slot.
	waited bool
	end    *wire.TurnEnded
	// run is what came of it at the agent, nil until it is said.
	run *cloudRun
	// left is the commit of the bridge after which it was sent.
	left int
	asks *question
}

func newLaptop(w *world, runtime, relay string) *laptop {
	return &laptop{w: w, runtime: runtime, relay: relay, slots: 2, sessions: map[string]*session{}, looks: map[string]int{}, unsaid: map[string]bool{}}
}

// find returns the newest prompt that has a marker, and the words that ask to go on where again is set; nil for none.
func (s *session) find(marker, again string) *prompt {
	for _, p := range slices.Backward(s.history) {
		if p.marker == marker && (again == "" || p.again == again) {
			return p
		}
	}
	return nil
}

// lose takes a prompt out of the agent's history.
func (s *session) lose(lost *prompt) {
	s.history = slices.DeleteFunc(s.history, func(p *prompt) bool { return p == lost })
}

// has is the prompt of a turn in the agent's history, nil for none.
func (s *session) has(t *hostedTurn) *prompt {
	if t.again {
		return s.find(t.call.Ask.Marker, t.call.ID)
	}
	return s.find(t.call.Ask.Marker, "")
}

func (s *session) turn(id string) *hostedTurn {
	for _, t := range s.turns {
		if t.call.ID == id {
			return t
		}
	}
	return nil
}

// forget removes a turn that the agent does not have. It is said again, or it never ran.
func (s *session) forget(t *hostedTurn) {
	s.turns = slices.DeleteFunc(s.turns, func(other *hostedTurn) bool { return other == t })
	if t.run != nil {
		t.run.lost = true
	}
}

// earlier is the newest other turn with the same marker that was said, nil for none.
func (s *session) earlier(t *hostedTurn) *hostedTurn {
	for _, other := range slices.Backward(s.turns) {
		if other != t && other.said && other.call.Ask.Marker == t.call.Ask.Marker {
			return other
		}
	}
	return nil
}

// reachable reports an error while nobody can speak to the relay.
func (l *laptop) reachable() error {
	if l.w.now.Before(l.downUntil) {
		return bridge.Errorf(bridge.Unavailable, "relay %q is not connected", l.relay)
	}
	return nil
}

// sends brings a turn to the relay, as the hub does, and returns when the relay has it.
func (l *laptop) sends(t *hostedTurn) (bridge.Started, error) {
	if err := l.reachable(); err != nil {
		return bridge.Started{}, err
	}
	return bridge.Started{Agent: t.call.Ask.Session, Run: t.call.ID}, l.takes(t)
}

// gone is the error for a turn that ended because its session is gone.
func gone(end *wire.TurnEnded) error {
	if end != nil && end.Cause == wire.TurnSessionGone {
		return bridge.Errorf(bridge.NotFound, "the session is gone")
	}
	return nil
}

// takes is RunTurn of the relay, but for the wait: each id is one turn. The record of the session is on the disk before the bridge hears
// that the relay has the turn.
func (l *laptop) takes(t *hostedTurn) error {
	s := l.sessions[t.call.Ask.Session]
	if s == nil && t.launch.AgentID == "" {
		return bridge.Errorf(bridge.NotFound, "the relay has no record of the session")
	}
	if s == nil {
		s = &session{tells: l.w.chance(0.8), launch: t.launch}
		l.sessions[t.call.Ask.Session], l.w.cloud.taken[t.call.Ask.Session] = s, true
	}
	if known := s.turn(t.call.ID); known != nil {
		l.settle(s, known)
		if known = s.turn(t.call.ID); known != nil {
			return gone(known.end)
		}
	}
	t.life = l.life
	s.turns = append(s.turns, t)
	l.w.after(l.w.span(0, 2*time.Second), func() { l.says(s, t) })
	return nil
}

// LookupTurn implements hosted.Turns.
func (l *laptop) LookupTurn(_ context.Context, c hub.TurnCall) (wire.TurnFound, error) {
	if err := l.reachable(); err != nil {
		return wire.TurnFound{}, err
	}
	l.looks[c.ID]++
	found := l.look(c)
	if c.Doubt && found.Known == wire.TurnKnownNot { // a session that the relay ever took is in its record
		found.Known = wire.TurnKnownAbsent
	}
	return found, nil
}

// StopTurn implements hosted.Turns. A turn that comes later is not said.
func (l *laptop) StopTurn(_ context.Context, c hub.TurnCall) (wire.TurnFound, error) {
	if err := l.reachable(); err != nil {
		return wire.TurnFound{}, err
	}
	l.unsaid[c.ID] = true
	found := l.look(c)
	s := l.sessions[c.Ask.Session]
	if s == nil {
		l.w.happened("hosted: a stop of a turn without a session")
		return found, nil
	}
	switch t := s.turn(c.ID); {
	case t == nil:
		l.w.happened("hosted: a stop before its turn")
	case t.end == nil:
		end := wire.TurnEnded{Cause: wire.TurnStopped, Error: "it was stopped"}
		if t.run != nil {
			end.Error = t.run.token + " was stopped"
		}
		if !s.got(t) {
			end.Cause = wire.TurnUnsaid
		}
		l.ends(s, t, end)
		l.w.happened("cancel")
	}
	return found, nil
}

// got reports whether the agent got a turn, under this id or an earlier one.
func (s *session) got(t *hostedTurn) bool {
	return slices.ContainsFunc(s.turns, func(o *hostedTurn) bool { return o.said && o.marker == t.marker })
}

// look is what the relay's record says of a turn. One that an earlier process of the relay had in hand is settled by it.
func (l *laptop) look(c hub.TurnCall) wire.TurnFound {
	s := l.sessions[c.Ask.Session]
	if s == nil {
		return wire.TurnFound{ID: c.ID, Known: wire.TurnKnownNot}
	}
	if t := s.turn(c.ID); t != nil {
		l.settle(s, t)
	}
	found := wire.TurnFound{ID: c.ID, Known: wire.TurnKnownOpen, State: wire.TurnWorking}
	switch t := s.turn(c.ID); {
	case t == nil:
		return wire.TurnFound{ID: c.ID, Known: wire.TurnKnownAbsent}
	case t.end != nil:
		return wire.TurnFound{ID: c.ID, Known: wire.TurnKnownEnded, Ended: t.end}
	case t.asks != nil:
		found.State = wire.TurnAskingNow
	case !t.said:
		found.State = wire.TurnQueued
	}
	return found
}

// settle ends a turn that an earlier process of the relay had said, by what the agent's history shows.
func (l *laptop) settle(s *session, t *hostedTurn) {
	if t.end != nil || t.life == l.life {
		return
	}
	p := s.has(t)
	switch {
	case l.unsaid[t.call.ID]:
		l.ends(s, t, wire.TurnEnded{Cause: wire.TurnStopped, Error: t.run.token + " was stopped; the agent may have got it before"})
	case !s.tells:
		l.w.happened("hosted: the replay could not tell")
		t.run.lost = p == nil
		l.ends(s, t, wire.TurnEnded{Cause: wire.TurnCrashed, Unclear: true, Error: t.run.token + " may have been said"})
	case p == nil:
		l.w.happened("hosted: the replay lacked a turn that was said")
		s.forget(t)
	case p.answer != "":
		l.w.happened("hosted: the answer was read from the replay")
		l.ends(s, t, wire.TurnEnded{Cause: wire.TurnAnswered, Text: p.answer})
	default:
		l.ends(s, t, wire.TurnEnded{Cause: wire.TurnCrashed, Error: t.run.token + " broke"})
	}
}

// says gives a turn to its agent, unless the record or the agent's history says that nothing is to be said.
func (l *laptop) says(s *session, t *hostedTurn) {
	w := l.w
	switch {
	case t.life != l.life || t.end != nil || s.turn(t.call.ID) != t:
		return // it was lost with the process, or stopped
	case l.unsaid[t.call.ID]:
		end := wire.TurnEnded{Cause: wire.TurnUnsaid, Error: "it was stopped before the agent got it"}
		if s.got(t) {
			end.Cause = wire.TurnStopped
		}
		l.ends(s, t, end)
		return
	case l.working() >= l.slots:
		if !t.waited {
			t.waited = true
			w.happened("hosted: a turn waited for a slot")
		}
		w.after(time.Second, func() { l.says(s, t) })
		return
	}
	earlier, p := s.earlier(t), s.find(t.call.Ask.Marker, "")
	switch {
	case earlier != nil && earlier.end != nil && earlier.end.Cause == wire.TurnAnswered:
		w.happened("hosted: a repeat got the earlier answer")
		l.ends(s, t, *earlier.end)
	case w.strikes(faultHostLogin, 0.04):
		l.ends(s, t, wire.TurnEnded{Cause: wire.TurnLoginMissing, Error: "no login"})
	case len(s.history) > 0 && w.strikes(faultHostGone, 0.04):
		s.history = nil // the next turn begins a session
		l.ends(s, t, wire.TurnEnded{Cause: wire.TurnSessionGone, Error: "no such session"})
	case earlier != nil && !s.tells:
		w.happened("hosted: the replay could not tell")
		l.ends(s, t, wire.TurnEnded{Cause: wire.TurnCrashed, Unclear: true, Error: earlier.run.token + " may have been said"})
	default:
		t.again = earlier != nil && p != nil
		l.given(s, t, earlier)
	}
}

// working counts the agents that have a turn.
func (l *laptop) working() (n int) {
	for _, s := range l.sessions {
		for _, t := range s.turns {
			if t.said && t.end == nil && t.life == l.life {
				n++
			}
		}
	}
	return n
}

// ends puts the one end of a turn on the record.
func (l *laptop) ends(s *session, t *hostedTurn, end wire.TurnEnded) {
	w := l.w
	end.ID = t.call.ID
	if t.end != nil {
		w.fail("turn %s ended %s and %s", t.call.ID, t.end.Cause, end.Cause)
		return
	}
	t.end = &end
	t.leaveQuestion()
	w.note("relay", t.call.ID, "ends", string(end.Cause))
	w.happened("hosted: ended " + string(end.Cause))
	r := t.run
	if r == nil {
		return
	}
	if !r.over(w.now) {
		r.ends = w.now
	}
	states := map[wire.TurnCause]bridge.RunState{wire.TurnAnswered: bridge.RunFinished, wire.TurnStopped: bridge.RunCancelled, wire.TurnUnsaid: bridge.RunCancelled, wire.TurnHung: bridge.RunExpired}
	r.cause, r.state = end.Cause, cmp.Or(states[end.Cause], bridge.RunError)
	if p := s.has(t); p != nil && end.Cause == wire.TurnAnswered {
		p.answer = end.Text
	}
}

// dies ends the relay's process and every agent's with it. Another one starts soon.
func (l *laptop) dies() {
	w := l.w
	w.note(l.relay, "dies")
	l.life++
	l.line++
	l.downUntil = later(l.downUntil, w.now.Add(w.span(time.Second, time.Minute)))
	for _, name := range slices.Sorted(maps.Keys(l.sessions)) {
		s := l.sessions[name]
		for _, t := range slices.Clone(s.turns) {
			switch {
			case t.end != nil:
			case t.said:
				l.cutOff(s, t)
			default:
				s.forget(t)
				w.happened("hosted: the relay was killed while a turn waited")
			}
		}
	}
}

// cutOff ends the process of an agent in the middle of a turn. A prompt of less than a second ago is lost with it, and sometimes an older one.
func (l *laptop) cutOff(s *session, t *hostedTurn) {
	w := l.w
	w.happened(map[bool]string{false: "hosted: the relay was killed in mid-turn", true: "hosted: the relay was killed while an agent asked"}[t.asks != nil])
	if p := s.has(t); p != nil && p.answer == "" && (w.now.Sub(t.run.begun) < time.Second || w.chance(0.1)) {
		s.lose(p)
		w.happened("hosted: an agent lost a prompt")
	}
	t.leaveQuestion()
	if !t.run.over(w.now) {
		t.run.ends = w.now
	}
	t.run.state = bridge.RunError
}
