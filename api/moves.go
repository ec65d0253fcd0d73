package api

import (
	"net/http"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// MoveRequest names the runtime, below runtimes in bridge.yaml, in which an agent goes on.
type MoveRequest struct {
	Runtime string `json:"runtime"`
}

// Moved is an agent that was moved.
type Moved struct {
	Agent Agent `json:"agent"`
	// From is the runtime that the agent left.
	From string `json:"from"`
	// Workspace says what becomes of the agent's workspace.
	Workspace string `json:"workspace"`
}

func (h *Handler) move(w http.ResponseWriter, r *http.Request) error {
	var req MoveRequest
	if err := readExact(w, r, &req); err != nil {
		return err
	}
	if req.Runtime == "" {
		return bridge.Errorf(bridge.Invalid, "runtime is missing; name one of the runtimes in bridge.yaml")
	}
	a, err := h.findAgent(r)
	if err != nil {
		return err
	}
	m, err := h.o.Engine.Move(r.Context(), a.ID, req.Runtime)
	if err != nil {
		return err
	}
	note(r, a.ID, "")
	httpx.WriteJSON(w, http.StatusOK, Moved{Agent: viewAgent(m.Agent), From: m.From, Workspace: m.Workspace})
	return nil
}
