//go:build deep

package soak_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"drawbridge/api"
	"drawbridge/bridge"
)

// The story. The orchestrator asks for an action, a subagent through v1, one through v0 and a reminder. The v1 subagent
// asks for one of its own, the v0 subagent for an action. Each of the two gives its result when it has heard of that: what
// it says before is not a result. The result of the v1 subagent makes the orchestrator ask for a last action. Every text
// stands in one place only, so that it can be counted.
const storyCloud = `latency: 20ms
agents:
  - repo: github.com/me/agent-env
    turns:
      - match: "Ship it"
        reply: |
          LOCAL_ACTION: backup_script
          SUBAGENT: repo=github.com/me/my-app, prompt=Look at the app
          SUBAGENT: repo=github.com/acme/docs, prompt=Look at the docs
          REMIND: %s, the clock has struck
      - match: "The app is fine."
        reply: |
          LOCAL_ACTION: stamp_release
      - reply: "Noted."
  - repo: github.com/me/my-app
    turns:
      - match: "Look at the app"
        reply: |
          Half of the app is seen.
          SUBAGENT: repo=github.com/me/lib, prompt=Look at the library
      - reply: "The app is fine."
  - repo: github.com/acme/docs
    turns:
      - match: "Look at the docs"
        reply: |
          Half of the docs are seen.
          LOCAL_ACTION: tidy_up
      - reply: "The docs are fine."
  - repo: github.com/me/lib
    turns: [{ reply: "The library is fine.", after: 60ms }]
`

const storyAllowlist = `repos:
  - github.com/me/my-app
  - github.com/me/lib
  - { repo: github.com/acme/*, api: v0 }
actions:
  backup_script: {}
  stamp_release: {}
  tidy_up: {}
`

// patience bounds one story; it ends long before unless something is stuck.
const patience = 4 * time.Minute

// person is who launches the orchestrator and settles what only a person can. What it knows comes from the cloud's log.
type person struct {
	w        *world
	turn     int // which replica is asked next
	settled  map[string]bool
	problems []string
	now      picture
}

// play goes on until act has done all it wants and every replica, one after another, says that the story is over.
func (w *world) play(act func() bool) (problems []string) {
	w.t.Helper()
	p := &person{w: w, settled: map[string]bool{}}
	agreed := 0
	until(w.t, patience, func() (bool, string) {
		w.supervise()
		done := act()
		over, seen := p.step()
		if agreed++; !done || !over {
			agreed = 0
		}
		return agreed >= len(w.clients), seen
	})
	totals.add("stories", 1)
	return append(p.problems, judge(w, p.now, p.settled)...)
}

// undisturbed does nothing to a story.
func undisturbed() bool { return true }

// step does what a person would now, and reports whether the story is over.
func (p *person) step() (over bool, seen string) {
	p.turn++
	c := p.w.clients[p.turn%len(p.w.clients)]
	ctx, cancel := context.WithTimeout(p.w.t.Context(), 3*time.Second) // a bridge that is stopped gives no answer
	defer cancel()
	now, err := look(ctx, c)
	if bridge.KindOf(err) == bridge.NotFound || err == nil && len(now.agents) == 0 {
		// Launching twice is safe: the name is taken.
		_, err = c.Launch(ctx, api.LaunchRequest{Name: "main", Repo: "github.com/me/agent-env", Prompt: "Ship it"})
		return false, fmt.Sprintf("launch: %v", err)
	}
	if err != nil {
		return false, err.Error()
	}
	p.now = now
	if err := p.settle(ctx, c, now); err != nil {
		return false, err.Error()
	}
	return now.over(), now.String()
}

// picture is what a bridge shows.
type picture struct {
	agents   []api.Agent
	commands []api.Command
	turns    map[string][]api.Turn // by agent, in order
}

func look(ctx context.Context, c *api.Client) (now picture, err error) {
	agents, err := c.Agents(ctx, api.ListOptions{})
	if err != nil {
		return now, err
	}
	commands, err := c.Commands(ctx, api.ListOptions{Limit: 1000})
	if err != nil {
		return now, err
	}
	now = picture{agents: agents.Agents, commands: commands.Commands, turns: map[string][]api.Turn{}}
	for _, a := range now.agents {
		turns, err := c.Turns(ctx, a.ID, api.ListOptions{})
		if err != nil {
			return now, err
		}
		slices.Reverse(turns.Turns)
		now.turns[a.ID] = turns.Turns
	}
	return now, nil
}

func (now picture) String() string {
	var b strings.Builder
	for _, a := range now.agents {
		fmt.Fprintf(&b, "%s on %s is %s %s\n", a.Name, a.Repo, a.State, a.Trouble)
		for _, t := range now.turns[a.ID] {
			fmt.Fprintf(&b, "  turn %d %s %s %s %q %s\n", t.Seq, t.ID, t.Cause, t.State, firstLine(t.Sent), t.Trouble)
		}
	}
	for _, m := range now.commands {
		fmt.Fprintf(&b, "%s %s %s %s %s\n", m.ID, m.Verb, m.Canonical, m.State, m.Reason)
	}
	return b.String()
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// over: every command has been reported and nobody has anything to do.
func (now picture) over() bool {
	for _, a := range now.agents {
		switch a.State {
		case "idle", "done", "failed":
		default:
			return false
		}
		for _, t := range now.turns[a.ID] {
			if t.State != "replied" && t.State != "failed" {
				return false
			}
		}
	}
	for _, m := range now.commands {
		if m.State != "reported" {
			return false
		}
	}
	return len(now.commands) >= 4
}

// settle does a person's part for what the bridge calls uncertain: it looks into the cloud's own log. What the bridge
// could have found there by itself is a problem.
func (p *person) settle(ctx context.Context, c *api.Client, now picture) error {
	for _, m := range now.commands {
		if m.State != "uncertain" {
			continue
		}
		if m.Verb == "SUBAGENT" && slices.ContainsFunc(p.w.effects(), func(e effect) bool { return e.Kind == "agent_created" && e.Repo == m.Canonical }) {
			p.problems = append(p.problems, "the bridge is uncertain about "+m.Canonical+", which the cloud shows")
		}
		p.settled[m.Canonical] = true // also when the answer is lost
		if _, err := c.Resolve(ctx, m.ID, api.ResolveRequest{NotLaunched: true}); err != nil {
			return err
		}
		p.w.t.Logf("settled by a person: %s %s, %s", m.Verb, m.Canonical, m.Reason)
		totals.add("commands that a person had to settle", 1)
	}
	for _, turns := range now.turns {
		for _, t := range turns {
			if t.State != "uncertain" || t.Seq == 1 {
				continue
			}
			if slices.ContainsFunc(p.w.effects(), func(e effect) bool { return strings.Contains(e.Prompt, t.ID) }) {
				p.problems = append(p.problems, "the bridge is uncertain about turn "+t.ID+", which the cloud shows")
			}
			if _, err := c.Continue(ctx, t.ID); err != nil {
				return err
			}
			totals.add("turns that a person had to replay", 1)
		}
	}
	return nil
}

var marker = regexp.MustCompile(`\[bridge (trn_[A-Za-z0-9]+)\]`)

// judge compares what happened with what should have, by the cloud's log and the disk.
func judge(w *world, now picture, settled map[string]bool) (problems []string) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	log := w.effects()
	created, told, prompts := map[string]int{}, map[string][]string{}, map[string]string{}
	for _, e := range log {
		switch e.Kind {
		case "agent_created":
			created[e.Repo]++
		case "run_created":
			for _, m := range marker.FindAllStringSubmatch(e.Prompt, 1) {
				told[e.AgentID] = append(told[e.AgentID], m[1])
			}
			prompts[repoOf(now, e.AgentID)] += e.Prompt + "\n"
		case "duplicate_refused":
			totals.add("repeated launches that met their earlier self", 1)
		}
	}
	dead := map[string]bool{} // what cannot happen after a person said that something did not
	if settled["github.com/acme/docs"] && created["github.com/acme/docs"] == 0 {
		dead["tidy_up"], dead["The docs are fine."] = true, true
	}
	for _, repo := range []string{"github.com/me/agent-env", "github.com/me/my-app", "github.com/acme/docs", "github.com/me/lib"} {
		if n := created[repo]; n > 1 || n == 0 && !settled[repo] {
			wrong("%s was launched %d times", repo, n)
		}
	}
	for _, action := range []string{"backup_script", "stamp_release", "tidy_up"} {
		n := w.runs(action)
		if n > 1 || n == 0 && !dead[action] && (w.relay.killed == 0 || w.set.certain) {
			wrong("%s ran %d times", action, n)
		}
		if settled[action] && w.set.certain {
			wrong("a person had to settle %s, which no death met", action)
		}
	}
	for _, line := range []struct{ repo, text, action string }{
		{"github.com/me/agent-env", "The app is fine.", ""},
		{"github.com/me/agent-env", "The docs are fine.", ""},
		{"github.com/me/my-app", library(w), ""},
		{"github.com/me/agent-env", "backup_script says hello", "backup_script"},
		{"github.com/me/agent-env", "stamp_release says hello", "stamp_release"},
		{"github.com/acme/docs", "tidy_up says hello", "tidy_up"},
		{"github.com/me/agent-env", "the clock has struck", "REMIND"},
	} {
		n := strings.Count(prompts[line.repo], line.text)
		missing := dead[line.text] || dead[line.action] || settled[line.action] || line.action == "REMIND" && remindRefused(now)
		if n > 1 || n == 0 && !missing {
			wrong("%q was told to %s %d times", line.text, line.repo, n)
		}
		totals.add("results told once", once(n == 1))
	}
	problems = append(problems, order(now, told)...)
	problems = append(problems, results(w, now, prompts, created)...)
	totals.add("effects that happened once", len(created)+3)
	return problems
}

// parents names who asked for each subagent, by their repositories.
var parents = map[string]string{
	"github.com/me/my-app": "github.com/me/agent-env", "github.com/acme/docs": "github.com/me/agent-env", "github.com/me/lib": "github.com/me/my-app",
}

// results: each subagent that was launched has one result, which its parent alone is told once. What a subagent said while
// something of its task was open is told to no other agent.
func results(w *world, now picture, prompts map[string]string, created map[string]int) (problems []string) {
	for _, a := range now.agents {
		parent, want := parents[a.Repo], 1
		if parent == "" || created[a.Repo] == 0 || w.set.strayed && a.Repo == "github.com/me/lib" {
			want = 0 // a strayed agent fails in words of its own, see library
		}
		report := "WEBHOOK_RESULT: agent_id=" + a.External + ","
		if n := strings.Count(prompts[parent], report); n != want {
			problems = append(problems, fmt.Sprintf("the result of %s was told to %q %d times", a.Repo, parent, n))
		}
		for repo, prompt := range prompts {
			if n := strings.Count(prompt, report); repo != parent && n > 0 {
				problems = append(problems, fmt.Sprintf("the result of %s was told to %s %d times", a.Repo, repo, n))
			}
		}
	}
	for repo, prompt := range prompts {
		if n := strings.Count(prompt, "Half of the "); n > 0 {
			problems = append(problems, fmt.Sprintf("%s was told %d times what was not a result yet", repo, n))
		}
	}
	return problems
}

// library is what the app's agent must be told of the one on the library.
func library(w *world) string {
	if w.set.strayed {
		return "instead of the allowed \"github.com/me/lib\""
	}
	return "The library is fine."
}

func once(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func repoOf(now picture, external string) string {
	for _, a := range now.agents {
		if a.External == external {
			return a.Repo
		}
	}
	return "unknown agent " + external
}

// remindRefused: a bridge that was dead for so long that the reminder's time was over when it read the reply says so.
func remindRefused(now picture) bool {
	for _, m := range now.commands {
		if m.Verb == "REMIND" && strings.Contains(m.Reason, "is in the past") {
			totals.add("reminders refused because the bridge was dead at their time", 1)
			return true
		}
	}
	return false
}

// order: the cloud got each agent's turns once and in the order of their numbers.
func order(now picture, told map[string][]string) (problems []string) {
	for _, a := range now.agents {
		var want []string
		for _, t := range now.turns[a.ID] {
			if t.Seq > 1 && t.State == "replied" {
				want = append(want, t.ID)
			}
		}
		if !slices.Equal(want, told[a.External]) {
			problems = append(problems, fmt.Sprintf("%s got the turns %v, the bridge sent %v", a.Repo, told[a.External], want))
		}
	}
	return problems
}
