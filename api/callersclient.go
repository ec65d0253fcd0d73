package api

import (
	"context"
	"net/http"
	"net/url"

	"drawbridge/api/callers"
	"drawbridge/bridge"
	"drawbridge/openai"
)

// callersTable are the routes about the OpenAI-compatible door.
func (h *Handler) callersTable() (table []route) {
	find := func(r *http.Request, idOrName string) (bridge.Agent, error) {
		return h.o.Engine.FindAgent(r.Context(), idOrName)
	}
	keyring := openai.Keyring{}
	if h.o.Callers != nil {
		keyring = *h.o.Callers
	}
	for _, r := range callers.Routes(callers.Tools{Keyring: keyring, Agent: find, Path: pathValue, Body: readExact}) {
		serve := r.Serve
		if h.o.Callers == nil {
			serve = func(http.ResponseWriter, *http.Request) error {
				return bridge.Errorf(bridge.NotFound, "the OpenAI-compatible endpoint of this bridge is off; set openai.listen and openai.upstreams in bridge.yaml, and restart the bridge")
			}
		}
		table = append(table, route{r.Method, r.Path, serve})
	}
	return table
}

// CallerTokens lists the tokens of the OpenAI-compatible door.
func (c *Client) CallerTokens(ctx context.Context) (callers.TokenList, error) {
	return get[callers.TokenList](ctx, c, "/v1/openai/tokens", nil)
}

// MintCallerToken makes a token for the OpenAI-compatible door. The answer alone holds its secret.
func (c *Client) MintCallerToken(ctx context.Context, m callers.MintRequest) (callers.Token, error) {
	return post[callers.Token](ctx, c, "/v1/openai/tokens", m)
}

// RevokeCallerToken ends the token of a name.
func (c *Client) RevokeCallerToken(ctx context.Context, name string) (callers.Token, error) {
	return post[callers.Token](ctx, c, "/v1/openai/tokens/"+url.PathEscape(name)+"/revoke", nil)
}
