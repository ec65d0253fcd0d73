package cloudsim

import (
	"crypto/sha256"
	"fmt"
	"net/http"
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

func (r *run) usage() tokens {
	if r.active() {
		return tokens{}
	}
	t := tokens{Input: 1 + utf8.RuneCountInString(r.prompt)/4, Output: utf8.RuneCountInString(r.result) / 4, CacheWrite: 100, CacheRead: 200}
	t.Total = t.Input + t.Output + t.CacheWrite + t.CacheRead
	return t
}

type runUsage struct {
	ID    string `json:"id"`
	UUID  string `json:"usageUuid,omitempty"`
	Usage tokens `json:"usage"`
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
		total, list := tokens{}, []runUsage{}
		for _, r := range runs {
			u := runUsage{ID: r.id, Usage: r.usage()}
			if !r.active() {
				h := sha256.Sum256([]byte(r.id))
				u.UUID = fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
			}
			total.add(u.Usage)
			list = append(list, u)
		}
		return ok(map[string]any{"totalUsage": total, "runs": list})
	})
}
