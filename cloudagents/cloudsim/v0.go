package cloudsim

import (
	"net/http"
	"regexp"
	"slices"

	"drawbridge/cloudagents/cloudsim/internal/request"
	"drawbridge/cloudagents/cloudsim/script"
)

type v0Agent struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Status    string   `json:"status"`
	Source    v0Source `json:"source"`
	Target    v0Target `json:"target"`
	Summary   string   `json:"summary,omitempty"`
	CreatedAt string   `json:"createdAt"`
}

type v0Source struct {
	Repository string `json:"repository,omitempty"`
	Ref        string `json:"ref,omitempty"`
}

type v0Target struct {
	URL          string `json:"url"`
	BranchName   string `json:"branchName,omitempty"`
	PRURL        string `json:"prUrl,omitempty"`
	AutoCreatePR *bool  `json:"autoCreatePr,omitempty"`
	OpenAsApp    *bool  `json:"openAsCursorGithubApp,omitempty"`
	SkipReviewer *bool  `json:"skipReviewerRequest,omitempty"`
}

// v0View is the agent as v0 shows it: its status is that of its latest run.
func (s *Sim) v0View(a *agent) v0Agent {
	v := v0Agent{
		ID: a.id, Name: a.displayName(), Status: s.v0Status(a.latest().status), Summary: a.summary, CreatedAt: stamp(a.createdAt),
		Source: a.v0Source(),
		Target: a.v0Target(),
	}
	v.Target.AutoCreatePR, v.Target.OpenAsApp, v.Target.SkipReviewer = a.AutoCreatePR, a.OpenAsApp, a.SkipReviewer
	return v
}

func (a *agent) v0Source() v0Source {
	repo := a.Repo()
	if a.reported != "" {
		repo = a.reported
	}
	if repo == "" {
		return v0Source{}
	}
	src := v0Source{Repository: "https://" + repo}
	if len(a.Repos) > 0 {
		src.Ref = a.Repos[0].Ref
	}
	return src
}

func (a *agent) v0Target() v0Target {
	t := v0Target{URL: "https://cursor.com/agents?id=" + a.id, BranchName: a.Branch, PRURL: a.PRURL}
	if n := len(a.branches); n > 0 {
		t.BranchName = a.branches[n-1].branch
		if pr := a.branches[n-1].pr; pr != "" {
			t.PRURL = pr
		}
	}
	return t
}

func (a *agent) displayName() string {
	if a.Name != "" {
		return a.Name
	}
	return request.Title(a.Prompt)
}

func (s *Sim) v0Status(status string) string {
	if status == script.StatusCancelled {
		return s.settings.V0Cancelled
	}
	return status
}

func (s *Sim) launchRules() request.Rules {
	return request.Rules{Settings: s.settings, Book: s.rules, Models: s.models}
}

func (s *Sim) v0Launch(c *call) (reply, error) {
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
	return created(s.v0View(a))
}

var v0IDForm = regexp.MustCompile(`^bc[-_][A-Za-z0-9-]{1,64}$`)

// v0Find is the agent of a call. changing calls meet 409 for deleted and archived agents, reading ones 404 for deleted.
// The caller holds the lock.
func (s *Sim) v0Find(c *call, changing bool) (*agent, error) {
	if !v0IDForm.MatchString(c.id) {
		return nil, request.Invalid("Invalid agent ID format")
	}
	if a := s.lookup(c.id); a != nil && changing && (a.deleted || a.archived) {
		code, state := "agent_archived", "archived"
		if a.deleted {
			code, state = "agent_deleted", "deleted"
		}
		return nil, request.Refuse(http.StatusConflict, code, "Agent is %s", state)
	}
	return s.find(c.id)
}

func (s *Sim) v0Get(c *call) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.v0Find(c, false)
	if err != nil {
		return reply{}, err
	}
	return ok(s.v0View(a))
}

func (s *Sim) v0List(c *call) (reply, error) {
	q := c.req.URL.Query()
	p, err := readPage(q, "v0 agents")
	if err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []entry[v0Agent]
	for _, a := range s.order {
		if !a.deleted && a.onPR(q.Get("prUrl")) {
			all = append(all, entry[v0Agent]{a.seq, s.v0View(a)})
		}
	}
	items, next := cutPage(p, all)
	return ok(listed("agents", items, next))
}

// onPR is whether the agent was launched on, or opened, the pull request; "" is any.
func (a *agent) onPR(url string) bool {
	return url == "" || a.PRURL == url ||
		slices.ContainsFunc(a.Repos, func(r request.RepoRef) bool { return r.PRURL == url }) ||
		slices.ContainsFunc(a.branches, func(p pushed) bool { return p.pr == url })
}

type v0Message struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Text string `json:"text"`
}

func (s *Sim) v0Conversation(c *call) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.v0Find(c, true)
	if err != nil {
		return reply{}, err
	}
	messages := []v0Message{}
	say := func(kind, text string) {
		// The vendor hands out new message ids at every call.
		messages = append(messages, v0Message{ID: s.newID("msg_"), Type: kind, Text: text})
	}
	for _, r := range a.runs {
		if s.now().Before(r.hidden) {
			continue
		}
		say("user_message", r.prompt)
		if r.result != "" {
			say("assistant_message", r.result)
		}
	}
	return ok(map[string]any{"id": a.id, "messages": messages})
}

func (s *Sim) v0Followup(c *call) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.v0Find(c, true)
	if err != nil {
		return reply{}, err
	}
	prompt, _, err := c.body.Followup()
	if err != nil {
		return reply{}, err
	}
	if _, err := s.followup(c.req.Context(), a, c, prompt); err != nil {
		return reply{}, err
	}
	return ok(map[string]any{"id": a.id})
}

func (s *Sim) v0Stop(c *call) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.v0Find(c, true)
	if err != nil {
		return reply{}, err
	}
	idle := !a.latest().active()
	if idle && s.settings.V0StopIdle == script.StopIdleAccept {
		return ok(map[string]any{"id": a.id})
	}
	if !idle {
		s.dropQueue(c, a) // otherwise the next prompt would start what was just stopped
	}
	if err := s.cancel(c, a.latest()); err != nil {
		return reply{}, err
	}
	return ok(map[string]any{"id": a.id})
}

func (s *Sim) v0Delete(c *call) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.v0Find(c, true)
	if err != nil {
		return reply{}, err
	}
	s.remove(c, a)
	return ok(map[string]any{"id": a.id})
}
