package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"drawbridge/api"
	"drawbridge/bridge"
)

// The bounds of the places about agents.
const (
	maxAgents = 500
	maxTurns  = 20
	// maxSeen bounds each text of a turn on the page, in bytes.
	maxSeen = 40_000
)

// agentRow is an agent in the list of all.
type agentRow struct {
	ID, Name, Task, Where, State, Tone, Took string
	Depth                                    int
	moment
}

func (a agentRow) names() (template, key string) { return "agent.html", a.ID }

// Path is the agent's conversation.
func (a agentRow) Path() string { return agentPath(a.ID) }

func agentPath(id string) string { return "/agents/" + url.PathEscape(id) }

// Indent is how many steps the row stands to the right, three at most.
func (a agentRow) Indent() int { return min(a.Depth, 3) }

// stateTones are the colors of an agent's states, and of what it does.
var stateTones = map[string]string{
	"working": "ok", "starting": "ok", "busy": "ok", "asking": "wait", "limited": "wait", "silent": "wait", "gated": "wait", "waiting": "info", "failed": "bad", "stopped": "bad",
}

func (p *Page) agentRowOf(a api.Agent) agentRow {
	r := agentRow{ID: a.ID, Name: a.Name, Task: a.Task, Where: a.Repo, Depth: a.Depth, Took: took(a.Tokens, a.CostUSD)}
	if !bridge.InCloud(a.Runtime) {
		r.Where += " in " + a.Runtime
	}
	state, since := a.Now()
	r.State, r.Tone, r.moment = state, stateTones[state], p.moment(since)
	return r
}

// took says what an agent used, "" when nobody tells.
func took(tokens int64, usd float64) string {
	var parts []string
	if tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", tokens))
	}
	if usd > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", usd))
	}
	return strings.Join(parts, ", ")
}

// agentsModel collects all agents: trees with news first, and in each tree the agents below their parents.
func (p *Page) agentsModel(ctx context.Context, m *page, _ view) error {
	list, err := p.o.API.Agents(ctx, api.ListOptions{Limit: maxAgents})
	if err != nil {
		return err
	}
	m.Title, m.Live, m.Quiet = "Agents", "place="+placeAgents, `There is no agent yet. To launch one, type: drawbridge up FOLDER "TASK"`
	children := api.Below(list.Agents)
	newest := map[string]time.Time{}
	for _, a := range list.Agents {
		if a.UpdatedAt.After(newest[a.Root]) {
			newest[a.Root] = a.UpdatedAt
		}
	}
	slices.SortStableFunc(children[""], func(a, b api.Agent) int { return newest[b.Root].Compare(newest[a.Root]) })
	var add func(parent string)
	add = func(parent string) {
		for _, a := range children[parent] {
			m.Items = append(m.Items, p.agentRowOf(a))
			add(a.ID)
		}
	}
	add("")
	if m.Sub = fmt.Sprint(len(m.Items)); list.Next != "" {
		m.Sub = fmt.Sprintf("the newest %d; to list all, type: drawbridge agents", maxAgents)
	}
	return nil
}

// agentHead is what stands above a conversation.
type agentHead struct {
	agentRow
	Trouble, URL, Parent, ParentName, Word string
	// Root says that the agent is the top of its tree, and that the person may stop and resume that.
	Root, Stopped bool
	Budget        string
	// Earlier says that the conversation shows earlier turns, and not the latest.
	Earlier bool
}

func (agentHead) names() (template, key string) { return "head.html", "" }

// agentModel collects an agent's conversation, the oldest turn first.
func (p *Page) agentModel(ctx context.Context, m *page, v view) error {
	a, err := p.o.API.Agent(ctx, v.agent)
	if err != nil {
		return err
	}
	m.Title, m.Live, m.Quiet = a.Name, "place="+placeAgent+"&agent="+url.QueryEscape(a.ID), "The agent has had no turn yet."
	m.Agent = &agentHead{agentRow: p.agentRowOf(a), Trouble: a.Trouble, Parent: a.Parent, Word: m.Word, Root: a.Parent == "" && m.Who.Role.May(bridge.RoleApprover)}
	if u, err := url.Parse(a.URL); err == nil && u.Scheme == "https" {
		m.Agent.URL = a.URL
	}
	if a.Parent != "" {
		parent, err := p.o.API.Agent(ctx, a.Parent)
		if err != nil {
			return err
		}
		m.Agent.ParentName = parent.Name
	}
	tree, err := p.o.API.Tree(ctx, a.ID)
	if err != nil {
		return err
	}
	m.Agent.Budget = budget(tree)
	if !tree.StoppedAt.IsZero() {
		m.Agent.Stopped, m.Agent.State = true, "stopped"
		if m.Agent.Trouble == "" && tree.Why != "" { // its turn may still be ending
			m.Agent.Trouble = "stopped: " + tree.Why
		}
	}
	m.Sub = strings.Join(slices.DeleteFunc([]string{m.Agent.State, m.Agent.Where, m.Agent.Took}, func(s string) bool { return s == "" }), " · ")
	list, err := p.turns(ctx, a, &v)
	if err != nil {
		return err
	}
	m.Agent.Earlier = v.before != ""
	m.Side = *m.Agent
	m.Live += "&before=" + v.before
	if m.MoreText = "Earlier turns"; list.Next != "" {
		m.More = m.Agent.Path() + "?before=" + list.Next
	}
	for _, t := range slices.Backward(list.Turns) {
		m.Items = append(m.Items, p.whole(ctx, v.looks.ended, t, a.Parent != ""))
	}
	if m.Agent.Earlier {
		return nil
	}
	if now, does := v.looks.steps.look(ctx, p.o.API, a); does {
		m.Items = append(m.Items, now)
	}
	m.Busy = a.State == string(bridge.AgentBusy) && !bridge.InCloud(a.Runtime)
	return nil
}

// turns lists the turns of a conversation, the newest first: the latest, those before v.before, or the ones up to v.turn if that is an earlier one.
func (p *Page) turns(ctx context.Context, a api.Agent, v *view) (api.TurnList, error) {
	list, err := p.o.API.Turns(ctx, a.ID, api.ListOptions{Limit: maxTurns, Before: v.before})
	if err != nil || v.turn == "" || v.before != "" || slices.ContainsFunc(list.Turns, func(t api.Turn) bool { return t.ID == v.turn }) {
		return list, err
	}
	t, err := p.o.API.Turn(ctx, v.turn)
	if err != nil {
		return list, err
	}
	if t.Agent != a.ID {
		return list, bridge.Errorf(bridge.NotFound, "agent %s has no such turn", a.Name)
	}
	v.before = fmt.Sprint(t.Seq + 1)
	return p.o.API.Turns(ctx, a.ID, api.ListOptions{Limit: maxTurns, Before: v.before})
}

// whole makes a turn with its texts and commands. What is over does not change any more, and is kept in ended. A turn that cannot be read says
// so, and does not take the others away.
func (p *Page) whole(ctx context.Context, ended map[string]turn, t api.Turn, below bool) turn {
	if known, ok := ended[t.ID]; ok {
		return known
	}
	full, err := p.o.API.Turn(ctx, t.ID)
	if err != nil {
		t.Trouble = "the page cannot show all of this turn: " + bridge.SafeMessage(err)
		return turnOf(t, below)
	}
	out := turnOf(full, below)
	over := full.State == string(bridge.TurnReplied)
	for _, c := range full.Commands {
		over = over && (c.State == string(bridge.CommandReported) || c.State == string(bridge.CommandRefused))
	}
	if over {
		ended[t.ID] = out
	}
	return out
}

// budget says what a tree has used of its bounds.
func budget(t api.Tree) string {
	parts := []string{fmt.Sprintf("%d of %d turns", t.Turns, t.Budget.Turns), fmt.Sprintf("%d of %d launches", t.Launches, t.Budget.Launches)}
	if t.Budget.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", t.Tokens, t.Budget.Tokens))
	}
	if t.Budget.CostUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f of $%d", t.CostUSD, t.Budget.CostUSD))
	}
	return strings.Join(parts, ", ")
}

// speak says something to an agent, or stops its tree or lets it go on.
func (p *Page) speak(w http.ResponseWriter, r *http.Request, s session) error {
	v, err := viewOf(r, s)
	if err != nil {
		return err
	}
	id := v.agent
	value := strings.TrimSpace(r.PostForm.Get("value"))
	switch mux.Vars(r)["verb"] {
	case "say":
		err = only(p.o.API.Say(r.Context(), id, value))
	case "stop":
		err = only(p.o.API.Stop(r.Context(), id, value))
	case "resume":
		err = only(p.o.API.Resume(r.Context(), id))
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, agentPath(id), http.StatusSeeOther)
	return nil
}
