package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/policy"
)

// The bounds of what is told about the past.
const (
	// usesFor is how far back uses are counted.
	usesFor = 30 * 24 * time.Hour
	// maxUses and maxCompared bound how many different things are counted for each tree and compared for each agent, the latest first.
	maxUses     = 5000
	maxCompared = 20_000
	// maxUsers bounds the names of agents in one line.
	maxUsers = 5
)

// Use is what agents asked for in the last 30 days, counted: a launch on a repository, or an action.
type Use struct {
	Verb   string `json:"verb"`
	Target string `json:"target"`
	// Rule is the pattern or the id on the allowlist that allows it now, "" when none does.
	Rule string `json:"rule,omitempty"`
	// Granted passed, at once or after a person's yes. Waiting waits for a person. Refused did not pass.
	Granted int `json:"granted"`
	Waiting int `json:"waiting"`
	Refused int `json:"refused"`
	Users
	LastAt time.Time `json:"last_at"`
}

// Users are agents of which some are named.
type Users struct {
	// Agents are up to five names, the latest first, and MoreAgents is how many others there are. Of uses they are the agents at the top of the trees.
	Agents     []string `json:"agents"`
	MoreAgents int      `json:"more_agents,omitempty"`
}

// String names the agents as in a sentence.
func (u Users) String() string {
	text := strings.Join(u.Agents, ", ")
	if u.MoreAgents > 0 {
		text += fmt.Sprintf(" and %d more", u.MoreAgents)
	}
	return text
}

// UseList is an answer with uses, the latest first.
type UseList struct {
	Since time.Time `json:"since"`
	Uses  []Use     `json:"uses"`
	// More says that there were too many different uses, and that the oldest are left out.
	More bool `json:"more,omitempty"`
}

// used is a bridge.Use with what the policy judges.
type used struct {
	bridge.Use
	asked policy.Asked
}

// lately collects what agents asked for: the latest, and most different things.
func (h *Handler) lately(ctx context.Context, trees bool, most int) (all []used, since time.Time, more bool, err error) {
	since = h.o.Now().Add(-usesFor)
	err = h.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		all = nil
		uses, err := tx.Uses(since, trees, most+1)
		if err != nil {
			return err
		}
		if more = len(uses) > most; more {
			uses = uses[:most]
		}
		parents := map[bridge.AgentID][]string{"": nil}
		for _, u := range uses {
			above, known := parents[u.By.Parent]
			if !known {
				parent, err := tx.Agent(u.By.Parent)
				if err != nil {
					return err
				}
				if above, err = tx.Lineage(parent); err != nil {
					return err
				}
				parents[u.By.Parent] = above
			}
			all = append(all, used{u, policy.Asked{Agents: append(slices.Clone(above), u.By.Names()...), Verb: u.Verb, Target: u.Target}})
		}
		return nil
	})
	return all, since, more, err
}

// groups numbers groups of uses in the order in which they come, and counts the names of their agents.
type groups struct {
	at    map[string]int
	seen  []map[string]bool
	users []Users
}

// of returns the number of a group and whether it is new.
func (g *groups) of(agent string, key ...string) (i int, fresh bool) {
	word := strings.Join(key, "\n")
	i, known := g.at[word]
	if !known {
		i = len(g.users)
		g.users, g.seen = append(g.users, Users{Agents: []string{}}), append(g.seen, map[string]bool{})
		if g.at == nil {
			g.at = map[string]int{}
		}
		g.at[word] = i
	}
	u := &g.users[i]
	switch {
	case g.seen[i][agent]:
	case len(u.Agents) < maxUsers:
		u.Agents = append(u.Agents, agent)
	default:
		u.MoreAgents++
	}
	g.seen[i][agent] = true
	return i, !known
}

func (h *Handler) uses(w http.ResponseWriter, r *http.Request) error {
	all, since, more, err := h.lately(r.Context(), true, maxUses)
	if err != nil {
		return err
	}
	out := UseList{Since: since, Uses: []Use{}, More: more}
	p, g := h.o.Policy(), groups{}
	for _, u := range all {
		i, fresh := g.of(u.By.Name, string(u.Verb), u.Target)
		if fresh {
			out.Uses = append(out.Uses, Use{Verb: string(u.Verb), Target: u.Target, LastAt: u.Last})
		}
		use := &out.Uses[i]
		switch u.State {
		case bridge.CommandHeld:
			use.Waiting += u.Count
		case bridge.CommandRefused:
			use.Refused += u.Count
		default:
			use.Granted += u.Count
		}
		if use.Rule == "" {
			use.Rule = p.Alone(u.asked).Rule
		}
	}
	for i := range out.Uses {
		out.Uses[i].Users = g.users[i]
	}
	httpx.WriteJSON(w, http.StatusOK, out)
	return nil
}

// CompareRequest asks what an edited allowlist would have made of what agents asked for.
type CompareRequest struct {
	// Allowlist is the whole text of the edited file. It refers to no variable and no file.
	Allowlist string `json:"allowlist"`
}

// Difference is what agents asked for in the last 30 days, and the edited allowlist would judge in another way.
type Difference struct {
	Verb   string `json:"verb"`
	Target string `json:"target"`
	// Was and Now are granted, held or refused.
	Was string `json:"was"`
	Now string `json:"now"`
	// Why says more: the reason of Now, or what else changes where the decision stays the same.
	Why   string `json:"why"`
	Count int    `json:"count"`
	Users
	LastAt time.Time `json:"last_at"`
}

// Comparison is the answer to a CompareRequest.
type Comparison struct {
	Since time.Time `json:"since"`
	// Commands is how many launches and actions were judged by both. What named no repository and no action is not among them, and neither is
	// what was over a limit.
	Commands    int          `json:"commands"`
	Differences []Difference `json:"differences"`
	// Limits are those that change, in words, those of single agents too. They are not tried on the commands.
	Limits []string `json:"limits"`
	// More is as in UseList.
	More bool `json:"more,omitempty"`
}

func (h *Handler) compare(w http.ResponseWriter, r *http.Request) error {
	var req CompareRequest
	if err := readExact(w, r, &req); err != nil {
		return err
	}
	if h.o.Allowlist == nil {
		return errNoFile
	}
	edited, err := h.o.Allowlist.Compile(req.Allowlist)
	if err != nil {
		return err
	}
	all, since, more, err := h.lately(r.Context(), false, maxCompared)
	if err != nil {
		return err
	}
	p, g := h.o.Policy(), groups{}
	out := Comparison{Since: since, Differences: []Difference{}, Limits: limitChanges(p, edited), More: more}
	for _, u := range all {
		out.Commands += u.Count
		was, now := p.Alone(u.asked), edited.Alone(u.asked)
		why := was.Change(now)
		if why == "" {
			continue
		}
		one := Difference{Verb: string(u.Verb), Target: u.Target, Was: string(was.Decision), Now: string(now.Decision), Why: why, LastAt: u.Last}
		i, fresh := g.of(u.By.Name, one.Verb, one.Target, one.Was, one.Now, one.Why)
		if fresh {
			out.Differences = append(out.Differences, one)
		}
		out.Differences[i].Count += u.Count
	}
	for i := range out.Differences {
		out.Differences[i].Users = g.users[i]
	}
	httpx.WriteJSON(w, http.StatusOK, out)
	return nil
}

// limitChanges says which limits change, in words.
func limitChanges(was, now *policy.Policy) []string {
	all := []string{}
	differ := func(key string, a, b []policy.Bound) {
		for i := range a {
			if a[i].Value != b[i].Value {
				all = append(all, fmt.Sprintf("%s%s: %s, before: %s", key, a[i].Key, bound(b[i].Value), bound(a[i].Value)))
			}
		}
	}
	differ("limits.", was.Limits().Bounds(), now.Limits().Bounds())
	before, after := was.Narrowed(), now.Narrowed()
	names := map[string]bool{}
	for _, narrowed := range []map[string]policy.Narrowing{before, after} {
		for name := range narrowed {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		differ("agents."+name+".", before[name].Tree.Bounds("tree."), after[name].Tree.Bounds("tree."))
	}
	return all
}

// bound is a limit in words.
func bound(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// Uses returns what agents asked for in the last 30 days.
func (c *Client) Uses(ctx context.Context) (UseList, error) {
	return get[UseList](ctx, c, "/v1/allowed/uses", nil)
}

// Compare says what an edited allowlist would have made of what agents asked for. Nothing changes.
func (c *Client) Compare(ctx context.Context, allowlist string) (Comparison, error) {
	return post[Comparison](ctx, c, "/v1/allowed/compare", CompareRequest{Allowlist: allowlist})
}
