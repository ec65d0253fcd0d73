package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
)

// maxAnswer bounds an answer that the client reads, in bytes.
const maxAnswer = 32 << 20

// ClientOptions configures a Client. URL and Token are required.
type ClientOptions struct {
	// URL is the bridge's address, such as http://127.0.0.1:7411.
	URL   string
	Token string
	// Timeout is for each request but Chat and Follow; default 30 s.
	Timeout time.Duration
	// Start is the command that starts the bridge, for the error of a bridge that does not run; default drawbridge serve.
	Start string
}

// Client calls a bridge's API. Safe for concurrent use. Its errors are
// *bridge.Error with the kind and message that the bridge gave. It repeats
// nothing: an error that is Unclear may have had its effect.
type Client struct {
	base    string
	token   string
	timeout time.Duration
	start   string
	http    *http.Client
}

// NewClient checks the URL; it connects to nothing. It uses no proxy from the
// environment and follows no redirect, so that the token goes to the bridge alone.
func NewClient(o ClientOptions) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return nil, bridge.Errorf(bridge.Invalid, "the bridge's address must be http:// or https:// with a host")
	}
	if strings.TrimSpace(o.Token) == "" {
		return nil, bridge.Errorf(bridge.Unauthenticated, "the token is missing, and the bridge requires one; give the bridge's token")
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	return &Client{base: strings.TrimRight(o.URL, "/"), token: o.Token, timeout: o.Timeout, start: cmp.Or(o.Start, "drawbridge serve"), http: &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout:     time.Minute,
			ForceAttemptHTTP2:   true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// URL is the bridge's address as the client calls it.
func (c *Client) URL() string { return c.base }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request; in and out may be nil.
type call struct {
	method, path string
	query        url.Values
	in, out      any
}

func (c *Client) do(ctx context.Context, k call) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.doFor(ctx, k)
}

// doFor is do for calls that wait as long as ctx does.
func (c *Client) doFor(ctx context.Context, k call) error {
	resp, err := c.send(ctx, k, "application/json")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.lost(ctx, k, err)
	case len(body) > maxAnswer:
		return bridge.Errorf(bridge.TooLarge, "the bridge's answer has more than %d bytes; ask with a smaller limit", maxAnswer)
	case k.out == nil:
		return nil
	}
	if err := json.Unmarshal(body, k.out); err != nil {
		return &bridge.Error{Kind: bridge.Unavailable, Message: "the answer does not come from a bridge; correct the address", Cause: err}
	}
	return nil
}

// send returns a 2xx answer, or an error with the body read and closed.
func (c *Client) send(ctx context.Context, k call, accept string) (*http.Response, error) {
	if err := checkPath(k.path); err != nil {
		return nil, err
	}
	target := c.base + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var body io.Reader
	if k.in != nil {
		data, err := json.Marshal(k.in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+c.token)
	if k.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.lost(ctx, k, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, c.atThisAddress(answerError(resp))
	}
	return resp, nil
}

// checkPath refuses names that would lead to another path than the one they
// stand in. A user of the chat may have any name.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/v1/") {
		return nil
	}
	for _, part := range strings.Split(path, "/")[1:] {
		if part == "" || part == "." || part == ".." || strings.Contains(part, "%2F") {
			return bridge.Errorf(bridge.Invalid, "a name or id must not be empty or contain a slash; find names with `drawbridge agents`, `drawbridge relay list` and the like")
		}
	}
	return nil
}

// lost says that no answer came, and whether the request may have arrived. When the caller gave up, its cause is
// context.Canceled, too: since Go 1.26 the request itself fails with what canceled it, such as a signal.
func (c *Client) lost(ctx context.Context, k call, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		err = errors.Join(context.Canceled, err)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return &bridge.Error{Kind: bridge.Unavailable, Message: "no bridge answers at " + c.base + "; start it with `" + c.start + "`", Cause: err}
	}
	if errors.As(err, new(tls.RecordHeaderError)) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return &bridge.Error{Kind: bridge.Unavailable, Message: "the bridge at " + c.base + " speaks http, but the address says https; write http://, or the address of the proxy with TLS in front of the bridge", Cause: err}
	}
	return &bridge.Error{Kind: bridge.Unavailable, Message: "the bridge at " + c.base + " did not answer in time or closed the connection; look at its log", Cause: err, Unclear: k.method != http.MethodGet}
}

// answerError reads the bridge's own word on what went wrong; when something
// else answered, the status has to do.
func answerError(resp *http.Response) *bridge.Error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var body httpx.ErrorBody
	e := &bridge.Error{}
	if err == nil && json.Unmarshal(data, &body) == nil && body.Error.Message != "" {
		e.Kind, e.Message = bridge.ErrorKind(body.Error.Kind), body.Error.Message
	} else {
		e.Kind, e.Message = kindOf(resp.StatusCode), fmt.Sprintf("the bridge answered with HTTP %d", resp.StatusCode)
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// atThisAddress says what to do when a bridge has no such path: the address for agents and relays looks so to the operator.
func (c *Client) atThisAddress(e *bridge.Error) *bridge.Error {
	if e.Kind == bridge.NotFound && e.Message == noSuchPath {
		e.Message = "the bridge at " + c.base + " does not have this path; use the address under operator.listen in its bridge.yaml, and a drawbridge program of the bridge's version"
	}
	return e
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (out T, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: path, query: query, out: &out})
	return out, err
}

func post[T any](ctx context.Context, c *Client, path string, in any) (out T, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: path, in: in, out: &out})
	return out, err
}

// Health returns nil when a bridge answers.
func (c *Client) Health(ctx context.Context) error {
	answer, err := get[struct {
		OK bool `json:"ok"`
	}](ctx, c, "/health", nil)
	if err == nil && !answer.OK {
		err = bridge.Errorf(bridge.Unavailable, "the server at %s is not a bridge; correct the address", c.base)
	}
	return err
}

// Status says how the bridge is doing.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status", nil)
}

// ListOptions selects rows of a list; zero fields select everything. Agent, Turn
// and Verb are for commands only.
type ListOptions struct {
	State             string
	Agent, Turn, Verb string
	// Limit is at most 1,000; 0 means 100.
	Limit int
	// Before is the Next of an earlier list.
	Before string
	// Tree selects the agents of a tree, by the name or id of any of them.
	Tree string
	// Forgotten lists forgotten agents, too.
	Forgotten bool
}

func (o ListOptions) query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"state": o.State, "agent": o.Agent, "turn": o.Turn, "verb": o.Verb, "before": o.Before, "tree": o.Tree} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Forgotten {
		q.Set("forgotten", "true")
	}
	return q
}

// Agents lists agents, newest first.
func (c *Client) Agents(ctx context.Context, o ListOptions) (AgentList, error) {
	return get[AgentList](ctx, c, "/v1/agents", o.query())
}

// Agent returns an agent by id, name or external id.
func (c *Client) Agent(ctx context.Context, idOrName string) (Agent, error) {
	return get[Agent](ctx, c, "/v1/agents/"+url.PathEscape(idOrName), nil)
}

// Launch launches an agent. Twice with one name is a Conflict.
func (c *Client) Launch(ctx context.Context, r LaunchRequest) (Launched, error) {
	return post[Launched](ctx, c, "/v1/agents", r)
}

// Turns lists an agent's turns, newest first.
func (c *Client) Turns(ctx context.Context, idOrName string, o ListOptions) (TurnList, error) {
	return get[TurnList](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/turns", o.query())
}

// Say gives an agent a turn. Twice is two turns.
func (c *Client) Say(ctx context.Context, idOrName, text string) (Turn, error) {
	return post[Turn](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/turns", SayRequest{Text: text})
}

// Turn returns a turn with its whole texts.
func (c *Client) Turn(ctx context.Context, id string) (Turn, error) {
	return get[Turn](ctx, c, "/v1/turns/"+url.PathEscape(id), nil)
}

// Commands lists commands, newest first, or in order when a turn is named.
func (c *Client) Commands(ctx context.Context, o ListOptions) (CommandList, error) {
	return get[CommandList](ctx, c, "/v1/commands", o.query())
}

// Command returns a command.
func (c *Client) Command(ctx context.Context, id string) (Command, error) {
	return get[Command](ctx, c, "/v1/commands/"+url.PathEscape(id), nil)
}

// Approve lets a held command pass, of which the person was shown what has this
// hash (Command.Held). It passes the gate once more. Conflict when a yes would do something else by now.
func (c *Client) Approve(ctx context.Context, id, hash string) (Command, error) {
	return post[Command](ctx, c, "/v1/commands/"+url.PathEscape(id)+"/approve", ApproveRequest{Hash: hash})
}

// Deny refuses a held command; the reason, which may be empty, is told to the agent.
func (c *Client) Deny(ctx context.Context, id, reason string) (Command, error) {
	return post[Command](ctx, c, "/v1/commands/"+url.PathEscape(id)+"/deny", DenyRequest{Reason: reason})
}

// Resolve settles an uncertain command by a person's word.
func (c *Client) Resolve(ctx context.Context, id string, r ResolveRequest) (Command, error) {
	return post[Command](ctx, c, "/v1/commands/"+url.PathEscape(id)+"/resolve", r)
}

// ResolveRestored settles everything that is uncertain since a database was put back.
func (c *Client) ResolveRestored(ctx context.Context, r RestoredRequest) (RestoredAnswer, error) {
	return post[RestoredAnswer](ctx, c, "/v1/restored", r)
}

// ResolveTurn settles an uncertain turn by a person's word.
func (c *Client) ResolveTurn(ctx context.Context, id string, r ResolveRequest) (Turn, error) {
	return post[Turn](ctx, c, "/v1/turns/"+url.PathEscape(id)+"/resolve", r)
}

// CancelReminder ends a reminder that has not come back yet.
func (c *Client) CancelReminder(ctx context.Context, id string) (Command, error) {
	return post[Command](ctx, c, "/v1/commands/"+url.PathEscape(id)+"/cancel", nil)
}

// Tree says what the agents under a root have used of their budget.
func (c *Client) Tree(ctx context.Context, idOrName string) (Tree, error) {
	return get[Tree](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/tree", nil)
}

// Stop ends everything under a root and keeps it stopped. Twice is fine.
func (c *Client) Stop(ctx context.Context, idOrName, why string) (Tree, error) {
	return post[Tree](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/stop", StopRequest{Why: why})
}

// ForgetAgent gives the name of a dead agent, and of all under it, back. Twice is fine by the agent's id.
func (c *Client) ForgetAgent(ctx context.Context, idOrName string) (Agent, error) {
	return post[Agent](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/forget", nil)
}

// Move takes an agent to another runtime. Twice is a Conflict the second time.
func (c *Client) Move(ctx context.Context, idOrName, runtime string) (Moved, error) {
	return post[Moved](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/move", MoveRequest{Runtime: runtime})
}

// Resume lets a stopped tree go on. Twice is fine.
func (c *Client) Resume(ctx context.Context, idOrName string) (Tree, error) {
	return post[Tree](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/resume", nil)
}

// Join says how the results of several subagents come back to an agent.
func (c *Client) Join(ctx context.Context, idOrName string, r JoinRequest) (Agent, error) {
	return post[Agent](ctx, c, "/v1/agents/"+url.PathEscape(idOrName)+"/join", r)
}

// Continue gives a failed or uncertain turn another try. Nothing that its agent has is said a second time.
func (c *Client) Continue(ctx context.Context, turn string) (Turn, error) {
	return post[Turn](ctx, c, "/v1/turns/"+url.PathEscape(turn)+"/continue", nil)
}

// SayAgain says the words of a failed or uncertain turn again, in a new turn, whether its agent has them or not.
func (c *Client) SayAgain(ctx context.Context, turn string) (Turn, error) {
	return post[Turn](ctx, c, "/v1/turns/"+url.PathEscape(turn)+"/say-again", nil)
}

// GiveUp ends the matter of a failed turn, or of an uncertain one of an agent at a relay.
func (c *Client) GiveUp(ctx context.Context, turn string) (Turn, error) {
	return post[Turn](ctx, c, "/v1/turns/"+url.PathEscape(turn)+"/give-up", nil)
}

// StopTurn asks that one turn ends, and returns the turn as it is then. Twice is fine.
func (c *Client) StopTurn(ctx context.Context, turn string) (Turn, error) {
	return post[Turn](ctx, c, "/v1/turns/"+url.PathEscape(turn)+"/stop", nil)
}

// Chat says something as a user and waits, as long as ctx lets it, for the answer.
func (c *Client) Chat(ctx context.Context, r ChatRequest) (out ChatAnswer, err error) {
	err = c.doFor(ctx, call{method: http.MethodPost, path: "/chat", in: r, out: &out})
	return out, err
}

// ChatAsync says something as a user and returns as soon as the message is
// recorded. Twice is two messages.
func (c *Client) ChatAsync(ctx context.Context, r ChatRequest) (out ChatAnswer, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/chat", query: url.Values{"async": {"true"}}, in: r, out: &out})
	return out, err
}

// ChatLater returns a user's agent and its turns after a number, oldest first. Invalid
// for a number beyond the newest turn.
func (c *Client) ChatLater(ctx context.Context, user string, after int64) (ChatAgent, error) {
	return get[ChatAgent](ctx, c, "/agent/"+url.PathEscape(user), url.Values{"after": {strconv.FormatInt(after, 10)}})
}

// ChatAgent returns a user's agent.
func (c *Client) ChatAgent(ctx context.Context, user string) (ChatAgent, error) {
	return get[ChatAgent](ctx, c, "/agent/"+url.PathEscape(user), nil)
}
