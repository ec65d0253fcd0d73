// Package callers is the operator's view of the OpenAI-compatible door: the
// tokens that let programs in. It decides nothing: package openai keeps the
// tokens, and package api stands in front with its own token, limits and errors.
package callers

import (
	"net/http"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/openai"
)

// Token is a token as the API shows it. Secret is there once, in the answer that made it.
type Token struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Secret string   `json:"token,omitempty"`
	Models []string `json:"models"`
	// Budget is tokens a day, PerMinute turns a minute; 0 bounds nothing.
	Budget    int64 `json:"budget,omitempty"`
	PerMinute int   `json:"per_minute,omitempty"`
	// Commands is the id of the agent as which the text of answers acts.
	Commands  string    `json:"commands,omitempty"`
	SpeaksFor string    `json:"speaks_for,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	LastUsed  time.Time `json:"last_used,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

// TokenList is all tokens, by name.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// MintRequest says what a new token may do. Commands is an agent's name or id.
type MintRequest struct {
	Name      string   `json:"name"`
	Models    []string `json:"models,omitempty"`
	Budget    int64    `json:"budget,omitempty"`
	PerMinute int      `json:"per_minute,omitempty"`
	Commands  string   `json:"commands,omitempty"`
	SpeaksFor string   `json:"speaks_for,omitempty"`
}

func view(t openai.Token) Token {
	return Token{ID: t.ID, Name: t.Name, Models: append([]string{}, t.Models...), Budget: t.Budget, PerMinute: t.PerMinute, Commands: t.Commands, SpeaksFor: t.SpeaksFor,
		CreatedAt: t.CreatedAt, LastUsed: t.LastUsed, RevokedAt: t.RevokedAt}
}

// Tools are the API's own readers of requests, and where the tokens are kept.
type Tools struct {
	Keyring openai.Keyring
	// Agent finds an agent by name or id.
	Agent func(r *http.Request, idOrName string) (bridge.Agent, error)
	Path  func(r *http.Request, name string) (string, error)
	Body  func(w http.ResponseWriter, r *http.Request, v any) error
}

// Route is one line of the table of routes.
type Route struct {
	Method, Path string
	Serve        func(http.ResponseWriter, *http.Request) error
}

// Routes returns what is served here.
func Routes(t Tools) []Route {
	h := handler{t}
	return []Route{
		{http.MethodGet, "/v1/openai/tokens", h.list},
		{http.MethodPost, "/v1/openai/tokens", h.mint},
		{http.MethodPost, "/v1/openai/tokens/{name}/revoke", h.revoke},
	}
}

type handler struct{ Tools }

func (h handler) list(w http.ResponseWriter, r *http.Request) error {
	list, err := h.Keyring.List(r.Context())
	if err != nil {
		return err
	}
	out := TokenList{Tokens: make([]Token, len(list))}
	for i, t := range list {
		out.Tokens[i] = view(t)
	}
	httpx.WriteJSON(w, http.StatusOK, out)
	return nil
}

func (h handler) mint(w http.ResponseWriter, r *http.Request) error {
	var req MintRequest
	if err := h.Body(w, r, &req); err != nil {
		return err
	}
	t := openai.Token{Name: req.Name, Models: req.Models, Budget: req.Budget, PerMinute: req.PerMinute, SpeaksFor: req.SpeaksFor}
	if req.Commands != "" {
		a, err := h.Agent(r, req.Commands)
		if err != nil {
			return err
		}
		t.Commands = string(a.ID)
	}
	secret, t, err := h.Keyring.Mint(r.Context(), t)
	if err != nil {
		return err
	}
	httpx.RecordOf(r.Context()).Add("token", t.ID)
	v := view(t)
	v.Secret = secret
	httpx.WriteJSON(w, http.StatusCreated, v)
	return nil
}

func (h handler) revoke(w http.ResponseWriter, r *http.Request) error {
	name, err := h.Path(r, "name")
	if err != nil {
		return err
	}
	t, err := h.Keyring.Revoke(r.Context(), name)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, view(t))
	return nil
}
