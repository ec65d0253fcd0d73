package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Step is a thing that an agent does in a turn, in the agent's own words. Nothing follows from it, and it may hold any text.
type Step struct {
	// Seq numbers the steps of a relay. It grows, with gaps.
	Seq int64     `json:"seq"`
	At  time.Time `json:"at"`
	// Run is the Turn.Run of the turn.
	Run string `json:"run"`
	// Kind is says for a line of the agent's words, uses for a tool that the agent wants to use, and fails for one that failed.
	Kind string `json:"kind"`
	// Tool is read, edit, delete, move, search, execute or fetch, or the agent's name for another tool; Text is what it is used on.
	Tool string `json:"tool,omitempty"`
	Text string `json:"text,omitempty"`
}

// The kinds of a Step.
const (
	StepSays  = "says"
	StepUses  = "uses"
	StepFails = "fails"
)

// Live is what GET /v1/agents/{id}/live answers: the latest steps of an agent at a relay, the oldest first.
type Live struct {
	// Run is the Turn.Run of the turn that the agent works on, "" for none.
	Run   string `json:"run,omitempty"`
	Steps []Step `json:"steps"`
	// Next is the after of the next question. Missed is true where steps before these are left out.
	Next   int64 `json:"next"`
	Missed bool  `json:"missed,omitempty"`
	// Away is true while the relay cannot be asked; Next is the question's own after then.
	Away bool `json:"away,omitempty"`
}

func (h *Handler) live(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "after")
	if err != nil {
		return err
	}
	after, err := q.number("after", 0, 0)
	if err != nil {
		return err
	}
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	if h.o.Live == nil {
		return NoLive(a.Name)
	}
	live, err := h.o.Live(r.Context(), a, after)
	switch {
	case bridge.KindOf(err) == bridge.Unavailable: // people watch on, and the relay's steps come when it is back
		live = Live{Away: true}
	case err != nil:
		return err
	}
	if live.Steps == nil {
		live.Steps = []Step{}
	}
	if live.Next = after; len(live.Steps) > 0 {
		live.Next = live.Steps[len(live.Steps)-1].Seq
	}
	httpx.WriteJSON(w, http.StatusOK, live)
	return nil
}

// NoLive is the error of Options.Live for an agent that does not live at a relay.
func NoLive(name string) error {
	return bridge.Errorf(bridge.Invalid, "agent %s does not live at a relay, so the bridge shows its turns only when they end; read them with GET /v1/agents/%s/turns", name, name)
}

// Live returns what an agent at a relay did after a step, 0 for all that the relay still has. It is Invalid for an agent that lives elsewhere.
func (c *Client) Live(ctx context.Context, idOrName string, after int64) (Live, error) {
	return get[Live](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/live", url.Values{"after": {strconv.FormatInt(after, 10)}})
}
