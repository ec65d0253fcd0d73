package api

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/policy"
)

// Allowed is what the policy allows at this moment.
type Allowed struct {
	Repos   []AllowedRepo   `json:"repos"`
	Actions []AllowedAction `json:"actions"`
	// Own are the orchestrators that may launch on their own repository, which the list need not have.
	Own []OwnRepo `json:"own"`
	// OperatorRepos are those where only a person launches.
	OperatorRepos []string `json:"operator_repos"`
	Limits        Limits   `json:"limits"`
	// Agents are the entries that narrow what single agents may do, by name.
	Agents []AllowedAgent `json:"agents"`
	// Warnings are entries without effect, in words.
	Warnings []string `json:"warnings"`
}

// OwnRepo is an orchestrator's own repository. It may launch there, and so may all below it.
type OwnRepo struct {
	Agent string `json:"agent"`
	Repo  string `json:"repo"`
}

// AllowedAgent is less than the general lists, for an agent and all below it.
type AllowedAgent struct {
	Name string `json:"name"`
	// Repos and Actions are all that is left of the general lists; null is all of it.
	Repos   []string `json:"repos"`
	Actions []string `json:"actions"`
	// Tree lowers the bounds of its tree; 0 is the general bound.
	Tree Budget `json:"tree"`
}

// AllowedRepo is a repository or github.com/owner/*.
type AllowedRepo struct {
	Pattern  string `json:"pattern"`
	Approval string `json:"approval"`
	API      string `json:"api,omitempty"`
	// Runtime is where agents on it live, if the rule names one besides the cloud.
	Runtime string `json:"runtime,omitempty"`
}

// AllowedAction is an action of a relay.
type AllowedAction struct {
	ID       string `json:"id"`
	Relay    string `json:"relay,omitempty"`
	Approval string `json:"approval"`
	// WaitMS is how long it waits for a relay that is away, in milliseconds.
	WaitMS int64 `json:"wait_ms"`
}

// Limits are the caps in force; see policy.Limits for what each counts.
type Limits struct {
	CommandsPerTurn int `json:"commands_per_turn"`
	LaunchesPerHour int `json:"launches_per_hour"`
	OpenSubagents   int `json:"open_subagents"`
	Depth           int `json:"depth"`
	TurnsPerChain   int `json:"turns_per_chain"`
	Reminders       int `json:"reminders"`
	// Tree is the budget of each tree of agents.
	Tree Budget `json:"tree"`
}

// Budget bounds what the agents under one root use together; 0 is no bound.
type Budget struct {
	Launches int `json:"launches"`
	Open     int `json:"open"`
	Turns    int `json:"turns"`
	Tokens   int `json:"tokens"`
	CostUSD  int `json:"cost_usd"`
}

func viewLimits(l policy.Limits) Limits {
	return Limits{CommandsPerTurn: l.CommandsPerTurn, LaunchesPerHour: l.LaunchesPerHour, OpenSubagents: l.OpenSubagents, Depth: l.Depth,
		TurnsPerChain: l.TurnsPerChain, Reminders: l.Reminders, Tree: Budget(l.Tree)}
}

// AllowlistFile is the file behind the policy, and what another text of it would mean. Its methods are safe for concurrent use.
type AllowlistFile interface {
	// Text returns the file as it stands.
	Text() (string, error)
	// Compile makes the policy of another text, without putting it in force; Invalid tells all of its problems.
	Compile(text string) (*policy.Policy, error)
}

// errNoFile is the answer of a bridge whose policy comes from no file.
var errNoFile = bridge.Errorf(bridge.NotFound, "this bridge has no allowlist file")

func (h *Handler) allowed(w http.ResponseWriter, _ *http.Request) error {
	p := h.o.Policy()
	out := Allowed{
		Repos: viewAll(p.RepoRules(), func(r policy.RepoRule) AllowedRepo {
			return AllowedRepo{Pattern: r.Pattern, Approval: r.Approval.String(), API: r.API, Runtime: r.Runtime}
		}),
		Actions: viewAll(p.ActionRules(), func(r policy.ActionRule) AllowedAction {
			return AllowedAction{ID: r.ID, Relay: r.Relay, Approval: r.Approval.String(), WaitMS: r.Waits().Milliseconds()}
		}),
		OperatorRepos: viewAll(p.OperatorRepos(), func(r policy.Repo) string { return string(r) }),
		Limits:        viewLimits(p.Limits()),
		Own:           []OwnRepo{},
		Agents:        []AllowedAgent{},
		Warnings:      viewAll(p.Warnings(), func(w policy.Problem) string { return w.At + ": " + w.Value + " " + w.Reason }),
	}
	own := p.Own()
	for _, name := range slices.Sorted(maps.Keys(own)) {
		out.Own = append(out.Own, OwnRepo{Agent: name, Repo: string(own[name])})
	}
	narrowed := p.Narrowed()
	for _, name := range slices.Sorted(maps.Keys(narrowed)) {
		n := narrowed[name]
		out.Agents = append(out.Agents, AllowedAgent{Name: name, Repos: n.Repos, Actions: n.Actions, Tree: Budget(n.Tree)})
	}
	httpx.WriteJSON(w, http.StatusOK, out)
	return nil
}

// AllowlistText is the allowlist file as it stands. It is not in force while Status has an AllowlistProblem.
type AllowlistText struct {
	Text string `json:"text"`
}

func (h *Handler) allowlistText(w http.ResponseWriter, _ *http.Request) error {
	if h.o.Allowlist == nil {
		return errNoFile
	}
	text, err := h.o.Allowlist.Text()
	if err == nil {
		httpx.WriteJSON(w, http.StatusOK, AllowlistText{text})
	}
	return err
}

// TryRequest asks what would come of a text that an agent writes.
type TryRequest struct {
	// Agent is an agent's id or name; "" goes by the general lists alone.
	Agent string `json:"agent,omitempty"`
	Text  string `json:"text"`
}

func (h *Handler) tryText(w http.ResponseWriter, r *http.Request) error {
	var req TryRequest
	if err := readExact(w, r, &req); err != nil {
		return err
	}
	var id bridge.AgentID
	if req.Agent != "" {
		a, err := h.agentBy(r.Context(), req.Agent)
		if err != nil {
			return err
		}
		id = a.ID
	}
	found, judged, err := h.o.Engine.Try(r.Context(), id, req.Text)
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, ReadingOf(found.Commands, found.NearMisses, &judged))
	return nil
}

// Allowed returns what the policy allows now.
func (c *Client) Allowed(ctx context.Context) (Allowed, error) {
	return get[Allowed](ctx, c, "/v1/allowed", nil)
}

// AllowlistText returns the allowlist file as it stands.
func (c *Client) AllowlistText(ctx context.Context) (AllowlistText, error) {
	return get[AllowlistText](ctx, c, "/v1/allowed/text", nil)
}

// Try says what would come of a text that an agent writes; without an agent, by the general lists alone.
func (c *Client) Try(ctx context.Context, agent, text string) (Reading, error) {
	return post[Reading](ctx, c, "/v1/allowed/try", TryRequest{Agent: agent, Text: text})
}
