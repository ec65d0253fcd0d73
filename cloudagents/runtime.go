package cloudagents

import (
	"cmp"
	"context"
	"regexp"
	"strings"
	"unicode/utf8"

	"drawbridge/bridge"
	"drawbridge/policy"
)

// Launch creates an agent at the version that l or else its Grant names, or
// else at Options.API. A repository other than the granted one in the answer is
// reported as it came, also for an adopted agent: the bridge compares.
func (c *Client) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	g := l.Grant
	if !g.Valid() || g.Verb() != "SUBAGENT" || g.Repo() == "" || g.Prompt() == "" {
		return bridge.Started{}, bridge.Errorf(bridge.Denied, "launch agent: the policy has not allowed this launch")
	}
	if g.Repo().Local() {
		return bridge.Started{}, bridge.Errorf(bridge.Denied, "launch agent: %s is a clone on a machine, which the Cloud Agents API cannot reach", g.Repo())
	}
	api, err := c.version(cmp.Or(l.API, g.API()))
	if err != nil {
		return bridge.Started{}, err
	}
	if api == bridge.APIv0 {
		return c.launchV0(ctx, l)
	}
	return c.launchV1(ctx, l)
}

// FindLaunch looks for an earlier attempt: v1 by AgentID, v0 by branch and
// repository among the newest 300 agents. It only reads, so it takes an invalid
// Grant too (the allowlist may have changed since) and then, at v0, goes by the
// branch alone.
func (c *Client) FindLaunch(ctx context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	api, err := c.version(cmp.Or(l.API, l.Grant.API()))
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	if api == bridge.APIv0 {
		return c.findLaunchV0(ctx, l)
	}
	return c.findLaunchV1(ctx, l)
}

// Send sends Marker, a newline and Text, or Text alone without a Marker.
func (c *Client) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	api, err := c.checkFollowUp("send follow-up", f)
	if err != nil {
		return bridge.Started{}, err
	}
	if f.Text == "" {
		return bridge.Started{}, bridge.Errorf(bridge.Invalid, "send follow-up: the text is empty")
	}
	if api == bridge.APIv0 {
		return c.sendV0(ctx, f)
	}
	return c.sendV1(ctx, f)
}

// FindSend looks for an earlier attempt: v0 by the marker in the conversation;
// v1 by runs newer than LastRun, of which the one whose stream shows our marker
// is ours, or else the only one that shows nothing else. Known hole: a person
// who typed in the web page at that moment, while the stream shows no prompts.
// When several runs could be ours, the error is a Conflict and Unclear.
func (c *Client) FindSend(ctx context.Context, f bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	api, err := c.checkFollowUp("find follow-up", f)
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	if api == bridge.APIv0 {
		return c.findSendV0(ctx, f)
	}
	return c.findSendV1(ctx, f)
}

// Observe reads Get Run at v1; at v0 it reads status and conversation, because
// the status alone lies right after a follow-up. Branch and PR are the agent's,
// not the run's: the API keeps one snapshot for all runs.
func (c *Client) Observe(ctx context.Context, r bridge.RunRef) (bridge.Observation, error) {
	api, err := c.checkRef("observe run", r)
	if err != nil {
		return bridge.Observation{}, err
	}
	o, err := bridge.Observation{}, error(nil)
	if api == bridge.APIv0 {
		o, err = c.observeV0(ctx, r)
	} else {
		o, err = c.observeV1(ctx, r)
	}
	if err == nil && len(o.Reply) > c.opts.MaxReply {
		return bridge.Observation{}, bridge.Errorf(bridge.TooLarge, "observe run: the reply has %d bytes, the limit is %d", len(o.Reply), c.opts.MaxReply)
	}
	return o, err
}

// Cancel ends the run, or at v1 without a run id whatever the agent runs now.
// An Unclear error may be answered by calling it again.
func (c *Client) Cancel(ctx context.Context, r bridge.RunRef) error {
	const what = "cancel run"
	api, err := c.version(r.API)
	if err != nil {
		return err
	}
	if api == bridge.APIv1 && r.Run == "" {
		agent, err := c.agentV1(ctx, what, r.Agent)
		if err != nil || agent.LatestRunID == "" {
			return err
		}
		r.Run = agent.LatestRunID
	}
	if _, err := c.checkRef(what, r); err != nil {
		return err
	}
	if api == bridge.APIv0 {
		return c.cancelV0(ctx, r)
	}
	return c.cancelV1(ctx, r)
}

// SameRepo reports whether what the API calls a repository is the granted one.
// It takes the forms without a scheme that the API reports (facts: 4.4).
func SameRepo(reported string, granted policy.Repo) bool {
	repo, err := policy.CanonicalRepo(reported)
	return err == nil && granted != "" && repo == granted
}

func (c *Client) version(api string) (string, error) {
	switch api {
	case "":
		return c.opts.API, nil
	case bridge.APIv0, bridge.APIv1:
		return api, nil
	}
	return "", bridge.Errorf(bridge.Invalid, "API version %q is not known; use %s or %s", clip(api, 20), bridge.APIv1, bridge.APIv0)
}

func (c *Client) checkRef(what string, r bridge.RunRef) (string, error) {
	api, err := c.version(r.API)
	if err != nil {
		return "", err
	}
	if err := checkID(what, r.Agent); err != nil {
		return "", err
	}
	if api == bridge.APIv1 {
		return api, checkID(what, r.Run)
	}
	return api, nil
}

func (c *Client) checkFollowUp(what string, f bridge.FollowUp) (string, error) {
	api, err := c.version(f.API)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(f.Marker, "\r\n") {
		return "", bridge.Errorf(bridge.Invalid, "%s: the marker must be one line", what)
	}
	return api, checkID(what, f.Agent)
}

// followUpText is what is sent of a follow-up, and what FindSend looks for. A
// text that begins with its marker already does not get it twice.
func followUpText(f bridge.FollowUp) string {
	if f.Marker == "" || startsWithMarker(f.Text, f.Marker) {
		return f.Text
	}
	return f.Marker + "\n" + f.Text
}

// startsWithMarker reports whether text's first line is the marker. Blanks at
// either end do not matter: a server may trim them.
func startsWithMarker(text, marker string) bool {
	line, _, _ := strings.Cut(strings.TrimLeft(text, " \t\r\n"), "\n")
	return marker != "" && strings.TrimRight(line, " \t\r") == strings.TrimSpace(marker)
}

var agentIDForm = regexp.MustCompile(`^bc-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// agentName fits the API's 1 to 100 characters; "" leaves the name to the API.
func agentName(name string) string {
	name = strings.TrimSpace(strings.ToValidUTF8(name, ""))
	if utf8.RuneCountInString(name) > 100 {
		name = string([]rune(name)[:100])
	}
	return name
}
