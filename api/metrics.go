package api

import (
	"net/http"
	"time"

	"drawbridge/api/metrics"
	"drawbridge/internal/httpx"
)

// Metrics counts what happens. Safe for concurrent use.
type Metrics = metrics.Metrics

// NewMetrics returns metrics of a bridge of that version.
func NewMetrics(version string) *Metrics { return metrics.New(version) }

// metrics answers a scrape. The gauges are read at that moment; when the
// database does not answer, the counters are shown all the same.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) error {
	c, err := count(r.Context(), h.o.Engine, h.o.Now())
	if err != nil {
		httpx.RecordOf(r.Context()).Failed(err)
	} else {
		h.o.Metrics.SetOpen(map[string]int{
			"agents_busy": c.AgentsBusy, "agents_waiting": c.AgentsWaiting, "agents_gated": c.AgentsGated, "agents_failed": c.AgentsFailed,
			"subagents": c.OpenSubagents, "commands_held": c.CommandsHeld, "commands_uncertain": c.CommandsUncertain, "turns_uncertain": c.TurnsUncertain,
		}, time.Duration(c.WorkOverdueMS)*time.Millisecond)
	}
	h.o.Metrics.ServeHTTP(w, r)
	return nil
}
