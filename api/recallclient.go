package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"drawbridge/api/recall"
)

// recallTable are the routes that show memory and runs.
func (h *Handler) recallTable() (table []route) {
	for _, r := range recall.Routes(recall.Tools{Agent: h.findAgent, Path: pathValue, Query: readLimited, View: h.o.Engine.View, Body: readExact, Memory: h.o.Memory}) {
		table = append(table, route{r.Method, r.Path, r.Serve})
	}
	return table
}

// readLimited reads a query and its limit.
func readLimited(r *http.Request, known ...string) (url.Values, int, error) {
	q, err := readQuery(r, append(known, "limit")...)
	if err != nil {
		return nil, 0, err
	}
	limit, err := q.limit()
	return q.values, limit, err
}

// Blocks lists an agent's memory blocks; with a label, versions of that one, newest first.
func (c *Client) Blocks(ctx context.Context, idOrName, label string) (recall.BlockList, error) {
	q := url.Values{}
	if label != "" {
		q.Set("label", label)
	}
	return get[recall.BlockList](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/blocks", q)
}

// WriteBlock replaces a block of an agent, or makes it, and returns it as it stands now.
func (c *Client) WriteBlock(ctx context.Context, idOrName string, b recall.BlockRequest) (recall.Block, error) {
	return post[recall.Block](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/blocks", b)
}

// PassageSearch is what Passages looks for; zero fields select everything.
type PassageSearch struct {
	Text string
	Tags []string
	// Limit is at most 1,000; 0 means 100.
	Limit int
}

// Passages searches an agent's passages.
func (c *Client) Passages(ctx context.Context, idOrName string, s PassageSearch) (recall.PassageList, error) {
	q := ListOptions{Limit: s.Limit}.query()
	q.Set("q", s.Text)
	q["tag"] = s.Tags
	return get[recall.PassageList](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/passages", q)
}

// Run returns tool calls and returns of a turn behind after, in order.
func (c *Client) Run(ctx context.Context, turn string, after int64, limit int) (recall.RunMessageList, error) {
	q := ListOptions{Limit: limit}.query()
	q.Set("after", strconv.FormatInt(after, 10))
	return get[recall.RunMessageList](ctx, c, "/v1/turns/"+url.PathEscape(turn)+"/run", q)
}

// Forget deletes a passage of an agent for good.
func (c *Client) Forget(ctx context.Context, idOrName, passage string) (recall.Deleted, error) {
	return post[recall.Deleted](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/passages/"+url.PathEscape(passage)+"/delete", struct{}{})
}

// ForgetBlock deletes a block of an agent with its versions.
func (c *Client) ForgetBlock(ctx context.Context, idOrName, label string) (out recall.Deleted, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/agents/" + url.PathEscape(idOrName) + "/blocks/delete", query: url.Values{"label": {label}}, in: struct{}{}, out: &out})
	return out, err
}
