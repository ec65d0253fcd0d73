package sim

import (
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/parser"
)

// govern is what the operator does to trees and to what waits, between words to agents.
func (u *user) govern() {
	if u.w.calm {
		return
	}
	if u.w.hosting && u.w.chance(0.4) {
		u.move()
		return
	}
	switch u.w.rng.IntN(11) {
	case 10:
		u.stopTurn()
	case 0, 1:
		u.stop()
	case 2, 3:
		u.resume(false)
	case 4:
		u.setJoin()
	case 5, 6, 7:
		u.cancelReminder()
	case 8:
		u.replayFailed()
	default:
		if u.w.chance(0.3) {
			u.enrich()
		}
	}
}

// stop stops some tree. From its acknowledgement on nothing of the tree may begin.
func (u *user) stop() {
	roots, p := u.w.roots(), u.door()
	if len(roots) == 0 || p == nil || u.w.calm || !u.w.strikes(faultTreeStopped, 0.7) {
		return
	}
	root := roots[u.w.rng.IntN(len(roots))]
	again := u.w.tree(root.ID).Stopped()
	_, err := p.engine.Stop(p.ctx, root.ID, "enough")
	u.w.note("user stops", root.Name, fmt.Sprint(err))
	if stopped := u.w.oracle.recallTree(root); err == nil && !stopped {
		u.w.fail("the stop of %s was acknowledged, and it is not stopped", root.Name)
	}
	for _, state := range []bridge.CommandState{bridge.CommandHeld, bridge.CommandGranted} {
		for _, m := range u.w.commands(state) {
			if m.Child == "" && err == nil && !again && u.w.agent(m.Agent).Root == root.ID {
				u.w.fail("%s is stopped, and its command %s still waits", root.Name, m.ID)
			}
		}
	}
}

// stopTurn stops some open turn. From its acknowledgement on it is not sent, and nothing that it says runs.
func (u *user) stopTurn() {
	var open []bridge.Turn
	for _, state := range []bridge.TurnState{bridge.TurnQueued, bridge.TurnDelivering, bridge.TurnRunning} {
		open = append(open, u.w.turns(state)...)
	}
	p := u.door()
	if len(open) == 0 || p == nil || !u.w.strikes(faultTurnStopped, 0.7) {
		return
	}
	t := open[u.w.rng.IntN(len(open))]
	_, err := p.engine.StopTurn(p.ctx, t.ID)
	u.w.note("user stops a turn", string(t.ID), string(t.State), fmt.Sprint(err))
	if err == nil {
		u.w.happened("user stops a turn: " + string(t.State))
	}
}

// resume lets stopped trees go on: some, or when all is calm every one but
// those which the user leaves for good.
func (u *user) resume(all bool) (did bool) {
	for _, root := range u.w.roots() {
		p := u.door()
		if p == nil || !u.w.tree(root.ID).Stopped() || u.leaves("tree "+root.Name) && all {
			continue
		}
		resumed := u.w.oracle.resumes(root)
		_, err := p.engine.Resume(p.ctx, root.ID)
		resumed()
		u.w.note("user resumes", root.Name, fmt.Sprint(err))
		u.w.happened("user resumes a tree")
		if stopped := u.w.oracle.recallTree(root); err == nil && stopped {
			u.w.fail("%s was resumed, and it is still stopped", root.Name)
		}
		did = true
	}
	return did
}

// drawJoin returns a policy and a deadline.
func (u *user) drawJoin() joinPolicy {
	return joinPolicy{join: []bridge.Join{"", bridge.JoinAny, bridge.JoinAll, bridge.JoinAll, "2"}[u.w.rng.IntN(5)], within: u.w.span(time.Minute, 8*time.Minute)}
}

// setJoin changes how results come back to some agent.
func (u *user) setJoin() {
	all, p := u.w.agents(), u.door()
	if len(all) == 0 || p == nil {
		return
	}
	a, j := all[u.w.rng.IntN(len(all))], u.drawJoin()
	_, err := p.engine.SetJoin(p.ctx, a.ID, j.join, j.within)
	u.w.note("user joins", a.Name, string(j.join), fmt.Sprint(err))
	now := u.w.agent(a.ID)
	if u.joins[a.ID] = (joinPolicy{join: now.Join, within: now.JoinWithin}); err == nil && now.Join != j.join {
		u.w.fail("agent %s was to join %q and joins %q", a.Name, j.join, now.Join)
	}
}

// cancelReminder cancels some reminder that waits. It never comes back.
func (u *user) cancelReminder() {
	p := u.door()
	for _, m := range u.w.commands(bridge.CommandGranted) {
		if m.Parsed.Verb != parser.Remind || p == nil || !u.w.strikes(faultReminderCancelled, 0.9) {
			continue
		}
		_, err := p.engine.CancelReminder(p.ctx, m.ID)
		u.w.note("user cancels", string(m.ID), fmt.Sprint(err))
		u.w.look(func(tx *bridge.Scene) error {
			now, err2 := tx.Command(m.ID)
			if now.State == bridge.CommandFailed {
				u.w.oracle.cancelled(m)
			} else if err == nil {
				u.w.fail("reminder %s was cancelled and is %s", m.ID, now.State)
			}
			return err2
		})
		return
	}
}

// move moves some agent to the other relay.
func (u *user) move() {
	all, p := u.w.agents(), u.door()
	if len(all) == 0 || p == nil {
		return
	}
	a := all[u.w.rng.IntN(len(all))]
	to := map[string]string{hostedRuntime: otherRuntime}[a.Runtime]
	if to == "" {
		to = hostedRuntime
	}
	_, err := p.engine.Move(p.ctx, a.ID, to)
	u.w.note("user moves", string(a.ID), to, fmt.Sprint(err))
	switch now := u.w.agent(a.ID); { // another move may have come since
	case now.Runtime == to && a.Runtime != to:
		u.w.happened("user moves an agent")
		if u.moves[a.ID] = to; u.w.cloud.of(a) != nil {
			u.w.cloud.of(a).movedTo = to
		}
	case err != nil:
		u.w.happened("a move is refused: " + string(bridge.KindOf(err)))
	}
}

// replayFailed gives some turn that failed another try, or gives it up where its agent has heard the words.
func (u *user) replayFailed() {
	all, p := u.w.turns(bridge.TurnFailed), u.door()
	if len(all) == 0 || p == nil {
		return
	}
	t := all[u.w.rng.IntN(len(all))]
	if a := u.w.agent(t.Agent); a.State == bridge.AgentFailed && u.w.cloud.arrived(a, t) && u.w.chance(0.3) {
		if _, err := p.engine.GiveUp(p.ctx, t.ID); err == nil {
			for _, token := range tokensIn(t.Sent) {
				u.gaveUp[token] = true
			}
			for _, s := range joinStatements(t.Sent) {
				u.gaveUp[joinOf(t.Agent, s.seq)] = true
			}
			u.w.note("user gives up a turn", string(t.ID))
			u.w.happened("user gives up a turn")
		}
		return
	}
	if x := u.w.cloud.of(u.w.agent(t.Agent)); t.Stopped && x != nil {
		for _, r := range x.runs {
			r.halted = r.halted || r.is(t)
		}
	}
	if _, err := p.engine.Continue(p.ctx, t.ID); err == nil || bridge.KindOf(err) == "" {
		u.replays[t.Agent]++
		u.w.note("user replays a failed turn", string(t.ID), fmt.Sprint(err))
	}
}

// enrich raises the budget of all trees.
func (u *user) enrich() bool {
	if u.w.purse == 0 {
		return false
	}
	if u.w.calm {
		u.w.until(u.w.now.Add(3 * time.Minute)) // the last look may have been a moment ago
		u.w.oracle.readable()
	}
	u.w.purse = 0
	u.w.note("user raises the budget")
	u.w.happened("user raises the budget")
	u.w.oracle.recount()
	return true
}

// resolveTurn says of an uncertain turn what the vendor's page shows.
func (u *user) resolveTurn(t bridge.Turn) bool {
	p, a := u.door(), u.w.agent(t.Agent)
	x, arrived := u.w.cloud.of(a), u.w.cloud.arrived(a, t)
	hosted := x != nil && x.host != nil && a.External != ""
	if u.leaves(string(t.ID)) || p == nil || u.w.pending() || (!t.IsLaunch() && arrived && !hosted) {
		return false
	}
	word := engine.Word{}
	if hosted { // the person looks at the workspace
		r := x.find(func(r *cloudRun) bool { return r.is(t) && !r.lost })
		if word.Told, word.Tell = r != nil, r == nil; word.Told {
			r.settled = true
		}
		u.w.happened(fmt.Sprintf("hosted: a person says that the agent got an uncertain turn: %v", word.Told))
	} else if x != nil && t.IsLaunch() {
		word.External = x.id
	}
	_, err := p.engine.ResolveTurn(p.ctx, t.ID, word)
	u.w.note("user resolves", string(t.ID), word.External, fmt.Sprint(err))
	u.w.happened("user resolves a turn")
	return err == nil || errors.Is(err, errStore)
}

// answer says of a run that the bridge cannot read whose it is, as the vendor's
// page shows, sometimes of all such runs at once.
func (u *user) answer(t bridge.Turn) bool {
	p, x := u.door(), u.w.cloud.of(u.w.agent(t.Agent))
	if u.leaves(string(t.ID)) || p == nil || x == nil || u.w.pending() {
		return false
	}
	r := x.find(func(r *cloudRun) bool { return r.id == t.Run })
	if r == nil {
		u.w.fail("turn %s is uncertain about run %s, which is not there", t.ID, t.Run)
		return false
	}
	var err error
	if u.w.cover.Faults[faultForeignRun] == 0 && u.w.chance(0.5) {
		_, err = p.engine.SettleRestored(p.ctx, true)
		u.w.happened("user answers for all runs that nobody can read")
	} else {
		_, err = p.engine.ResolveTurn(p.ctx, t.ID, engine.Word{Told: !r.foreign})
	}
	u.w.note("user answers", string(t.ID), r.id, fmt.Sprint(err))
	u.w.happened("user says whose a run is")
	return err == nil || errors.Is(err, errStore)
}
