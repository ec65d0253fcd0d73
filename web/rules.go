package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// usesFor is how long the page shows what agents asked for before it counts again.
const usesFor = time.Minute

// rules is one list of the place about rules.
type rules struct {
	Key, Title string
	Head       []string
	Rows       [][]cell
}

// cell is one text of a list, with a time behind it if there is one.
type cell struct {
	Text string
	moment
}

func (r rules) names() (template, key string) { return "rules.html", r.Key }

// trial are the two forms of the place about rules, and what came of them.
type trial struct {
	// Agent and Text are what is tried, and Lines what came of it. Tried says that it was.
	Agent, Text string
	Tried       bool
	Over        string
	Lines       []tried
	// HasFile says that the rules come from a file, and Unread why it cannot be read.
	HasFile bool
	Unread  string
	// Edited is an allowlist, and Differences what it would have changed. Compared says that it was compared.
	Edited      string
	Compared    bool
	Found       string
	Differences rules
	Limits      []string
}

// tried is a line of a text and what the gate says to it.
type tried struct {
	Line                  int
	Text, Chip, Tone, Why string
}

// decisionTones are the colors of the gate's answers.
var decisionTones = map[string]string{"granted": "ok", "held": "wait", "refused": "bad", "noted": "info"}

// rulesModel collects what is allowed to whom, and who used it.
func (p *Page) rulesModel(ctx context.Context, m *page, v view) error {
	m.Title, m.Live = "Rules", "place="+placeRules
	allowed, err := p.o.API.Allowed(ctx)
	if err != nil {
		return err
	}
	used, _, err := v.looks.uses.get(p.o.Now(), usesFor, func() (api.UseList, error) { return p.o.API.Uses(ctx) })
	if err != nil {
		return err
	}
	m.Sub = words.Count(len(allowed.Actions), "action")
	switch len(allowed.Repos) {
	case 0:
		m.Sub += ", no repository"
	case 1:
		m.Sub += ", 1 repository"
	default:
		m.Sub += fmt.Sprintf(", %d repositories", len(allowed.Repos))
	}
	if slices.ContainsFunc(m.needs.Needs, func(n api.Need) bool { return n.Kind == api.NeedAllowlist }) {
		m.Sub += "; the file on disk is broken, and these rules stay in force"
	}
	for _, list := range []rules{p.refusedUses(used), p.repoRules(allowed, used), p.actionRules(allowed, used), narrowed(allowed), limits(allowed)} {
		if len(list.Rows) > 0 {
			m.Items = append(m.Items, list)
		}
	}
	if used.More {
		m.Sub += "; the oldest uses of the 30 days are not counted"
	}
	if !v.steady { // a stream sends no forms
		m.Trial = p.forms(ctx)
	}
	return nil
}

// forms makes the two forms of the place about rules.
func (p *Page) forms(ctx context.Context) *trial {
	text, err := p.o.API.AllowlistText(ctx)
	switch {
	case bridge.KindOf(err) == bridge.NotFound:
		return &trial{}
	case err != nil:
		return &trial{Unread: bridge.SafeMessage(err)}
	}
	return &trial{HasFile: true, Edited: text.Text}
}

// usedBy says how often agents asked for what a rule allows.
func (p *Page) usedBy(rule, verb string, list api.UseList) cell {
	var count int
	var who api.Users
	var last time.Time
	for _, u := range list.Uses {
		if u.Rule != rule || u.Verb != verb {
			continue
		}
		count += u.Granted + u.Waiting + u.Refused
		for _, name := range u.Agents {
			switch {
			case slices.Contains(who.Agents, name):
			case len(who.Agents) < maxNames:
				who.Agents = append(who.Agents, name)
			default:
				who.MoreAgents++
			}
		}
		who.MoreAgents = max(who.MoreAgents, u.MoreAgents) // they may be the same ones
		if u.LastAt.After(last) {
			last = u.LastAt
		}
	}
	switch {
	case count == 0 && list.More:
		return cell{Text: "not lately"}
	case count == 0:
		return cell{Text: "not used"}
	}
	return p.when(fmt.Sprintf("%s by %s", times(count), who), last)
}

// maxNames bounds the names of agents in one cell.
const maxNames = 5

// when is a text with a time behind it.
func (p *Page) when(text string, at time.Time) cell {
	return cell{text, p.moment(at)}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// agrees says when a person must agree.
func agrees(approval string) string {
	switch approval {
	case "never":
		return "no"
	case "each":
		return "each time"
	}
	return approval
}

func (p *Page) repoRules(a api.Allowed, used api.UseList) rules {
	out := rules{Key: "rules-repos", Title: "Agents may be launched on", Head: []string{"Repository", "A person agrees", "Runtime", "Used in 30 days"}}
	for _, r := range a.Repos {
		where := r.Runtime
		if r.API != "" {
			where = "API " + r.API
		}
		out.Rows = append(out.Rows, []cell{{Text: r.Pattern}, {Text: agrees(r.Approval)}, {Text: where}, p.usedBy(r.Pattern, "SUBAGENT", used)})
	}
	for _, own := range a.Own {
		if !slices.ContainsFunc(a.Repos, func(r api.AllowedRepo) bool { return r.Pattern == own.Repo }) {
			out.Rows = append(out.Rows, []cell{{Text: own.Repo + ", only by " + own.Agent + " and all below it"}, {Text: "no"}, {}, p.usedBy(own.Repo, "SUBAGENT", used)})
		}
	}
	return out
}

func (p *Page) actionRules(a api.Allowed, used api.UseList) rules {
	out := rules{Key: "rules-actions", Title: "Agents may run", Head: []string{"Action", "A person agrees", "Relay", "Used in 30 days"}}
	for _, r := range a.Actions {
		out.Rows = append(out.Rows, []cell{{Text: r.ID}, {Text: agrees(r.Approval)}, {Text: r.Relay}, p.usedBy(r.ID, "LOCAL_ACTION", used)})
	}
	return out
}

// maxRefusedUses bounds the things that agents asked for in vain.
const maxRefusedUses = 20

// refusedUses are what agents asked for and no rule allows now.
func (p *Page) refusedUses(used api.UseList) rules {
	out := rules{Key: "rules-refused", Title: "Agents asked for this, and no rule allows it now", Head: []string{"What", "Asked in 30 days"}}
	for _, u := range used.Uses {
		if u.Rule == "" && len(out.Rows) < maxRefusedUses {
			out.Rows = append(out.Rows, []cell{{Text: u.Verb + " " + u.Target}, p.when(fmt.Sprintf("%s by %s", times(u.Granted+u.Waiting+u.Refused), u.Users), u.LastAt)})
		}
	}
	return out
}

// narrowed is what single agents may not do.
func narrowed(a api.Allowed) rules {
	out := rules{Key: "rules-agents", Title: "Narrower rules for single agents, and all below them", Head: []string{"Agent", "Repositories", "Actions", "Tree"}}
	list := func(all []string) cell {
		switch {
		case all == nil:
			return cell{Text: "all of the list"}
		case len(all) == 0:
			return cell{Text: "none"}
		}
		return cell{Text: strings.Join(all, ", ")}
	}
	for _, n := range a.Agents {
		out.Rows = append(out.Rows, []cell{{Text: n.Name}, list(n.Repos), list(n.Actions), {Text: bounds(n.Tree)}})
	}
	return out
}

// bounds says which bounds a tree has; "" for none.
func bounds(b api.Budget) string {
	var all []string
	for _, f := range []struct {
		name  string
		value int
	}{{"launches", b.Launches}, {"open at a time", b.Open}, {"turns", b.Turns}, {"tokens", b.Tokens}, {"dollars", b.CostUSD}} {
		if f.value > 0 {
			all = append(all, fmt.Sprintf("%d %s", f.value, f.name))
		}
	}
	return strings.Join(all, ", ")
}

func limits(a api.Allowed) rules {
	l := a.Limits
	out := rules{Key: "rules-limits", Title: "Limits", Head: []string{"Limit", "At most"}}
	for _, row := range [][2]string{
		{"commands in one reply", fmt.Sprint(l.CommandsPerTurn)}, {"launches of the bridge in an hour", fmt.Sprint(l.LaunchesPerHour)},
		{"open subagents of the bridge", fmt.Sprint(l.OpenSubagents)}, {"levels of subagents", fmt.Sprint(l.Depth)},
		{"turns in a row without a person", fmt.Sprint(l.TurnsPerChain)}, {"waiting reminders of an agent", fmt.Sprint(l.Reminders)},
		{"all agents of one tree", bounds(l.Tree)},
	} {
		out.Rows = append(out.Rows, []cell{{Text: row[0]}, {Text: row[1]}})
	}
	for _, w := range a.Warnings {
		out.Rows = append(out.Rows, []cell{{Text: "without effect"}, {Text: w}})
	}
	return out
}

// try answers one of the two forms. Nothing is recorded.
func (p *Page) try(w http.ResponseWriter, r *http.Request, s session) error {
	ctx, f := r.Context(), r.PostForm
	act := map[string]func(context.Context, *trial) error{"try": p.tryText, "compare": p.compare}[f.Get("word")]
	if act == nil {
		return bridge.Errorf(bridge.Invalid, "the form names an unknown action; load the page again")
	}
	m, err := p.model(ctx, view{session: s, place: placeRules})
	if err != nil {
		return err
	}
	m.Trial.Agent, m.Trial.Text = strings.TrimSpace(f.Get("agent")), formText(f, "text")
	if f.Has("allowlist") {
		m.Trial.HasFile, m.Trial.Edited = true, formText(f, "allowlist")
	}
	status := http.StatusOK
	if err := act(ctx, m.Trial); err != nil {
		m.Error, status = bridge.SafeMessage(err), api.StatusOf(err)
	}
	p.show(w, status, "page.html", m)
	return nil
}

// tryText asks what would come of a text.
func (p *Page) tryText(ctx context.Context, t *trial) error {
	reading, err := p.o.API.Try(ctx, t.Agent, t.Text)
	if err != nil {
		return err
	}
	t.Tried, t.Over = true, reading.OverCap
	lines := strings.Split(t.Text, "\n")
	said := func(n int) string {
		if n < 1 || n > len(lines) {
			return ""
		}
		return lines[n-1]
	}
	for _, c := range reading.Commands {
		one := tried{c.Line, said(c.Line), *c.Verdict, decisionTones[*c.Verdict], *c.Reason}
		if c.Rule != "" && *c.Reason == "" {
			one.Why = "allowed by " + c.Rule
		}
		t.Lines = append(t.Lines, one)
	}
	for _, n := range reading.NearMisses {
		t.Lines = append(t.Lines, tried{n.Line, said(n.Line), "not a command", "wait", n.Reason})
	}
	slices.SortStableFunc(t.Lines, func(a, b tried) int { return a.Line - b.Line })
	return nil
}

// compare asks what an edited allowlist would have changed.
func (p *Page) compare(ctx context.Context, t *trial) error {
	c, err := p.o.API.Compare(ctx, t.Edited)
	if err != nil {
		return err
	}
	t.Compared, t.Limits = true, c.Limits
	t.Found = fmt.Sprintf("The edited allowlist and the one in force give the same answers to %s since %s.", words.Count(c.Commands, "command"), c.Since.Format(time.DateOnly))
	if len(c.Differences) > 0 {
		t.Found = fmt.Sprintf("Of %s since %s, the edited allowlist would answer these differently:", words.Count(c.Commands, "command"), c.Since.Format(time.DateOnly))
	}
	if c.More {
		t.Found += " (The oldest of them are left out: there were too many different ones.)"
	}
	t.Differences = rules{Head: []string{"What", "Before", "Edited", "Asked"}}
	for _, d := range c.Differences {
		t.Differences.Rows = append(t.Differences.Rows, []cell{{Text: d.Verb + " " + d.Target}, {Text: d.Was}, {Text: d.Now + ": " + d.Why},
			p.when(fmt.Sprintf("%s by %s", times(d.Count), d.Users), d.LastAt)})
	}
	return nil
}
