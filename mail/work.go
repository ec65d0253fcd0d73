package mail

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
)

// The first words of a work's Ref.
const (
	refJoin  = "join"
	refReply = "reply"
	refWave  = "wave"
)

// Work does one piece of work of the kind bridge.WorkMail, which the engine
// hands out. Twice is fine.
func (s *Service) Work(ctx context.Context, w bridge.Work) error {
	kind, rest, _ := strings.Cut(w.Ref, " ")
	switch kind {
	case refJoin:
		return s.change(ctx, bridge.User, func(p *post) error { return p.joinOver(w, bridge.MessageID(rest)) }, hintsOf(w, rest)...)
	case refReply:
		return s.change(ctx, bridge.User, func(p *post) error { return p.replyOver(w, bridge.MessageID(rest)) }, hintsOf(w, rest)...)
	case refWave:
		// What a lost look did is done by the next one.
		return s.change(bridge.Forgettable(ctx), bridge.User, func(p *post) error { return p.wave(w, strings.Fields(rest)) }, bridge.NeedWork{ID: w.ID})
	}
	return fmt.Errorf("mail has no work %q", kind)
}

// hintsOf names what work about a message looks at.
func hintsOf(w bridge.Work, message string) []bridge.Need {
	id := bridge.MessageID(message)
	return []bridge.Need{bridge.NeedWork{ID: w.ID}, bridge.NeedMessage{ID: id}, bridge.NeedLetters{Message: id}}
}

// joinOver lets go of joined answers at their deadline, or before it when nobody
// is left who could answer; until then it waits on.
func (p *post) joinOver(w bridge.Work, id bridge.MessageID) error {
	m, err := p.Message(id)
	if err != nil {
		return err
	}
	letters, err := p.Letters(id)
	if err != nil {
		return err
	}
	if waits, err := p.waits(m, letters); err != nil {
		return err
	} else if waits {
		return p.PutBack(w, m.JoinBy)
	}
	if err := p.FinishWork(w); err != nil || m.JoinBy.IsZero() {
		return err
	}
	return p.release(m, letters)
}

// replyOver tells the sender of a synchronous message of those that cannot answer
// it any more, and at the deadline of those that did not. Until nobody is waited
// for it waits on.
func (p *post) replyOver(w bridge.Work, id bridge.MessageID) error {
	m, err := p.Message(id)
	if err != nil {
		return err
	}
	letters, err := p.Letters(id)
	if err != nil {
		return err
	}
	deadline, waits := m.CreatedAt.Add(p.o.ReplyWithin), false
	for _, l := range letters {
		if !l.Awaited {
			continue
		}
		why := ""
		if l.Agent != bridge.User {
			if _, why, err = p.silent(l.Agent); err != nil {
				return err
			}
		}
		if why == "" && deadline.After(p.Now()) {
			waits = true
			continue
		}
		if err := p.NoAnswer(l, or(why, fmt.Sprintf("none came within %s", p.o.ReplyWithin))); err != nil {
			return err
		}
	}
	if waits {
		return p.PutBack(w, deadline)
	}
	return p.FinishWork(w)
}

// waits reports whether a broadcast's time is not over and somebody can still answer it.
func (p *post) waits(m bridge.Message, letters []bridge.Letter) (bool, error) {
	if !m.JoinBy.After(p.Now()) {
		return false, nil
	}
	for _, l := range letters {
		if !l.Awaited {
			continue
		}
		if _, why, err := p.silent(l.Agent); err != nil || why == "" {
			return true, err
		}
	}
	return false, nil
}

// silent says why an agent cannot answer anything now, "" for one that can.
func (p *post) silent(id bridge.AgentID) (a bridge.Agent, why string, err error) {
	if a, err = p.Agent(id); err != nil {
		return a, "", err
	}
	switch {
	case a.State == bridge.AgentFailed || a.Quarantined:
		return a, "it failed", nil
	case a.State == bridge.AgentGated:
		return a, "it was stopped and waits for a person", nil
	}
	if tree, err := p.Tree(a.Root); err != nil || tree.Stopped() {
		return a, "its tree was stopped", err
	}
	why, err = bridge.Doorless(p.Scene, a, p.o.Doors)
	return a, why, err
}

// startWave wakes the recipients of a message in a group one after another, so
// that each reads what those before it answered. The first is woken already.
func (p *post) startWave(m bridge.Message, group []bridge.AgentID) error {
	if len(group) < 2 {
		return nil
	}
	ref := refWave + " " + string(m.ID)
	for _, id := range group {
		ref += " " + string(id)
	}
	return p.Enqueue(bridge.Work{Lane: bridge.MailLane(m.ID), Kind: bridge.WorkMail, Ref: ref, Due: p.Now().Add(p.o.Look)})
}

// wave looks whose turn it is to read a message: a message's id and agents.
func (p *post) wave(w bridge.Work, ref []string) error {
	if len(ref) == 0 {
		return p.FinishWork(w)
	}
	m, err := p.Message(bridge.MessageID(ref[0]))
	if err != nil {
		return err
	}
	notices, err := p.NoticesOf(m.ID)
	if err != nil {
		return err
	}
	for place, id := range ref[1:] {
		i := slices.IndexFunc(notices, func(n bridge.Notice) bool { return n.Agent == bridge.AgentID(id) })
		if i < 0 {
			continue
		}
		heard, err := p.heard(notices[i])
		if err != nil {
			return err
		}
		if !heard && p.Now().Before(m.CreatedAt.Add(time.Duration(place+1)*p.o.TurnWithin)) {
			return p.PutBack(w, p.Now().Add(p.o.Look))
		}
	}
	return p.FinishWork(w)
}

// heard wakes an agent for a notice, if that is still to be done, and reports
// whether nobody need wait for it any longer.
func (p *post) heard(n bridge.Notice) (bool, error) {
	if n.Turn != "" {
		t, err := p.Turn(n.Turn)
		return err == nil && t.State.Over(), err
	}
	if n.Quiet {
		if err := p.Rouse(n); err != nil {
			return false, err
		}
	}
	a, err := p.Agent(n.Agent)
	if err != nil {
		return false, err
	}
	// It reads on when a person lets it.
	return a.State == bridge.AgentGated || a.State == bridge.AgentFailed || a.Quarantined, nil
}
