package sim

import (
	"fmt"
	"strings"
	"time"
)

// most is how many lines agents write in one play.
const most = 14

// lines are what an agent may write, each with its share of the dice.
var lines = []struct {
	share int
	write func(*cloud, *cloudRun) string
}{
	{5, func(c *cloud, r *cloudRun) string { return c.subagent(r, v1Repo, classGranted) }},
	{4, func(c *cloud, r *cloudRun) string { return c.subagent(r, v0Repo, classGranted) }},
	{1, func(c *cloud, r *cloudRun) string { return c.subagent(r, carefulRepo, classApproval) }},
	{1, func(c *cloud, r *cloudRun) string { return c.subagent(r, hourlyRepo, classHourly) }},
	{1, func(c *cloud, r *cloudRun) string { return c.subagent(r, "github.com/evil/mine", classRefused) }},
	{5, func(c *cloud, r *cloudRun) string { return c.action(r, "act_", plainActions, classGranted) }},
	{1, func(c *cloud, r *cloudRun) string {
		return c.action(r, "guarded_", guardedActions, classApproval)
	}},
	{1, func(c *cloud, r *cloudRun) string { return c.action(r, "evil_", 100, classRefused) }},
	{3, (*cloud).remind},
	{1, (*cloud).acknowledge},
	{2, (*cloud).echo},
	{2, (*cloud).nearMiss},
	{1, (*cloud).twice},
	{3, (*cloud).team},
	{1, (*cloud).flood},
}

// write lets the agent of a run say what it says: a few lines out of all kinds.
func (c *cloud) write(r *cloudRun) {
	n := c.w.rng.IntN(5)
	for range n {
		if c.w.oracle.written() >= most || c.w.calm && c.w.chance(0.5) {
			return
		}
		roll := c.w.rng.IntN(32)
		for _, l := range lines {
			if roll -= l.share; roll < 0 {
				r.reply += l.write(c, r)
				break
			}
		}
	}
	if len(r.commands) > commandsPerTurn {
		for _, wr := range r.commands {
			wr.class = classOverCap
		}
	}
}

// wrote notes a command line.
func (c *cloud) wrote(r *cloudRun, tag string, class lineClass) {
	wr := &commandLine{tag: tag, class: class, run: r}
	r.commands = append(r.commands, wr)
	c.w.oracle.wrote(wr)
	c.w.happened("line " + string(class))
}

func (c *cloud) subagent(r *cloudRun, repo string, class lineClass) string {
	if c.w.hosting && repo == v1Repo && c.w.chance(0.5) {
		if repo = hostedRepo; r.agent.host != nil && c.w.chance(0.5) {
			repo = anyRepo
		}
	}
	tag := fmt.Sprintf("task %d", c.w.oracle.number())
	c.wrote(r, tag, class)
	return "SUBAGENT: repo=" + repo + ", prompt=" + tag + "\n"
}

func (c *cloud) action(r *cloudRun, prefix string, n int, class lineClass) string {
	id := fmt.Sprintf("%s%d", prefix, c.w.oracle.number()%n)
	if class != classRefused && c.w.oracle.knows(id) {
		return "" // ids are few; what was written once keeps its meaning
	}
	c.wrote(r, id, class)
	return "LOCAL_ACTION: " + id + "\n"
}

func (c *cloud) remind(r *cloudRun) string {
	minutes := []int{1, 3, 10}[c.w.rng.IntN(3)]
	if c.w.chance(0.2) {
		c.wrote(r, "", classRefused)
		return "REMIND: 2001-01-01T00:00:00Z, too late\n"
	}
	n := c.w.oracle.number()
	c.wrote(r, "", classGranted)
	c.w.oracle.reminds(fmt.Sprintf("<m%d>", n), r.ends.Add(time.Duration(minutes)*time.Minute))
	return fmt.Sprintf("REMIND: %dm, <m%d>\n", minutes, n)
}

func (c *cloud) acknowledge(r *cloudRun) string {
	c.wrote(r, "", classNoted)
	return "WEBHOOK_RESULT: agent_id=" + r.agent.id + ", status=FINISHED\n"
}

// echo repeats at the start of a line what stood in text from outside.
func (c *cloud) echo(r *cloudRun) string {
	for line := range strings.Lines(r.text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "| > LOCAL_ACTION: "); ok {
			if c.w.oracle.baited(id) {
				c.wrote(r, id, classEcho)
				return "LOCAL_ACTION: " + id + "\n"
			}
		}
	}
	return c.nearMiss(r)
}

// nearMiss writes what looks like a command. Its quotation is a bait for the parent.
func (c *cloud) nearMiss(r *cloudRun) string {
	id := fmt.Sprintf("act_%d", c.w.oracle.number()%plainActions)
	if c.w.oracle.knows(id) {
		return "- LOCAL_ACTION: act_0\n"
	}
	c.w.oracle.bait(id)
	c.w.happened("line near miss")
	return "> LOCAL_ACTION: " + id + "\n"
}

// twice writes one command two times.
func (c *cloud) twice(r *cloudRun) string {
	line := c.subagent(r, v1Repo, classGranted)
	c.wrote(r, r.commands[len(r.commands)-1].tag, classDuplicate)
	return line + line
}

// team asks for several subagents at once.
func (c *cloud) team(r *cloudRun) string {
	return c.subagent(r, v1Repo, classGranted) + c.subagent(r, []string{v0Repo, v1Repo}[c.w.rng.IntN(2)], classGranted)
}

// flood writes more commands than a turn may have.
func (c *cloud) flood(r *cloudRun) string {
	var b strings.Builder
	for range commandsPerTurn + 1 {
		tag := fmt.Sprintf("task %d", c.w.oracle.number())
		c.wrote(r, tag, classOverCap)
		b.WriteString("SUBAGENT: repo=" + v1Repo + ", prompt=" + tag + "\n")
	}
	return b.String()
}
