package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	over := c.over(by, f, oversize)
	var judged policy.Judgement
	if f.Total > 0 && over == "" {
		r, err := c.request(by, f.Commands)
		if err != nil {
			return err
		}
		tools, err := c.Commands(bridge.CommandFilter{Turn: by.Turn.ID, Limit: 1000})
		if err != nil {
			return err
		}
		r.Earlier = earlierIn(tools)
		judged = c.judgement(by.Agent, r)
		over = judged.OverCap
	}
	by.quiet = by.Turn.Stopped || by.Turn.Streak >= quietAfter && !productive(judged)
	for i, cmd := range f.Commands {
		v := refusedFor(over)
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

// refusedFor is the verdict on each command of a reply of which nothing may run.
func refusedFor(over string) policy.Verdict {
	return policy.Verdict{Decision: policy.Refused, Code: policy.CodeOverCap, Reason: over}
}

// over says why nothing of a reply may run, whatever its commands are; "" when they have to be judged. oversize is as for judge.
func (c *change) over(by *asker, f parser.Findings, oversize string) string {
	limit := c.policy().Limits().CommandsPerTurn
	switch {
	case f.Total == 0 && oversize == "": // nothing to judge
		return ""
	case by.Tree.Stopped():
		return words.Stopped(by.Tree) + "; nothing of this turn ran"
	case by.Turn.Stopped:
		return words.TurnStopped + "; nothing of it ran"
	case oversize != "":
		return "this reply is too large to be read: " + oversize + "; nothing of it ran"
	case f.Total > limit:
		return fmt.Sprintf("this turn has %s and the limit is %d a turn, so none of them ran; write fewer in one reply", words.Count(f.Total, "command"), limit)
	}
	return ""
}

// judgement is the policy's, but for launches into a runtime that is away: those are refused.
func (c *change) judgement(a bridge.Agent, r policy.Request) policy.Judgement {
	judged := c.policy().Judge(r)
	for i, cmd := range r.Commands {
		judged.Verdicts[i] = c.reach(a, cmd, judged.Verdicts[i])
	}
	return judged
}

// reach refuses a launch if its agent would live in a runtime that is away.
func (c *change) reach(a bridge.Agent, cmd parser.Command, v policy.Verdict) policy.Verdict {
	if cmd.Verb != parser.Subagent {
		return v
	}
	if err := c.reachable(a, v); err != nil {
		return v.Away(bridge.SafeMessage(err))
	}
	runtime, _ := c.homeOf(a, v.Runtime, v.API)
	if _, err := c.e.shares(a, bridge.Command{Runtime: runtime, Canonical: v.Canonical, Parsed: cmd}); err != nil {
		return v.NoRoom(bridge.SafeMessage(err))
	}
	return v
}

// productive reports whether anything of a turn may have an effect. An agent
// that goes on asking for what it may not have is not answered without end.
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

// recordAs stores one command with its verdict, and what follows from it.
func (c *change) recordAs(by *asker, ordinal int, cmd parser.Command, v policy.Verdict) (bridge.Command, error) {
	m := bridge.Command{
		ID: bridge.CommandID(c.NewID("cmd_")), Turn: by.Turn.ID, Agent: by.Agent.ID, Ordinal: ordinal, Parsed: cmd, State: bridge.CommandParsed,
		OpKey: c.e.o.Keys.OperationKey(by.Agent, *by.Turn, ordinal, cmd),
		Code:  string(v.Code), Reason: v.Reason, Canonical: v.Canonical, Runtime: v.Runtime, API: v.API, Relay: v.Relay, ApprovalKey: v.ApprovalKey,
		// Granted under a rule that asks for approval once: an earlier one still lasts.
		Approved:  v.Decision == policy.Granted && v.ApprovalKey != "",
		CreatedAt: c.now, UpdatedAt: c.now,
	}
	err := c.InsertCommand(m)
	switch {
	case err != nil:
	case v.Decision == policy.Granted:
		err = c.start(*by, &m)
	case v.Decision == policy.Held:
		err = c.hold(by, &m)
	case v.Decision == policy.Noted:
		if err = c.setCommand(&m, bridge.CommandFinished); err == nil {
			err = c.summarize(by, m)
		}
	default:
		err = c.refuse(by, &m)
	}
	return m, err
}

// start takes a command to granted and queues its work.
func (c *change) start(by asker, m *bridge.Command) error {
	a := by.Agent
	work := bridge.Work{Ref: string(m.ID), Lane: errandLane(*m), Due: c.now}
	switch m.Parsed.Verb {
	case parser.Subagent:
		if err := c.spawn(a, m); err != nil {
			return err
		}
	case parser.LocalAction:
		work.Kind, work.Share = bridge.WorkAction, bridge.RelayShare(m.Relay)
	case parser.Remind:
		if err := setDue(c, a, m); err != nil {
			return err
		}
		if m.Due.IsZero() {
			by.quiet = by.Turn.Streak >= quietAfter // an agent that asks for nothing else is not answered without end
			return c.refuse(&by, m)
		}
		work.Kind, work.Due, work.Share = bridge.WorkRemind, m.Due, bridge.TreeShare(bridge.WorkRemind, a.Root)
		reminder := echo.Kept{Agent: a.ID, Key: "reminder " + string(m.ID), Text: m.Parsed.Message, Place: "its own reminder " + string(m.ID), Until: m.Due}
		if err := echo.Keep(c.Scene, reminder, c.now); err != nil {
			return err
		}
	}
	if err := c.setCommand(m, bridge.CommandGranted); err != nil {
		return err
	}
	if work.Kind != "" {
		if err := c.Enqueue(work); err != nil {
			return err
		}
	}
	return c.event(bridge.EventGranted, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Describe(*m), Fields: words.Fields(*m)})
}

// homeOf says where a subagent will live: in the Runtime that the rule of its repository names, else with its parent. In the
// cloud the rule chooses the version, else the configuration.
func (c *change) homeOf(parent bridge.Agent, ruleRuntime, ruleAPI string) (runtime, api string) {
	runtime = cmp.Or(ruleRuntime, parent.Runtime)
	if bridge.InCloud(runtime) {
		return bridge.CloudRuntime, cmp.Or(ruleAPI, c.e.o.API)
	}
	return runtime, ""
}

// reachable says why the agent of a launch cannot be launched now; nil when it can.
func (c *change) reachable(parent bridge.Agent, v policy.Verdict) error {
	runtime, _ := c.homeOf(parent, v.Runtime, v.API)
	return c.e.reaches(v.Canonical, runtime)
}

// hold lets a command wait for a person. One that is identical to another which
// waits already joins it: the agent heard of that one, so that this is not worth a turn.
func (c *change) hold(by *asker, m *bridge.Command) error {
	q, err := c.question(by.Agent, *m)
	if err != nil {
		return err
	}
	if err := c.setCommand(m, bridge.CommandHeld); err != nil {
		return err
	}
	if err := c.event(bridge.EventHeld, by.Agent, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Reason, Fields: words.Fields(*m)}); err != nil {
		return err
	}
	text := words.Say("%s (%s): held as %s: %s", words.Where(m.Parsed.Line), m.Parsed.Verb, m.ID, words.Own(m.Reason))
	if len(q.Same) == 0 {
		return c.report(by, "held "+m.OpKey, bridge.Notice{Text: text})
	}
	joined := *by
	joined.quiet = true
	return c.report(&joined, "held "+m.OpKey, bridge.Notice{Text: text + words.Say("; %s is identical and already waits; one approval runs one of them", q.Same[0])})
}

func (c *change) refuse(by *asker, m *bridge.Command) error {
	if err := c.setCommand(m, bridge.CommandRefused); err != nil {
		return err
	}
	if m.Code == string(policy.CodeOverCap) {
		return nil // one report for the whole turn
	}
	if err := c.event(bridge.EventRefused, by.Agent, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Reason, Fields: words.Fields(*m)}); err != nil {
		return err
	}
	return c.report(by, "refused "+m.OpKey, bridge.Notice{Text: words.Say("%s (%s): refused: %s", words.Where(m.Parsed.Line), m.Parsed.Verb, words.Own(strings.TrimPrefix(m.Reason, "refused: "))), Commands: []bridge.CommandID{m.ID}})
}

// report leaves a notice about the agent's own turn, for itself. What is the
// same for the same news of the same turn.
func (c *change) report(by *asker, what string, n bridge.Notice) error {
	if by.silent {
		return nil
	}
	n.Agent, n.Cause, n.Asked = by.Agent.ID, bridge.CauseReport, by.Turn.ID
	n.Item = c.item(by.Agent, "report", by.Turn.Name(), what)
	n.Depth, n.Streak, n.Quiet = by.Turn.Depth, by.Turn.Streak+1, by.quiet
	return c.keep(n)
}

func (c *change) reportOver(by *asker, f parser.Findings, over string) error {
	if err := c.event(bridge.EventOverCap, by.Agent, bridge.Event{Turn: by.Turn.ID, Text: over}); err != nil {
		return err
	}
	all, err := c.Commands(bridge.CommandFilter{Turn: by.Turn.ID, Limit: parser.MaxCommands})
	if err != nil {
		return err
	}
	ids := make([]bridge.CommandID, len(all))
	for i, m := range all {
		ids[i] = m.ID
	}
	return c.report(by, "over", bridge.Notice{Text: words.Own(over), Commands: ids})
}

// reportMisses tells the agent which lines looked like commands and were
// none. An agent that goes on producing nothing else is not answered without end.
func (c *change) reportMisses(by *asker, f parser.Findings) error {
	if len(f.NearMisses) == 0 {
		return nil
	}
	for _, n := range f.NearMisses {
		if err := c.event(bridge.EventNearMiss, by.Agent, bridge.Event{Turn: by.Turn.ID, Text: n.Reason, Fields: map[string]string{"line": fmt.Sprint(n.Line), "line_text": n.Text, "code": n.Code}}); err != nil {
			return err
		}
	}
	return c.report(by, "near misses", bridge.Notice{Text: words.Misses(f.NearMisses, f.Misses)})
}

// Misread returns the lines of a reply that only look like commands, as the parser reads them now. It is empty for a reply that was not read.
func (e *Engine) Misread(a bridge.Agent, t bridge.Turn) []parser.NearMiss {
	if t.State != bridge.TurnReplied || t.Status != bridge.RunFinished || a.Silent() {
		return nil
	}
	return parser.Read(t.Reply, e.o.Parser).NearMisses
}
