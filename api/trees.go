package api

import (
	"net/http"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Tree is what the agents under one root have used of their budget.
type Tree struct {
	Root string `json:"root"`
	// Name is the root's.
	Name string `json:"name"`
	// Launches and Turns count since the root was launched.
	Launches int     `json:"launches"`
	Open     int     `json:"open"`
	Turns    int     `json:"turns"`
	Tokens   int64   `json:"tokens"`
	CostUSD  float64 `json:"cost_usd"`
	// Unmetered counts agents whose usage is unknown.
	Unmetered int `json:"unmetered,omitempty"`
	// Budget is what is in force for the root now.
	Budget Budget `json:"budget"`
	// StoppedAt is absent while the tree may go on.
	StoppedAt time.Time `json:"stopped_at,omitzero"`
	// Asked is what people at relays' machines are asked for agents of the tree.
	Asked []Asked `json:"asked,omitempty"`
	Why   string  `json:"why,omitempty"`
}

// StopRequest stops a tree. An empty body gives no reason.
type StopRequest struct {
	// Why is shown to whoever asks; its first line, at most 300 characters.
	Why string `json:"why,omitempty"`
}

// join reads a join policy; the engine judges the word.
func (r JoinRequest) join() (bridge.Join, time.Duration, error) {
	if r.JoinDeadline == "" {
		return bridge.Join(r.Join), 0, nil
	}
	within, err := time.ParseDuration(r.JoinDeadline)
	if err != nil || within <= 0 {
		return "", 0, bridge.Errorf(bridge.Invalid, "join_deadline %+.40q is not a duration; write for example 30m or 2h", r.JoinDeadline)
	}
	if r.Join == "" {
		return "", 0, bridge.Errorf(bridge.Invalid, "join_deadline needs join: each, all, any or a number")
	}
	return bridge.Join(r.Join), within, nil
}

func (h *Handler) join(w http.ResponseWriter, r *http.Request) error {
	var req JoinRequest
	if err := readExact(w, r, &req); err != nil {
		return err
	}
	if req.Join == "" {
		return bridge.Errorf(bridge.Invalid, "join is missing; write each, all, any or a number")
	}
	join, within, err := req.join()
	if err != nil {
		return err
	}
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	if a, err = h.o.Engine.SetJoin(r.Context(), a.ID, join, within); err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, viewAgent(a))
	return nil
}

func (h *Handler) tree(w http.ResponseWriter, r *http.Request) error {
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	return h.writeTree(w, r, a.Root)
}

func (h *Handler) stop(w http.ResponseWriter, r *http.Request) error {
	var req StopRequest
	if err := readOptional(w, r, &req); err != nil {
		return err
	}
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	if _, err := h.o.Engine.Stop(r.Context(), a.ID, req.Why); err != nil {
		return err
	}
	return h.writeTree(w, r, a.ID)
}

func (h *Handler) resume(w http.ResponseWriter, r *http.Request) error {
	if err := readOptional(w, r, &struct{}{}); err != nil {
		return err
	}
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	if _, err := h.o.Engine.Resume(r.Context(), a.ID); err != nil {
		return err
	}
	return h.writeTree(w, r, a.ID)
}

// forget gives a dead agent's name back.
func (h *Handler) forget(w http.ResponseWriter, r *http.Request) error {
	if err := readOptional(w, r, &struct{}{}); err != nil {
		return err
	}
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	if a, err = h.o.Engine.Forget(r.Context(), a.ID); err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, viewAgent(a))
	return nil
}

// writeTree answers with a tree as it stands, and the budget of its root.
func (h *Handler) writeTree(w http.ResponseWriter, r *http.Request, root bridge.AgentID) error {
	var tree bridge.Tree
	var a bridge.Agent
	var open int
	var asked []Asked
	err := h.o.Engine.View(r.Context(), func(tx *bridge.Scene) (err error) {
		if tree, err = tx.Tree(root); err != nil {
			return err
		}
		if a, err = tx.Agent(root); err != nil {
			return err
		}
		if asked, err = h.askedIn(tx, root); err != nil {
			return err
		}
		open, err = tx.CountOpenSubagents(root)
		return err
	})
	if err != nil {
		return err
	}
	httpx.RecordOf(r.Context()).Add("root", string(root))
	httpx.WriteJSON(w, http.StatusOK, Tree{
		Root: string(root), Name: a.Name, Launches: tree.Launches, Open: open, Turns: tree.Turns, Tokens: tree.Tokens, CostUSD: dollars(tree.CostMicros),
		Unmetered: tree.Unmetered, Budget: Budget(h.o.Policy().Budget(a.Names())), StoppedAt: tree.StoppedAt, Why: tree.Why, Asked: asked,
	})
	return nil
}
