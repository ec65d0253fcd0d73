package api

import (
	"context"
	"net/http"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Alert is a webhook to a program of the operator that says that something waits.
type Alert struct {
	// ID is the webhook-id, the same for each try.
	ID string `json:"id"`
	// Need is the key of what waits, Kind its kind, Turn the turn that it is about, and Agent the name of the agent.
	Need  string `json:"need"`
	Kind  string `json:"kind"`
	Turn  string `json:"turn,omitempty"`
	Agent string `json:"agent,omitempty"`
	// State is one of the states of an Alert.
	State string `json:"state"`
	// Tries is how often it was sent, and Trouble why the last try did not arrive.
	Tries   int    `json:"tries"`
	Trouble string `json:"trouble,omitempty"`
	// MadeAt is when the bridge saw the need. DueAt is when the alert is tried next.
	MadeAt  time.Time `json:"made_at"`
	TriedAt time.Time `json:"tried_at,omitzero"`
	DueAt   time.Time `json:"due_at,omitzero"`
	// SeenAt is when a bridge last saw that it waits; a few minutes late.
	SeenAt time.Time `json:"-"`
}

// About reports whether the alert is about a need.
func (a Alert) About(n Need) bool { return a.Need == n.Key && a.Kind == n.Kind && a.Turn == n.Turn }

// The states of an Alert.
const (
	AlertWaiting = "waiting" // it is tried, again where the last try did not arrive
	AlertSent    = "sent"    // the address took it
	AlertFailed  = "failed"  // no try arrived, and it is not tried again
	AlertOver    = "over"    // nothing waited any more before it arrived
)

// AlertList holds alerts, the newest first. Next, when it is not empty, asks for what follows: as before in the next request.
type AlertList struct {
	Alerts []Alert `json:"alerts"`
	Next   string  `json:"next,omitempty"`
}

// AlertTest says that a test arrived.
type AlertTest struct {
	Arrived bool `json:"arrived"`
}

// Alerts tells a program of the operator what waits. Its methods are safe for concurrent use.
type Alerts interface {
	// List returns the newest alerts with an id below before; "" is no bound.
	List(ctx context.Context, before string, limit int) ([]Alert, error)
	// Test sends a test at once, and returns why it did not arrive, in words for people.
	Test(ctx context.Context) error
	// Trouble counts the alerts about what waits that did not arrive, and says why the last one did not.
	Trouble(ctx context.Context) (n int, why string, err error)
}

// noAlerts is what a bridge without alerts answers.
func (h *Handler) noAlerts() error {
	if h.o.Alerts == nil {
		return bridge.Errorf(bridge.NotFound, "this bridge sends no alerts; write alerts.url and alerts.secret into bridge.yaml, and restart the bridge")
	}
	return nil
}

func (h *Handler) listAlerts(w http.ResponseWriter, r *http.Request) error {
	page, err := readPage(r, "")
	if err != nil {
		return err
	}
	if err := h.noAlerts(); err != nil {
		return err
	}
	found, err := h.o.Alerts.List(r.Context(), page.Before, page.Limit+1)
	if err != nil {
		return err
	}
	all, more := cut(found, page.Limit)
	list := AlertList{Alerts: append([]Alert{}, all...)}
	if more {
		list.Next = all[len(all)-1].ID
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

func (h *Handler) testAlerts(w http.ResponseWriter, r *http.Request) error {
	if err := readOptional(w, r, &struct{}{}); err != nil {
		return err
	}
	if err := h.noAlerts(); err != nil {
		return err
	}
	if err := h.o.Alerts.Test(r.Context()); err != nil {
		return bridge.Errorf(bridge.Unavailable, "the test did not arrive: %s", err)
	}
	httpx.WriteJSON(w, http.StatusOK, AlertTest{Arrived: true})
	return nil
}

// Alerts lists alerts.
func (c *Client) Alerts(ctx context.Context, o ListOptions) (AlertList, error) {
	return get[AlertList](ctx, c, "/v1/alerts", o.query())
}

// TestAlerts sends a test to the address of the alerts.
func (c *Client) TestAlerts(ctx context.Context) (AlertTest, error) {
	return post[AlertTest](ctx, c, "/v1/alerts/test", nil)
}
