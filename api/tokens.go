package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// Tokens makes and revokes the tokens with which agents open the MCP door. Its
// methods are safe for concurrent use.
type Tokens interface {
	// Mint returns a new token, which nobody can read again, and its record. With a
	// client it ends the agent's earlier tokens for that client.
	Mint(ctx context.Context, agent bridge.AgentID, client string) (secret string, t bridge.DoorToken, err error)
	List(ctx context.Context, agent bridge.AgentID) ([]bridge.DoorToken, error)
	// Revoke ends one token of an agent, or all when id is empty, and what they opened.
	Revoke(ctx context.Context, agent bridge.AgentID, id bridge.TokenID) (int, error)
	// Holder returns the token that a secret is; Unauthenticated when it is none or revoked.
	Holder(ctx context.Context, secret string) (bridge.DoorToken, error)
}

// Token is a door token as the API shows it. Secret is there once, in the answer
// that made it.
type Token struct {
	ID     string `json:"id"`
	Agent  string `json:"agent"`
	Secret string `json:"token,omitempty"`
	// Client names the program that the token was made for.
	Client    string    `json:"client,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	LastUsed  time.Time `json:"last_used,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

// TokenList is an agent's tokens, newest first.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// MintRequest names the program that a token is for. The agent's earlier tokens for the
// same one end; empty ends none.
type MintRequest struct {
	Client string `json:"client,omitempty"`
}

// RevokeRequest names the token that ends; empty is all of the agent's.
type RevokeRequest struct {
	ID string `json:"id,omitempty"`
}

// Revoked says how many tokens ended.
type Revoked struct {
	Revoked int `json:"revoked"`
}

func viewToken(t bridge.DoorToken) Token {
	return Token{ID: string(t.ID), Agent: string(t.Agent), Client: t.Client, CreatedAt: t.CreatedAt, LastUsed: t.LastUsed, RevokedAt: t.RevokedAt}
}

// keeper returns the agent of the path, and who keeps its tokens.
func (h *Handler) keeper(r *http.Request) (Tokens, bridge.Agent, error) {
	if h.o.Tokens == nil {
		return nil, bridge.Agent{}, bridge.Errorf(bridge.NotFound, "this bridge has no MCP door")
	}
	a, err := h.findAgent(r)
	return h.o.Tokens, a, err
}

func (h *Handler) mintToken(w http.ResponseWriter, r *http.Request) error {
	var req MintRequest
	if err := readOptional(w, r, &req); err != nil {
		return err
	}
	keeper, a, err := h.keeper(r)
	if err != nil {
		return err
	}
	secret, t, err := keeper.Mint(r.Context(), a.ID, req.Client)
	if err != nil {
		return err
	}
	httpx.RecordOf(r.Context()).Add("token", string(t.ID))
	v := viewToken(t)
	v.Secret = secret
	httpx.WriteJSON(w, http.StatusCreated, v)
	return nil
}

func (h *Handler) listTokens(w http.ResponseWriter, r *http.Request) error {
	keeper, a, err := h.keeper(r)
	if err != nil {
		return err
	}
	list, err := keeper.List(r.Context(), a.ID)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, TokenList{Tokens: viewAll(list, viewToken)})
	return nil
}

func (h *Handler) revokeTokens(w http.ResponseWriter, r *http.Request) error {
	var req RevokeRequest
	if err := readOptional(w, r, &req); err != nil {
		return err
	}
	keeper, a, err := h.keeper(r)
	if err != nil {
		return err
	}
	n, err := keeper.Revoke(r.Context(), a.ID, bridge.TokenID(req.ID))
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, Revoked{Revoked: n})
	return nil
}

func tokensPath(idOrName string) string { return "/v1/agents/" + url.PathEscape(idOrName) + "/tokens" }

// MintToken makes a token with which an agent opens the MCP door. With a client it
// takes the place of the agent's earlier tokens for that client.
func (c *Client) MintToken(ctx context.Context, idOrName, client string) (Token, error) {
	return post[Token](ctx, c, tokensPath(idOrName), MintRequest{Client: client})
}

// Tokens lists an agent's tokens.
func (c *Client) Tokens(ctx context.Context, idOrName string) (TokenList, error) {
	return get[TokenList](ctx, c, tokensPath(idOrName), nil)
}

// RevokeTokens ends a token of an agent, or all when id is empty. Twice is fine.
func (c *Client) RevokeTokens(ctx context.Context, idOrName, id string) (Revoked, error) {
	return post[Revoked](ctx, c, tokensPath(idOrName)+"/revoke", RevokeRequest{ID: id})
}
