package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// asker is an agent in the turn that asks.
type asker struct {
	Agent bridge.Agent
	// Turn is marked by Judge when it has to wait for what it launched.
	Turn *bridge.Turn
	// Names are the agent's and its ancestors', root first.
	Names []string
	// Tree is that of the agent, with whether a person stopped it.
	Tree bridge.Tree
	// quiet reports wait for another reason to speak to the agent.
	quiet bool
	// silent turns get no reports: a tool call was answered already.
	silent bool
	// summed are the subagents whose summary this turn asked for already; "" stands for all that the agent does not have.
	summed map[bridge.AgentID]bool
}

// quietAfter is how many turns in a row may only report refusals and near misses.
const quietAfter = 3

// judge takes a reply's commands through the policy and records each with its
// verdict and its work; what was refused, held or nearly a command is reported to
// the agent. Nothing of a reply runs that is over a cap, oversize, if that is not
// empty, for which it says why, or of a stopped tree.
func (c *change) judge(by *asker, f parser.Findings, oversize string) error {
	over := oversize
	var judged policy.Judgement
	limit := c.policy().Limits().CommandsPerTurn
	switch {
	case by.Tree.Stopped():
		over = words.Stopped(by.Tree) + "; nothing of this turn ran"
	case over != "":
		over = "this reply is too large to be read: " + over + "; nothing of it ran"
	case f.Total > limit:
		over = fmt.Sprintf("this turn has %d commands and the limit is %d a turn, so none of them ran; write fewer in one reply", f.Total, limit)
	case f.Total == 0: // nothing to judge
	default:
		r, err := c.request(by, f.Commands)
		if err != nil {
			return err
		}
		tools, err := c.Commands(bridge.CommandFilter{Turn: by.Turn.ID, Limit: 1000})
		if err != nil {
			return err
		}
		r.Earlier = earlierIn(tools)
		judged = c.policy().Judge(r)
		over = judged.OverCap
	}
	by.quiet = by.Turn.Streak >= quietAfter && !productive(judged)
	for i, cmd := range f.Commands {
		v := policy.Verdict{Decision: policy.Refused, Code: policy.CodeOverCap, Reason: over}
		if over == "" {
			v = judged.Verdicts[i]
		}
		if _, err := c.recordAs(by, i, cmd, v); err != nil {
			return err
		}
	}
	if over != "" {
		return c.reportOver(by, f, over)
	}
	if err := c.awaitResults(by.Agent, by.Turn); err != nil {
		return err
	}
	return c.reportMisses(by, f)
}

// productive reports whether anything of a turn may have an effect. An agent
// that goes on asking for what it may not have is not answered for ever.
func productive(judged policy.Judgement) bool {
	return judged.OverCap == "" && slices.ContainsFunc(judged.Verdicts, func(v policy.Verdict) bool {
		return v.Decision == policy.Granted || v.Decision == policy.Held
	})
}

// used is where the counters stand that a launch by an agent is held against.
// The numbers of the whole bridge are looked at for launches alone: steps that look at them go one after another.
func (c *change) used(a bridge.Agent, launching bool) (u policy.Usage, err error) {
	if u.Tree, _, err = c.TreeUsage(a.Root); err != nil || !launching {
		return u, err
	}
	u.Depth = a.Depth
	u.LaunchesLastHour, err = c.CountLaunches(c.now.Add(-time.Hour))
	var openErr error // both are loaded together
	u.OpenSubagents, openErr = c.CountOpenSubagents("")
	return u, cmp.Or(err, openErr)
}

// request collects what the pure policy needs to know.
func (c *change) request(by *asker, commands []parser.Command) (policy.Request, error) {
	launching := slices.ContainsFunc(commands, func(m parser.Command) bool { return m.Verb == parser.Subagent })
	used, err := c.used(by.Agent, launching)
	if err != nil {
		return policy.Request{}, err
	}
	heard, err := echo.Remembered(c.Scene, by.Agent.ID, by.Turn.Seq, c.now)
	if err != nil {
		return policy.Request{}, err
	}
	return policy.Request{
		Agents: by.Names, Commands: commands,
		Usage:  used,
		Echoed: heard.Repeats,
		Approved: func(key string) bool {
			ok, err := c.Approved(by.Agent.Root, key, c.now)
			return ok && err == nil // an unreadable memo is no approval
		},
	}, nil
}
