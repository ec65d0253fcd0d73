package cloudagents

import (
	"context"
	"errors"
	"strings"

	"drawbridge/bridge"
)

// maxListPages bounds the search for a lost v0 launch, 100 agents a page.
const maxListPages = 3

// branchV0 is the branch that marks an operation's agent; v0 has no id to give.
func branchV0(op string) string { return "bridge/" + op }

func (c *Client) launchV0(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	if err := checkID("launch agent", l.Op); err != nil {
		return bridge.Started{}, err
	}
	k := post("launch agent", "/v0/agents")
	body := createV0{
		Prompt: promptJSON{Text: l.Grant.Prompt()},
		Model:  c.opts.Model,
		Source: sourceJSON{Repository: "https://" + string(l.Grant.Repo()), Ref: l.Ref},
		Target: targetV0{BranchName: branchV0(l.Op), AutoCreatePR: c.opts.AutoCreatePR},
	}
	if w := l.Webhook; w != nil {
		if len(w.Secret) < 32 || len(w.Secret) > 256 || len(w.URL) > 2048 {
			return bridge.Started{}, bridge.Errorf(bridge.Invalid, "launch agent: a webhook needs a secret of 32 to 256 characters and a URL of at most 2048")
		}
		body.Webhook = &webhookJSON{URL: w.URL, Secret: w.Secret}
		k.secrets = []string{w.Secret}
	}
	k.body = body
	var agent agentV0
	if err := c.do(ctx, k, &agent); err != nil {
		return bridge.Started{}, err
	}
	if !validID(agent.ID) {
		return bridge.Started{}, c.garbled(k, errors.New("the answer names no agent"))
	}
	return startedV0(agent), nil
}

func startedV0(agent agentV0) bridge.Started {
	return bridge.Started{
		Agent:  agent.ID,
		Repo:   bounded(agent.Source.Repository),
		URL:    link(agent.Target.URL.Is),
		Branch: bounded(agent.Target.BranchName),
	}
}

func (c *Client) findLaunchV0(ctx context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	const what = "find launch"
	if err := checkID(what, l.Op); err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	cursor := ""
	for range maxListPages {
		agents, next, err := c.listV0(ctx, what, page{limit: 100, cursor: cursor})
		if err != nil {
			return bridge.Started{}, bridge.FoundUnknown, err
		}
		for _, agent := range agents {
			if isLaunch(agent, l) {
				return startedV0(agent), bridge.FoundThere, nil
			}
		}
		if next == "" {
			break
		}
		cursor = next
	}
	return bridge.Started{}, bridge.FoundUnknown, nil
}

// isLaunch goes by the branch, which is this operation's own, and by the
// repository where both sides name one.
func isLaunch(agent agentV0, l bridge.Launch) bool {
	repo, granted := agent.Source.Repository, l.Grant.Repo()
	return validID(agent.ID) && agent.Target.BranchName == branchV0(l.Op) &&
		(repo == "" || granted == "" || SameRepo(repo, granted))
}

func (c *Client) sendV0(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	k := post("send follow-up", "/v0/agents/"+f.Agent+"/followup")
	k.body = followUpJSON{Prompt: promptJSON{Text: followUpText(f)}}
	var out idJSON
	if err := c.do(ctx, k, &out); err != nil {
		return bridge.Started{}, busyOr(err, func() bool {
			o, err := c.statusV0(ctx, "send follow-up", f.Agent)
			return err == nil && !o.State.Terminal()
		})
	}
	if out.ID != f.Agent {
		return bridge.Started{}, c.garbled(k, errors.New("the answer names another agent"))
	}
	return bridge.Started{Agent: f.Agent}, nil
}

func (c *Client) findSendV0(ctx context.Context, f bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	if f.Marker == "" {
		return bridge.Started{}, bridge.FoundUnknown, bridge.Errorf(bridge.Invalid, "find follow-up: this follow-up has no marker, and API v0 needs one to find it")
	}
	messages, err := c.conversationV0(ctx, "find follow-up", f.Agent)
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	if _, found := turnOf(messages, f.Marker); !found {
		return bridge.Started{}, bridge.FoundUnknown, nil
	}
	return bridge.Started{Agent: f.Agent}, bridge.FoundThere, nil
}

// observeV0 believes an end only in this order: a terminal status, then the
// turn's answer in the conversation, then a terminal status once more (the first
// may have been the run before), then the conversation again, now whole.
func (c *Client) observeV0(ctx context.Context, r bridge.RunRef) (bridge.Observation, error) {
	const what = "observe run"
	o, err := c.statusV0(ctx, what, r.Agent)
	if err != nil || !o.State.Terminal() {
		return o, err
	}
	turn, err := c.turnV0(ctx, what, r)
	if err != nil {
		return bridge.Observation{}, err
	}
	if r.Marker != "" {
		if !turn.over(o.State) {
			return bridge.Observation{State: bridge.RunRunning, Detail: turn.why()}, nil
		}
		if o, err = c.statusV0(ctx, what, r.Agent); err != nil || !o.State.Terminal() {
			return o, err
		}
		if turn, err = c.turnV0(ctx, what, r); err != nil {
			return bridge.Observation{}, err
		}
	}
	// The conversation may lag behind the status: an end without a word is read again.
	for attempt := 1; len(turn.replies) == 0 && o.State == bridge.RunFinished && attempt < recoverAttempts; attempt++ {
		if err := backOff(ctx, attempt); err != nil {
			return bridge.Observation{}, c.transportError(get(what, ""), err, true)
		}
		if turn, err = c.turnV0(ctx, what, r); err != nil {
			return bridge.Observation{}, err
		}
	}
	o.Reply = strings.Join(turn.replies, "\n\n")
	if o.Reply == "" {
		o.Detail = "the API shows no reply of the agent"
	}
	return o, nil
}

// statusV0 reads an agent and says what its status means, without a reply.
func (c *Client) statusV0(ctx context.Context, what, id string) (bridge.Observation, error) {
	k := get(what, "/v0/agents/"+id)
	var agent agentV0
	if err := c.do(ctx, k, &agent); err != nil {
		return bridge.Observation{}, err
	}
	if agent.ID != id {
		return bridge.Observation{}, c.garbled(k, errors.New("the answer names another agent"))
	}
	o := bridge.Observation{
		Repo:   bounded(agent.Source.Repository),
		Branch: bounded(agent.Target.BranchName),
		PR:     link(agent.Target.PRURL.Is),
	}
	o.State, o.Detail = stateOf(agent.Status)
	return o, nil
}

func (c *Client) conversationV0(ctx context.Context, what, id string) ([]messageV0, error) {
	k := get(what, "/v0/agents/"+id+"/conversation")
	var out struct {
		Messages *[]messageV0 `json:"messages"`
	}
	if err := c.do(ctx, k, &out); err != nil {
		return nil, err
	}
	if out.Messages == nil {
		return nil, c.garbled(k, errors.New("the answer holds no messages"))
	}
	return *out.Messages, nil
}

// turnV0 is what a conversation shows of one turn.
type turnV0 struct {
	visible bool
	replies []string
}

func (c *Client) turnV0(ctx context.Context, what string, r bridge.RunRef) (turnV0, error) {
	messages, err := c.conversationV0(ctx, what, r.Agent)
	if err != nil {
		return turnV0{}, err
	}
	rest, found := turnOf(messages, r.Marker)
	t := turnV0{visible: found}
	for _, m := range rest {
		if m.fromAgent() && m.Text != "" {
			t.replies = append(t.replies, m.Text)
		}
	}
	return t, nil
}

// over reports whether a follow-up's turn can have ended with that status. A
// FINISHED without a reply may be the word of the run before.
func (t turnV0) over(state bridge.RunState) bool {
	return t.visible && (len(t.replies) > 0 || state != bridge.RunFinished)
}

func (t turnV0) why() string {
	if !t.visible {
		return "the follow-up is not in the conversation yet"
	}
	return "the follow-up has no reply yet"
}

// turnOf cuts one turn out of a conversation: from the message with the marker,
// or from the start for a first turn, to the next message with another marker of
// a bridge. What a person types in between belongs to the turn, because nothing
// else would bring the answer to it back.
func turnOf(messages []messageV0, marker string) (turn []messageV0, found bool) {
	start := 0
	if marker != "" {
		for start < len(messages) && !isTurnStart(messages[start], marker) {
			start++
		}
		if start == len(messages) {
			return nil, false
		}
		start++
	}
	for end := start; end < len(messages); end++ {
		if m := messages[end]; m.fromUser() && startsOtherTurn(m.Text, marker) {
			return messages[start:end], true
		}
	}
	return messages[start:], true
}

func isTurnStart(m messageV0, marker string) bool {
	return m.fromUser() && startsWithMarker(m.Text, marker)
}

// startsOtherTurn knows a marker by its form, "[bridge <id>]" or whatever word
// our own marker begins with.
func startsOtherTurn(text, marker string) bool {
	word, _, ok := strings.Cut(strings.TrimSpace(marker), " ")
	if !ok {
		word = "[bridge"
	}
	line, _, _ := strings.Cut(strings.TrimLeft(text, " \t\r\n"), "\n")
	line = strings.TrimRight(line, " \t\r")
	return strings.HasPrefix(line, word+" ") && strings.HasSuffix(line, "]") && !startsWithMarker(text, marker)
}

// cancelV0 stops an agent. What v0 answers for one that is over already is not
// documented, so that a refusal is held against the status.
func (c *Client) cancelV0(ctx context.Context, r bridge.RunRef) error {
	k := post("cancel run", "/v0/agents/"+r.Agent+"/stop")
	var out idJSON
	err := c.do(ctx, k, &out)
	if kind := bridge.KindOf(err); kind != bridge.Invalid && kind != bridge.Conflict {
		return err
	}
	o, statusErr := c.statusV0(ctx, "cancel run", r.Agent)
	if statusErr == nil && o.State.Terminal() {
		return nil
	}
	return err
}
