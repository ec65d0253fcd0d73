package api

import (
	"context"
	"net/http"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// DayUse is what a day in UTC saw, by when turns were asked for and agents launched others.
type DayUse struct {
	// Day is a date, such as 2026-11-29.
	Day      string `json:"day"`
	Turns    int    `json:"turns"`
	Launches int    `json:"launches"`
	// Tokens and CostUSD are what agents and APIs told. Untold turns ended, and nobody told their tokens.
	Tokens  int64   `json:"tokens"`
	CostUSD float64 `json:"cost_usd"`
	Untold  int     `json:"untold"`
}

// UseOverTime is an answer with the last 30 days, in order, today among them.
type UseOverTime struct {
	Days []DayUse `json:"days"`
}

// useDays is how many days are told.
const useDays = 30

func (h *Handler) use(w http.ResponseWriter, r *http.Request) error {
	first := h.o.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-useDays)
	seen := map[time.Time]bridge.Day{}
	err := h.o.Engine.View(r.Context(), func(tx *bridge.Scene) error {
		days, err := tx.Days(first)
		for _, d := range days {
			seen[d.Start] = d
		}
		return err
	})
	if err != nil {
		return err
	}
	out := UseOverTime{}
	for n := range useDays {
		start := first.AddDate(0, 0, n)
		d := seen[start]
		out.Days = append(out.Days, DayUse{start.Format(time.DateOnly), d.Turns, d.Launches, d.Tokens, float64(d.CostMicros) / 1e6, d.Untold})
	}
	httpx.WriteJSON(w, http.StatusOK, out)
	return nil
}

// Use returns what the last 30 days saw.
func (c *Client) Use(ctx context.Context) (UseOverTime, error) {
	return get[UseOverTime](ctx, c, "/v1/use", nil)
}
