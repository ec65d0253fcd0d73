package cloudsim

import (
	"net/http"
	"strconv"
	"time"

	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

type v1Agent struct {
	ID          string         `json:"id"`
	Name        string         `json:"name,omitempty"`
	Status      string         `json:"status"`
	Env         request.EnvRef `json:"env"`
	URL         string         `json:"url"`
	CreatedAt   string         `json:"createdAt"`
	UpdatedAt   string         `json:"updatedAt"`
	LatestRunID string         `json:"latestRunId,omitempty"`
	// Metadata is what the launch gave, also in lists.
	Metadata map[string]string `json:"metadata,omitempty"`
	*v1Detail
}

// v1Detail is what the list of agents leaves out.
type v1Detail struct {
	Repos               []v1Repo `json:"repos"`
	WorkOnCurrentBranch bool     `json:"workOnCurrentBranch"`
	AutoCreatePR        bool     `json:"autoCreatePR"`
	SkipReviewer        *bool    `json:"skipReviewerRequest,omitempty"`
	Subagents           any      `json:"customSubagents,omitempty"`
}

type v1Repo struct {
	URL         string `json:"url"`
	StartingRef string `json:"startingRef,omitempty"`
	PRURL       string `json:"prUrl,omitempty"`
}

type v1Run struct {
	ID         string           `json:"id"`
	AgentID    string           `json:"agentId"`
	Status     string           `json:"status"`
	CreatedAt  string           `json:"createdAt"`
	UpdatedAt  string           `json:"updatedAt"`
	DurationMs *int64           `json:"durationMs,omitempty"`
	Result     string           `json:"result,omitempty"`
	Git        *v1Git           `json:"git,omitempty"`
	Error      *script.RunError `json:"error,omitempty"`
}

type v1Git struct {
	Branches []v1Branch `json:"branches"`
}

type v1Branch struct {
	RepoURL string `json:"repoUrl"`
	Branch  string `json:"branch,omitempty"`
	PRURL   string `json:"prUrl,omitempty"`
}

// scheme is what v1 puts ahead of repositories: nothing, unless a fault says otherwise.
func (s *Sim) scheme(c *call) string {
	if _, ok := s.faults.Take(script.SchemefulRepoURLs, c.place()); ok {
		return "https://"
	}
	return ""
}

func (a *agent) v1Summary() v1Agent {
	v := v1Agent{
		ID: a.id, Name: a.displayName(), Status: "ACTIVE", Env: a.Env, URL: "https://cursor.com/agents/" + a.id,
		CreatedAt: stamp(a.createdAt), UpdatedAt: stamp(a.updatedAt), LatestRunID: a.latest().id, Metadata: a.Metadata,
	}
	if a.archived {
		v.Status = "ARCHIVED"
	}
	return v
}

func (a *agent) v1View(scheme string) v1Agent {
	v := a.v1Summary()
	d := &v1Detail{
		Repos: []v1Repo{}, SkipReviewer: a.SkipReviewer, Subagents: a.Subagents,
		WorkOnCurrentBranch: a.WorkOnCurrentBranch != nil && *a.WorkOnCurrentBranch,
		AutoCreatePR:        a.AutoCreatePR != nil && *a.AutoCreatePR,
	}
	for i, r := range a.Repos {
		if i == 0 && a.reported != "" {
			r.Path = a.reported
		}
		d.Repos = append(d.Repos, v1Repo{URL: scheme + r.Path, StartingRef: r.Ref, PRURL: r.PRURL})
	}
	v.v1Detail = d
	return v
}

// v1View shows a run. Its git is the agent's, the same for every run.
func (r *run) v1View(scheme string) v1Run {
	v := v1Run{
		ID: r.id, AgentID: r.agent.id, Status: r.status, CreatedAt: stamp(r.createdAt), UpdatedAt: stamp(r.updatedAt),
		Result: r.result, Error: r.failure, Git: r.agent.git(scheme),
	}
	if !r.active() {
		v.DurationMs = r.duration()
	}
	return v
}

func (r *run) duration() *int64 {
	ms := r.updatedAt.Sub(r.createdAt).Milliseconds()
	return &ms
}

func (a *agent) git(scheme string) *v1Git {
	if len(a.branches) == 0 {
		return nil
	}
	repo := a.Repo()
	if a.reported != "" {
		repo = a.reported
	}
	g := &v1Git{}
	for _, b := range a.branches {
		g.Branches = append(g.Branches, v1Branch{RepoURL: scheme + repo, Branch: b.branch, PRURL: b.pr})
	}
	return g
}

func (s *Sim) v1Create(c *call) (reply, error) {
	l, err := s.launchRules().Launch(c.body)
	if err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.create(c.req.Context(), l)
	if err != nil {
		return reply{}, err
	}
	scheme := s.scheme(c)
	return created(map[string]any{"agent": a.v1View(scheme), "run": a.latest().v1View(scheme)})
}

func (s *Sim) v1List(c *call) (reply, error) {
	q := c.req.URL.Query()
	p, err := readPage(q, "v1 agents")
	if err != nil {
		return reply{}, err
	}
	archived := true
	if q.Has("includeArchived") {
		if archived, err = strconv.ParseBool(q.Get("includeArchived")); err != nil {
			return reply{}, request.Invalid("includeArchived must be true or false")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []entry[v1Agent]
	for _, a := range s.order {
		if !a.deleted && (archived || !a.archived) && a.onPR(q.Get("prUrl")) {
			all = append(all, entry[v1Agent]{a.seq, a.v1Summary()})
		}
	}
	items, next := cutPage(p, all)
	return ok(listed("items", items, next))
}

// withAgent runs f on the agent of a call, under the lock.
func (s *Sim) withAgent(c *call, f func(*agent) (reply, error)) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(c.id)
	if err != nil {
		return reply{}, err
	}
	return f(a)
}

func (s *Sim) v1Get(c *call) (reply, error) {
	return s.withAgent(c, func(a *agent) (reply, error) { return ok(a.v1View(s.scheme(c))) })
}

func (s *Sim) v1Delete(c *call) (reply, error) {
	return s.withAgent(c, func(a *agent) (reply, error) {
		s.remove(c, a)
		return ok(map[string]any{"id": a.id})
	})
}

func (s *Sim) v1Archive(c *call) (reply, error)   { return s.setArchived(c, true) }
func (s *Sim) v1Unarchive(c *call) (reply, error) { return s.setArchived(c, false) }

// setArchived may be repeated; only a change is recorded.
func (s *Sim) setArchived(c *call, archived bool) (reply, error) {
	return s.withAgent(c, func(a *agent) (reply, error) {
		if a.archived != archived {
			kind := AgentArchived
			if !archived {
				kind = AgentUnarchived
			}
			s.record(Effect{Kind: kind, API: c.api, AgentID: a.id, Repo: a.Repo()})
			a.archived = archived
			a.touch(s.now())
		}
		return ok(map[string]any{"id": a.id})
	})
}

func (s *Sim) v1CreateRun(c *call) (reply, error) {
	return s.withAgent(c, func(a *agent) (reply, error) {
		prompt, servers, err := c.body.Followup()
		if err != nil {
			return reply{}, err
		}
		if a.archived {
			return reply{}, request.Refuse(http.StatusConflict, "agent_archived", "Agent is archived")
		}
		r, err := s.followup(c.req.Context(), a, c, prompt)
		if err != nil {
			return reply{}, err
		}
		if servers != nil {
			a.Servers = servers
		}
		return created(map[string]any{"run": r.v1View(s.scheme(c))})
	})
}

func (s *Sim) v1Runs(c *call) (reply, error) {
	return s.withAgent(c, func(a *agent) (reply, error) {
		p, err := readPage(c.req.URL.Query(), "runs-"+a.id)
		if err != nil {
			return reply{}, err
		}
		scheme, newest := s.scheme(c), s.now()
		if f, ok := s.faults.Take(script.RunsLag, c.place()); ok {
			newest = newest.Add(-time.Duration(f.Delay))
		}
		var all []entry[v1Run]
		for i, r := range a.runs {
			if r.createdAt.After(newest) {
				break
			}
			all = append(all, entry[v1Run]{i + 1, r.v1View(scheme)})
		}
		items, next := cutPage(p, all)
		return ok(listed("items", items, next))
	})
}

// withRun runs f on the run of a call, under the lock.
func (s *Sim) withRun(c *call, f func(*run) (reply, error)) (reply, error) {
	return s.withAgent(c, func(a *agent) (reply, error) {
		r, err := a.findRun(pathVar(c, "runId"))
		if err != nil {
			return reply{}, err
		}
		return f(r)
	})
}

func (s *Sim) v1Run(c *call) (reply, error) {
	return s.withRun(c, func(r *run) (reply, error) { return ok(r.v1View(s.scheme(c))) })
}

func (s *Sim) v1Cancel(c *call) (reply, error) {
	return s.withRun(c, func(r *run) (reply, error) {
		if err := s.cancel(c, r); err != nil {
			return reply{}, err
		}
		return ok(map[string]any{"id": r.id})
	})
}
