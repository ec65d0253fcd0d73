package sim

import (
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
)

// cloud is the vendor's side: agents and their runs, as they truly are.
type cloud struct {
	w *world
	truth
	begun int
	// stale makes the next read an old one, by no more than the lag, and none
	// from before a clock jumped.
	stale  bool
	jumped time.Time
	// shows says that streams at v1 show prompts.
	shows bool
}

func newCloud(w *world) *cloud {
	return &cloud{w: w, truth: truth{byID: map[string]*cloudAgent{}, taken: map[string]bool{}, tells: telling(w.rng.IntN(4))}, shows: w.rng.IntN(3) > 0}
}

// launch is the create request of both versions. An agent that is there already
// is adopted with the run that its launch made, however many came since. The
// request left after a commit of the bridge.
func (c *cloud) launch(l bridge.Launch, left int) (bridge.Started, error) {
	if !l.Grant.Valid() {
		c.w.fail("a launch without a grant")
		return bridge.Started{}, bridge.Errorf(bridge.Denied, "no grant")
	}
	if a := c.byID[l.AgentID]; a != nil && l.API == bridge.APIv1 {
		c.w.happened("409: a launch met its earlier self")
		return c.started(a, a.runs[0]), nil
	}
	a := &cloudAgent{id: l.AgentID, api: l.API, root: c.w.oracle.rootOf(l.Grant.Prompt()), op: l.Op, repo: string(l.Grant.Repo()), webhook: l.Webhook}
	if l.API == bridge.APIv0 {
		a.id = fmt.Sprintf("bc-%08d", len(c.agents)+1)
		a.hidden = c.w.strikes(faultHiddenLaunch, 0.3)
	} else {
		a.webhook = nil
	}
	if c.w.strikes(faultWrongRepo, 0.04) {
		a.wrong = c.w.now.Add(c.w.span(0, 5*time.Minute))
		if c.w.chance(0.5) {
			a.wrong = c.w.now
		}
	}
	c.w.oracle.launched(a, l.Grant.Prompt(), left)
	c.agents = append(c.agents, a)
	c.byID[a.id] = a
	c.w.happened("launch " + l.API)
	return c.started(a, c.begin(a, &cloudRun{text: l.Grant.Prompt()})), nil
}

// begin adds a run and settles how it will end.
func (c *cloud) begin(a *cloudAgent, r *cloudRun) *cloudRun {
	w := c.w
	c.begun++
	r.agent, r.id, r.token = a, fmt.Sprintf("run-%d", c.begun), fmt.Sprintf("<r%d>", c.begun)
	r.begun, r.ends = w.now, w.now.Add(w.span(2*time.Second, 40*time.Second))
	if !r.foreign && w.strikes(faultLongRun, 0.08) {
		r.ends = w.now.Add(w.span(4*time.Minute, 40*time.Minute))
	}
	r.tokens, r.cost = 50+w.rng.Int64N(100), 100_000+w.rng.Int64N(200_000)
	a.runs = append(a.runs, r)
	r.state = bridge.RunFinished
	switch {
	case a.sick && w.chance(0.9):
		r.state = bridge.RunError
	case w.strikes(faultRunBroken, 0.15):
		a.sick = w.chance(0.1)
		r.state = []bridge.RunState{bridge.RunError, bridge.RunError, bridge.RunCancelled, bridge.RunExpired}[w.rng.IntN(4)]
	}
	r.reply = r.token + " is done.\n"
	if !r.foreign {
		c.write(r)
	}
	r.oversize = r.state == bridge.RunFinished && w.strikes(faultOversize, 0.05)
	w.note("cloud", a.id, r.id, r.marker, r.reply)
	if a.webhook != nil && (r.state == bridge.RunFinished || r.state == bridge.RunError) {
		w.after(r.ends.Sub(w.now), func() { c.notify(r) })
	}
	return r
}

func (c *cloud) started(a *cloudAgent, r *cloudRun) bridge.Started {
	s := bridge.Started{Agent: a.id, Repo: c.reported(a), URL: "https://cloud.example/" + a.id, Branch: "bridge/" + a.op}
	if a.api == bridge.APIv1 {
		s.Run = r.id
	}
	return s
}

// reported is the repository as the API tells it.
func (c *cloud) reported(a *cloudAgent) string {
	if !a.wrong.IsZero() && !c.w.now.Before(a.wrong) {
		return "https://github.com/evil/renamed"
	}
	return "https://" + a.repo
}

func (c *cloud) findLaunch(l bridge.Launch) found {
	for _, a := range c.agents {
		if a.hidden || a.api != l.API || (a.api == bridge.APIv1 && a.id != l.AgentID) || (a.api == bridge.APIv0 && a.op != l.Op) {
			continue
		}
		if c.unseen(a.runs[0]) {
			break
		}
		return found{c.started(a, a.runs[0]), bridge.FoundThere}
	}
	return notShown(l.API)
}

// notShown is the answer of a look-up that shows nothing. At v0 that proves nothing.
func notShown(api string) found {
	if api == bridge.APIv0 {
		return found{}
	}
	return found{known: bridge.FoundAbsent}
}

// unseen reports whether a stale read does not show a run yet.
func (c *cloud) unseen(r *cloudRun) bool {
	return c.stale && c.w.now.Sub(r.begun) < lag && r.begun.After(c.jumped)
}

// send is a follow-up of both versions. It left after a commit of the bridge.
func (c *cloud) send(f bridge.FollowUp, left int) (bridge.Started, error) {
	a := c.byID[f.Agent]
	if a == nil {
		return bridge.Started{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	now := a.active(c.w.now)
	switch {
	case now != nil && a.api == bridge.APIv1:
		c.w.happened("409: an agent is busy")
		return bridge.Started{}, bridge.Errorf(bridge.Busy, "the agent has an active run")
	case now != nil && !now.foreign && !c.w.restored:
		c.w.fail("two turns in flight: %s got %s while %s ran", a.id, f.Marker, now.id)
	}
	c.w.oracle.sent(a, f, left)
	return c.started(a, c.begin(a, &cloudRun{marker: f.Marker, text: f.Text})), nil
}

func (c *cloud) findSend(f bridge.FollowUp) (found, error) {
	a := c.byID[f.Agent]
	if a == nil {
		return found{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	r := a.find(func(r *cloudRun) bool { return r.marker == f.Marker })
	if r == nil || c.unseen(r) {
		return notShown(a.api), nil
	}
	return found{c.started(a, r), bridge.FoundThere}, nil
}

func (c *cloud) observe(ref bridge.RunRef) (bridge.Observation, error) {
	a := c.byID[ref.Agent]
	if a == nil {
		return bridge.Observation{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	r := a.find(func(r *cloudRun) bool {
		if ref.API == bridge.APIv1 {
			return r.id == ref.Run
		}
		return r.marker == ref.Marker && !r.foreign
	})
	switch {
	case r == nil && ref.API == bridge.APIv1:
		return bridge.Observation{}, bridge.Errorf(bridge.NotFound, "no such run")
	case r == nil || !r.over(c.w.now) || (c.stale && c.w.now.Sub(r.ends) < lag):
		return bridge.Observation{State: bridge.RunRunning, Repo: c.reported(a)}, nil
	case r.oversize:
		return bridge.Observation{}, bridge.Errorf(bridge.TooLarge, "the reply is too large")
	}
	o := bridge.Observation{State: r.state, Repo: c.reported(a), Branch: "bridge/" + a.op, Reply: r.reply}
	if r.state != bridge.RunFinished {
		o.Detail = r.token + " broke"
		if c.w.rng.IntN(2) == 0 {
			o.Reply = ""
		}
	}
	return o, nil
}

// inspect tells what an agent has used. It may be behind the truth.
func (c *cloud) inspect(ref bridge.RunRef) (bridge.Evidence, error) {
	a := c.byID[ref.Agent]
	switch {
	case a == nil:
		return bridge.Evidence{}, bridge.Errorf(bridge.NotFound, "no such agent")
	case a.api == bridge.APIv0 || c.tells == tellsNothing:
		return bridge.Evidence{}, nil
	}
	until := c.w.now
	if c.stale || c.tells == tellsLate {
		until = until.Add(-lag)
	}
	u := &bridge.Usage{CostKnown: c.tells != tellsNoCost}
	for _, r := range a.runs {
		if r.over(until) {
			u.Tokens += r.tokens
			u.CostMicros += r.cost
		}
	}
	if !u.CostKnown {
		u.CostMicros = 0
	}
	return bridge.Evidence{Usage: u}, nil
}

// cancel ends one run, or at v0 whatever runs.
func (c *cloud) cancel(ref bridge.RunRef) {
	a := c.byID[ref.Agent]
	if a == nil {
		c.w.fail("cancelled an agent that is not there: %q", ref.Agent)
		return
	}
	if r := a.active(c.w.now); r != nil && (a.api == bridge.APIv0 || r.id == ref.Run) {
		r.state, r.ends, r.oversize = bridge.RunCancelled, c.w.now, false
	}
	c.w.happened("cancel")
}

// meddle lets somebody else speak to an agent in the vendor's own page.
func (c *cloud) meddle() {
	if len(c.agents) == 0 {
		return
	}
	a := c.agents[c.w.rng.IntN(len(c.agents))]
	if a.api != bridge.APIv1 || a.active(c.w.now) != nil || !c.w.strikes(faultForeignRun, 0.5) {
		return
	}
	c.begin(a, &cloudRun{text: "hello from the web page", foreign: true})
}

// notify sends the webhook of a run's end, with what goes wrong on the way.
func (c *cloud) notify(r *cloudRun) {
	w := c.w
	if r.state == bridge.RunCancelled || w.strikes(faultWebhookLost, 0.4) {
		return
	}
	op := bridge.AgentID(r.agent.webhook.URL[strings.LastIndexByte(r.agent.webhook.URL, '/')+1:])
	d := bridge.Delivery{Op: op, External: r.agent.id, Event: "statusChange", Status: string(r.state), SentAt: w.now.Format(time.RFC3339Nano), WebhookID: r.id, Body: []byte(r.token)}
	times, wait := 1, w.span(0, 3*time.Second)
	if w.strikes(faultWebhookTwice, 0.3) {
		times = 2
	}
	if w.strikes(faultWebhookLate, 0.3) {
		wait = w.span(30*time.Second, 4*time.Minute)
	}
	for range times {
		w.after(wait+w.span(0, 2*time.Second), func() { c.deliver(d, 3) })
	}
	if w.strikes(faultWebhookReplayed, 0.3) {
		w.after(w.span(time.Minute, 10*time.Minute), func() { c.deliver(d, 1) })
	}
}

// deliver hands a webhook to a receiver, a few times until one acknowledges.
func (c *cloud) deliver(d bridge.Delivery, tries int) {
	w := c.w
	p := w.user.door()
	if p != nil {
		verdict, err := p.engine.RecordDelivery(p.ctx, d)
		w.note("webhook", d.External, d.Status, verdict)
		if err == nil {
			w.happened("webhook " + verdict)
			return
		}
	}
	if tries > 1 {
		w.after(w.span(5*time.Second, 20*time.Second), func() { c.deliver(d, tries-1) })
	}
}

// sentSince shows what an agent was sent: v0 all of it, v1 the next runs behind one.
func (c *cloud) sentSince(ref bridge.RunRef) (all []bridge.SentRun, err error) {
	a := c.byID[ref.Agent]
	if a == nil {
		return nil, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	behind := ref.API == bridge.APIv0
	for _, r := range a.runs {
		switch {
		case r.id == ref.Run && ref.API == bridge.APIv1:
			behind = true
			continue
		case !behind || c.unseen(r) || len(all) == bridge.MaxSent && ref.API == bridge.APIv1:
			continue
		}
		s := bridge.SentRun{Text: r.text, Shown: true}
		if r.marker != "" {
			s.Text = r.marker + "\n" + r.text
		}
		if ref.API == bridge.APIv1 {
			s.Run, s.Over, s.Begun, s.Shown = r.id, r.over(c.w.now), r.begun, c.shows
		}
		if !s.Shown {
			s.Text = ""
		}
		all = append(all, s)
	}
	if !behind {
		return nil, bridge.Errorf(bridge.Unavailable, "the list does not show run %s", ref.Run)
	}
	return all, nil
}
