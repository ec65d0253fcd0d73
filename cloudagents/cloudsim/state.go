package cloudsim

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"drawbridge/cloudagents/cloudsim/internal/feed"
	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

// agent is one row of the table that v0 and v1 share. The Sim's lock guards it.
type agent struct {
	request.Launch
	id        string
	seq       int // place in the order of creation, from 1
	createdAt time.Time
	updatedAt time.Time
	reported  string // the repository that views show when it is not the one asked for
	archived  bool
	deleted   bool
	runs      []*run // the last one is the latest
	queue     []*run // v0 follow-ups that wait for the active run
	prompts   int    // accepted so far, for {{.Turn}}
	used      map[*script.Rule]bool
	branches  []pushed
	artifacts []artifact
	summary   string
}

type pushed struct{ branch, pr string }

type artifact struct {
	script.Artifact
	updatedAt time.Time
}

// run is one prompt and what comes of it.
type run struct {
	id        string
	agent     *agent
	api       script.API // the version it was asked for through
	prompt    string
	status    string
	createdAt time.Time
	updatedAt time.Time
	plan      plan
	result    string
	failure   *script.RunError
	hidden    time.Time // the v0 conversation shows the run from then on
	log       feed.Log
	over      chan struct{} // closed when the run is terminal
}

// plan is what a run will do, fixed when it is accepted.
type plan struct {
	turn       script.Turn
	reply      string
	after      time.Duration
	gitMissing bool
}

func (r *run) active() bool {
	return r.status == script.StatusCreating || r.status == script.StatusRunning
}

func (r *run) place() script.Place {
	op := script.OpFollowup
	if len(r.agent.runs) > 0 && r.agent.runs[0] == r {
		op = script.OpCreate
	}
	return script.Place{API: r.api, Op: op, Repo: r.agent.Repo()}
}

func (a *agent) latest() *run { return a.runs[len(a.runs)-1] }

func (a *agent) touch(now time.Time) { a.updatedAt = now }

// create adds an agent with its first run and sets the run going. The caller holds the lock and has checked l.
func (s *Sim) create(ctx context.Context, l request.Launch) (*agent, error) {
	id := l.AgentID
	if id == "" {
		id = s.newID("bc-")
	}
	if old := s.agents[strings.ToLower(id)]; old != nil && (!old.deleted || !s.settings.ReuseDeletedIDs) {
		s.record(Effect{Kind: DuplicateRefused, API: l.API, AgentID: id, Repo: l.Repo(), Prompt: l.Prompt})
		return nil, request.Refuse(http.StatusConflict, "agent_id_conflict", "Agent %s already exists", id)
	}
	now := s.now()
	a := &agent{Launch: l, id: id, seq: len(s.order) + 1, createdAt: now, updatedAt: now, used: map[*script.Rule]bool{}}
	if f, ok := s.faults.Take(script.WrongRepo, script.Place{API: l.API, Op: script.OpCreate, Repo: a.Repo()}); ok {
		a.reported, _ = script.RepoPath(f.As)
	}
	s.agents[strings.ToLower(id)] = a
	s.order = append(s.order, a)
	r := s.accept(a, l.API, l.Prompt)
	s.record(Effect{Kind: AgentCreated, API: l.API, AgentID: id, RunID: r.id, Repo: a.Repo(), Prompt: l.Prompt, Branch: l.Branch})
	s.begin(ctx, r)
	return a, nil
}

// followup adds a run to an agent, or queues it behind the active one where queue allows that.
func (s *Sim) followup(ctx context.Context, a *agent, c *call, prompt string) (*run, error) {
	busy := a.latest().active()
	if busy && (c.api == script.V1 || s.settings.V0FollowupWhileRunning == script.FollowupRefuse) {
		return nil, request.Refuse(http.StatusConflict, "agent_busy", "Agent already has an active run")
	}
	r := s.accept(a, c.api, prompt)
	s.record(Effect{Kind: RunCreated, API: c.api, AgentID: a.id, RunID: r.id, Repo: a.Repo(), Prompt: prompt})
	if f, ok := s.faults.Take(script.FollowupInvisible, c.place()); ok {
		r.hidden = s.now().Add(time.Duration(f.Delay))
	}
	if busy {
		a.queue = append(a.queue, r)
	} else {
		s.begin(ctx, r)
	}
	return r, nil
}

// accept makes a run and decides what it will do.
func (s *Sim) accept(a *agent, api script.API, prompt string) *run {
	a.prompts++
	rule := s.rules.Choose(a.Repo(), prompt, a.used)
	if rule.Once {
		a.used[rule] = true
	}
	r := &run{id: s.newID("run-"), agent: a, api: api, prompt: prompt, over: make(chan struct{})}
	r.plan = plan{turn: rule.Turn, after: s.rules.Latency}
	if rule.After != nil {
		r.plan.after = time.Duration(*rule.After)
	}
	text, err := rule.Text(script.ReplyData{Prompt: prompt, Repo: a.Repo(), AgentID: a.id, Turn: a.prompts})
	if err != nil {
		r.plan.turn.Status, r.plan.turn.Error = script.StatusError, &script.RunError{Code: "internal_error", Message: err.Error()}
	}
	r.plan.reply = text
	return r
}

// begin puts an accepted run at the end of its agent's runs, as the active one.
func (s *Sim) begin(ctx context.Context, r *run) {
	now := s.now()
	r.createdAt, r.updatedAt, r.status = now, now, script.StatusCreating
	r.agent.runs = append(r.agent.runs, r)
	r.agent.touch(now)
	s.spoil(r)
	s.spawn(ctx, func(ctx context.Context) { s.drive(ctx, r) })
}

// spoil applies the faults that change what a run does.
func (s *Sim) spoil(r *run) {
	at := r.place()
	p := &r.plan
	if f, ok := s.faults.Take(script.OversizedResult, at); ok {
		if missing := f.Bytes - len(p.reply); missing > 0 {
			p.reply += strings.Repeat("x", missing)
		}
	}
	if _, ok := s.faults.Take(script.FinishedWithoutResult, at); ok {
		p.reply, p.turn.Summary = "", ""
	}
	if _, ok := s.faults.Take(script.RunErrorWithoutDetail, at); ok {
		p.reply, p.turn.Summary, p.turn.Error, p.turn.Status = "", "", nil, script.StatusError
	}
	_, p.gitMissing = s.faults.Take(script.GitMissing, at)
}

// drive moves a run along in real time: a quarter of its time CREATING, the rest RUNNING with its stream events spread out.
func (s *Sim) drive(ctx context.Context, r *run) {
	start, after := r.createdAt, r.plan.after
	if !s.idle(ctx, r, start.Add(after/4)) || !s.advance(r) {
		return
	}
	steps := feed.Turn(r.plan.turn, r.plan.reply)
	for i, step := range steps {
		at := start.Add(after/4 + (after-after/4)*time.Duration(i+1)/time.Duration(len(steps)+1))
		if !s.idle(ctx, r, at) || !s.emit(r, step) {
			return
		}
	}
	if s.idle(ctx, r, start.Add(after)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(ctx, r, r.plan.turn.Status)
	}
}

// idle waits until then, with heartbeats; false means that the run is over or the Sim is closing.
func (s *Sim) idle(ctx context.Context, r *run, then time.Time) bool {
	beat := time.Duration(s.settings.Heartbeat)
	for {
		left := then.Sub(s.now())
		t := time.NewTimer(min(left, beat))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return false
		case <-r.over:
			t.Stop()
			return false
		}
		if left <= beat {
			return true
		}
		s.emit(r, feed.Heartbeat())
	}
}

// advance takes a run from CREATING to RUNNING.
func (s *Sim) advance(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.status != script.StatusCreating {
		return false
	}
	now := s.now()
	r.status, r.updatedAt = script.StatusRunning, now
	r.log.Add(now, feed.Status(r.id, r.status))
	r.log.Add(now, feed.Heartbeat())
	if !s.settings.NoPrompts {
		r.log.Add(now, feed.Prompt(r.prompt))
	}
	return true
}

// end takes a run to a terminal status, once. Pushes, webhook and the next queued follow-up come of it. The caller holds the
// lock.
func (s *Sim) end(ctx context.Context, r *run, status string) bool {
	if !r.active() {
		return false
	}
	now, a := s.now(), r.agent
	r.status, r.updatedAt = status, now
	a.touch(now)
	if status != script.StatusCancelled {
		s.deliver(r, now)
	}
	r.closeLog(now)
	close(r.over)
	if a.deleted {
		return true
	}
	if status == script.StatusFinished || status == script.StatusError {
		s.notify(ctx, r, now)
	}
	if len(a.queue) > 0 {
		next := a.queue[0]
		a.queue = a.queue[1:]
		s.begin(ctx, next)
	}
	return true
}

// deliver makes a run's results visible on the agent.
func (s *Sim) deliver(r *run, now time.Time) {
	a, t := r.agent, r.plan.turn
	r.result, r.failure = r.plan.reply, t.Error
	a.summary = t.Summary
	a.summary = cmp.Or(a.summary, r.result)
	for _, f := range t.Artifacts {
		a.artifacts = slices.DeleteFunc(a.artifacts, func(old artifact) bool { return old.Path == f.Path })
		a.artifacts = append(a.artifacts, artifact{Artifact: f, updatedAt: now})
	}
	if t.Branch == "" || r.plan.gitMissing || a.Repo() == "" {
		return
	}
	branch := t.Branch
	if a.Branch != "" {
		branch = a.Branch
	}
	a.branches = slices.DeleteFunc(a.branches, func(p pushed) bool { return p.branch == branch })
	a.branches = append(a.branches, pushed{branch: branch, pr: t.PR})
}

// cancel ends an active run as CANCELLED and records that.
func (s *Sim) cancel(c *call, r *run) error {
	if !r.active() {
		return request.Refuse(http.StatusConflict, "run_not_cancellable", "Run is already finished")
	}
	a := r.agent
	s.record(Effect{Kind: RunCancelled, API: c.api, AgentID: a.id, RunID: r.id, Repo: a.Repo(), Prompt: r.prompt})
	s.end(c.req.Context(), r, script.StatusCancelled)
	return nil
}

// dropQueue forgets follow-ups that never started, and says so in the log.
func (s *Sim) dropQueue(c *call, a *agent) {
	for _, r := range a.queue {
		s.record(Effect{Kind: FollowupDropped, API: c.api, AgentID: a.id, RunID: r.id, Repo: a.Repo(), Prompt: r.prompt})
	}
	a.queue = nil
}

// remove deletes an agent for good: its active run ends, its id stays taken.
func (s *Sim) remove(c *call, a *agent) {
	a.deleted = true
	s.record(Effect{Kind: AgentDeleted, API: c.api, AgentID: a.id, Repo: a.Repo()})
	s.dropQueue(c, a)
	s.end(c.req.Context(), a.latest(), script.StatusCancelled)
}

// lookup finds deleted agents too; nil when there never was one.
func (s *Sim) lookup(id string) *agent { return s.agents[strings.ToLower(id)] }

// find is the agent of a call; deleted ones are not there.
func (s *Sim) find(id string) (*agent, error) {
	a := s.lookup(id)
	if a == nil || a.deleted {
		return nil, request.Refuse(http.StatusNotFound, "agent_not_found", "Agent not found")
	}
	return a, nil
}

func (a *agent) findRun(id string) (*run, error) {
	for _, r := range a.runs {
		if r.id == id {
			return r, nil
		}
	}
	return nil, request.Refuse(http.StatusNotFound, "run_not_found", "Run not found")
}
