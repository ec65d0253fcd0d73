package cloudagents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drawbridge/bridge"
)

// candidatesPage is how many runs FindSend lists, maxCandidates into how many of them it looks. A full page may hide older ones.
const candidatesPage, maxCandidates = 20, candidatesPage - 1

func (c *Client) launchV1(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	if !agentIDForm.MatchString(l.AgentID) {
		return bridge.Started{}, bridge.Errorf(bridge.Invalid, "launch agent: the agent id must be bc- and a UUID")
	}
	k := post("launch agent", "/v1/agents")
	servers, secrets := serversOf(l.Door)
	k.secrets = secrets
	k.body = createV1{
		MCPServers:   servers,
		AgentID:      l.AgentID,
		Name:         agentName(l.Name),
		Prompt:       promptJSON{Text: l.Grant.Prompt()},
		Model:        c.modelV1(),
		Repos:        []repoJSON{{URL: "https://" + string(l.Grant.Repo()), StartingRef: l.Ref}},
		AutoCreatePR: c.opts.AutoCreatePR,
	}
	var out struct {
		Agent agentV1 `json:"agent"`
		Run   runV1   `json:"run"`
	}
	err := c.do(ctx, k, &out)
	if bridge.KindOf(err) == bridge.Conflict {
		return c.adopt(ctx, l, err)
	}
	if err != nil {
		return bridge.Started{}, err
	}
	if out.Agent.ID != l.AgentID {
		return bridge.Started{}, c.garbled(k, errors.New("the answer names another agent"))
	}
	if out.Run.ID == "" {
		out.Run.ID = out.Agent.LatestRunID
	}
	if !out.Run.of(l.AgentID) {
		return bridge.Started{}, c.garbled(k, errors.New("the answer names no run of the agent"))
	}
	return startedV1(out.Agent, out.Run.ID), nil
}

func (c *Client) modelV1() *modelJSON {
	if c.opts.Model == "" {
		return nil
	}
	return &modelJSON{ID: c.opts.Model}
}

func startedV1(agent agentV1, run string) bridge.Started {
	s := bridge.Started{Agent: agent.ID, Run: run, URL: link(agent.URL.Is)}
	if repos := agent.Repos.items; len(repos) > 0 {
		s.Repo = bounded(repos[0].URL)
	}
	return s
}

// agentV1 reads an agent and checks the ids that the answer holds.
func (c *Client) agentV1(ctx context.Context, what, id string) (agentV1, error) {
	if err := checkID(what, id); err != nil {
		return agentV1{}, err
	}
	k := get(what, "/v1/agents/"+id)
	var agent agentV1
	if err := c.do(ctx, k, &agent); err != nil {
		return agentV1{}, err
	}
	if agent.ID != id || agent.LatestRunID != "" && !validID(agent.LatestRunID) {
		return agentV1{}, c.garbled(k, errors.New("the answer names another agent or no usable run"))
	}
	return agent, nil
}

// runsV1 lists one page of an agent's runs, newest first, and the cursor of the
// next page, "" on the last.
func (c *Client) runsV1(ctx context.Context, what, agent string, p page) ([]runV1, string, error) {
	k := get(what, "/v1/agents/"+agent+"/runs")
	k.query = p.query()
	var out struct {
		Items listOf[runV1] `json:"items"`
		Next  string        `json:"nextCursor"`
	}
	if err := c.do(ctx, k, &out); err != nil {
		return nil, "", err
	}
	if out.Items.more || len(out.Items.items) > p.limit || len(out.Next) > maxCursor {
		return nil, "", c.garbled(k, errors.New("the answer lists more than was asked for"))
	}
	for _, run := range out.Items.items {
		if !run.of(agent) {
			return nil, "", c.garbled(k, errors.New("the answer lists a run of another agent or without a usable id"))
		}
	}
	return out.Items.items, out.Next, nil
}

func (c *Client) sendV1(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	k := post("send follow-up", "/v1/agents/"+f.Agent+"/runs")
	servers, secrets := serversOf(f.Door)
	k.secrets = secrets
	k.body = followUpJSON{Prompt: promptJSON{Text: followUpText(f)}, MCPServers: servers}
	var out struct {
		Run runV1 `json:"run"`
	}
	err := c.do(ctx, k, &out)
	if err != nil {
		return bridge.Started{}, busyOr(err, func() bool { return c.runsNowV1(ctx, f.Agent) })
	}
	if !out.Run.of(f.Agent) {
		return bridge.Started{}, c.garbled(k, errors.New("the answer names no run of the agent"))
	}
	return bridge.Started{Agent: f.Agent, Run: out.Run.ID}, nil
}

// runsNowV1 reports whether the agent surely has an active run.
func (c *Client) runsNowV1(ctx context.Context, agent string) bool {
	runs, _, err := c.runsV1(ctx, "send follow-up", agent, page{limit: 20})
	if err != nil || len(runs) == 0 {
		return false
	}
	state, _ := stateOf(runs[0].Status)
	return !state.Terminal()
}

// busyOr names a 409 that says nothing of its reason, as shapes B to E do: Busy
// when the agent has an active run, else the conflict as it came.
func busyOr(err error, active func() bool) error {
	if bridge.KindOf(err) != bridge.Conflict || hasCode(err, codeArchived) || !active() {
		return err
	}
	return &bridge.Error{Kind: bridge.Busy, Message: "send follow-up: the agent has an active run", Cause: err}
}

func (c *Client) findSendV1(ctx context.Context, f bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	const what = "find follow-up"
	agent, err := c.agentV1(ctx, what, f.Agent)
	switch {
	case err != nil:
		return bridge.Started{}, bridge.FoundUnknown, err
	case agent.LatestRunID == "" || agent.LatestRunID == f.LastRun:
		return bridge.Started{}, bridge.FoundAbsent, nil
	}
	newer, err := c.runsSince(ctx, f, agent.LatestRunID)
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	run, err := c.attribute(ctx, f, newer)
	switch {
	case err != nil:
		return bridge.Started{}, bridge.FoundUnknown, err
	case run == "":
		return bridge.Started{}, bridge.FoundAbsent, nil
	}
	return startedV1(agent, run), bridge.FoundThere, nil
}

// runsSince returns the ids of runs newer than f.LastRun, newest first.
func (c *Client) runsSince(ctx context.Context, f bridge.FollowUp, latest string) ([]string, error) {
	runs, _, err := c.runsV1(ctx, "find follow-up", f.Agent, page{limit: candidatesPage})
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, run := range runs {
		if run.ID == f.LastRun {
			break
		}
		ids = append(ids, run.ID)
	}
	if len(ids) == 0 { // the list lags behind the agent
		ids = append(ids, latest)
	}
	return ids, nil
}

// attribute returns the run that f made, "" when surely none of them, or an
// Unclear error when several could be.
func (c *Client) attribute(ctx context.Context, f bridge.FollowUp, runs []string) (string, error) {
	unknown := []string{}
	for _, run := range runs[:min(len(runs), maxCandidates)] {
		who, err := c.whoseRun(ctx, bridge.RunRef{API: bridge.APIv1, Agent: f.Agent, Run: run}, f.Marker)
		switch {
		case err != nil:
			return "", err
		case who == ours:
			return run, nil
		case who == unreadable:
			unknown = append(unknown, run)
		}
	}
	// Without LastRun even the only run may be an old one.
	sure := f.LastRun != "" && len(runs) <= maxCandidates
	switch {
	case len(unknown) == 0 && len(runs) <= maxCandidates:
		return "", nil
	case len(unknown) == 1 && sure:
		return unknown[0], nil
	}
	return "", &bridge.Error{
		Kind:    bridge.Conflict,
		Message: fmt.Sprintf("find follow-up: the agent has %d new runs, and the bridge cannot tell which one is this follow-up", len(runs)),
		Unclear: true,
	}
}

func (c *Client) observeV1(ctx context.Context, r bridge.RunRef) (bridge.Observation, error) {
	run, err := c.runV1(ctx, "observe run", r)
	if err != nil {
		return bridge.Observation{}, err
	}
	o := observationV1(run)
	if o.State == bridge.RunFinished && o.Reply == "" {
		return c.recoverReply(ctx, r, o)
	}
	return o, nil
}

func (c *Client) runV1(ctx context.Context, what string, r bridge.RunRef) (runV1, error) {
	k := get(what, "/v1/agents/"+r.Agent+"/runs/"+r.Run)
	var run runV1
	if err := c.do(ctx, k, &run); err != nil {
		return runV1{}, err
	}
	if run.ID != r.Run || !run.of(r.Agent) {
		return runV1{}, c.garbled(k, errors.New("the answer names another run"))
	}
	return run, nil
}

func observationV1(run runV1) bridge.Observation {
	o := bridge.Observation{Duration: time.Duration(min(max(run.DurationMS.Is, 0), 1e12)) * time.Millisecond}
	o.State, o.Detail = stateOf(run.Status)
	if o.State.Terminal() {
		o.Reply = run.Result
	}
	if why := joinMessages(run.Error.Is.Code.Is, run.Error.Is.Message.Is); why != "" {
		o.Detail = clip(why, maxMessage)
	}
	if branches := run.Git.Is.Branches.items; len(branches) > 0 {
		first := branches[0].Is
		o.Repo, o.Branch, o.PR = bounded(first.RepoURL.Is), bounded(first.Branch.Is), link(first.PRURL.Is)
	}
	return o
}

// cancelV1 holds a 409 without the documented code against the run itself.
func (c *Client) cancelV1(ctx context.Context, r bridge.RunRef) error {
	k := post("cancel run", "/v1/agents/"+r.Agent+"/runs/"+r.Run+"/cancel")
	var out idJSON
	err := c.do(ctx, k, &out)
	if bridge.KindOf(err) != bridge.Conflict {
		return err
	}
	if hasCode(err, codeNotCancellable) {
		return nil
	}
	run, readErr := c.runV1(ctx, "cancel run", r)
	if state, _ := stateOf(run.Status); readErr == nil && state.Terminal() {
		return nil
	}
	return err
}
