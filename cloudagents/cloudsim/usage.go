package cloudsim

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"drawbridge/cloudagents/cloudsim/internal/request"
)

// tokens is invented from the lengths of the texts: stable, and more for longer texts.
type tokens struct {
	Input      int `json:"inputTokens"`
	Output     int `json:"outputTokens"`
	CacheWrite int `json:"cacheWriteTokens"`
	CacheRead  int `json:"cacheReadTokens"`
	Total      int `json:"totalTokens"`
}

func (t *tokens) add(o tokens) {
	t.Input += o.Input
	t.Output += o.Output
	t.CacheWrite += o.CacheWrite
	t.CacheRead += o.CacheRead
	t.Total += o.Total
}

// cost is what tokens cost, in cents. The vendor's numbers are floats.
type cost struct {
	Raw     float64 `json:"rawCostCents"`
	Charged float64 `json:"chargedCents"`
}

func (c *cost) add(o *cost) *cost {
	if c == nil || o == nil {
		return cmp.Or(c, o)
	}
	return &cost{c.Raw + o.Raw, c.Charged + o.Charged}
}

// centsPerToken is invented, for scripts that name no cost.
const centsPerToken = 0.001

func (r *run) usage() tokens {
	if r.active() {
		return tokens{}
	}
	t := tokens{Input: 1 + utf8.RuneCountInString(r.prompt)/4, Output: utf8.RuneCountInString(r.result) / 4, CacheWrite: 100, CacheRead: 200}
	if u := r.plan.turn.Usage; u != nil {
		t = tokens{Input: u.Input, Output: u.Output, CacheWrite: u.CacheWrite, CacheRead: u.CacheRead}
	}
	t.Total = t.Input + t.Output + t.CacheWrite + t.CacheRead
	return t
}

// cost is nil while the service tells none.
func (s *Sim) cost(r *run) *cost {
	if !s.settings.UsageCost || r.active() || s.now().Before(r.updatedAt.Add(time.Duration(s.settings.CostLag))) {
		return nil
	}
	u := r.plan.turn.Usage
	switch {
	case u == nil:
		cents := float64(r.usage().Total) * centsPerToken
		return &cost{cents, cents}
	case u.Charged == nil:
		return &cost{u.Cents, u.Cents}
	}
	return &cost{u.Cents, *u.Charged}
}

type runUsage struct {
	ID    string `json:"id"`
	UUID  string `json:"usageUuid,omitempty"`
	Usage tokens `json:"usage"`
	Cost  *cost  `json:"cost,omitempty"`
}

type agentUsage struct {
	Total tokens     `json:"totalUsage"`
	Cost  *cost      `json:"cost,omitempty"`
	Runs  []runUsage `json:"runs"`
}

func (s *Sim) v1Usage(c *call) (reply, error) {
	if s.settings.NoUsage {
		return reply{}, request.Refuse(http.StatusForbidden, "feature_unavailable", "Usage is not available for this account")
	}
	return s.withAgent(c, func(a *agent) (reply, error) {
		runs := a.runs
		if id := c.req.URL.Query().Get("runId"); id != "" {
			r, err := a.findRun(id)
			if err != nil {
				return reply{}, err
			}
			runs = []*run{r}
		}
		out := agentUsage{Runs: []runUsage{}}
		for _, r := range runs {
			u := runUsage{ID: r.id, Usage: r.usage(), Cost: s.cost(r)}
			if !r.active() {
				h := sha256.Sum256([]byte(r.id))
				u.UUID = fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
			}
			out.Total.add(u.Usage)
			out.Cost = out.Cost.add(u.Cost)
			out.Runs = append(out.Runs, u)
		}
		return ok(out)
	})
}
