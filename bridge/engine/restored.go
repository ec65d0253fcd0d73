package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/echo"
	"drawbridge/bridge/words"
)

// A database may be an older copy that somebody put back. Then agents have had
// runs that it does not know. Before an agent gets another turn the engine
// asks the Runtime for such runs, and takes each over as a turn: what it told
// counts as told, and its reply goes through the gate under the keys that it had
// the first time. See docs/adr/0018-restored-databases.md.

// seen remembers of each agent the turn that this process sent last. The database
// cannot have been put back since, so that nobody needs to be asked.
type seen struct {
	mu   sync.Mutex // guards last
	last map[bridge.AgentID]bridge.TurnID
}

// maxSeen bounds the agents that are remembered. An agent that was forgotten costs
// one more request.
const maxSeen = 10_000

func (s *seen) put(agent bridge.AgentID, turn bridge.TurnID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || len(s.last) >= maxSeen {
		s.last = map[bridge.AgentID]bridge.TurnID{}
	}
	s.last[agent] = turn
}

func (s *seen) is(agent bridge.AgentID, turn bridge.TurnID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return turn != "" && s.last[agent] == turn
}

// asksBefore reports whether the Runtime can be asked for an agent's runs, and has
// to be.
func (e *Engine) asksBefore(ctx context.Context, j job) (bridge.Transcriber, bool, error) {
	t, ok := e.o.Runtime.(bridge.Transcriber)
	if !ok || j.launch != nil || j.agent.External == "" || j.agent.Quarantined || j.stopped() != "" || (j.agent.API == bridge.APIv1 && j.agent.LastRun == "") {
		return nil, false, nil
	}
	var head bridge.TurnHead
	err := e.View(ctx, func(tx *bridge.Scene) (err error) {
		head, err = tx.CurrentTurn(j.agent.ID)
		return err
	})
	if errors.Is(err, bridge.ErrNoRow) {
		err = nil
	}
	return t, !e.seen.is(j.agent.ID, head.ID), err
}

// catchUp takes over what the agent was sent without this database's knowledge.
// It reports true when the turn has to wait; its work was given back then.
func (e *Engine) catchUp(ctx context.Context, j job) (waits bool, err error) {
	t, asks, err := e.asksBefore(ctx, j)
	if err != nil || !asks {
		return err != nil, err
	}
	for {
		before := j.agent.LastRun
		look, end := bridge.LookFor(ctx, j.turn.ID)
		sent, err := t.SentSince(look, bridge.RunRef{Runtime: j.agent.Runtime, API: j.agent.API, Agent: j.agent.External, Run: before})
		end(len(sent) > 0 || newTrouble(j, err))
		switch {
		case ctx.Err() != nil:
			return true, e.putBack(ctx, j.work, 0)
		case bridge.KindOf(err) == bridge.NotFound:
			return false, nil // sending meets the same, and says so
		case err != nil:
			return true, e.askLater(ctx, j, err)
		case len(sent) == 0:
			return false, nil
		}
		moved, err := e.stepped(ctx, j, func(c *change, fresh *job) (err error) {
			waits, err = c.takeOver(fresh, sent)
			j.agent = fresh.agent
			return err
		})
		if err != nil || waits || !moved { // a step that found another state waits
			return true, err
		}
		if j.agent.API != bridge.APIv1 || j.agent.LastRun == before {
			return false, nil
		}
	}
}

// askLater puts a turn back because the Runtime does not tell now what its agent
// was sent. Nothing was sent meanwhile.
func (e *Engine) askLater(ctx context.Context, j job, cause error) error {
	e.lookFailed(j).Err(cause).Str("turn", string(j.turn.ID)).Msg("look for earlier runs")
	return e.step(ctx, j, func(c *change, j *job) error {
		j.turn.Trouble = bridge.SafeMessage(cause)
		j.agent.Trouble = j.turn.Trouble // so that a person who looks at agents sees why nothing moves
		wait := max(bridge.RetryAfter(cause), c.e.agedWait(j.turn.CreatedAt, time.Second, time.Minute))
		return errors.Join(c.UpdateTurn(j.turn), c.UpdateAgent(j.agent), c.PutBack(j.work, c.now.Add(wait)))
	})
}

// takeOver goes through runs from the oldest on and stops at the first that is to
// be taken over. It reports true when there is one; the turn's work was given back.
func (c *change) takeOver(j *job, sent []bridge.SentRun) (bool, error) {
	if j.stopped() != "" {
		return false, nil // meanwhile: nothing begins
	}
	for _, s := range sent {
		p := words.ReadPrompt(s.Text)
		known, err := c.knows(j, s, p)
		if err != nil {
			return true, err
		}
		switch {
		case known:
		case s.Shown && (p.Whole || s.Run == ""):
			return true, c.adopt(j, s, p)
		case !s.Shown && !s.Over:
			return true, c.PutBack(j.work, c.now.Add(c.e.backoff(1, c.e.o.PollMin, c.e.o.PollMax))) // its prompt may still come
		default:
			if answered, err := c.answered(j, s); !answered || err != nil {
				return true, err
			}
		}
		if s.Run != "" && s.Run != j.agent.LastRun {
			j.agent.LastRun = s.Run
			if err := c.UpdateAgent(j.agent); err != nil {
				return true, err
			}
		}
	}
	return false, nil
}

// knows reports whether a run needs nothing: somebody else made it, or it is that
// of a turn that is over or under way.
func (c *change) knows(j *job, s bridge.SentRun, p words.Prompt) (bool, error) {
	if !s.Shown || p.Turn == "" {
		return s.Shown, nil
	}
	t, err := c.Turn(p.Turn)
	switch {
	case errors.Is(err, bridge.ErrNoRow):
		return false, nil
	case err != nil:
		return false, err
	case t.Agent != j.agent.ID:
		return true, nil
	case t.ID == j.turn.ID && t.State == bridge.TurnUncertain && t.Run == "":
		return false, nil
	}
	return t.State != bridge.TurnQueued && t.State != bridge.TurnDelivering, nil
}

// adopt takes a run over as a turn of its own, under the id that stands in its
// prompt. The turn that was to be sent waits behind it.
func (c *change) adopt(j *job, s bridge.SentRun, p words.Prompt) error {
	t, err := c.adopted(j, p)
	if err != nil {
		return err
	}
	if err := c.adoptAs(j, &t, s, p); err != nil {
		return err
	}
	return c.goFirst(j, t.ID)
}

// adoptAs makes a turn that of a run, with all that the run told. What stood in
// its text is watched for echoes, as it was the first time.
func (c *change) adoptAs(j *job, t *bridge.Turn, s bridge.SentRun, p words.Prompt) error {
	if err := c.takeWords(t, p); err != nil {
		return err
	}
	if err := c.noteTold(j.agent.ID, p.Items, t.ID); err != nil {
		return err
	}
	if err := c.hearAgain(j, *t, s.Text); err != nil {
		return err
	}
	if err := c.run(j, t, s); err != nil {
		return err
	}
	if err := c.settleAllTold(j.agent.ID, t.ID, j.turn.ID); err != nil {
		return err
	}
	return c.event(bridge.EventTurn, j.agent, bridge.Event{Turn: t.ID, Text: "found at the runtime: " + words.OneLine(t.Sent, 300),
		Fields: map[string]string{"cause": string(t.Cause), "seq": fmt.Sprint(t.Seq), "text": words.Clip(t.Sent, words.Shown), "found": s.Run}})
}

// hearAgain records what an agent may repeat out of the text of a run that was found.
// Where the database holds that very text, it also knows whose words are in it.
func (c *change) hearAgain(j *job, t bridge.Turn, text string) error {
	if t.Sent == "" || t.Sent != words.Unmarked(text) {
		return c.hearFound(j.agent.ID, t, text)
	}
	return c.hearTurn(job{turn: t, agent: j.agent, command: j.command})
}

// hearFound records what an agent may repeat out of a run's text. It is read from
// the text, because news of which it speaks may not have been made again yet.
func (c *change) hearFound(agent bridge.AgentID, t bridge.Turn, text string) error {
	own, others := words.Split(words.Unmarked(text))
	place := "a turn that the bridge found after the database was restored"
	for _, h := range []echo.Heard{{Text: own, Source: bridge.EchoOperator}, {Text: others, Source: bridge.EchoOutside, Mode: echo.Named}} {
		h.Agent, h.Turn, h.Seq, h.Place = agent, t.ID, t.Seq, place
		if err := echo.Hear(c.Scene, h, c.now); err != nil {
			return err
		}
	}
	return nil
}

// adopted returns the turn of a run: the one that its prompt names, or a new one
// of that id. What an earlier bridge gave no items is as the turn carries it.
func (c *change) adopted(j *job, p words.Prompt) (t bridge.Turn, err error) {
	t, err = c.Turn(p.Turn)
	if err == nil {
		if len(p.Items) > 0 {
			err = c.uncarryBut(t.ID, p.Items)
		}
		return t, err
	}
	if !errors.Is(err, bridge.ErrNoRow) {
		return t, err
	}
	t = bridge.Turn{ID: p.Turn, Agent: j.agent.ID, Cause: j.turn.Cause, Depth: j.turn.Depth, State: bridge.TurnQueued, CreatedAt: c.now}
	if t.Cause == bridge.CauseUser {
		t.Cause = bridge.CauseReport // takeWords knows better
	}
	t.Seq, err = c.InsertTurn(t)
	return t, err
}

// run takes a turn of any state before running to running, as the run s.
func (c *change) run(j *job, t *bridge.Turn, s bridge.SentRun) error {
	if t.Attempts == 0 { // one that was sent before was counted then
		tree, err := c.Tree(j.agent.Root)
		if err != nil {
			return err
		}
		tree.Turns++
		if err := c.PutTree(tree); err != nil {
			return err
		}
	}
	t.Run, t.SentAt, t.Attempts = s.Run, c.now, t.Attempts+1
	t.Trouble, t.DoubtSince = "", time.Time{}
	if s.Shown {
		t.Sent = words.Unmarked(s.Text)
	}
	if t.State == bridge.TurnQueued {
		if err := c.setTurn(t, bridge.TurnDelivering); err != nil {
			return err
		}
	}
	if err := c.setTurn(t, bridge.TurnRunning); err != nil {
		return err
	}
	j.agent.LastRun, j.agent.Trouble = or(s.Run, j.agent.LastRun), ""
	return c.setAgent(&j.agent, bridge.AgentBusy)
}

// uncarryBut lets the notices of a turn wait again that its run does not tell.
func (c *change) uncarryBut(turn bridge.TurnID, told []bridge.ItemID) error {
	carried, err := c.CarriedNotices(turn)
	if err != nil {
		return err
	}
	var wait []bridge.NoticeID
	var free []bridge.Notice
	for _, n := range carried {
		if !slices.Contains(told, n.Item) {
			wait, free = append(wait, n.ID), append(free, n)
		}
	}
	if err := c.CarryNotices(wait, ""); err != nil {
		return err
	}
	return c.withdraw(free)
}

// takeWords moves words that wait in other turns of the agent to the turn whose
// run said them.
func (c *change) takeWords(t *bridge.Turn, p words.Prompt) error {
	if t.Text != "" {
		return nil
	}
	return c.moveWords(t, func(q bridge.Turn) bool {
		for _, s := range q.Said {
			if slices.Contains(p.Items, s.Item) || s.Turn == p.Turn {
				return true
			}
		}
		return false
	})
}

// maxWaiting is how many turns of one agent are looked through that were not sent.
const maxWaiting = 1000

// moveWords moves the words of the first turn that was not sent and that match
// takes. That turn tells what else waits, or ends.
func (c *change) moveWords(t *bridge.Turn, match func(bridge.Turn) bool) error {
	for _, state := range []bridge.TurnState{bridge.TurnDelivering, bridge.TurnQueued} {
		all, err := c.Turns(bridge.TurnFilter{Agent: t.Agent, State: state, Limit: maxWaiting})
		if err != nil {
			return err
		}
		for i := len(all) - 1; i >= 0; i-- {
			q := all[i]
			if q.ID == t.ID || q.Text == "" || q.IsLaunch() || !match(q) {
				continue
			}
			t.Text, t.Said, t.Cause, t.Depth, t.Streak, t.Retry = q.Text, q.Said, q.Cause, q.Depth, q.Streak, q.Retry
			q.Text, q.Said = "", nil
			return c.UpdateTurn(q)
		}
	}
	return nil
}

// goFirst has the turn that was to be sent wait for one that was found. Its work
// stays at the head of the lane and is about the found turn until that is over; see
// loadJob.
func (c *change) goFirst(j *job, found bridge.TurnID) error {
	if found != j.turn.ID && j.turn.State == bridge.TurnDelivering {
		fresh, err := c.Turn(j.turn.ID) // its words may be gone
		if err != nil {
			return err
		}
		fresh.DoubtSince = time.Time{}
		if err := c.setTurn(&fresh, bridge.TurnQueued); err != nil {
			return err
		}
	}
	return c.PutBack(j.work, c.now)
}

// endWork gives back the work of a turn that is over. What waited for a turn that
// was found goes on.
func (c *change) endWork(j *job) error {
	if string(j.turn.ID) == j.work.Ref {
		return c.FinishWork(j.work)
	}
	return c.PutBack(j.work, c.now)
}

// answered settles a run whose prompt nobody can read by the operator's word, or
// makes a turn of it that is uncertain until there is one. It reports true when
// the run needs nothing more.
func (c *change) answered(j *job, s bridge.SentRun) (bool, error) {
	word, err := c.Restored()
	if err != nil {
		return false, err
	}
	if word.Covers(s) && !word.Told {
		return true, nil
	}
	t := bridge.Turn{ID: bridge.TurnID(c.NewID("trn_")), Agent: j.agent.ID, Cause: bridge.CauseReport, Depth: j.turn.Depth, State: bridge.TurnQueued, CreatedAt: c.now}
	if t.Seq, err = c.InsertTurn(t); err != nil {
		return false, err
	}
	t.Run, t.SentAt, t.DoubtSince = s.Run, or(s.Begun, c.now), c.now
	t.Trouble = fmt.Sprintf("this database does not know run %s, and the bridge cannot read its prompt. The run may have told the agent what waits for it. A person has to look.", words.SafeWord(s.Run))
	if err := c.setTurn(&t, bridge.TurnDelivering); err != nil {
		return false, err
	}
	if err := c.setTurn(&t, bridge.TurnUncertain); err != nil {
		return false, err
	}
	j.agent.Trouble = t.Trouble
	if err := c.setAgent(&j.agent, bridge.AgentBusy); err != nil {
		return false, err
	}
	if err := c.event(bridge.EventUncertain, j.agent, bridge.Event{Turn: t.ID, Text: t.Trouble, Fields: causeOf(t)}); err != nil {
		return false, err
	}
	if word.Covers(s) {
		if err := c.settleUnread(j.agent, t, true); err != nil {
			return false, err
		}
	}
	return false, c.goFirst(j, t.ID)
}

// unread looks again at a run that nobody could read, and at what the operator
// said meanwhile.
func (e *Engine) unread(ctx context.Context, j job) error {
	s, found, err := e.sentRun(ctx, j, j.turn.Run)
	if ctx.Err() != nil {
		return e.putBack(ctx, j.work, 0)
	}
	if err != nil || !found {
		e.o.Log.Warn().Err(err).Str("turn", string(j.turn.ID)).Msg("look at a run that could not be read")
		s = bridge.SentRun{Run: j.turn.Run, Begun: j.turn.SentAt}
	}
	return e.step(ctx, j, func(c *change, j *job) error {
		p := words.ReadPrompt(s.Text)
		switch word, err := c.Restored(); {
		case err != nil:
			return err
		case s.Shown && (p.Turn == "" || p.Whole):
			return c.readable(j, s, p)
		case word.Covers(s):
			return errors.Join(c.settleUnread(j.agent, j.turn, word.Told), c.PutBack(j.work, c.now))
		}
		return c.PutBack(j.work, c.now.Add(5*time.Minute))
	})
}

// readable settles an uncertain turn whose prompt can be read after all.
func (c *change) readable(j *job, s bridge.SentRun, p words.Prompt) error {
	known, err := c.knows(j, s, p)
	if err != nil {
		return err
	}
	if known {
		err = c.settleUnread(j.agent, j.turn, false)
	} else {
		err = c.adoptAs(j, &j.turn, s, p)
	}
	return errors.Join(err, c.PutBack(j.work, c.now))
}

// sentRun returns one run of those that this database does not know.
func (e *Engine) sentRun(ctx context.Context, j job, run string) (s bridge.SentRun, found bool, err error) {
	t, ok := e.o.Runtime.(bridge.Transcriber)
	if !ok || (j.agent.API == bridge.APIv1 && j.agent.LastRun == "") {
		return s, false, nil
	}
	after := j.agent.LastRun
	for {
		sent, err := t.SentSince(ctx, bridge.RunRef{Runtime: j.agent.Runtime, API: j.agent.API, Agent: j.agent.External, Run: after})
		if err != nil || len(sent) == 0 {
			return s, false, err
		}
		for _, s := range sent {
			if s.Run == run && (run != "" || words.ReadPrompt(s.Text).Turn == j.turn.ID) {
				return s, true, nil
			}
		}
		if after = sent[len(sent)-1].Run; after == "" {
			return s, false, nil
		}
	}
}

// settleUnread takes the operator's word on a run that nobody can read: it told
// all that was there before it, or it told nothing of the bridge's.
func (c *change) settleUnread(a bridge.Agent, t bridge.Turn, told bool) error {
	a.LastRun, a.Trouble = t.Run, ""
	if !told {
		t.Trouble = toldNothing
		if err := c.setTurn(&t, bridge.TurnFailed); err != nil {
			return err
		}
		if err := c.UpdateAgent(a); err != nil {
			return err
		}
		return c.pump(&a)
	}
	begun := t.SentAt
	if err := c.moveWords(&t, func(q bridge.Turn) bool { return q.CreatedAt.Before(begun) }); err != nil {
		return err
	}
	if err := c.noteTold(a.ID, []bridge.ItemID{bridge.AnyItem}, t.ID); err != nil {
		return err
	}
	j := job{turn: t, agent: a}
	if err := c.run(&j, &t, bridge.SentRun{Run: t.Run}); err != nil {
		return err
	}
	return c.bindUnread(a.ID, t.ID, begun)
}

// SettleRestored takes the operator's word on all runs that nobody can read since
// the database was put back, those that will be met later among them: they told
// what the database holds, or they did not and it is to be told. It returns how
// many turns it settled. Each turn is a step of its own: a step reads again whatever it
// lacks, so that one step for all would read the first trees as often as there are trees.
func (e *Engine) SettleRestored(ctx context.Context, told bool) (n int, err error) {
	var all []bridge.Turn
	err = e.update(ctx, func(c *change) (err error) {
		if err := c.PutRestored(bridge.Restored{Told: told, At: c.now}); err != nil {
			return err
		}
		all, err = c.Turns(bridge.TurnFilter{State: bridge.TurnUncertain, Limit: maxWaiting})
		return err
	})
	for i := 0; i < len(all) && err == nil; i++ {
		settled := false
		err = e.update(ctx, func(c *change) error {
			t, err := c.Turn(all[i].ID)
			if settled = false; err == nil && t.State == bridge.TurnUncertain { // its own handler may have settled it
				settled, err = c.settleOne(t, told)
			}
			return err
		}, bridge.NeedStory{Agent: all[i].Agent})
		if settled && err == nil {
			n++
		}
	}
	return n, err
}

// settleOne settles one uncertain follow-up. One whose answer was lost is looked
// at as if it had not been sent: what its agent was sent meanwhile comes first.
func (c *change) settleOne(t bridge.Turn, told bool) (bool, error) {
	a, err := c.Agent(t.Agent)
	if err != nil || t.IsLaunch() || !bridge.Repeatable(a.API) {
		return false, err
	}
	if t.Run == "" {
		t.DoubtSince = time.Time{}
		err = c.setTurn(&t, bridge.TurnQueued)
	} else {
		err = c.settleUnread(a, t, told)
	}
	return true, errors.Join(err, c.WakeLane(agentLane(a.ID), c.now))
}
