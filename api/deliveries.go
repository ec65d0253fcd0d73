package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
)

// Delivery is a signed webhook that came. What it says is the sender's.
type Delivery struct {
	ID string `json:"id"`
	// Agent is whom it was about, and AgentName the name.
	Agent     string `json:"agent"`
	AgentName string `json:"agent_name,omitempty"`
	// External, Event, Status and SentAt are what the body says, each one line of at most 200 characters.
	External string `json:"external"`
	Event    string `json:"event"`
	Status   string `json:"status"`
	SentAt   string `json:"sent_at"`
	// Verdict is accepted or stored. A webhook that came again is an event, and no delivery.
	Verdict    string    `json:"verdict"`
	ReceivedAt time.Time `json:"received_at"`
}

// maxDeliveries bounds a list, because each delivery is read with its body.
const maxDeliveries = 100

// DeliveryList holds the newest deliveries, 100 at most.
type DeliveryList struct {
	Deliveries []Delivery `json:"deliveries"`
}

func (h *Handler) listDeliveries(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "limit")
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	list := DeliveryList{Deliveries: []Delivery{}}
	err = h.o.Engine.View(r.Context(), func(tx *bridge.Scene) error {
		list.Deliveries = list.Deliveries[:0]
		found, err := tx.Deliveries("", min(limit, maxDeliveries))
		if err != nil {
			return err
		}
		for _, d := range found {
			a, err := tx.Agent(d.Op)
			if err != nil && !errors.Is(err, bridge.ErrNoRow) {
				return err
			}
			list.Deliveries = append(list.Deliveries, Delivery{ID: string(d.ID), Agent: string(d.Op), AgentName: a.Name, External: line(d.External), Event: line(d.Event), Status: line(d.Status), SentAt: line(d.SentAt),
				Verdict: d.Verdict, ReceivedAt: d.ReceivedAt})
		}
		return nil
	})
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

func line(text string) string { return words.SafeLine(text, 200) }

// Deliveries lists the newest webhooks that came. Only Limit counts.
func (c *Client) Deliveries(ctx context.Context, o ListOptions) (DeliveryList, error) {
	return get[DeliveryList](ctx, c, "/v1/deliveries", ListOptions{Limit: o.Limit}.query())
}
