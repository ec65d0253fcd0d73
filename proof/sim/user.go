package sim

import (
	"fmt"
	"strconv"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/parser"
)

// user is the person: launches, talks, approves, denies, and settles in the end
// what nobody else can.
type user struct {
	w     *world
	roots int
	said  int
	// launching keeps two launches from having one name.
	launching bool
	// urged counts how often the user spoke to an agent that had stopped.
	urged map[bridge.AgentID]int
	deeds
}

func newUser(w *world) *user {
	return &user{w: w, urged: map[bridge.AgentID]int{},
		deeds: deeds{left: map[string]bool{}, replays: map[bridge.AgentID]int{}, gaveUp: map[string]bool{}, joins: map[bridge.AgentID]joinPolicy{}, words: map[string]bridge.Turn{}, moves: map[bridge.AgentID]string{}}}
}

// door returns a process that answers, or nil.
func (u *user) door() *process {
	var open []*process
	for _, m := range u.w.machines {
		if m.usable() {
			open = append(open, m.proc)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open[u.w.rng.IntN(len(open))]
}

func (u *user) begin() {
	u.launch()
	if u.w.chance(0.25) {
		u.w.after(u.w.span(time.Second, 2*time.Minute), u.launch)
	}
	u.w.after(u.w.span(10*time.Second, 2*time.Minute), u.act)
}

// launch starts the orchestrator, again when the first try did not get through.
func (u *user) launch() {
	w := u.w
	if u.launching {
		w.after(10*time.Second, u.launch)
		return
	}
	u.launching = true
	defer func() { u.launching = false }()
	name := fmt.Sprintf("main%d", u.roots+1)
	api := []string{bridge.APIv0, bridge.APIv1}[w.rng.IntN(2)]
	j := u.drawJoin()
	if p := u.door(); p != nil {
		runtime := ""
		if w.hosting && w.chance(0.6) {
			api, runtime = "", []string{hostedRuntime, otherRuntime}[w.rng.IntN(2)]
		}
		a, _, err := p.engine.LaunchAgent(p.ctx, engine.Spec{Name: name, Repo: rootRepo, Prompt: rootTag(name), Runtime: runtime, API: api, Join: j.join, JoinWithin: j.within})
		w.note("user launches", name, fmt.Sprint(err))
		if now := w.agent(a.ID); err == nil && now.Join != j.join {
			w.fail("agent %s was launched with join %q and has %q", name, j.join, now.Join)
		}
	}
	for _, a := range w.agents() {
		if a.Name == name {
			u.roots++
			u.joins[a.ID] = joinPolicy{join: a.Join, within: a.JoinWithin}
			w.oracle.wrote(&commandLine{tag: rootTag(name), class: classGranted})
			return
		}
	}
	w.after(10*time.Second, u.launch)
}

// act is what the user does now and then while things go wrong.
func (u *user) act() {
	w := u.w
	if w.calm {
		return
	}
	switch w.rng.IntN(8) {
	case 6, 7:
		u.govern()
	case 0, 1:
		if all := w.agents(); len(all) > 0 {
			u.say(all[w.rng.IntN(len(all))].ID)
		}
	case 2, 3, 4:
		u.decide()
	default:
		if u.roots < 3 && u.rootFailed() {
			u.launch()
		}
	}
	w.after(w.span(10*time.Second, 3*time.Minute), u.act)
}

// rootFailed reports whether no orchestrator was ever launched.
func (u *user) rootFailed() bool {
	for _, a := range u.w.agents() {
		if a.Parent == "" && (a.State != bridge.AgentFailed || a.External != "") {
			return false
		}
	}
	return true
}

func (u *user) say(id bridge.AgentID) {
	p := u.door()
	if p == nil {
		return
	}
	u.said++
	text := "go on " + strconv.Itoa(u.said)
	t, err := p.engine.Say(p.ctx, id, text)
	if err == nil {
		if u.words[text] = t; t.CreatedAt.Before(p.m.now().Add(-time.Second)) {
			u.w.happened("user overtakes what is only news")
		}
	}
	u.w.note("user says", string(id), fmt.Sprint(err))
	u.w.happened("user says")
}

// decide looks at everything that waits for a person and settles some of it.
func (u *user) decide() (did bool) {
	for _, m := range u.w.commands(bridge.CommandHeld) {
		did = u.judge(m) || did
	}
	for _, m := range u.w.commands(bridge.CommandUncertain) {
		did = u.resolve(m) || did
	}
	for _, t := range u.w.turns(bridge.TurnUncertain) {
		switch {
		case t.Run != "":
			did = u.answer(t) || did
		case !t.IsLaunch() && u.w.chance(0.6):
			did = u.replay(t) || did
		case !t.IsLaunch() || u.w.agent(t.Agent).Parent == "":
			did = u.resolveTurn(t) || did
		}
	}
	return did
}

// leaves reports whether the user never comes back to this.
func (u *user) leaves(id string) bool {
	if _, known := u.left[id]; !known {
		u.left[id] = u.w.chance(0.1)
	}
	return u.left[id] || (!u.w.calm && u.w.chance(0.5))
}

func (u *user) judge(m bridge.Command) bool {
	p := u.door()
	if u.leaves(string(m.ID)) || p == nil {
		return false
	}
	if u.w.chance(0.4) {
		_, err := p.engine.Deny(p.ctx, m.ID, "not today")
		u.w.note("user denies", string(m.ID), fmt.Sprint(err))
		u.w.happened("user denies")
		return true
	}
	q, err := p.engine.Question(p.ctx, m.ID)
	if err == nil {
		_, err = p.engine.Approve(p.ctx, m.ID, q.Hash)
	}
	u.w.note("user approves", string(m.ID), fmt.Sprint(err))
	u.w.look(func(tx *bridge.Scene) error {
		now, err := tx.Command(m.ID)
		if now.Approved {
			if m.Code != "relay_needs_approval" { // the gate had let that one pass already
				u.w.oracle.approved(m)
			}
			u.w.happened("user approves")
		}
		return err
	})
	return true
}

// resolve says of an uncertain launch what the vendor's page shows, and of an action what the user saw on the machine.
func (u *user) resolve(m bridge.Command) bool {
	p := u.door()
	if u.leaves(string(m.ID)) || p == nil || u.w.pending() {
		return false
	}
	word := engine.Word{}
	if m.Parsed.Verb == parser.Subagent {
		if a := u.w.cloud.of(u.w.agent(m.Child)); a != nil {
			word.External = a.id
		}
	} else {
		word.Ran = u.w.oracle.executed(m.OpKey)
	}
	_, err := p.engine.Resolve(p.ctx, m.ID, word)
	u.w.note("user resolves", string(m.ID), word.External, fmt.Sprint(err))
	u.w.happened("user resolves")
	return err == nil
}

// replay sends a turn again that surely did not arrive.
func (u *user) replay(t bridge.Turn) bool {
	p := u.door()
	if u.leaves(string(t.ID)) || p == nil || u.w.pending() || u.w.cloud.arrived(u.w.agent(t.Agent), t) {
		return false
	}
	_, err := p.engine.Continue(p.ctx, t.ID)
	u.w.note("user replays", string(t.ID), fmt.Sprint(err))
	u.w.happened("user replays")
	return true
}

// settle is the user's round when all is calm: everything that waits for a
// person, and a word to each agent that rests with something left to hear.
func (u *user) settle() bool {
	did := u.decide()
	for _, l := range u.w.laptops {
		l.attend()
	}
	did = u.enrich() || did
	did = u.resume(true) || did
	for _, a := range u.w.agents() {
		u.w.oracle.awake(a)
		if a.External == "" && u.moves[a.ID] == "" || a.Quarantined || a.State == bridge.AgentBusy || u.urged[a.ID] >= 3 || u.w.tree(a.Root).Stopped() || !u.w.oracle.waits(a.ID) {
			continue
		}
		u.urged[a.ID]++
		u.say(a.ID)
		did = true
	}
	return did
}
