package cloudagents

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
)

// SentSince implements bridge.Transcriber. v0 shows what was sent in the
// conversation, for good. v1 shows it in one update of the run's stream alone, for
// about four days (facts: Cloud Agents API, 5).
func (c *Client) SentSince(ctx context.Context, r bridge.RunRef) ([]bridge.SentRun, error) {
	const what = "read what the agent was sent"
	api, err := c.version(r.API)
	if err != nil {
		return nil, err
	}
	if err := checkID(what, r.Agent); err != nil {
		return nil, err
	}
	if api == bridge.APIv0 {
		return c.sentV0(ctx, what, r.Agent)
	}
	if err := checkID(what, r.Run); err != nil {
		return nil, err
	}
	return c.sentV1(ctx, what, r)
}

func (c *Client) sentV0(ctx context.Context, what, agent string) (all []bridge.SentRun, err error) {
	messages, err := c.conversationV0(ctx, what, agent)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if m.fromUser() {
			all = append(all, bridge.SentRun{Text: m.Text, Shown: true})
		}
	}
	return all, nil
}

func (c *Client) sentV1(ctx context.Context, what string, r bridge.RunRef) (all []bridge.SentRun, err error) {
	agent, err := c.agentV1(ctx, what, r.Agent)
	if err != nil || agent.LatestRunID == "" || agent.LatestRunID == r.Run {
		return nil, err
	}
	newer, err := c.runsBehind(ctx, what, r, agent.LatestRunID)
	if err != nil {
		return nil, err
	}
	for _, run := range newer[:min(len(newer), bridge.MaxSent)] {
		state, _ := stateOf(run.Status)
		s := bridge.SentRun{Run: run.ID, Over: state.Terminal(), Begun: parseTime(run.CreatedAt.Is)}
		if s.Text, err = c.promptOf(ctx, bridge.RunRef{API: bridge.APIv1, Agent: r.Agent, Run: run.ID}, s); err != nil {
			return nil, err
		}
		s.Shown = s.Text != ""
		all = append(all, s)
	}
	return all, nil
}

// runsBehind lists the runs after r.Run, oldest first.
func (c *Client) runsBehind(ctx context.Context, what string, r bridge.RunRef, latest string) (newer []runV1, err error) {
	p := page{limit: runPage}
	for range maxRunPages {
		runs, next, err := c.runsV1(ctx, what, r.Agent, p)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			if run.ID == r.Run {
				slices.Reverse(newer)
				return newer, nil
			}
			newer = append(newer, run)
		}
		if next == "" {
			break
		}
		p.cursor = next
	}
	return nil, &bridge.Error{Kind: bridge.Unavailable, Message: what + ": the agent's latest run is " + clip(latest, 80) + ", and its list of runs does not show " + clip(r.Run, 80)}
}

// promptOf reads a run's prompt from its stream, "" when the stream does not show
// it. An error is one that may pass: an old run's stream that is away for longer
// than a lost request can live counts as one that shows nothing.
func (c *Client) promptOf(ctx context.Context, r bridge.RunRef, s bridge.SentRun) (string, error) {
	short, cancel := context.WithTimeout(ctx, min(10*time.Second, c.opts.Timeout))
	defer cancel()
	text := ""
	err := c.Stream(short, r, "", func(e Event) error {
		if e.Name == "interaction_update" {
			text = promptIn(e.Data)
		}
		if text != "" {
			return errEnd
		}
		return nil
	})
	kind := bridge.KindOf(err)
	switch {
	case text != "":
		return text, nil
	case ctx.Err() != nil:
		return "", err
	case err == nil || kind == bridge.NotFound || kind == bridge.TooLarge:
		return "", nil
	case kind == bridge.Unavailable && (!s.Over || c.opts.Now().Sub(s.Begun) > c.opts.SettleTime):
		return "", nil
	}
	return "", err
}

// promptIn returns the text of a user-message-appended update, "" for any other.
// Its form is not documented, so that the string with a bridge's marker counts
// wherever it stands, and else the longest field named text.
func promptIn(data []byte) (text string) {
	var update struct {
		Type string `json:"type"`
	}
	var all any
	if json.Unmarshal(data, &update) != nil || update.Type != "user-message-appended" || json.Unmarshal(data, &all) != nil {
		return ""
	}
	marked := ""
	eachString(all, "", func(key, s string) {
		switch {
		case strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "[bridge ") && len(s) > len(marked):
			marked = s
		case key == "text" && strings.TrimSpace(s) != "" && len(s) > len(text):
			text = s
		}
	})
	if marked != "" {
		return marked
	}
	return text
}
