package sim

import (
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/relay/wire"
)

// question is one question of an agent, as the relay's book has it.
type question struct {
	host  *laptop
	about bridge.Permission
	// alone says that no process of the agent waits for the answer any more.
	alone bool
	// heard is the state that the bridge has confirmed.
	heard bridge.PermissionState
	// goesOn lets the agent go on that asked.
	goesOn func()
}

func (q *question) answered() bool { return q.about.State.Over() }

// leaveQuestion leaves the open question of a turn to the next one: the process that asked has ended.
func (t *hostedTurn) leaveQuestion() {
	if t.asks != nil {
		t.asks.alone = true
	}
	t.asks = nil
}

// asks lets an agent ask a person in the middle of its turn. The process ends when nobody has answered for ten minutes.
func (l *laptop) asks(s *session, t *hostedTurn, end wire.TurnEnded) {
	w := l.w
	id := fmt.Sprintf("apr_%d", len(w.cloud.questions)+1)
	q := &question{host: l, about: bridge.Permission{
		ID: id, Hash: strings.Repeat("ab", 32), Relay: l.relay, Entry: hostEntry, Session: t.call.Ask.Session, Run: t.call.ID, Kind: "execute", Tool: "bash",
		Arguments: `{"command":"make ` + id + `"}`, Workspace: "/w", Reason: "no rule", AtBridge: true, AtMachine: true, State: bridge.PermissionOpen,
	}}
	w.cloud.questions = append(w.cloud.questions, q)
	t.asks = q
	const hold = 10 * time.Minute
	work := t.run.ends.Sub(w.now)
	t.run.ends = w.now.Add(hold + work)
	waits := func() bool { return t.asks == q && t.life == l.life && t.end == nil }
	w.after(hold, func() {
		if waits() {
			t.run.ends = w.now
			l.over(s, t, wire.TurnEnded{Cause: wire.TurnAsking, Error: t.run.token + " asked"})
		}
	})
	if w.strikes(faultHostKilledAsking, 0.15) {
		w.after(w.span(0, 2*time.Minute), func() {
			if waits() {
				l.over(s, t, wire.TurnEnded{Cause: wire.TurnCrashed, Error: t.run.token + " broke"})
			}
		})
	}
	q.goesOn = func() {
		if waits() {
			t.asks = nil
			t.run.ends = w.now.Add(work)
			w.after(work, func() { l.over(s, t, end) })
		}
	}
	l.attend()
}

// attend brings questions to the bridge, and the operator's words to the relay, now and then until all is known.
func (l *laptop) attend() {
	w, more := l.w, false
	for _, q := range w.cloud.questions {
		if q.host != l {
			continue
		}
		if !q.answered() && !w.calm && w.chance(0.05) {
			q.answer("machine", w.chance(0.5))
		}
		if p := w.user.door(); p != nil && l.reachable() == nil {
			q.exchange(p)
		}
		more = more || q.heard != q.about.State || !q.answered() && !w.calm
	}
	if more && !l.attending {
		l.attending = true
		w.after(w.span(2*time.Second, 20*time.Second), func() { l.attending = false; l.attend() })
	}
}

// exchange fetches the operator's word on a question, and tells the bridge how far it is.
func (q *question) exchange(p *process) {
	if !q.answered() {
		if words, err := p.engine.PermissionWord(p.ctx, q.host.relay, []string{q.about.ID}); err == nil && len(words) > 0 {
			q.answer("bridge", words[0].Allow)
		}
	}
	if q.heard != q.about.State {
		if err := p.engine.PermissionAsked(p.ctx, q.about); err == nil {
			q.heard = q.about.State
		}
	}
}

// answer is the one answer to a question. A process that still waits goes on with it.
func (q *question) answer(by string, allow bool) {
	w := q.host.w
	q.about.By = by
	switch {
	case q.alone && allow:
		q.about.State = bridge.PermissionYes
	case q.alone:
		q.about.State = bridge.PermissionNo
	case allow:
		q.about.State = bridge.PermissionGiven
	default:
		q.about.State = bridge.PermissionRefused
	}
	w.note("relay", "answers", q.about.ID, string(q.about.State))
	w.happened("hosted: a question is answered " + string(q.about.State) + " at the " + by)
	q.goesOn()
}

// toldOf counts what an agent is to hear of the answers to its questions.
func (o *oracle) toldOf(n bridge.Notice) {
	if !strings.HasPrefix(string(n.Text), "your question ") || len(n.Commands) != 1 {
		return
	}
	if o.answers[n.Commands[0]]++; o.answers[n.Commands[0]] > 1 {
		o.s.fail("agent %s is to hear the answer to %s twice", n.Agent, n.Commands[0])
	}
}

// question checks that the bridge has a question as the relay has it, and that an agent whose process had ended is to hear the answer once.
func (v *verdict) question(m bridge.Command) {
	for _, q := range v.o.truth.questions {
		if bridge.PermissionCommand(q.about.Relay, q.about.ID) != m.ID {
			continue
		}
		told, alone := v.o.answers[m.ID], q.about.State == bridge.PermissionYes || q.about.State == bridge.PermissionNo
		switch {
		case !q.answered() && m.State == bridge.CommandHeld && (v.o.user.left[string(m.ID)] || !v.healthy(v.agents[m.Agent])):
		case !q.answered():
			v.s.fail("question %s is %s, and the relay has no answer", m.ID, m.State)
		case m.State.Open():
			v.s.fail("question %s is %s, and the relay has the answer %s", m.ID, m.State, q.about.State)
		case m.State == bridge.CommandFinished && m.Approved != q.about.State.Allowed():
			v.s.fail("question %s was answered %s, and the bridge says %v", m.ID, q.about.State, m.Approved)
		case alone != (told == 1):
			v.s.fail("question %s was answered %s, and its agent is to hear of it %d times", m.ID, q.about.State, told)
		}
		return
	}
	v.s.fail("nobody asked %s", m.ID)
}
