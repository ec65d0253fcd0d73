package simulation

import (
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/bridge/simulation/fault"
	"drawbridge/bridge/simulation/oracle"
	"drawbridge/parser"
)

// govern is what the operator does to trees and to what waits, between words to agents.
func (u *user) govern() {
	if u.w.Calm {
		return
	}
	switch u.w.Rng.IntN(10) {
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
		if u.w.Chance(0.3) {
			u.enrich()
		}
	}
}

// stop stops some tree. From its acknowledgement on nothing of the tree may begin.
func (u *user) stop() {
	roots, p := u.w.Roots(), u.door()
	if len(roots) == 0 || p == nil || u.w.Calm || !u.w.Strikes(fault.TreeStopped, 0.7) {
		return
	}
	root := roots[u.w.Rng.IntN(len(roots))]
	again := u.w.Tree(root.ID).Stopped()
	_, err := p.engine.Stop(p.ctx, root.ID, "enough")
	u.w.Note("user stops", root.Name, fmt.Sprint(err))
	if stopped := u.w.oracle.RecallTree(root); err == nil && !stopped {
		u.w.Fail("the stop of %s was acknowledged, and it is not stopped", root.Name)
	}
	for _, state := range []bridge.CommandState{bridge.CommandHeld, bridge.CommandGranted} {
		for _, m := range u.w.Commands(state) {
			if m.Child == "" && err == nil && !again && u.w.Agent(m.Agent).Root == root.ID {
				u.w.Fail("%s is stopped, and its command %s still waits", root.Name, m.ID)
			}
		}
	}
}

// resume lets stopped trees go on: some, or when all is calm every one but
// those which the user leaves for good.
func (u *user) resume(all bool) (did bool) {
	for _, root := range u.w.Roots() {
		p := u.door()
		if p == nil || !u.w.Tree(root.ID).Stopped() || u.leaves("tree "+root.Name) && all {
			continue
		}
		resumed := u.w.oracle.Resumes(root)
		_, err := p.engine.Resume(p.ctx, root.ID)
		resumed()
		u.w.Note("user resumes", root.Name, fmt.Sprint(err))
		u.w.Happened("user resumes a tree")
		if stopped := u.w.oracle.RecallTree(root); err == nil && stopped {
			u.w.Fail("%s was resumed, and it is still stopped", root.Name)
		}
		did = true
	}
	return did
}

// drawJoin returns a policy and a deadline.
func (u *user) drawJoin() oracle.Waiting {
	return oracle.Waiting{Join: []bridge.Join{"", bridge.JoinAny, bridge.JoinAll, bridge.JoinAll, "2"}[u.w.Rng.IntN(5)], Within: u.w.Span(time.Minute, 8*time.Minute)}
}

// setJoin changes how results come back to some agent.
func (u *user) setJoin() {
	all, p := u.w.Agents(), u.door()
	if len(all) == 0 || p == nil {
		return
	}
	a, j := all[u.w.Rng.IntN(len(all))], u.drawJoin()
	_, err := p.engine.SetJoin(p.ctx, a.ID, j.Join, j.Within)
	u.w.Note("user joins", a.Name, string(j.Join), fmt.Sprint(err))
	now := u.w.Agent(a.ID)
	if u.Joins[a.ID] = (oracle.Waiting{Join: now.Join, Within: now.JoinWithin}); err == nil && now.Join != j.Join {
		u.w.Fail("agent %s was to join %q and joins %q", a.Name, j.Join, now.Join)
	}
}

// cancelReminder cancels some reminder that waits. It never comes back.
func (u *user) cancelReminder() {
	p := u.door()
	for _, m := range u.w.Commands(bridge.CommandGranted) {
		if m.Parsed.Verb != parser.Remind || p == nil || !u.w.Strikes(fault.ReminderCancelled, 0.9) {
			continue
		}
		_, err := p.engine.CancelReminder(p.ctx, m.ID)
		u.w.Note("user cancels", string(m.ID), fmt.Sprint(err))
		u.w.Look(func(tx bridge.Tx) error {
			now, err2 := tx.Command(m.ID)
			if now.State == bridge.CommandFailed {
				u.w.oracle.Cancelled(m)
			} else if err == nil {
				u.w.Fail("reminder %s was cancelled and is %s", m.ID, now.State)
			}
			return err2
		})
		return
	}
}

// replayFailed gives some turn that failed another try.
func (u *user) replayFailed() {
	all, p := u.w.Turns(bridge.TurnFailed), u.door()
	if len(all) == 0 || p == nil {
		return
	}
	t := all[u.w.Rng.IntN(len(all))]
	if _, err := p.engine.Replay(p.ctx, t.ID); err == nil || bridge.KindOf(err) == "" {
		u.Replays[t.Agent]++
		u.w.Note("user replays a failed turn", string(t.ID), fmt.Sprint(err))
	}
}

// enrich raises the budget of all trees.
func (u *user) enrich() bool {
	if u.w.Purse == 0 {
		return false
	}
	if u.w.Calm {
		u.w.until(u.w.Now.Add(3 * time.Minute)) // the last look may have been a moment ago
		u.w.oracle.Readable()
	}
	u.w.Purse = 0
	u.w.Note("user raises the budget")
	u.w.Happened("user raises the budget")
	u.w.oracle.Recount()
	return true
}

// resolveTurn says of an uncertain turn what the vendor's page shows.
func (u *user) resolveTurn(t bridge.Turn) bool {
	p, a := u.door(), u.w.Agent(t.Agent)
	arrived := u.w.cloud.Arrived(a, t)
	if u.leaves(string(t.ID)) || p == nil || u.w.pending() || (t.Seq > 1 && arrived) {
		return false
	}
	external := ""
	if x := u.w.cloud.Of(a); x != nil && t.Seq == 1 {
		external = x.ID
	}
	_, err := p.engine.ResolveTurn(p.ctx, t.ID, engine.Word{External: external})
	u.w.Note("user resolves", string(t.ID), external, fmt.Sprint(err))
	u.w.Happened("user resolves a turn")
	return err == nil || errors.Is(err, errStore)
}

// answer says of a run that the bridge cannot read whose it is, as the vendor's
// page shows, sometimes of all such runs at once.
func (u *user) answer(t bridge.Turn) bool {
	p, x := u.door(), u.w.cloud.Of(u.w.Agent(t.Agent))
	if u.leaves(string(t.ID)) || p == nil || x == nil || u.w.pending() {
		return false
	}
	r := x.Find(func(r *oracle.Run) bool { return r.ID == t.Run })
	if r == nil {
		u.w.Fail("turn %s is uncertain about run %s, which is not there", t.ID, t.Run)
		return false
	}
	var err error
	if u.w.Cover.Faults[fault.ForeignRun] == 0 && u.w.Chance(0.5) {
		_, err = p.engine.SettleRestored(p.ctx, true)
		u.w.Happened("user answers for all runs that nobody can read")
	} else {
		_, err = p.engine.ResolveTurn(p.ctx, t.ID, engine.Word{Told: !r.Foreign})
	}
	u.w.Note("user answers", string(t.ID), r.ID, fmt.Sprint(err))
	u.w.Happened("user says whose a run is")
	return err == nil || errors.Is(err, errStore)
}
