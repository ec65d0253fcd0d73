package web

import (
	"context"

	"drawbridge/api"
	"drawbridge/bridge"
)

// maxSteps bounds the steps of a running turn that are shown, the latest ones.
const maxSteps = 15

// now is what an agent at a relay does in the turn that runs.
type now struct {
	Steps []api.Step
	// Missed says that earlier steps are left out, and Away that the relay does not answer.
	Missed, Away bool
}

func (now) names() (template, key string) { return "now.html", "now" }

// steps follows what an agent does over the looks of one stream.
type steps struct {
	after int64
	run   string
	now   now
}

// look asks what the agent did since the last look. It reports false where there is nothing to show.
func (s *steps) look(ctx context.Context, c *api.Client, a api.Agent) (now, bool) {
	if a.State != string(bridge.AgentBusy) || bridge.InCloud(a.Runtime) {
		return now{}, false
	}
	live, err := c.Live(ctx, a.ID, s.after)
	if err != nil {
		return now{}, false
	}
	if live.Run != "" && live.Run != s.run {
		s.run, s.now = live.Run, now{}
	}
	s.after = live.Next
	s.now.Away, s.now.Missed = live.Away, s.now.Missed || live.Missed
	for _, step := range live.Steps {
		if step.Run == s.run {
			s.now.Steps = append(s.now.Steps, step)
		}
	}
	if more := len(s.now.Steps) - maxSteps; more > 0 {
		s.now.Steps, s.now.Missed = append([]api.Step{}, s.now.Steps[more:]...), true
	}
	return s.now, len(s.now.Steps) > 0 || s.now.Away
}
