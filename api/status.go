package api

import (
	"context"
	"net/http"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/internal/httpx"
)

// health answers strangers, so it names no file.
func (h *Handler) health(w http.ResponseWriter, _ *http.Request) error {
	if h.o.Healthy() != nil {
		httpx.WriteError(w, http.StatusServiceUnavailable, string(bridge.Unavailable), "the bridge takes no work, because its database's files were removed, moved or replaced; its log says which")
		return nil
	}
	httpx.WriteJSON(w, http.StatusOK, map[string]bool{"ok": true})
	return nil
}

// Status says how the bridge is doing.
type Status struct {
	Version string `json:"version"`
	// Database is "ok" or "unavailable"; then the counts are all zero.
	Database string `json:"database"`
	Counts   Counts `json:"counts"`
	// AllowlistProblem says why the allowlist file is not in force as it stands.
	AllowlistProblem string `json:"allowlist_problem,omitempty"`
	// Config names the text of the bridge.yaml that this bridge was started with.
	Config string `json:"config,omitempty"`
	// DoorURL is where agents, relays and webhooks reach this bridge from its own machine; "" when the operator's address
	// serves them too.
	DoorURL string `json:"door_url,omitempty"`
	// PublicURL is where the world reaches agents' door, relays and webhooks; "" when it does not.
	PublicURL string `json:"public_url,omitempty"`
	// AlertsLost counts the alerts about what waits that did not arrive, and AlertsProblem says why the last one did not.
	AlertsLost    int    `json:"alerts_lost,omitempty"`
	AlertsProblem string `json:"alerts_problem,omitempty"`
	// StartedAt is when this bridge began.
	StartedAt time.Time `json:"started_at"`
	// Health is absent when the database does not say it.
	Health *StatusHealth `json:"health,omitempty"`
	// Operator is who asks.
	Operator StatusOperator `json:"operator"`
}

// StatusHealth says how the database is.
type StatusHealth struct {
	// Bytes is how large it is, and BytesBefore how large it was at Before, at most 30 days ago.
	Bytes       int64     `json:"bytes"`
	BytesBefore int64     `json:"bytes_before,omitempty"`
	Before      time.Time `json:"before,omitzero"`
	// Queued counts the agents and relays for which work is due that nobody does yet, 10,000 at most.
	Queued int `json:"queued"`
	// Replicas are the bridges on the database, where several can be.
	Replicas []StatusReplica `json:"replicas,omitempty"`
}

// StatusReplica is a bridge on the database. Name is its host and process.
type StatusReplica struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
}

// healthFor is how long what the database said of itself is shown. To ask it may read many files.
const healthFor = 15 * time.Second

// databaseHealth says how the database is, nil when it does not say it.
func (h *Handler) databaseHealth(ctx context.Context) *StatusHealth {
	if h.o.Database == nil {
		return nil
	}
	h.database.mu.Lock()
	defer h.database.mu.Unlock()
	if now := h.o.Now(); h.database.seen == nil || now.Sub(h.database.at) >= healthFor {
		h.database.seen, h.database.at = h.askDatabase(ctx), now
	}
	return h.database.seen
}

func (h *Handler) askDatabase(ctx context.Context) *StatusHealth {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	d, err := h.o.Database(ctx, h.o.Now())
	if err != nil {
		httpx.RecordOf(ctx).Failed(err)
		return nil
	}
	out := &StatusHealth{Bytes: d.Bytes, BytesBefore: d.BytesBefore, Before: d.Before, Queued: d.Queued}
	for _, r := range d.Replicas {
		out.Replicas = append(out.Replicas, StatusReplica(r))
	}
	return out
}

// StatusOperator is a person as Status shows them.
type StatusOperator struct {
	Name string `json:"name"`
	// Role is viewer, approver or admin.
	Role string `json:"role"`
}

// copyShown is how long a copy that was refused counts as there; one that runs tries about every ten seconds.
const copyShown = 5 * time.Minute

// Counts are what is open now. Each stops at 1,000, commands at 100, so that
// asking stays cheap; a number at its stop means "at least".
type Counts struct {
	AgentsBusy        int `json:"agents_busy"`
	AgentsWaiting     int `json:"agents_waiting"`
	AgentsGated       int `json:"agents_gated"`
	AgentsFailed      int `json:"agents_failed"`
	OpenSubagents     int `json:"open_subagents"`
	CommandsHeld      int `json:"commands_held"`
	CommandsUncertain int `json:"commands_uncertain"`
	// TurnsUncertain are launches and follow-ups of which nobody knows whether they arrived.
	TurnsUncertain int `json:"turns_uncertain"`
	// WorkOverdueMS is how long the oldest due work has waited.
	WorkOverdueMS int64 `json:"work_overdue_ms"`
}

const (
	maxCountedAgents   = 1000
	maxCountedCommands = 100
	// countTimeout keeps status and scrapes answering when the database hangs.
	countTimeout = 3 * time.Second
)

// count reads all counts in one snapshot.
func count(ctx context.Context, e *engine.Engine, now time.Time) (c Counts, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	err = e.View(ctx, func(tx *bridge.Scene) error {
		c = Counts{}
		for state, n := range map[bridge.AgentState]*int{
			bridge.AgentBusy: &c.AgentsBusy, bridge.AgentWaiting: &c.AgentsWaiting, bridge.AgentGated: &c.AgentsGated, bridge.AgentFailed: &c.AgentsFailed,
		} {
			found, err := tx.Agents(bridge.AgentFilter{State: state, Known: true, Limit: maxCountedAgents})
			if err != nil {
				return err
			}
			*n = len(found)
		}
		for state, n := range map[bridge.CommandState]*int{bridge.CommandHeld: &c.CommandsHeld, bridge.CommandUncertain: &c.CommandsUncertain} {
			found, err := tx.Commands(bridge.CommandFilter{State: state, Limit: maxCountedCommands})
			if err != nil {
				return err
			}
			*n = len(found)
		}
		doubtful, err := tx.Turns(bridge.TurnFilter{State: bridge.TurnUncertain, Limit: maxCountedCommands})
		if err != nil {
			return err
		}
		c.TurnsUncertain = len(doubtful)
		if c.OpenSubagents, err = tx.CountOpenSubagents(""); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	due, err := e.NextDue(ctx)
	if err == nil && !due.IsZero() {
		c.WorkOverdueMS = max(0, now.Sub(due).Milliseconds())
	}
	return c, err
}

func (h *Handler) status(w http.ResponseWriter, r *http.Request) error {
	s := Status{Version: h.o.Version, Config: h.o.ConfigDigest, DoorURL: h.o.DoorURL, PublicURL: h.o.PublicURL, Database: "ok", StartedAt: h.began.UTC(), Health: h.databaseHealth(r.Context())}
	if p, known := bridge.PersonOf(r.Context()); known {
		s.Operator = StatusOperator{p.Name, string(p.Role)}
	}
	var err error
	if s.Counts, err = count(r.Context(), h.o.Engine, h.o.Now()); err != nil {
		httpx.RecordOf(r.Context()).Failed(err)
		s.Database, s.Counts = "unavailable", Counts{}
	}
	if h.o.Problem != nil {
		s.AllowlistProblem = h.o.Problem()
	}
	if h.o.Alerts != nil && s.Database == "ok" {
		ctx, cancel := context.WithTimeout(r.Context(), countTimeout)
		defer cancel()
		if s.AlertsLost, s.AlertsProblem, err = h.o.Alerts.Trouble(ctx); err != nil {
			httpx.RecordOf(r.Context()).Failed(err)
		}
	}
	httpx.WriteJSON(w, http.StatusOK, s)
	return nil
}
