package simulation

import (
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/simulation/fault"
	"drawbridge/bridge/simulation/oracle"
)

// cloud is the vendor's side: agents and their runs, as they truly are.
type cloud struct {
	w *world
	oracle.Truth
	begun int
	// stale makes the next read an old one, by no more than the lag, and none
	// from before a clock jumped.
	stale  bool
	jumped time.Time
	// shows says that streams at v1 show prompts.
	shows bool
}

func newCloud(w *world) *cloud {
	return &cloud{w: w, Truth: oracle.Truth{ByID: map[string]*oracle.Agent{}, Tells: oracle.Telling(w.Rng.IntN(4))}, shows: w.Rng.IntN(3) > 0}
}

// launch is the create request of both versions. An agent that is there already
// is adopted with the run that its launch made, however many came since. The
// request left after a commit of the bridge.
func (c *cloud) launch(l bridge.Launch, left int) (bridge.Started, error) {
	if !l.Grant.Valid() {
		c.w.Fail("a launch without a grant")
		return bridge.Started{}, bridge.Errorf(bridge.Denied, "no grant")
	}
	if a := c.ByID[l.AgentID]; a != nil && l.API == bridge.APIv1 {
		c.w.Happened("409: a launch met its earlier self")
		return c.started(a, a.Runs[0]), nil
	}
	a := &oracle.Agent{ID: l.AgentID, API: l.API, Root: c.w.oracle.RootOf(l.Grant.Prompt()), Op: l.Op, Repo: string(l.Grant.Repo()), Webhook: l.Webhook}
	if l.API == bridge.APIv0 {
		a.ID = fmt.Sprintf("bc-%08d", len(c.Agents)+1)
		a.Hidden = c.w.Strikes(fault.HiddenLaunch, 0.3)
	} else {
		a.Webhook = nil
	}
	if c.w.Strikes(fault.WrongRepo, 0.04) {
		a.Wrong = c.w.Now.Add(c.w.Span(0, 5*time.Minute))
		if c.w.Chance(0.5) {
			a.Wrong = c.w.Now
		}
	}
	c.w.oracle.Launched(a, l.Grant.Prompt(), left)
	c.Agents = append(c.Agents, a)
	c.ByID[a.ID] = a
	c.w.Happened("launch " + l.API)
	return c.started(a, c.begin(a, &oracle.Run{Text: l.Grant.Prompt()})), nil
}

// begin adds a run and settles how it will end.
func (c *cloud) begin(a *oracle.Agent, r *oracle.Run) *oracle.Run {
	w := c.w
	c.begun++
	r.Agent, r.ID, r.Token = a, fmt.Sprintf("run-%d", c.begun), fmt.Sprintf("<r%d>", c.begun)
	r.Begun, r.Ends = w.Now, w.Now.Add(w.Span(2*time.Second, 40*time.Second))
	if !r.Foreign && w.Strikes(fault.LongRun, 0.08) {
		r.Ends = w.Now.Add(w.Span(4*time.Minute, 40*time.Minute))
	}
	r.Tokens, r.Cost = 50+w.Rng.Int64N(100), 100_000+w.Rng.Int64N(200_000)
	a.Runs = append(a.Runs, r)
	r.State = bridge.RunFinished
	switch {
	case a.Sick && w.Chance(0.9):
		r.State = bridge.RunError
	case w.Strikes(fault.RunBroken, 0.15):
		a.Sick = w.Chance(0.1)
		r.State = []bridge.RunState{bridge.RunError, bridge.RunError, bridge.RunCancelled, bridge.RunExpired}[w.Rng.IntN(4)]
	}
	r.Reply = r.Token + " is done.\n"
	if !r.Foreign {
		c.write(r)
	}
	r.Oversize = r.State == bridge.RunFinished && w.Strikes(fault.Oversize, 0.05)
	w.Note("cloud", a.ID, r.ID, r.Marker, r.Reply)
	if a.Webhook != nil && (r.State == bridge.RunFinished || r.State == bridge.RunError) {
		w.After(r.Ends.Sub(w.Now), func() { c.notify(r) })
	}
	return r
}

func (c *cloud) started(a *oracle.Agent, r *oracle.Run) bridge.Started {
	s := bridge.Started{Agent: a.ID, Repo: c.reported(a), URL: "https://cloud.example/" + a.ID, Branch: "bridge/" + a.Op}
	if a.API == bridge.APIv1 {
		s.Run = r.ID
	}
	return s
}

// reported is the repository as the API tells it.
func (c *cloud) reported(a *oracle.Agent) string {
	if !a.Wrong.IsZero() && !c.w.Now.Before(a.Wrong) {
		return "https://github.com/evil/renamed"
	}
	return "https://" + a.Repo
}

func (c *cloud) findLaunch(l bridge.Launch) found {
	for _, a := range c.Agents {
		if a.Hidden || a.API != l.API || (a.API == bridge.APIv1 && a.ID != l.AgentID) || (a.API == bridge.APIv0 && a.Op != l.Op) {
			continue
		}
		if c.unseen(a.Runs[0]) {
			break
		}
		return found{c.started(a, a.Runs[0]), true}
	}
	return found{}
}

// unseen reports whether a stale read does not show a run yet.
func (c *cloud) unseen(r *oracle.Run) bool {
	return c.stale && c.w.Now.Sub(r.Begun) < lag && r.Begun.After(c.jumped)
}

// send is a follow-up of both versions. It left after a commit of the bridge.
func (c *cloud) send(f bridge.FollowUp, left int) (bridge.Started, error) {
	a := c.ByID[f.Agent]
	if a == nil {
		return bridge.Started{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	now := a.Active(c.w.Now)
	switch {
	case now != nil && a.API == bridge.APIv1:
		c.w.Happened("409: an agent is busy")
		return bridge.Started{}, bridge.Errorf(bridge.Busy, "the agent has an active run")
	case now != nil && !now.Foreign && !c.w.Restored:
		c.w.Fail("two turns in flight: %s got %s while %s ran", a.ID, f.Marker, now.ID)
	}
	c.w.oracle.Sent(a, f, left)
	return c.started(a, c.begin(a, &oracle.Run{Marker: f.Marker, Text: f.Text})), nil
}

func (c *cloud) findSend(f bridge.FollowUp) (found, error) {
	a := c.ByID[f.Agent]
	if a == nil {
		return found{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	r := a.Find(func(r *oracle.Run) bool { return r.Marker == f.Marker })
	if r == nil || c.unseen(r) {
		return found{}, nil
	}
	return found{c.started(a, r), true}, nil
}

func (c *cloud) observe(ref bridge.RunRef) (bridge.Observation, error) {
	a := c.ByID[ref.Agent]
	if a == nil {
		return bridge.Observation{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	r := a.Find(func(r *oracle.Run) bool {
		if ref.API == bridge.APIv1 {
			return r.ID == ref.Run
		}
		return r.Marker == ref.Marker && !r.Foreign
	})
	switch {
	case r == nil && ref.API == bridge.APIv1:
		return bridge.Observation{}, bridge.Errorf(bridge.NotFound, "no such run")
	case r == nil || !r.Over(c.w.Now) || (c.stale && c.w.Now.Sub(r.Ends) < lag):
		return bridge.Observation{State: bridge.RunRunning, Repo: c.reported(a)}, nil
	case r.Oversize:
		return bridge.Observation{}, bridge.Errorf(bridge.TooLarge, "the reply is too large")
	}
	o := bridge.Observation{State: r.State, Repo: c.reported(a), Branch: "bridge/" + a.Op, Reply: r.Reply}
	if r.State != bridge.RunFinished {
		o.Detail = r.Token + " broke"
		if c.w.Rng.IntN(2) == 0 {
			o.Reply = ""
		}
	}
	return o, nil
}

// inspect tells what an agent has used. It may be behind the truth.
func (c *cloud) inspect(ref bridge.RunRef) (bridge.Evidence, error) {
	a := c.ByID[ref.Agent]
	switch {
	case a == nil:
		return bridge.Evidence{}, bridge.Errorf(bridge.NotFound, "no such agent")
	case a.API == bridge.APIv0 || c.Tells == oracle.TellsNothing:
		return bridge.Evidence{}, nil
	}
	until := c.w.Now
	if c.stale || c.Tells == oracle.TellsLate {
		until = until.Add(-lag)
	}
	u := &bridge.Usage{CostKnown: c.Tells != oracle.TellsNoCost}
	for _, r := range a.Runs {
		if r.Over(until) {
			u.Tokens += r.Tokens
			u.CostMicros += r.Cost
		}
	}
	if !u.CostKnown {
		u.CostMicros = 0
	}
	return bridge.Evidence{Usage: u}, nil
}

// cancel ends one run, or at v0 whatever runs.
func (c *cloud) cancel(ref bridge.RunRef) {
	a := c.ByID[ref.Agent]
	if a == nil {
		c.w.Fail("cancelled an agent that is not there: %q", ref.Agent)
		return
	}
	if r := a.Active(c.w.Now); r != nil && (a.API == bridge.APIv0 || r.ID == ref.Run) {
		r.State, r.Ends, r.Oversize = bridge.RunCancelled, c.w.Now, false
	}
	c.w.Happened("cancel")
}

// meddle lets somebody else speak to an agent in the vendor's own page.
func (c *cloud) meddle() {
	if len(c.Agents) == 0 {
		return
	}
	a := c.Agents[c.w.Rng.IntN(len(c.Agents))]
	if a.API != bridge.APIv1 || a.Active(c.w.Now) != nil || !c.w.Strikes(fault.ForeignRun, 0.5) {
		return
	}
	c.begin(a, &oracle.Run{Text: "hello from the web page", Foreign: true})
}

// notify sends the webhook of a run's end, with what goes wrong on the way.
func (c *cloud) notify(r *oracle.Run) {
	w := c.w
	if r.State == bridge.RunCancelled || w.Strikes(fault.WebhookLost, 0.4) {
		return
	}
	op := bridge.AgentID(r.Agent.Webhook.URL[strings.LastIndexByte(r.Agent.Webhook.URL, '/')+1:])
	d := bridge.Delivery{Op: op, External: r.Agent.ID, Event: "statusChange", Status: string(r.State), SentAt: w.Now.Format(time.RFC3339Nano), WebhookID: r.ID, Body: []byte(r.Token)}
	times, wait := 1, w.Span(0, 3*time.Second)
	if w.Strikes(fault.WebhookTwice, 0.3) {
		times = 2
	}
	if w.Strikes(fault.WebhookLate, 0.3) {
		wait = w.Span(30*time.Second, 4*time.Minute)
	}
	for range times {
		w.After(wait+w.Span(0, 2*time.Second), func() { c.deliver(d, 3) })
	}
	if w.Strikes(fault.WebhookReplayed, 0.3) {
		w.After(w.Span(time.Minute, 10*time.Minute), func() { c.deliver(d, 1) })
	}
}

// deliver hands a webhook to a receiver, a few times until one acknowledges.
func (c *cloud) deliver(d bridge.Delivery, tries int) {
	w := c.w
	p := w.user.door()
	if p != nil {
		verdict, err := p.engine.RecordDelivery(p.ctx, d)
		w.Note("webhook", d.External, d.Status, verdict)
		if err == nil {
			w.Happened("webhook " + verdict)
			return
		}
	}
	if tries > 1 {
		w.After(w.Span(5*time.Second, 20*time.Second), func() { c.deliver(d, tries-1) })
	}
}

// sentSince shows what an agent was sent: v0 all of it, v1 the next runs behind one.
func (c *cloud) sentSince(ref bridge.RunRef) (all []bridge.SentRun, err error) {
	a := c.ByID[ref.Agent]
	if a == nil {
		return nil, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	behind := ref.API == bridge.APIv0
	for _, r := range a.Runs {
		switch {
		case r.ID == ref.Run && ref.API == bridge.APIv1:
			behind = true
			continue
		case !behind || c.unseen(r) || len(all) == bridge.MaxSent && ref.API == bridge.APIv1:
			continue
		}
		s := bridge.SentRun{Text: r.Text, Shown: true}
		if r.Marker != "" {
			s.Text = r.Marker + "\n" + r.Text
		}
		if ref.API == bridge.APIv1 {
			s.Run, s.Over, s.Begun, s.Shown = r.ID, r.Over(c.w.Now), r.Begun, c.shows
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
