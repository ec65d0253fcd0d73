package policy

import (
	"fmt"

	"drawbridge/parser"
)

// Usage is where the counters stand before this turn. A negative counter counts as zero.
type Usage struct {
	// LaunchesLastHour and OpenSubagents are the counts that the caps of the same
	// names in Limits are held against.
	LaunchesLastHour, OpenSubagents int
	// Depth is that of the agent that wrote: a root orchestrator has 0, its subagents 1.
	Depth int
	// Tree is what the writer's whole tree has used.
	Tree TreeUsage
}

// Request is one turn's commands and what the policy has to know about the turn.
type Request struct {
	// Agents names the agent that wrote and its ancestors, root first, writer
	// last. The narrowing of every one applies, so that delegation cannot widen.
	// Nil applies the general lists alone.
	Agents   []string
	Commands []parser.Command
	// Earlier are commands of the same turn that were granted or held before, by
	// tool calls; they count against the turn's cap, and a repetition of one is held.
	Earlier []parser.Command
	Usage   Usage
	// Echoed says whose words a command repeats that this agent was given, and where
	// they stand; "" when it repeats none. Nil means that nothing is repeated.
	Echoed func(parser.Command) string
	// Approved reports whether an earlier "once per" approval with this key still
	// lasts. Nil means no.
	Approved func(key string) bool
}

// Judgement is the answer to a Request.
type Judgement struct {
	// Verdicts has the length and the order of Request.Commands.
	Verdicts []Verdict
	// OverCap is empty, or one sentence that says which cap the turn is over. Then
	// every verdict is refused with CodeOverCap and nothing of the turn runs.
	OverCap string
}

// Judge decides about one turn. It is a pure function of the rules, the request
// and the two callbacks, and safe for concurrent use. The checks, in order:
//
//  1. commands_per_turn, over every command whatever it is; then, per command:
//  2. is the verb known and complete; is the repository well formed;
//  3. is it on the general list, and in the narrowing of every agent;
//  4. held: an exact duplicate in this turn, then an echo, then an approval;
//  5. depth, launches_per_hour, open_subagents and the tree's budget, over the launches that are
//     granted or held by now.
//
// So a refusal beats a hold and a hold beats a grant. A turn over any cap runs
// nothing at all: running the first few would let a flood choose what runs.
func (p *Policy) Judge(r Request) Judgement {
	if n, limit := len(r.Earlier)+len(r.Commands), p.limits.CommandsPerTurn; n > limit {
		return overCap(len(r.Commands), fmt.Sprintf("this turn has %s and the limit is %d a turn, so none of them ran; write fewer in one reply",
			count(n, "command"), limit))
	}
	s := session{p: p, agents: r.Agents}
	verdicts := make([]Verdict, len(r.Commands))
	seen := make(map[string]bool, len(r.Commands))
	for _, cmd := range r.Earlier {
		seen[exactKey(cmd)] = true
	}
	launches := 0
	for i, cmd := range r.Commands {
		v := s.authorize(cmd)
		if v.Decision == Granted {
			v = r.hold(v, cmd, seen)
			if cmd.Verb == parser.Subagent {
				launches++
			}
		}
		verdicts[i] = v
	}
	if what, remedy := p.launchCap(r, launches); what != "" {
		if remedy == "" {
			return overCap(len(r.Commands), what+"; nothing of this turn ran")
		}
		return overCap(len(r.Commands), what+", so nothing of this turn ran; "+remedy)
	}
	return Judgement{Verdicts: verdicts}
}

// Grant checks one command again at the moment of sending, because the allowlist
// may have changed since it was judged. approved says that a person approved this
// command, or that an earlier approval covers it; it never overrides a refusal.
// Caps, echoes and duplicates are matters of the turn and are not checked again.
func (p *Policy) Grant(agents []string, cmd parser.Command, approved bool) Verdict {
	s := session{p: p, agents: agents}
	v := s.authorize(cmd)
	if v.Decision == Granted && v.Approval.needed() && !approved {
		return holdFor(v, CodeNeedsApproval, approvalReason(v))
	}
	return v
}

// OperatorGrant decides about a launch that the operator asks for. The repository
// is one of OperatorRepos or covered by Repos; neither approval nor caps apply.
func (p *Policy) OperatorGrant(repo, prompt string) Verdict {
	canonical, err := CanonicalRepo(repo)
	if err != nil {
		return refusal(CodeBadRepo, badRepoReason(repo, err))
	}
	rule, listed := p.repos.find(canonical)
	if !listed && !p.operator[canonical] {
		v := refusal(CodeRepoNotAllowed, fmt.Sprintf("repository %s is neither an orchestrator's nor on the allowlist; %s",
			quote(string(canonical)), allowedText(p.repoList)))
		v.Canonical = string(canonical)
		return v
	}
	return launchVerdict(canonical, rule, prompt)
}

// OperatorAction decides about an action that the operator asks for. It must be
// on the allowlist; no approval is asked for.
func (p *Policy) OperatorAction(id string) Verdict {
	s := session{p: p}
	return s.action(parser.Command{Verb: parser.LocalAction, Action: id})
}

// hold turns a grant into a hold when a person has to look first. The duplicate
// comes before the echo, so that approving two echoed lines runs the command once.
func (r Request) hold(v Verdict, cmd parser.Command, seen map[string]bool) Verdict {
	key := exactKey(cmd)
	twice := seen[key]
	seen[key] = true
	echo := ""
	if !twice && r.Echoed != nil {
		echo = r.Echoed(cmd)
	}
	switch {
	case twice:
		return holdFor(v, CodeDuplicate, "this turn already has the same command; the repeat waits for a person, so that the command does not run twice by mistake")
	case echo != "":
		return holdFor(v, CodeEcho, echo+"; it waits for a person, because text from others must not start commands")
	case v.Approval.needed() && !r.approved(v):
		return holdFor(v, CodeNeedsApproval, approvalReason(v))
	}
	return v
}

func (r Request) approved(v Verdict) bool {
	return v.ApprovalKey != "" && r.Approved != nil && r.Approved(v.ApprovalKey)
}

// ApprovalRefused says why a launch that was held may not begin now, or "": a
// person's approval lifts what held it and no cap.
func (p *Policy) ApprovalRefused(agents []string, u Usage) string {
	what, remedy := p.launchCap(Request{Agents: agents, Usage: u}, 1)
	if remedy != "" {
		what += "; " + remedy
	}
	return what
}

// launchCap says which cap the launches exceed first, "" for none, and what the
// agent can do about it, where the first does not say so.
func (p *Policy) launchCap(r Request, launches int) (what, remedy string) {
	u := r.Usage
	if launches == 0 {
		return "", ""
	}
	l := p.limits
	if u.Depth >= l.Depth {
		return fmt.Sprintf("this agent is at depth %d of delegation and the limit is %d, so it may not launch subagents", u.Depth, l.Depth),
			"do the work here or report to the parent"
	}
	if had := max(u.LaunchesLastHour, 0); launches > l.LaunchesPerHour-had {
		return fmt.Sprintf("this turn asks for %s, %d %s made in the last hour and the limit is %d an hour", count(launches, "launch"), had, verb(had, "was", "were"), l.LaunchesPerHour),
			room(l.LaunchesPerHour-had, "wait until some are an hour old")
	}
	if had := max(u.OpenSubagents, 0); launches > l.OpenSubagents-had {
		return fmt.Sprintf("this turn asks for %s, %s %s open and the limit is %d", count(launches, "launch"), count(had, "subagent"), verb(had, "is", "are"), l.OpenSubagents),
			room(l.OpenSubagents-had, "wait until some have ended")
	}
	return p.LaunchRefused(r.Agents, u.Tree, launches), ""
}

func overCap(n int, sentence string) Judgement {
	verdicts := make([]Verdict, n)
	for i := range verdicts {
		verdicts[i] = refusal(CodeOverCap, sentence)
	}
	return Judgement{Verdicts: verdicts, OverCap: sentence}
}
