package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
)

// endTask tells the parent of a subagent its one result: what the subagent said
// in the first turn that ended well and left nothing of its task open. While
// something is open it tells the parent nothing, except once that the task waits
// for a person. The engine calls it when a turn has ended; Settle calls it when
// an agent has come to rest, because what was open may end without a turn. Then
// said is nil, and the latest turn counts that told the agent anything. Calling it
// twice is fine.
func (c *change) endTask(a *bridge.Agent, said *bridge.Turn) error {
	if a.Parent == "" {
		return nil
	}
	if a.Task == bridge.TaskDone {
		return c.closeLaunch(*a)
	}
	if open, err := c.taskOpen(*a); err != nil {
		return err
	} else if open {
		return c.waitsForPerson(a)
	}
	if said == nil {
		var err error
		if said, err = c.lastSaid(a.ID); err != nil || said == nil {
			return err
		}
	}
	if said.State != bridge.TurnReplied {
		return nil
	}
	n, err := c.resultOf(*a, *said)
	if err != nil {
		return err
	}
	return c.conclude(a, n, bridge.CommandOutcome{Status: string(said.Status)}, "result", said.Name())
}

// Why a turn failed that told its agent nothing, because an older copy of the
// database was put back. The agent did not fail at it.
const (
	toldEarlier = "nothing is left to tell: earlier runs told it"
	toldNothing = "it told nothing that the bridge had to tell"
)

// lastSaid returns the latest turn that told an agent anything, nil without one.
func (c *change) lastSaid(a bridge.AgentID) (*bridge.Turn, error) {
	f := bridge.TurnFilter{Agent: a, Limit: 1}
	for {
		latest, err := c.Turns(f)
		if err != nil || len(latest) == 0 {
			return nil, err
		}
		t := latest[0]
		if t.State != bridge.TurnFailed || t.Trouble != toldEarlier && t.Trouble != toldNothing {
			return &t, nil
		}
		if f.Before = t.Seq; t.Seq <= 1 { // 0 would stand for no bound
			return nil, nil
		}
	}
}

// taskOpen reports whether an agent waits for something that it asked for: a
// command, a subagent, a reply, or news of one of them that it was not told yet.
// A reminder counts only for an agent without a door, which has no other way to
// come back to its task. Mail that the agent did not ask for never counts.
func (c *change) taskOpen(a bridge.Agent) (bool, error) {
	why, err := bridge.Doorless(c.Scene, a, c.e.o.Doors)
	if err != nil {
		return false, err
	}
	if open, err := c.openCommands(a, why != ""); err != nil || open {
		return open, err
	}
	if awaited, err := c.AwaitedBy(a.ID, 1); err != nil || len(awaited) > 0 {
		return true, err
	}
	waiting, err := c.WaitingNotices(a.ID, maxJoined)
	if err != nil || len(waiting) == maxJoined { // there may be more than were looked at
		return true, err
	}
	return slices.ContainsFunc(waiting, func(n bridge.Notice) bool { return !n.Quiet && asked(n, why != "") }), nil
}

func (c *change) openCommands(a bridge.Agent, reminders bool) (bool, error) {
	n, err := c.CountOpenCommands(a.ID, "")
	if err != nil || n == 0 || reminders {
		return n > 0, err
	}
	later, err := c.CountOpenCommands(a.ID, parser.Remind)
	return n > later, err
}

// asked reports whether a notice tells an agent what came of something that the
// agent asked for.
func asked(n bridge.Notice, reminders bool) bool {
	switch n.Cause {
	case bridge.CauseCompletion, bridge.CauseActionOutcome, bridge.CauseReport:
		return true
	case bridge.CauseReminder:
		return reminders
	}
	return bridge.IsAnswer(n)
}

// resultOf words what an agent said in a turn as the result of its task. The
// evidence is what was read when that turn ended.
func (c *change) resultOf(a bridge.Agent, said bridge.Turn) (bridge.Notice, error) {
	m, err := c.Command(a.Command)
	if err != nil {
		return bridge.Notice{}, fmt.Errorf("load the command of %q: %w", a.ID, err)
	}
	ended, err := c.Completions(a.ID)
	if err != nil {
		return bridge.Notice{}, err
	}
	n := bridge.Notice{Cause: bridge.CauseCompletion}
	if !a.Silent() {
		if n.Untrusted, err = c.saidIn(said); err != nil {
			return n, err
		}
	}
	evidence := ""
	for _, cpl := range ended {
		if cpl.Turn == said.ID && cpl.Run == runName(said) { // a turn that went on has the end of each of its runs
			n.Completion, evidence = cpl.ID, cpl.Evidence
		}
	}
	n.Text = words.Result(a, m.Parsed.Line, said, evidence)
	return n, nil
}

// saidIn returns what an agent said in a turn. A turn that only reported refused
// lines of the one before has nothing of its own to answer: what the agent said
// in that one stands in front, or the report would take its place.
func (c *change) saidIn(t bridge.Turn) (string, error) {
	text := t.Reply
	for t.Streak > 0 {
		before, err := c.Turns(bridge.TurnFilter{Agent: t.Agent, Before: t.Seq, Limit: 1})
		if err != nil || len(before) == 0 || before[0].State != bridge.TurnReplied {
			return text, err
		}
		t = before[0]
		text = strings.TrimRight(t.Reply, "\n") + "\n\n" + text
	}
	return text, nil
}

// Conclude ends a subagent's task with a notice for its parent, which is the one
// result. It is for a result that the agent reports itself, before its turn ends.
func (c *change) Conclude(a bridge.Agent, n bridge.Notice) (bridge.NoticeID, error) {
	n.ID = bridge.NoticeID(c.NewID("ntc_"))
	return n.ID, c.conclude(&a, n, bridge.CommandOutcome{Status: completed, Message: n.Message})
}

// completed is the status of a task whose result the subagent reported itself.
const completed = "completed"

// closeLaunch ends the launch of a subagent that reported its result while the launch
// was in doubt. The parent has heard the result.
func (c *change) closeLaunch(a bridge.Agent) error {
	m, err := c.Command(a.Command)
	if err != nil {
		return fmt.Errorf("load the command of %q: %w", a.ID, err)
	}
	if m.State != bridge.CommandConfirmed || m.Outcome == nil {
		return nil
	}
	for _, next := range []bridge.CommandState{bridge.CommandFinished, bridge.CommandReported} {
		if err := c.setCommand(&m, next); err != nil {
			return err
		}
	}
	asked, err := c.Turn(m.Turn)
	if err != nil || asked.Joining == 0 {
		return err
	}
	return c.gatherResults(asked)
}

func (c *change) conclude(a *bridge.Agent, n bridge.Notice, out bridge.CommandOutcome, about ...string) error {
	m, err := c.Command(a.Command)
	if err != nil {
		return fmt.Errorf("load the command of %q: %w", a.ID, err)
	}
	first, err := c.Turns(bridge.TurnFilter{Agent: a.ID, Before: 2, Limit: 1})
	if err != nil {
		return err
	}
	if len(first) > 0 {
		out.DurationMS = c.now.Sub(first[0].SentAt).Milliseconds()
	}
	switch {
	case m.State == bridge.CommandConfirmed:
		m.Outcome = &out
		if err := c.setCommand(&m, bridge.CommandFinished); err != nil {
			return err
		}
		n.Commands = []bridge.CommandID{m.ID}
	case m.Outcome == nil || out.Message != "": // the launch is in doubt, or its task failed before
		m.Outcome = &out
		if err := c.UpdateCommand(m); err != nil {
			return err
		}
	}
	a.Task = bridge.TaskDone
	return errors.Join(c.UpdateAgent(*a), c.tellParent(*a, n, about...))
}

// failTask tells the parent of a subagent, if it has one, that a turn failed, and
// why. A task that was open has failed then, unless another turn of the agent goes
// on; what the agent achieves later is told as its result. A turn has no Status
// when no run of it ended.
func (c *change) failTask(a *bridge.Agent, failed bridge.Turn, n bridge.Notice) error {
	if a.Parent == "" {
		return nil
	}
	n.Cause = bridge.CauseCompletion
	goesOn, err := c.HasOpenTurn(a.ID)
	if err != nil {
		return err
	}
	if goesOn && !failed.IsLaunch() && !a.Quarantined {
		return c.tellParent(*a, n, "failed", failed.Name())
	}
	m, err := c.Command(a.Command)
	if err != nil {
		return fmt.Errorf("load the command of %q: %w", a.ID, err)
	}
	switch {
	case !m.State.Open():
	case m.State == bridge.CommandConfirmed && failed.Status != "":
		m.Outcome = &bridge.CommandOutcome{Status: string(failed.Status), DurationMS: c.now.Sub(failed.SentAt).Milliseconds()}
		err = c.setCommand(&m, bridge.CommandFinished)
		n.Commands = []bridge.CommandID{m.ID}
	default:
		err = c.failCommand(&m, a.Trouble)
		n.Commands = []bridge.CommandID{m.ID}
	}
	if err != nil {
		return err
	}
	if a.Task != bridge.TaskDone {
		a.Task = bridge.TaskFailed
		if err := c.UpdateAgent(*a); err != nil {
			return err
		}
	}
	return c.tellParent(*a, n, "failed", failed.Name())
}

// tellParent leaves a notice for the agent whose command made this one. The chain
// depth is that of the turn that asked. A notice that ends the command waits for
// the others of that turn when they are joined. The same words about give the same
// news the same item.
func (c *change) tellParent(a bridge.Agent, n bridge.Notice, about ...string) error {
	if a.Parent == "" {
		return nil
	}
	m, err := c.Command(a.Command)
	if err != nil {
		return fmt.Errorf("load the command of %q: %w", a.ID, err)
	}
	asked, err := c.Turn(m.Turn)
	if err != nil {
		return fmt.Errorf("load the asking turn: %w", err)
	}
	parent, err := c.Agent(a.Parent)
	if err != nil {
		return fmt.Errorf("load parent: %w", err)
	}
	n.Agent, n.Depth, n.Asked = parent.ID, asked.Depth, asked.ID
	n.Source, n.Author = bridge.OriginTree, a.Name
	if len(about) > 0 {
		n.Item = c.item(parent, append([]string{"child", a.OpKey}, about...)...)
	}
	if asked.Joining == 0 || len(n.Commands) == 0 {
		return c.tell(n)
	}
	n.Join, n.Withheld = asked.ID, true
	if err := c.keep(n); err != nil {
		return err
	}
	return c.gatherResults(asked)
}

// waitsForPerson tells the parent, once in a task, that a command of its subagent
// waits for a person.
func (c *change) waitsForPerson(a *bridge.Agent) error {
	for _, state := range []bridge.CommandState{bridge.CommandHeld, bridge.CommandUncertain} {
		if a.Task != bridge.TaskOpen {
			return nil
		}
		waiting, err := c.Commands(bridge.CommandFilter{Agent: a.ID, State: state, Limit: 1})
		if err != nil {
			return err
		}
		if len(waiting) > 0 {
			return c.waits(a, words.WaitsFor(waiting[0]))
		}
	}
	return nil
}

// waits tells the parent of a subagent, once in a task, that the task waits for a
// person. It tells nothing while the tree is stopped: the parent is stopped, too.
func (c *change) waits(a *bridge.Agent, why string) error {
	if a.Parent == "" || a.Task != bridge.TaskOpen {
		return nil
	}
	if tree, err := c.Tree(a.Root); err != nil || tree.Stopped() {
		return err
	}
	a.Task = bridge.TaskWaiting
	if err := c.UpdateAgent(*a); err != nil {
		return err
	}
	return c.tellParent(*a, bridge.Notice{Cause: bridge.CauseReport, Text: words.ChildWaits(*a, why)}, "waits")
}
