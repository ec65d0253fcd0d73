package cloudagents

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/loosejson"
)

// The JSON of both versions, as far as it is used. Unknown fields are ignored. Ids, states, replies, an agent's
// repository and its branch at v0 decide: an answer in which one has another form is garbled. The other fields inform.

// maxListed bounds every list that has a bound at the API, which gives pages of at most 100.
const maxListed = 100

// listOf reads a JSON list up to maxListed and remembers whether there was more.
// Read whole into []runV1, the largest answer that is taken by default, 17 MiB of
// {},{},…, became 1.4 GiB (measured with Go 1.26.8).
type listOf[T any] struct {
	items []T
	more  bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *listOf[T]) UnmarshalJSON(data []byte) error {
	*l = listOf[T]{}
	d := json.NewDecoder(bytes.NewReader(data))
	start, err := d.Token()
	if err != nil || start == nil { // null is no list, as for any slice
		return err
	}
	if start != json.Delim('[') {
		return errors.New("not a list")
	}
	for d.More() {
		if len(l.items) == maxListed {
			l.more = true
			return nil
		}
		var item T
		if err := d.Decode(&item); err != nil {
			return err
		}
		l.items = append(l.items, item)
	}
	return nil
}

type promptJSON struct {
	Text string `json:"text"`
}

type modelJSON struct {
	ID string `json:"id"`
}

type repoJSON struct {
	URL         string `json:"url"`
	StartingRef string `json:"startingRef,omitempty"`
}

// mcpServerJSON is a remote tool server (facts: 4.3 MCP servers). Its type is left
// out; http is the default.
type mcpServerJSON struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

// doorName is what the agent's tools are listed under.
const doorName = "drawbridge"

// serversOf are an agent's tool servers, none without a door, and what of them is secret.
func serversOf(d *bridge.Door) (servers []mcpServerJSON, secrets []string) {
	if d == nil {
		return nil, nil
	}
	return []mcpServerJSON{{Name: doorName, URL: d.URL, Headers: map[string]string{"Authorization": "Bearer " + d.Token}}}, []string{d.Token}
}

type createV1 struct {
	AgentID      string     `json:"agentId"`
	Name         string     `json:"name,omitempty"`
	Prompt       promptJSON `json:"prompt"`
	Model        *modelJSON `json:"model,omitempty"`
	Repos        []repoJSON `json:"repos"`
	AutoCreatePR bool       `json:"autoCreatePR,omitempty"`

	MCPServers []mcpServerJSON `json:"mcpServers,omitempty"`
}

type agentV1 struct {
	ID          string                  `json:"id"`
	Name        loosejson.Value[string] `json:"name"`
	Status      loosejson.Value[string] `json:"status"`
	URL         loosejson.Value[string] `json:"url"`
	CreatedAt   loosejson.Value[string] `json:"createdAt"`
	LatestRunID string                  `json:"latestRunId"`
	// Repos has at most 20.
	Repos listOf[struct {
		URL string `json:"url"`
	}] `json:"repos"`
}

type runV1 struct {
	ID         string                   `json:"id"`
	AgentID    string                   `json:"agentId"`
	CreatedAt  loosejson.Value[string]  `json:"createdAt"`
	Status     string                   `json:"status"`
	DurationMS loosejson.Value[float64] `json:"durationMs"`
	Result     string                   `json:"result"`
	Git        loosejson.Value[gitJSON] `json:"git"`
	Error      loosejson.Value[struct {
		Message loosejson.Value[string] `json:"message"`
		Code    loosejson.Value[string] `json:"code"`
	}] `json:"error"`
}

// of reports whether the run can be one of that agent: the API may leave the agent out.
func (r runV1) of(agent string) bool {
	return validID(r.ID) && (r.AgentID == "" || r.AgentID == agent)
}

type gitJSON struct {
	Branches listOf[loosejson.Value[branchJSON]] `json:"branches"`
}

type branchJSON struct {
	RepoURL loosejson.Value[string] `json:"repoUrl"`
	Branch  loosejson.Value[string] `json:"branch"`
	PRURL   loosejson.Value[string] `json:"prUrl"`
}

type followUpJSON struct {
	Prompt promptJSON `json:"prompt"`
	// MCPServers, when present, replace those of the launch for the run.
	MCPServers []mcpServerJSON `json:"mcpServers,omitempty"`
}

type createV0 struct {
	Prompt  promptJSON   `json:"prompt"`
	Model   string       `json:"model,omitempty"`
	Source  sourceJSON   `json:"source"`
	Target  targetV0     `json:"target"`
	Webhook *webhookJSON `json:"webhook,omitempty"`
}

type sourceJSON struct {
	Repository string `json:"repository"`
	Ref        string `json:"ref,omitempty"`
}

type targetV0 struct {
	BranchName   string `json:"branchName"`
	AutoCreatePR bool   `json:"autoCreatePr,omitempty"`
}

type webhookJSON struct {
	URL    string `json:"url"`
	Secret string `json:"secret"`
}

type agentV0 struct {
	ID     string                  `json:"id"`
	Name   loosejson.Value[string] `json:"name"`
	Status string                  `json:"status"`
	Source struct {
		Repository string `json:"repository"`
	} `json:"source"`
	CreatedAt loosejson.Value[string] `json:"createdAt"`
	Target    struct {
		BranchName string                  `json:"branchName"`
		URL        loosejson.Value[string] `json:"url"`
		PRURL      loosejson.Value[string] `json:"prUrl"`
	} `json:"target"`
}

// messageV0 has no id here: ids change on each GET (facts: Conversation).
type messageV0 struct {
	Type string `json:"type"`
	Role string `json:"role"`
	Text string `json:"text"`
}

type idJSON struct {
	ID string `json:"id"`
}

// fromAgent accepts the word of older drafts beside today's.
func (m messageV0) fromAgent() bool {
	return m.Type == "assistant_message" || m.Type == "assistant" || m.Role == "assistant"
}

func (m messageV0) fromUser() bool {
	return m.Type == "user_message" || m.Type == "user" || m.Role == "user"
}

// states maps the API's words and those of older drafts (facts: seed-semantics).
var states = map[string]bridge.RunState{
	"CREATING":  bridge.RunCreating,
	"RUNNING":   bridge.RunRunning,
	"FINISHED":  bridge.RunFinished,
	"COMPLETED": bridge.RunFinished,
	"ERROR":     bridge.RunError,
	"FAILED":    bridge.RunError,
	"CANCELLED": bridge.RunCancelled,
	"CANCELED":  bridge.RunCancelled,
	"STOPPED":   bridge.RunCancelled,
	"EXPIRED":   bridge.RunExpired,
}

// stateOf maps a status word. An unknown one counts as running, because to
// take it for an end could lose a reply; detail then names it.
func stateOf(word string) (state bridge.RunState, detail string) {
	if s, ok := states[upperASCII(word)]; ok {
		return s, ""
	}
	return bridge.RunRunning, `unknown status "` + clip(word, 60) + `", taken as running`
}

// upperASCII leaves other letters alone: strings.ToUpper would make S of ſ.
func upperASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}

func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// link returns u when it may be shown as a link, else "".
func link(u string) string {
	if !isWebURL(u) {
		return ""
	}
	return u
}

// bounded cuts what is reported raw, so that a hostile answer cannot fill a
// store: a repository or branch that long is none of ours anyway.
func bounded(s string) string { return s[:min(len(s), 512)] }
