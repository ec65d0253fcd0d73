package engine

import (
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

const hour = time.Hour

// finishCommand ends the command that launched this agent, if this was its
// first run, and tells the parent how the run ended.
func (c *change) finishCommand(j *job, out output, cpl bridge.Completion) error {
	if j.command.ID == "" {
		return nil
	}
	first := j.turn.Seq == 1
	if first {
		j.command.Outcome = &bridge.CommandOutcome{Status: string(out.obs.State), DurationMS: c.now.Sub(j.turn.SentAt).Milliseconds()}
		if err := c.setCommand(&j.command, bridge.CommandFinished); err != nil {
			return err
		}
	}
	return c.tellParent(*j, bridge.Notice{Cause: bridge.CauseCompletion, Completion: cpl.ID, Commands: commandIDs(first, j.command),
		Text: completionText(*j, out), Untrusted: or(out.obs.Reply, out.obs.Detail)})
}

// completionText is the bridge's own word on a run's end. The WEBHOOK_RESULT
// line is the one that the seed gives to follow-ups.
func completionText(j job, out output) string {
	var b strings.Builder
	fmt.Fprintf(&b, "line %d of your turn (SUBAGENT on %s): agent %s ended with status %s.", j.command.Parsed.Line, j.agent.Repo, j.agent.Name, out.obs.State)
	fmt.Fprintf(&b, "\nWEBHOOK_RESULT: agent_id=%s, status=%s", j.agent.External, out.obs.State)
	if out.obs.Branch != "" {
		fmt.Fprintf(&b, "\n   branch: %s", words.SafeWord(out.obs.Branch))
	}
	if out.obs.PR != "" {
		fmt.Fprintf(&b, "\n   pull request: %s", words.SafeWord(out.obs.PR))
	}
	if out.oversize != "" {
		fmt.Fprintf(&b, "\n   its reply could not be read: %s", out.oversize)
	}
	if out.obs.Reply != "" {
		b.WriteString("\nIts last words:")
	}
	return b.String()
}

// unfinished ends a turn whose run failed, was cancelled or expired: nothing
// of its text runs, the parent is told, and what it carried waits again.
func (c *change) unfinished(j *job, out output, cpl bridge.Completion) error {
	reason := fmt.Sprintf("the run ended with status %s", out.obs.State)
	if out.obs.Detail != "" {
		reason += ": " + words.OneLine(out.obs.Detail, 300)
	}
	j.turn.Reply, j.turn.Trouble, j.agent.Trouble = out.obs.Reply, reason, reason
	if err := c.setTurn(&j.turn, bridge.TurnFailed); err != nil {
		return err
	}
	if err := c.uncarry(j.turn.ID); err != nil {
		return err
	}
	if err := c.setAgent(&j.agent, bridge.AgentFailed); err != nil {
		return err
	}
	if err := c.event(bridge.EventTurnFailed, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.agent.Command, Text: reason}); err != nil {
		return err
	}
	if err := c.FinishWork(j.work); err != nil {
		return err
	}
	return c.finishCommand(j, out, cpl)
}
