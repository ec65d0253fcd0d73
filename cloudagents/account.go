package cloudagents

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/loosejson"
)

// Account is whom a key belongs to.
type Account struct {
	KeyName string
	// Email is "" for a service account.
	Email   string
	Created time.Time
}

// Agent is one external agent as a list shows it.
type Agent struct {
	ID   string
	Name string
	// Status is the API's word: at v0 that of the latest run, at v1 ACTIVE or
	// ARCHIVED, which says nothing about a run.
	Status string
	// Repo and Branch are as reported, "" where a list leaves them out (v1).
	Repo, Branch string
	// LatestRun is "" at v0.
	LatestRun string
	URL       string
	Created   time.Time
}

// Me asks whom the key belongs to: the cheapest way to check a key.
func (c *Client) Me(ctx context.Context) (Account, error) {
	var out struct {
		APIKeyName string                  `json:"apiKeyName"`
		UserEmail  loosejson.Value[string] `json:"userEmail"`
		CreatedAt  loosejson.Value[string] `json:"createdAt"`
	}
	k := get("read account", "/"+c.opts.API+"/me")
	if err := c.do(ctx, k, &out); err != nil {
		return Account{}, err
	}
	if out.APIKeyName == "" {
		return Account{}, c.garbled(k, errors.New("the answer names no key"))
	}
	return Account{
		KeyName: clip(c.redact(k, out.APIKeyName), maxMessage),
		Email:   clip(out.UserEmail.Is, maxMessage),
		Created: parseTime(out.CreatedAt.Is),
	}, nil
}

// Models lists the ids that Options.Model may have. They differ between versions.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	var out struct {
		Items  []json.RawMessage `json:"items"`
		Models []json.RawMessage `json:"models"`
	}
	if err := c.do(ctx, get("list models", "/"+c.opts.API+"/models"), &out); err != nil {
		return nil, err
	}
	ids := []string{}
	for _, item := range append(out.Items, out.Models...) {
		if id := modelID(item); id != "" {
			ids = append(ids, clip(id, 100))
		}
	}
	return ids, nil
}

// modelID takes an object with an id and, as older documents have it, a string.
func modelID(item json.RawMessage) string {
	var id string
	var model modelJSON
	if json.Unmarshal(item, &id) == nil {
		return id
	}
	_ = json.Unmarshal(item, &model) // what is neither has no id
	return model.ID
}

// List returns the newest n agents, at most 100, newest first.
func (c *Client) List(ctx context.Context, n int) ([]Agent, error) {
	const what = "list agents"
	p := page{limit: min(max(n, 1), 100)}
	if c.opts.API == bridge.APIv0 {
		agents, _, err := c.listV0(ctx, what, p)
		return eachAgent(agents, fromV0), err
	}
	var out struct {
		Items listOf[agentV1] `json:"items"`
	}
	k := get(what, "/v1/agents")
	k.query = p.query()
	if err := c.do(ctx, k, &out); err != nil {
		return nil, err
	}
	return eachAgent(out.Items.items, fromV1), nil
}

func eachAgent[T any](in []T, conv func(T) Agent) []Agent {
	agents := make([]Agent, 0, len(in))
	for _, a := range in {
		agents = append(agents, conv(a))
	}
	return agents
}

func fromV0(a agentV0) Agent {
	s := startedV0(a)
	return Agent{
		ID: clip(a.ID, 128), Name: clip(a.Name.Is, 200), Status: clip(a.Status, 60),
		Repo: s.Repo, Branch: s.Branch, URL: s.URL, Created: parseTime(a.CreatedAt.Is),
	}
}

func fromV1(a agentV1) Agent {
	return Agent{
		ID: clip(a.ID, 128), Name: clip(a.Name.Is, 200), Status: clip(a.Status.Is, 60),
		Repo: startedV1(a, "").Repo, LatestRun: clip(a.LatestRunID, 128), URL: link(a.URL.Is), Created: parseTime(a.CreatedAt.Is),
	}
}

type page struct {
	limit  int
	cursor string
}

func (p page) query() map[string]string {
	q := map[string]string{"limit": strconv.Itoa(p.limit)}
	if p.cursor != "" {
		q["cursor"] = p.cursor
	}
	return q
}

func (c *Client) listV0(ctx context.Context, what string, p page) ([]agentV0, string, error) {
	k := get(what, "/v0/agents")
	k.query = p.query()
	var out struct {
		Agents listOf[agentV0] `json:"agents"`
		Next   string          `json:"nextCursor"`
	}
	if err := c.do(ctx, k, &out); err != nil {
		return nil, "", err
	}
	if out.Agents.more || len(out.Next) > maxCursor {
		return nil, "", c.garbled(k, errors.New("the answer lists more than was asked for"))
	}
	return out.Agents.items, out.Next, nil
}
