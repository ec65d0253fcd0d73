package policy_test

import (
	"slices"
	"testing"

	"drawbridge/parser"
	"drawbridge/policy"

	"pgregory.net/rapid"
)

var (
	someRepos    = []string{"github.com/a/x", "github.com/a/y", "github.com/b/x", "github.com/b/y"}
	somePatterns = append([]string{"github.com/a/*", "github.com/b/*"}, someRepos...)
	someActions  = []string{"one", "two", "three"}
	someAgents   = []string{"root", "mid", "leaf"}
)

func subset(t *rapid.T, from []string, label string) []string {
	var out []string
	for _, v := range from {
		if rapid.Bool().Draw(t, label+" "+v) {
			out = append(out, v)
		}
	}
	return out
}

func drawRules(t *rapid.T) policy.Rules {
	var r policy.Rules
	for _, p := range subset(t, somePatterns, "repo") {
		r.Repos = append(r.Repos, policy.RepoRule{Pattern: p})
	}
	for _, id := range subset(t, someActions, "action") {
		r.Actions = append(r.Actions, policy.ActionRule{ID: id})
	}
	r.Agents = make(map[string]policy.Narrowing)
	for _, name := range subset(t, someAgents, "narrow") {
		n := policy.Narrowing{}
		if rapid.Bool().Draw(t, name+" has repos") {
			n.Repos = append([]string{}, subset(t, somePatterns, name+" repo")...)
		}
		if rapid.Bool().Draw(t, name+" has actions") {
			n.Actions = append([]string{}, subset(t, someActions, name+" action")...)
		}
		r.Agents[name] = n
	}
	return r
}

func everyCommand() []parser.Command {
	var cmds []parser.Command
	for _, r := range someRepos {
		cmds = append(cmds, launch(r, "x"))
	}
	for _, id := range someActions {
		cmds = append(cmds, action(id))
	}
	return cmds
}

// TestDelegationNeverWidens: whatever an ancestor may not do, none of its
// descendants may do either, and narrowing never adds to the general list.
func TestDelegationNeverWidens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, problems := policy.New(drawRules(t))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for _, cmd := range everyCommand() {
			for n := range someAgents {
				wide := p.Grant(someAgents[:n], cmd, false).Decision
				deep := p.Grant(someAgents[:n+1], cmd, false).Decision
				if deep == policy.Granted && wide != policy.Granted {
					t.Fatalf("%v may %+v and %v may not", someAgents[:n+1], cmd, someAgents[:n])
				}
			}
		}
	})
}

// TestListsTellTheTruth: what the refusals and the protocol page name as allowed
// is what is granted, no more and no less.
func TestListsTellTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, problems := policy.New(drawRules(t))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		agents := subset(t, someAgents, "writes")
		repos, actions := p.AllowedRepos(agents), p.AllowedActions(agents)
		if !slices.IsSorted(repos) || !slices.IsSorted(actions) || len(slices.Compact(slices.Clone(repos))) != len(repos) {
			t.Fatalf("lists %v %v", repos, actions)
		}
		for _, cmd := range everyCommand() {
			listed := slices.Contains(actions, cmd.Action)
			if cmd.Verb == parser.Subagent {
				listed = slices.Contains(repos, cmd.Repo) || slices.Contains(repos, "github.com/"+policy.Repo(cmd.Repo).Owner()+"/*")
			}
			if granted := p.Grant(agents, cmd, false).Decision == policy.Granted; granted != listed {
				t.Fatalf("%v %+v: granted %v, listed %v in %v %v", agents, cmd, granted, listed, repos, actions)
			}
		}
	})
}

// TestOverACapNothingRuns: a judgement is either under every cap or grants and
// holds nothing.
func TestOverACapNothingRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRules(t)
		small := rapid.IntRange(1, 4)
		r.Limits = policy.Limits{
			CommandsPerTurn: small.Draw(t, "commands"), LaunchesPerHour: small.Draw(t, "launches"),
			OpenSubagents: small.Draw(t, "open"), Depth: small.Draw(t, "depth"),
		}
		p, problems := policy.New(r)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		usage := policy.Usage{
			LaunchesLastHour: rapid.IntRange(0, 4).Draw(t, "launched"),
			OpenSubagents:    rapid.IntRange(0, 4).Draw(t, "opened"),
			Depth:            rapid.IntRange(0, 4).Draw(t, "at"),
		}
		cmds := rapid.SliceOfN(rapid.SampledFrom(everyCommand()), 0, 6).Draw(t, "turn")
		j := p.Judge(policy.Request{Agents: someAgents, Commands: cmds, Usage: usage})
		checkCaps(t, r.Limits, usage, j)
	})
}

func checkCaps(t *rapid.T, l policy.Limits, u policy.Usage, j policy.Judgement) {
	launches := 0
	for _, v := range j.Verdicts {
		runs := v.Decision == policy.Granted || v.Decision == policy.Held
		if runs && j.OverCap != "" {
			t.Fatalf("%s although %s", v, j.OverCap)
		}
		if runs && v.Canonical != "" && policy.Repo(v.Canonical).Owner() != "" {
			launches++
		}
	}
	if j.OverCap != "" {
		return
	}
	if len(j.Verdicts) > l.CommandsPerTurn || launches > 0 &&
		(u.Depth >= l.Depth || u.LaunchesLastHour+launches > l.LaunchesPerHour || u.OpenSubagents+launches > l.OpenSubagents) {
		t.Fatalf("%d launches under %+v with %+v: %+v", launches, l, u, j.Verdicts)
	}
}
