package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/relay/hosted"
	"drawbridge/relay/hub"
	"drawbridge/relay/wire"
)

// The runtimes whose agents a relay hosts.
const hostedRuntime, otherRuntime = "laptop-agents", "desk-agents"

// hosts implements engine.Options.Hosts.
func hosts(runtime string) (relay, entry string, is bool) {
	relay, is = map[string]string{hostedRuntime: "laptop", otherRuntime: "desk"}[runtime]
	return relay, hostEntry, is
}

// hostOf is the relay of a runtime, nil for the cloud.
func (w *world) hostOf(runtime string) *laptop {
	for _, l := range w.laptops {
		if l.runtime == runtime {
			return l
		}
	}
	return nil
}

// given is the moment in which the agent has the turn.
func (l *laptop) given(s *session, t, earlier *hostedTurn) {
	w, marker := l.w, t.call.Ask.Marker
	if s.find(marker, "") != nil && !t.again {
		w.fail("agent %s got the turn %s twice", t.call.Ask.Session, marker)
	}
	if earlier != nil && earlier.end != nil && earlier.end.Until > w.now.UnixMilli() && w.skewless() {
		w.fail("agent %s got the turn %s before its limit was over", t.call.Ask.Session, marker)
	}
	if l.join(s, t); s.agent.host != s || s.agent.movedTo != "" && s.agent.movedTo != l.runtime {
		w.fail("agent %s left %s, and got the turn %s there", s.agent.id, l.runtime, marker)
	}
	t.said = true
	a, r := s.agent, &cloudRun{text: t.text, marker: t.marker}
	switch i := slices.IndexFunc(a.runs, func(b *cloudRun) bool { return b.marker == r.marker }); {
	case i >= 0: // the one run of the turn goes on, or begins again
		if t.again {
			w.happened("hosted: an agent went on with its turn")
			r.text = a.runs[i].text
		}
		a.runs[i] = r
	default:
		if r.marker != "" {
			w.oracle.spoke(a, bridge.FollowUp{Marker: r.marker}, t.left)
		}
		a.runs = append(a.runs, r)
	}
	p := &prompt{marker: marker}
	if t.again {
		p.again = t.call.ID
	}
	s.history = append(s.history, p)
	t.run = r
	l.runs(s, t, p)
}

// join makes the agent of a session with its first turn, or gives the session to an agent that was moved here.
func (l *laptop) join(s *session, t *hostedTurn) {
	w, b := l.w, s.launch
	if s.agent != nil {
		return
	}
	for _, a := range w.cloud.agents {
		if a.op == b.Op {
			s.agent, a.host, a.id = a, s, b.AgentID
			w.cloud.byID[a.id] = a
			w.happened("hosted: a moved agent began its session")
			return
		}
	}
	tag := b.Grant.Prompt()
	if w.user.moves[b.Owner] != "" { // before it heard anything
		all := w.turns("")
		tag = all[slices.IndexFunc(all, func(t bridge.Turn) bool { return t.Agent == b.Owner && t.IsLaunch() })].Text
	}
	s.agent = &cloudAgent{id: b.AgentID, root: w.oracle.rootOf(tag), op: b.Op, repo: string(b.Grant.Repo()), host: s, movedTo: w.user.moves[b.Owner]}
	w.oracle.launched(s.agent, tag, t.left)
	w.cloud.agents = append(w.cloud.agents, s.agent)
	w.cloud.byID[s.agent.id] = s.agent
	w.happened("launch at a relay")
}

// runs begins what an agent makes of a turn, and settles how it will end.
func (l *laptop) runs(s *session, t *hostedTurn, p *prompt) {
	w, r := l.w, t.run
	w.cloud.begun++
	r.agent, r.id, r.token = s.agent, t.call.ID, fmt.Sprintf("<r%d>", w.cloud.begun)
	r.begun, r.ends = w.now, w.now.Add(w.span(2*time.Second, 40*time.Second))
	if w.strikes(faultLongRun, 0.08) {
		r.ends = w.now.Add(w.span(4*time.Minute, 40*time.Minute))
	}
	end := l.end(t)
	r.state = bridge.RunError
	if end.Cause == wire.TurnAnswered {
		r.state = bridge.RunFinished
	}
	r.reply = r.token + " is done.\n"
	w.cloud.write(r) // an agent that was moved reads its transcript, too
	if _, rest, moved := strings.Cut(r.text, "\nThis is the end of the transcript.\n\n"); moved {
		r.text = rest // what it hears now
	}
	w.note(l.relay, s.agent.id, r.id, r.marker, r.reply)
	if w.strikes(faultHostAsks, 0.2) {
		l.asks(s, t, end)
		return
	}
	w.after(r.ends.Sub(w.now), func() { l.over(s, t, end) })
}

// ways are how a turn may end without an answer.
var ways = []struct {
	fault Fault
	cause wire.TurnCause
}{{faultHostLimited, wire.TurnLimited}, {faultHostRefuses, wire.TurnRefused}, {faultHostHung, wire.TurnHung}, {faultHostCrashed, wire.TurnCrashed}}

// end draws how a turn ends.
func (l *laptop) end(t *hostedTurn) wire.TurnEnded {
	w := l.w
	for _, way := range ways {
		if !w.strikes(way.fault, 0.05) {
			continue
		}
		if way.cause == wire.TurnCrashed {
			t.run.ends = w.now.Add(w.span(0, 20*time.Second))
		}
		return wire.TurnEnded{Cause: way.cause, Error: t.run.token + " broke"}
	}
	return wire.TurnEnded{Cause: wire.TurnAnswered, Text: "to be said"}
}

// over is the end of an agent's turn. The relay or the agent may be killed in that moment.
func (l *laptop) over(s *session, t *hostedTurn, end wire.TurnEnded) {
	w, p := l.w, s.has(t)
	if t.life != l.life || t.end != nil {
		return
	}
	switch end.Cause {
	case wire.TurnAnswered:
		end.Text = t.run.reply
		if w.strikes(faultHostRelayKilledAtEnd, 0.1) {
			p.answer = end.Text
			l.dies()
			t.run.state = bridge.RunFinished // the replay shows it, unless the agent cannot tell
			return
		}
	case wire.TurnLimited:
		end.Error = "the limit is reached"
		if w.chance(0.7) {
			end.Until = w.now.Add(w.span(time.Minute, 3*time.Hour)).UnixMilli()
		}
		if w.chance(0.3) {
			s.lose(p) // some agents do not keep a prompt that was limited
		}
	}
	l.ends(s, t, end)
	if p != nil && end.Cause == wire.TurnAnswered && w.strikes(faultHostKilledAtEnd, 0.1) {
		p.answer = "" // the record has it, and the agent's own file does not
	}
}

// strike is what goes wrong by itself on the machine.
func (l *laptop) strike() {
	w := l.w
	if w.strikes(faultHostRelayKilled, 0.15) {
		l.dies()
	}
	if w.strikes(faultHostCut, 0.15) {
		l.line++
		l.downUntil = later(l.downUntil, w.now.Add(w.span(0, 3*time.Minute)))
	}
}

// port is the Runtime of agents on a relay as the bridge has it, over the play's own relay.
func (p *process) port(l *laptop, turns hosted.Turns) *hosted.Runtime {
	return hosted.New(hosted.Options{Turns: turns, Relay: l.relay, Agent: hostEntry, Now: p.m.now})
}

// named is a hosted.Turns that keeps the call of a look-up, by which the Runtime names a turn.
type named struct {
	*laptop
	call hub.TurnCall
}

// LookupTurn implements hosted.Turns.
func (n *named) LookupTurn(_ context.Context, c hub.TurnCall) (wire.TurnFound, error) {
	c.Doubt = false
	n.call = c
	return wire.TurnFound{ID: c.ID, Known: wire.TurnKnownAbsent}, nil
}

// launchHosted is Launch for an agent on a relay.
func (p *process) launchHosted(ctx context.Context, l *laptop, b bridge.Launch) (bridge.Started, error) {
	n := &named{laptop: l}
	if _, _, err := p.port(l, n).FindLaunch(ctx, b); err != nil {
		return bridge.Started{}, err
	}
	if !b.Grant.Valid() {
		p.w.fail("a launch without a grant")
	}
	t := hostedTurn{host: l, call: n.call, launch: b, text: b.Grant.Prompt(), marker: p.w.said(b.Owner), left: p.frame.commit}
	r := request{name: "launch", tag: b.Grant.Prompt(), faults: inLaunch, effect: true, again: true}
	return p.saysHosted(ctx, r, t)
}

// sendHosted is Send for an agent on a relay.
func (p *process) sendHosted(ctx context.Context, l *laptop, f bridge.FollowUp) (bridge.Started, error) {
	n := &named{laptop: l}
	if _, _, err := p.port(l, n).FindSend(ctx, f); err != nil {
		return bridge.Started{}, err
	}
	t := hostedTurn{host: l, call: n.call, text: f.Text, marker: p.w.said(f.Owner), left: p.frame.commit}
	r := request{name: "send", tag: t.marker, faults: inSend, effect: true, again: true}
	return p.saysHosted(ctx, r, t)
}

// saysHosted makes the call over the connection that there is now. What travels on a connection stays in order: a turn that the relay did
// not have when it was asked for never comes.
func (p *process) saysHosted(ctx context.Context, r request, t hostedTurn) (bridge.Started, error) {
	l := t.host
	line, looks := l.line, l.looks[t.call.ID]
	return ask(ctx, p, r, func() (bridge.Started, error) {
		if line != l.line || looks != l.looks[t.call.ID] {
			return bridge.Started{}, &bridge.Error{Kind: bridge.Unavailable, Unclear: true, Message: "the connection was lost"}
		}
		mine := t
		return l.sends(&mine)
	})
}

// said is the marker of the turn that goes out to an agent now, "" for its first.
func (w *world) said(id bridge.AgentID) (marker string) {
	w.look(func(tx *bridge.Scene) error {
		head, err := tx.CurrentTurn(id)
		if t, _ := tx.Turn(head.ID); !t.IsLaunch() {
			marker = t.Marker()
		}
		return err
	})
	return marker
}
