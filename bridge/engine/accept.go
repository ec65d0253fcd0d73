package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/kin"
	"drawbridge/bridge/meter"
	"drawbridge/bridge/reading"
	"drawbridge/bridge/words"
	"drawbridge/parser"
	"drawbridge/policy"
)

// quietAfter is how many turns in a row may only report refusals and near misses.
const quietAfter = 3

// output is what came of a turn, as the API says.
type output struct {
	obs bridge.Observation
	// oversize says that the reply was too large to be read; then nothing of it runs.
	oversize string
	// gone says that the API does not know the agent any more.
	gone bool
	// evidence is what else the API says of the agent, nil when nobody can ask it.
	evidence *bridge.Evidence
}

// accept records how a run ended, everything that its reply asks for, and the
// work that follows, in one transaction: either all of it is there after a
// crash or none, and then the run is looked at again.
func (e *Engine) accept(ctx context.Context, j job, out output) error {
	var found reading.Findings
	// Only the text of a turn that ended by itself may command (facts: The two doors).
	if out.obs.State == bridge.RunFinished && out.oversize == "" {
		found = reading.Read(out.obs.Reply, e.o.Parser)
	}
	return e.step(ctx, j, func(c *change, j *job) error {
		completion, err := c.complete(j, out)
		if err != nil {
			return err
		}
		var used *bridge.Usage
		if out.evidence != nil {
			used = out.evidence.Usage
		}
		if err := meter.Take(c.Change, &j.agent, j.names, used); err != nil {
			return err
		}
		if err := e.meter.Later(c.Change, j.agent, j.names, j.turn); err != nil {
			return err
		}
		if out.obs.State != bridge.RunFinished {
			return c.unfinished(j, out, completion)
		}
		if err := c.replied(j, out); err != nil {
			return err
		}
		if err := c.judge(j, found, out.oversize); err != nil {
			return err
		}
		if err := c.FinishWork(j.work); err != nil {
			return err
		}
		if err := c.Pump(&j.agent); err != nil {
			return err
		}
		return c.finishCommand(j, out, completion)
	})
}

// complete writes the run's end into the ledger, once, and names who told us first.
func (c *change) complete(j *job, out output) (bridge.Completion, error) {
	source := bridge.SourcePoll
	if hooks, err := c.Deliveries(j.agent.ID, 1); err != nil {
		return bridge.Completion{}, err
	} else if len(hooks) > 0 && !hooks[0].ReceivedAt.Before(j.turn.SentAt) {
		source = bridge.SourceWebhook
	} else if c.e.streams.Ended(j.turn.ID) {
		source = bridge.SourceStream
	}
	run := or(j.turn.Run, string(j.turn.ID)) // v0 runs have no id of their own
	cpl := bridge.Completion{ID: bridge.CompletionID(c.e.o.NewID("cpl_")), Op: j.agent.ID, Turn: j.turn.ID, Run: run, Status: out.obs.State, Source: source, Evidence: words.Evidence(endedOf(*j, out)), CreatedAt: c.now}
	if _, err := c.InsertCompletion(cpl); err != nil {
		return bridge.Completion{}, err
	}
	j.turn.Status = out.obs.State
	return cpl, c.Event(bridge.EventCompleted, j.agent, bridge.Event{Turn: j.turn.ID, Command: j.agent.Command, Text: fmt.Sprintf("%s ended %s (%s)", j.agent.Name, out.obs.State, source),
		Fields: map[string]string{"status": string(out.obs.State), "source": string(source), "external": j.agent.External, "branch": words.SafeWord(out.obs.Branch), "pr": words.SafeWord(out.obs.PR),
			"duration_ms": fmt.Sprint(c.now.Sub(j.turn.SentAt).Milliseconds()), "attempts": fmt.Sprint(j.turn.Attempts)}})
}

// replied ends the turn well: what it carried is delivered.
func (c *change) replied(j *job, out output) error {
	j.turn.Reply, j.turn.Trouble = out.obs.Reply, out.oversize
	if err := c.SetTurn(&j.turn, bridge.TurnReplied); err != nil {
		return err
	}
	j.agent.Trouble = ""
	if err := c.delivered(j); err != nil {
		return err
	}
	return c.Event(bridge.EventReply, j.agent, bridge.Event{Turn: j.turn.ID, Text: words.OneLine(j.turn.Reply, 300), Fields: map[string]string{"text": words.Clip(j.turn.Reply, 4000)}})
}

// delivered marks what the turn carried: completions as delivered, commands as reported.
func (c *change) delivered(j *job) error {
	carried, err := c.CarriedNotices(j.turn.ID)
	if err != nil {
		return err
	}
	var completions []bridge.CompletionID
	for _, n := range carried {
		if n.Completion != "" {
			completions = append(completions, n.Completion)
		}
		for _, id := range n.Commands {
			m, err := c.Command(id)
			if err != nil {
				return err
			}
			if !m.State.CanBecome(bridge.CommandReported) {
				continue
			}
			if err := c.SetCommand(&m, bridge.CommandReported); err != nil {
				return err
			}
		}
	}
	if len(carried) == 0 {
		return nil
	}
	if err := c.DeliverCompletions(completions, j.turn.ID, c.now); err != nil {
		return err
	}
	return c.Event(bridge.EventDelivered, j.agent, bridge.Event{Turn: j.turn.ID, Text: fmt.Sprintf("%d outcomes delivered", len(carried))})
}

// judge takes the reply's commands through the gate and records each with its verdict and its work.
func (c *change) judge(j *job, f reading.Findings, oversize string) error {
	over := oversize
	var judged policy.Judgement
	limit := c.e.o.Policy().Limits().CommandsPerTurn
	switch {
	case j.tree.Stopped():
		over = words.Stopped(j.tree) + "; nothing of this turn ran"
	case over != "":
		over = "this reply is too large to be read: " + over + "; nothing of it ran"
	case f.Total > limit:
		over = fmt.Sprintf("this turn has %d commands and the limit is %d a turn, so none of them ran; write fewer in one reply", f.Total, limit)
	default:
		r, err := c.request(j, f.Commands)
		if err != nil {
			return err
		}
		tools, err := c.Commands(bridge.CommandFilter{Turn: j.turn.ID, Limit: 1000})
		if err != nil {
			return err
		}
		r.Earlier = earlierIn(tools)
		judged = c.e.o.Policy().Judge(r)
		over = judged.OverCap
	}
	j.quiet = j.turn.Streak >= quietAfter && !productive(judged)
	for i, cmd := range f.Commands {
		v := policy.Verdict{Decision: policy.Refused, Code: policy.CodeOverCap, Reason: over}
		if over == "" {
			v = judged.Verdicts[i]
		}
		if _, err := c.recordAs(j, i, cmd, v); err != nil {
			return err
		}
	}
	if over != "" {
		return c.reportOver(j, f, over)
	}
	if err := c.beginJoin(j); err != nil {
		return err
	}
	return c.reportMisses(j, f)
}

// productive reports whether anything of a turn may have an effect. An agent
// that goes on asking for what it may not have is not answered for ever.
func productive(judged policy.Judgement) bool {
	return judged.OverCap == "" && slices.ContainsFunc(judged.Verdicts, func(v policy.Verdict) bool {
		return v.Decision == policy.Granted || v.Decision == policy.Held
	})
}

// used is where the counters stand that a launch by an agent is held against.
func (c *change) used(a bridge.Agent) (u policy.Usage, err error) {
	if u.LaunchesLastHour, err = c.CountLaunches(c.now.Add(-hour)); err != nil {
		return u, err
	}
	if u.OpenSubagents, err = c.CountOpenSubagents(""); err != nil {
		return u, err
	}
	u.Depth = a.Depth
	u.Tree, _, err = kin.Usage(c.Tx, a.Root)
	return u, err
}

// request collects what the pure policy needs to know.
func (c *change) request(j *job, commands []parser.Command) (policy.Request, error) {
	used, err := c.used(j.agent)
	if err != nil {
		return policy.Request{}, err
	}
	echoed := make(map[string]bool)
	for _, cmd := range commands {
		key := policy.CommandKey(cmd)
		if echoed[key], err = c.Echoed(j.agent.ID, key); err != nil {
			return policy.Request{}, err
		}
	}
	return policy.Request{
		Agents: j.names, Commands: commands,
		Usage:  used,
		Echoed: func(cmd parser.Command) bool { return echoed[policy.CommandKey(cmd)] },
		Approved: func(key string) bool {
			ok, err := c.Approved(j.agent.Root, key, c.now)
			return ok && err == nil // an unreadable memo is no approval
		},
	}, nil
}

// recordAs stores one command with its verdict, and what follows from it.
func (c *change) recordAs(j *job, ordinal int, cmd parser.Command, v policy.Verdict) (bridge.Command, error) {
	m := bridge.Command{
		ID: bridge.CommandID(c.e.o.NewID("cmd_")), Turn: j.turn.ID, Agent: j.agent.ID, Ordinal: ordinal, Parsed: cmd, State: bridge.CommandParsed,
		OpKey: c.e.o.Keys.OperationKey(j.agent, j.turn, ordinal, cmd),
		Code:  string(v.Code), Reason: v.Reason, Canonical: v.Canonical, API: v.API, Relay: v.Relay, ApprovalKey: v.ApprovalKey,
		// Granted under a rule that asks for approval once: an earlier one still lasts.
		Approved:  v.Decision == policy.Granted && v.ApprovalKey != "",
		CreatedAt: c.now, UpdatedAt: c.now,
	}
	err := c.InsertCommand(m)
	switch {
	case err != nil:
	case v.Decision == policy.Granted:
		err = c.start(*j, &m)
	case v.Decision == policy.Held:
		err = c.hold(j, &m)
	case v.Decision == policy.Noted:
		err = c.SetCommand(&m, bridge.CommandFinished)
	default:
		err = c.refuse(j, &m)
	}
	return m, err
}

// start takes a command to granted and queues its work.
func (c *change) start(j job, m *bridge.Command) error {
	a := j.agent
	work := bridge.Work{Ref: string(m.ID), Lane: errandLane(*m), Due: c.now}
	switch m.Parsed.Verb {
	case parser.Subagent:
		if err := c.spawn(a, m); err != nil {
			return err
		}
	case parser.LocalAction:
		work.Kind = bridge.WorkAction
	case parser.Remind:
		if err := c.remindable(a, m); err != nil {
			return err
		}
		if m.Due.IsZero() {
			j.quiet = j.turn.Streak >= quietAfter // an agent that asks for nothing else is not answered for ever
			return c.refuse(&j, m)
		}
		work.Kind, work.Due = bridge.WorkRemind, m.Due
	}
	if err := c.SetCommand(m, bridge.CommandGranted); err != nil {
		return err
	}
	if work.Kind != "" {
		if err := c.Enqueue(work); err != nil {
			return err
		}
	}
	return c.Event(bridge.EventGranted, a, bridge.Event{Turn: m.Turn, Command: m.ID, Text: words.Describe(*m), Fields: words.Fields(*m)})
}

// spawn makes the agent of a SUBAGENT command; its first turn is the launch.
func (c *change) spawn(parent bridge.Agent, m *bridge.Command) error {
	id := bridge.AgentID(c.e.o.NewID("agt_"))
	m.Child = id
	name, err := c.ChildName(*m, id, parent.Root)
	if err != nil {
		return err
	}
	child := bridge.Agent{
		ID: id, Name: name, Parent: parent.ID, Command: m.ID, Root: parent.Root, Depth: parent.Depth + 1,
		API: c.e.runtimeOf(parent, m), OpKey: m.OpKey, Repo: m.Canonical, State: bridge.AgentIdle, CreatedAt: c.now, UpdatedAt: c.now,
	}
	m.API = child.API
	if err := c.reserve(parent.Root); err != nil {
		return err
	}
	if err := c.InsertAgent(child); err != nil {
		return err
	}
	if err := c.AddEchoes(id, words.EchoKeys(m.Parsed.Prompt), c.now); err != nil {
		return err
	}
	if err := c.TellName(*m, name); err != nil {
		return err
	}
	return c.AddTurn(&child, bridge.Turn{Cause: bridge.CauseLaunch, Text: m.Parsed.Prompt})
}

// runtimeOf is where a subagent will live: with its parent, unless that is the
// cloud, where the rule of its repository chooses the version.
func (e *Engine) runtimeOf(parent bridge.Agent, m *bridge.Command) string {
	if bridge.InCloud(parent.API) {
		return or(m.API, e.o.API)
	}
	return parent.API
}

func (c *change) hold(j *job, m *bridge.Command) error {
	told := m.Reason // what would run at the user's machine is not the agent's to read
	if err := c.bindApproval(m); err != nil {
		return err
	}
	if err := c.SetCommand(m, bridge.CommandHeld); err != nil {
		return err
	}
	if err := c.Event(bridge.EventHeld, j.agent, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Reason, Fields: words.Fields(*m)}); err != nil {
		return err
	}
	m.Reason = told
	return c.report(j, bridge.Notice{Text: fmt.Sprintf("%s (%s): held as %s: %s", words.Where(m.Parsed.Line), m.Parsed.Verb, m.ID, told)})
}

func (c *change) refuse(j *job, m *bridge.Command) error {
	if err := c.SetCommand(m, bridge.CommandRefused); err != nil {
		return err
	}
	if m.Code == string(policy.CodeOverCap) {
		return nil // one report for the whole turn
	}
	if err := c.Event(bridge.EventRefused, j.agent, bridge.Event{Turn: m.Turn, Command: m.ID, Text: m.Reason, Fields: words.Fields(*m)}); err != nil {
		return err
	}
	return c.report(j, bridge.Notice{Text: fmt.Sprintf("%s (%s): refused: %s", words.Where(m.Parsed.Line), m.Parsed.Verb, strings.TrimPrefix(m.Reason, "refused: ")), Commands: []bridge.CommandID{m.ID}})
}

// report leaves a notice about the agent's own turn, for itself.
func (c *change) report(j *job, n bridge.Notice) error {
	if j.silent {
		return nil
	}
	n.ID, n.Agent, n.Cause, n.CreatedAt = bridge.NoticeID(c.e.o.NewID("ntc_")), j.agent.ID, bridge.CauseReport, c.now
	n.Depth, n.Streak, n.Quiet = j.turn.Depth, j.turn.Streak+1, j.quiet
	return c.InsertNotice(n)
}

func (c *change) reportOver(j *job, f reading.Findings, over string) error {
	if err := c.Event(bridge.EventOverCap, j.agent, bridge.Event{Turn: j.turn.ID, Text: over}); err != nil {
		return err
	}
	all, err := c.Commands(bridge.CommandFilter{Turn: j.turn.ID, Limit: reading.MaxCommands})
	if err != nil {
		return err
	}
	ids := make([]bridge.CommandID, len(all))
	for i, m := range all {
		ids[i] = m.ID
	}
	return c.report(j, bridge.Notice{Text: over, Commands: ids})
}

// reportMisses tells the agent which lines looked like commands and were
// none. An agent that goes on producing nothing else is not answered for ever.
func (c *change) reportMisses(j *job, f reading.Findings) error {
	if len(f.NearMisses) == 0 {
		return nil
	}
	for _, n := range f.NearMisses {
		if err := c.Event(bridge.EventNearMiss, j.agent, bridge.Event{Turn: j.turn.ID, Text: n.Reason, Fields: map[string]string{"line": fmt.Sprint(n.Line), "line_text": n.Text, "code": n.Code}}); err != nil {
			return err
		}
	}
	return c.report(j, bridge.Notice{Text: f.Report()})
}
