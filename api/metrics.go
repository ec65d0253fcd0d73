package api

import (
	"context"
	"net/http"
	"time"

	"drawbridge/api/metrics"
	"drawbridge/bridge"
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
		open := map[string]int{
			"agents_busy": c.AgentsBusy, "agents_waiting": c.AgentsWaiting, "agents_gated": c.AgentsGated, "agents_failed": c.AgentsFailed,
			"subagents": c.OpenSubagents, "commands_held": c.CommandsHeld, "commands_uncertain": c.CommandsUncertain, "turns_uncertain": c.TurnsUncertain,
		}
		if err := h.countRelays(r.Context(), open); err != nil {
			httpx.RecordOf(r.Context()).Failed(err)
		}
		h.o.Metrics.SetOpen(open, time.Duration(c.WorkOverdueMS)*time.Millisecond)
	}
	h.o.Metrics.ServeHTTP(w, r)
	return nil
}

// countRelays adds how many relays are connected to a living replica, and how many are enrolled and away.
func (h *Handler) countRelays(ctx context.Context, open map[string]int) error {
	if h.o.Relays == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	list, err := h.o.Relays.RelayList(ctx, "", maxCountedAgents)
	if err != nil {
		return err
	}
	open["relays_connected"], open["relays_away"] = 0, 0
	for _, relay := range list {
		switch {
		case relay.Connected:
			open["relays_connected"]++
		case relay.State != bridge.RelayRevoked:
			open["relays_away"]++
		}
	}
	return nil
}
