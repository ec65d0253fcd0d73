// Package runtimes holds what tests need around a bridge.Runtime. Cloud and Relay
// are fakes of the engine's ports, whose answers a test can lose at will; they do
// not stand in for the real API (package cloudsim does). Run plays the contract
// that every Runtime keeps, and each Runtime's own package runs it on itself.
// Poisons and Unbarred are hostile texts and their judge. The package knows no
// engine. Rule of thumb: a fake keeps the log of effects that a record is checked
// against, and a Runtime that cannot keep a part of the contract says so in its
// Abilities.
package runtimes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"drawbridge/bridge"
)

var (
	_ bridge.Runtime     = (*Cloud)(nil)
	_ bridge.Inspector   = (*Cloud)(nil)
	_ bridge.Transcriber = (*Cloud)(nil)
)

// Cloud is a strict in-memory bridge.Runtime and bridge.Inspector. Safe for
// concurrent use, once its fields are set; its functions are called from as many
// goroutines as there are lanes, so what they count must be safe for that too.
type Cloud struct {
	// Answer says what an agent on a repository replies to a text.
	Answer func(repo, text string) bridge.Observation
	// Fail, when set, is asked before ("before launch", "before send") and after
	// ("after launch", "after send") each effect and before each look-up of a launch
	// ("find launch"); an error is returned to the engine, after the effect when it
	// says "after".
	Fail func(point, text string) error
	// Unreadable, when set, makes Observe fail for a text.
	Unreadable func(text string) error
	// Hidden, when set, keeps launches of these prompts out of every look-up, as
	// an API does that lists nothing to recognize them by.
	Hidden func(prompt string) bool
	// Finding, when set, is called before each look-up of a launch is answered.
	Finding func()
	// Forgets, when set and true, makes look-ups that show nothing answer FoundUnknown, as a Runtime does that lost its records.
	Forgets func() bool
	// HiddenSends, when set and true, keeps follow-ups out of every look-up.
	HiddenSends func() bool
	// Inspected, when set, says what the cloud tells of an agent beside its runs;
	// without it that is nothing.
	Inspected func(repo string) (bridge.Evidence, error)
	// Called, when set, is called with the context and the name of each call: "launch",
	// "send", "observe", "cancel", "inspect".
	Called func(ctx context.Context, call string)
	// Secret keeps prompts out of SentSince, as a stream does that does not show them.
	Secret func() bool
	// Deaf lets a run that was cancelled go on to the end that Answer gives it, as
	// one does that was faster.
	Deaf bool
	// Report, when set, replaces the repository that the cloud reports.
	Report func(repo string) string

	mu     sync.Mutex // guards the fields below
	agents map[string]*agent
	log    []string
}

type agent struct {
	id, repo, branch string
	runs             []run
}

func (a *agent) last() run { return a.runs[len(a.runs)-1] }

type run struct {
	id, text  string
	cancelled bool
}

// find returns a run by its id, the latest for none, nil when there is no such run.
func (a *agent) find(id string) *run {
	for i := range a.runs {
		if a.runs[i].id == id {
			return &a.runs[i]
		}
	}
	if id == "" {
		return &a.runs[len(a.runs)-1]
	}
	return nil
}

// Log returns one line for each effect, in order.
func (c *Cloud) Log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.log...)
}

// Effects counts the effects that begin with prefix.
func (c *Cloud) Effects(prefix string) int {
	n := 0
	for _, line := range c.Log() {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// External returns the id of the agent that was launched with a prompt, "" when there is none.
func (c *Cloud) External(prompt string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, a := range c.agents {
		if a.runs[0].text == prompt {
			return id
		}
	}
	return ""
}

func (c *Cloud) called(ctx context.Context, call string) {
	if c.Called != nil {
		c.Called(ctx, call)
	}
}

func (c *Cloud) fail(point, text string) error {
	if c.Fail == nil {
		return nil
	}
	return c.Fail(point, text)
}

// Launch implements bridge.Launcher.
func (c *Cloud) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	c.called(ctx, "launch")
	if !l.Grant.Valid() {
		return bridge.Started{}, bridge.Errorf(bridge.Denied, "no grant")
	}
	if err := ctx.Err(); err != nil {
		return bridge.Started{}, err
	}
	if err := c.fail("before launch", l.Grant.Prompt()); err != nil {
		return bridge.Started{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agents == nil {
		c.agents = map[string]*agent{}
	}
	if a, ok := c.agents[l.AgentID]; ok {
		c.log = append(c.log, "conflict "+l.AgentID)
		return c.started(a, a.runs[0]), nil
	}
	a := &agent{id: l.AgentID, repo: string(l.Grant.Repo()), branch: "bridge/" + l.Op}
	a.runs = append(a.runs, run{id: "run-" + a.id + "-1", text: l.Grant.Prompt()})
	c.agents[a.id] = a
	c.log = append(c.log, fmt.Sprintf("launch %s %s", a.repo, l.Grant.Prompt()))
	if err := c.fail("after launch", l.Grant.Prompt()); err != nil {
		return bridge.Started{}, err
	}
	return c.started(a, a.runs[0]), nil
}

func (c *Cloud) started(a *agent, r run) bridge.Started {
	return bridge.Started{Agent: a.id, Run: r.id, Repo: c.reported(a.repo), Branch: a.branch}
}

// reported is what the cloud says of a repository.
func (c *Cloud) reported(repo string) string {
	if c.Report != nil {
		return c.Report(repo)
	}
	return repo
}

// FindLaunch implements bridge.Launcher.
func (c *Cloud) FindLaunch(_ context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	if c.Finding != nil {
		c.Finding()
	}
	if err := c.fail("find launch", l.Grant.Prompt()); err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.agents[l.AgentID]
	if !ok || (c.Hidden != nil && c.Hidden(a.runs[0].text)) {
		return bridge.Started{}, c.notShown(l.API), nil
	}
	return c.started(a, a.runs[0]), bridge.FoundThere, nil
}

// Send implements bridge.Sender.
func (c *Cloud) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	c.called(ctx, "send")
	if err := ctx.Err(); err != nil {
		return bridge.Started{}, err
	}
	if err := c.fail("before send", f.Text); err != nil {
		return bridge.Started{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.agents[f.Agent]
	if !ok {
		return bridge.Started{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	a.runs = append(a.runs, run{id: fmt.Sprintf("run-%s-%d", a.id, len(a.runs)+1), text: f.Marker + "\n" + f.Text})
	c.log = append(c.log, fmt.Sprintf("send %s %s", a.repo, f.Text))
	if err := c.fail("after send", f.Text); err != nil {
		return bridge.Started{}, err
	}
	return c.started(a, a.last()), nil
}

// FindSend implements bridge.Sender.
func (c *Cloud) FindSend(_ context.Context, f bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.agents[f.Agent]
	if !ok {
		return bridge.Started{}, bridge.FoundUnknown, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	last := a.last()
	if c.HiddenSends != nil && c.HiddenSends() || !strings.HasPrefix(last.text, f.Marker+"\n") {
		return bridge.Started{}, c.notShown(f.API), nil
	}
	return c.started(a, last), bridge.FoundThere, nil
}

// notShown is the answer of a look-up that shows nothing. At v0 that proves nothing.
func (c *Cloud) notShown(api string) bridge.Found {
	if api == bridge.APIv0 || c.Forgets != nil && c.Forgets() {
		return bridge.FoundUnknown
	}
	return bridge.FoundAbsent
}

// Observe implements bridge.Observer: a run is over when it is looked at, unless
// Answer says otherwise or it was cancelled before.
func (c *Cloud) Observe(ctx context.Context, r bridge.RunRef) (bridge.Observation, error) {
	c.called(ctx, "observe")
	if err := ctx.Err(); err != nil {
		return bridge.Observation{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.agents[r.Agent]
	if !ok {
		return bridge.Observation{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	run := a.find(r.Run)
	if run == nil {
		return bridge.Observation{}, bridge.Errorf(bridge.NotFound, "no such run")
	}
	if c.Unreadable != nil {
		if err := c.Unreadable(run.text); err != nil {
			return bridge.Observation{}, err
		}
	}
	obs := c.Answer(a.repo, run.text)
	if obs.State == "" {
		obs.State = bridge.RunFinished
	}
	if run.cancelled && !obs.State.Terminal() {
		obs = bridge.Observation{State: bridge.RunCancelled}
	}
	if obs.Repo == "" {
		obs.Repo = c.reported(a.repo)
	}
	return obs, nil
}

// Cancel implements bridge.Observer. What Answer says is over stays as it ended.
func (c *Cloud) Cancel(ctx context.Context, r bridge.RunRef) error {
	c.called(ctx, "cancel")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, "cancel "+r.Agent)
	a, ok := c.agents[r.Agent]
	if !ok {
		return bridge.Errorf(bridge.NotFound, "no such agent")
	}
	run := a.find(r.Run)
	if run == nil {
		return bridge.Errorf(bridge.NotFound, "no such run")
	}
	run.cancelled = !c.Deaf
	return nil
}

// Inspect implements bridge.Inspector.
func (c *Cloud) Inspect(ctx context.Context, r bridge.RunRef) (bridge.Evidence, error) {
	c.called(ctx, "inspect")
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.agents[r.Agent]
	if !ok {
		return bridge.Evidence{}, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	if c.Inspected == nil {
		return bridge.Evidence{}, nil
	}
	return c.Inspected(a.repo)
}

// SentSince implements bridge.Transcriber.
func (c *Cloud) SentSince(_ context.Context, r bridge.RunRef) ([]bridge.SentRun, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.agents[r.Agent]
	if !ok {
		return nil, bridge.Errorf(bridge.NotFound, "no such agent")
	}
	at := slices.IndexFunc(a.runs, func(x run) bool { return x.id == r.Run })
	if at < 0 {
		return nil, bridge.Errorf(bridge.Unavailable, "no such run")
	}
	var all []bridge.SentRun
	for _, x := range a.runs[at+1:] {
		s := bridge.SentRun{Run: x.id, Text: x.text, Shown: true, Over: true}
		if c.Secret != nil && c.Secret() {
			s.Text, s.Shown = "", false
		}
		if len(all) < bridge.MaxSent {
			all = append(all, s)
		}
	}
	return all, nil
}

// Relay is a bridge.ActionRunner that keeps a journal, as a real relay does. Safe for concurrent use.
type Relay struct {
	// Fail is asked before and after an action runs, as Cloud.Fail is.
	Fail func(point, action string) error
	// Answer is the outcome; nil means exit code 0 and the action's id as output.
	Answer func(action string) bridge.ActionOutcome
	// Wants is the definition of an action that an operator has to approve at the bridge, "" for none; nil means none.
	Wants func(action string) string

	mu      sync.Mutex // guards the fields below
	journal map[string]bridge.ActionOutcome
	log     []string
}

// Log returns the actions that ran, in order.
func (r *Relay) Log() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.log...)
}

// RunAction implements bridge.ActionRunner.
func (r *Relay) RunAction(_ context.Context, q bridge.ActionRequest) (bridge.ActionOutcome, error) {
	if !q.Grant.Valid() {
		return bridge.ActionOutcome{}, bridge.Errorf(bridge.Denied, "no grant")
	}
	if err := r.fail("before", q.Grant.Action()); err != nil {
		return bridge.ActionOutcome{}, err
	}
	out, again := r.act(q)
	if again || out.Wants != "" {
		return out, nil
	}
	return out, r.fail("after", q.Grant.Action())
}

// act runs an action once. again reports that the journal had its answer.
func (r *Relay) act(q bridge.ActionRequest) (out bridge.ActionOutcome, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out, ok := r.journal[q.Request]; ok {
		return out, true
	}
	if r.Wants != nil {
		if d := r.Wants(q.Grant.Action()); d != "" && (q.Approved == nil || q.Approved.Definition != d) {
			return bridge.ActionOutcome{Status: bridge.ActionRefused, ExitCode: -1, Error: "the operator has to approve it", Wants: d, Shows: "it would run /bin/" + q.Grant.Action()}, false
		}
	}
	out = bridge.ActionOutcome{Status: bridge.ActionExecuted, Stdout: q.Grant.Action()}
	if r.Answer != nil {
		out = r.Answer(q.Grant.Action())
	}
	if r.journal == nil {
		r.journal = map[string]bridge.ActionOutcome{}
	}
	r.journal[q.Request] = out
	r.log = append(r.log, q.Grant.Action())
	return out, false
}

// LookUp implements bridge.ActionRunner. Fail is asked with the point "look".
func (r *Relay) LookUp(_ context.Context, q bridge.ActionLookup) (bridge.ActionFinding, error) {
	if err := r.fail("look", q.Action); err != nil {
		return bridge.ActionFinding{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	found := bridge.ActionFinding{Relay: q.Relay, Known: bridge.JournalNothing}
	if out, ok := r.journal[q.Request]; ok {
		found.Known, found.Outcome = bridge.JournalOver, out
	}
	return found, nil
}

func (r *Relay) fail(point, action string) error {
	if r.Fail == nil {
		return nil
	}
	return r.Fail(point, action)
}
