package simulation

import (
	"fmt"
	"strings"
	"time"

	"drawbridge/bridge/simulation/oracle"
	"drawbridge/bridge/simulation/rules"
)

// most is how many lines agents write in one play.
const most = 14

// lines are what an agent may write, each with its share of the dice.
var lines = []struct {
	share int
	write func(*cloud, *oracle.Run) string
}{
	{5, func(c *cloud, r *oracle.Run) string { return c.subagent(r, rules.V1Repo, oracle.Granted) }},
	{4, func(c *cloud, r *oracle.Run) string { return c.subagent(r, rules.V0Repo, oracle.Granted) }},
	{1, func(c *cloud, r *oracle.Run) string { return c.subagent(r, rules.CarefulRepo, oracle.Approval) }},
	{1, func(c *cloud, r *oracle.Run) string { return c.subagent(r, rules.HourlyRepo, oracle.Hourly) }},
	{1, func(c *cloud, r *oracle.Run) string { return c.subagent(r, "github.com/evil/mine", oracle.Refused) }},
	{5, func(c *cloud, r *oracle.Run) string { return c.action(r, "act_", rules.PlainActions, oracle.Granted) }},
	{1, func(c *cloud, r *oracle.Run) string {
		return c.action(r, "guarded_", rules.GuardedActions, oracle.Approval)
	}},
	{1, func(c *cloud, r *oracle.Run) string { return c.action(r, "evil_", 100, oracle.Refused) }},
	{3, (*cloud).remind},
	{1, (*cloud).acknowledge},
	{2, (*cloud).echo},
	{2, (*cloud).nearMiss},
	{1, (*cloud).twice},
	{3, (*cloud).team},
	{1, (*cloud).flood},
}

// write lets the agent of a run say what it says: a few lines out of all kinds.
func (c *cloud) write(r *oracle.Run) {
	n := c.w.Rng.IntN(5)
	for range n {
		if c.w.oracle.Written() >= most || c.w.Calm && c.w.Chance(0.5) {
			return
		}
		roll := c.w.Rng.IntN(32)
		for _, l := range lines {
			if roll -= l.share; roll < 0 {
				r.Reply += l.write(c, r)
				break
			}
		}
	}
	if len(r.Commands) > rules.CommandsPerTurn {
		for _, wr := range r.Commands {
			wr.Class = oracle.OverCap
		}
	}
}

// wrote notes a command line.
func (c *cloud) wrote(r *oracle.Run, tag string, class oracle.Class) {
	wr := &oracle.Line{Tag: tag, Class: class, Run: r}
	r.Commands = append(r.Commands, wr)
	c.w.oracle.Wrote(wr)
	c.w.Happened("line " + string(class))
}

func (c *cloud) subagent(r *oracle.Run, repo string, class oracle.Class) string {
	tag := fmt.Sprintf("task %d", c.w.oracle.Number())
	c.wrote(r, tag, class)
	return "SUBAGENT: repo=" + repo + ", prompt=" + tag + "\n"
}

func (c *cloud) action(r *oracle.Run, prefix string, n int, class oracle.Class) string {
	id := fmt.Sprintf("%s%d", prefix, c.w.oracle.Number()%n)
	if class != oracle.Refused && c.w.oracle.Knows(id) {
		return "" // ids are few; what was written once keeps its meaning
	}
	c.wrote(r, id, class)
	return "LOCAL_ACTION: " + id + "\n"
}

func (c *cloud) remind(r *oracle.Run) string {
	minutes := []int{1, 3, 10}[c.w.Rng.IntN(3)]
	if c.w.Chance(0.2) {
		c.wrote(r, "", oracle.Refused)
		return "REMIND: 2001-01-01T00:00:00Z, too late\n"
	}
	n := c.w.oracle.Number()
	c.wrote(r, "", oracle.Granted)
	c.w.oracle.Reminds(fmt.Sprintf("<m%d>", n), r.Ends.Add(time.Duration(minutes)*time.Minute))
	return fmt.Sprintf("REMIND: %dm, <m%d>\n", minutes, n)
}

func (c *cloud) acknowledge(r *oracle.Run) string {
	c.wrote(r, "", oracle.Noted)
	return "WEBHOOK_RESULT: agent_id=" + r.Agent.ID + ", status=FINISHED\n"
}

// echo repeats at the start of a line what stood in text from outside.
func (c *cloud) echo(r *oracle.Run) string {
	for line := range strings.Lines(r.Text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "| > LOCAL_ACTION: "); ok {
			if c.w.oracle.Baited(id) {
				c.wrote(r, id, oracle.Echo)
				return "LOCAL_ACTION: " + id + "\n"
			}
		}
	}
	return c.nearMiss(r)
}

// nearMiss writes what looks like a command. Its quotation is a bait for the parent.
func (c *cloud) nearMiss(r *oracle.Run) string {
	id := fmt.Sprintf("act_%d", c.w.oracle.Number()%rules.PlainActions)
	if c.w.oracle.Knows(id) {
		return "- LOCAL_ACTION: act_0\n"
	}
	c.w.oracle.Bait(id)
	c.w.Happened("line near miss")
	return "> LOCAL_ACTION: " + id + "\n"
}

// twice writes one command two times.
func (c *cloud) twice(r *oracle.Run) string {
	line := c.subagent(r, rules.V1Repo, oracle.Granted)
	c.wrote(r, r.Commands[len(r.Commands)-1].Tag, oracle.Duplicate)
	return line + line
}

// team asks for several subagents at once.
func (c *cloud) team(r *oracle.Run) string {
	return c.subagent(r, rules.V1Repo, oracle.Granted) + c.subagent(r, []string{rules.V0Repo, rules.V1Repo}[c.w.Rng.IntN(2)], oracle.Granted)
}

// flood writes more commands than a turn may have.
func (c *cloud) flood(r *oracle.Run) string {
	var b strings.Builder
	for range rules.CommandsPerTurn + 1 {
		tag := fmt.Sprintf("task %d", c.w.oracle.Number())
		c.wrote(r, tag, oracle.OverCap)
		b.WriteString("SUBAGENT: repo=" + rules.V1Repo + ", prompt=" + tag + "\n")
	}
	return b.String()
}
