package words

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"drawbridge/bridge"
)

// Ended is what is known of a subagent's run that is over.
type Ended struct {
	// Line is that of the SUBAGENT command.
	Line                 int
	Repo, Name, External string
	Observation          bridge.Observation
	// Oversize says why the reply could not be read, "" when it was.
	Oversize string
	// Evidence is what else the API said; nil when nobody can ask it.
	Evidence *bridge.Evidence
	// Silent agents report by tools alone: what they said is not shown.
	Silent bool
}

// Completion is the bridge's own word on a run's end; see Result.
func Completion(e Ended) bridge.Words {
	return completion(e, Evidence(e))
}

// Result is the bridge's own word on the end of a subagent's task. line is that of
// the SUBAGENT command, evidence what was read when the turn ended. The
// WEBHOOK_RESULT line is the one that the seed gives to follow-ups. What the agent
// says of itself follows as untrusted text and is called a claim here.
func Result(a bridge.Agent, line int, said bridge.Turn, evidence string) bridge.Words {
	e := Ended{Line: line, Repo: a.Repo, Name: a.Name, External: a.External, Oversize: said.Trouble, Silent: a.Silent(),
		Observation: bridge.Observation{State: said.Status, Reply: said.Reply}}
	if e.Silent {
		e.Observation.Reply = ""
	}
	return completion(e, evidence)
}

// Summary begins what the bridge recorded of a subagent, for a parent whose reply
// asked for it with a WEBHOOK_RESULT on a line.
func Summary(line int, a bridge.Agent) bridge.Words {
	return Say("%s (WEBHOOK_RESULT): what the bridge recorded of subagent %s:\n   ", Where(line), a.Name)
}

// NoResult answers that parent while there is nothing to summarize. m is the
// command that made the subagent.
func NoResult(line int, a bridge.Agent, m bridge.Command) bridge.Words {
	head := Say("%s (WEBHOOK_RESULT): subagent %s (%s)", Where(line), a.Name, a.Repo)
	switch {
	case a.Task == bridge.TaskFailed || a.Task == bridge.TaskDone:
		return head + Say(" has ended, but the bridge could not read any of its runs; the state of its launch is %s", m.State)
	case a.Task == bridge.TaskWaiting:
		return head + " waits for a person; its result comes when its task is done"
	case m.State == bridge.CommandUncertain:
		return head + " may not exist: the bridge does not know whether its launch worked, and a person has to look"
	}
	return head + " still works; its result comes when its task is done"
}

// NoSubagent answers a WEBHOOK_RESULT that names no subagent of its author.
func NoSubagent(line int) bridge.Words {
	return Say("%s (WEBHOOK_RESULT): you have no subagent with this id; copy the id from a turn that names the subagent", Where(line))
}

func completion(e Ended, evidence string) bridge.Words {
	status := e.Observation.State
	text := Say("%s (SUBAGENT on %s): agent %s ended with status %s.\nWEBHOOK_RESULT: agent_id=%s, status=%s", OfTurn(e.Line), e.Repo, e.Name, status, e.External, status)
	if evidence != "" {
		for line := range strings.SplitSeq(evidence, "\n") {
			text += "\n   " + Own(line)
		}
	}
	if e.Silent && status == bridge.RunFinished {
		text += "\n   it ended without a result: it did not call complete"
	}
	if e.Oversize != "" {
		text += "\n   the bridge could not read its reply: " + Own(e.Oversize)
	}
	if e.Observation.Reply != "" {
		text += "\nIts last reply, which the bridge did not check:"
	}
	return text
}

// maxArtifacts and maxClaims bound what is named one by one.
const (
	maxArtifacts = 10
	maxClaims    = 5
)

// Confirmed begins what Evidence says. Behind it stand names that an agent chose.
const Confirmed = "confirmed by the "

// maxSeen bounds the lines of what a relay saw.
const maxSeen = 40

// seen says line by line what a relay read of an agent's workspace, which is no claim of the agent.
func seen(o bridge.Observation) []string {
	lines := []string{Confirmed + "relay: status " + string(Name(string(o.State))) + ", " + string(o.Cause)}
	if o.Seen == "" {
		return append(lines, "the relay itself saw nothing of the work")
	}
	all := strings.Split(strings.TrimRight(o.Seen, "\n"), "\n")
	for _, line := range all[:min(len(all), maxSeen)] {
		lines = append(lines, "read by the relay: "+string(Name(line)))
	}
	if more := len(all) - maxSeen; more > 0 {
		lines = append(lines, "and "+Count(more, "more line"))
	}
	return lines
}

// Evidence says line by line what the API confirmed of a run, what it does not
// show, what could not be asked, and what the agent only claimed.
func Evidence(e Ended) string {
	o := e.Observation
	if o.Cause != "" {
		lines := seen(o)
		if claims := claimedPRs(o); len(claims) > 0 {
			lines = append(lines, "only claimed by the agent: pull request "+strings.Join(claims, ", "))
		}
		return strings.Join(lines, "\n")
	}
	confirmed := []string{"status " + string(Name(string(o.State)))}
	var absent, lines []string
	for _, f := range []struct{ name, value string }{{"branch", o.Branch}, {"pull request", o.PR}} {
		if f.value == "" {
			absent = append(absent, "no "+f.name)
		} else {
			confirmed = append(confirmed, f.name+" "+string(Name(f.value)))
		}
	}
	if ev := e.Evidence; ev != nil {
		switch {
		case len(ev.Artifacts) > 0:
			confirmed = append(confirmed, artifacts(ev.Artifacts))
		case ev.Unread == "":
			absent = append(absent, "no artifacts")
		}
		if ev.Usage != nil {
			confirmed = append(confirmed, Count(ev.Usage.Tokens, "token")+" so far")
		}
	}
	lines = append(lines, Confirmed+"API: "+strings.Join(confirmed, "; "))
	if len(absent) > 0 {
		lines = append(lines, "the API shows "+strings.Join(absent, ", "))
	}
	if e.Evidence != nil && e.Evidence.Unread != "" {
		lines = append(lines, "could not be checked: "+string(Name(e.Evidence.Unread)))
	}
	if claims := claimedPRs(o); len(claims) > 0 {
		lines = append(lines, "only claimed by the agent, not shown by the API: pull request "+strings.Join(claims, ", "))
	}
	return strings.Join(lines, "\n")
}

func artifacts(all []bridge.Artifact) string {
	names := make([]string, 0, maxArtifacts)
	for _, a := range all[:min(len(all), maxArtifacts)] {
		names = append(names, fmt.Sprintf("%s (%s)", Name(a.Path), Count(a.Size, "byte")))
	}
	text := fmt.Sprintf("artifacts %s", strings.Join(names, ", "))
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

var pullRequest = regexp.MustCompile(`https://github\.com/[A-Za-z0-9_-]{1,39}/[A-Za-z0-9._-]{1,100}/pull/[0-9]{1,10}`)

// claimedPRs are the pull requests that a reply names and the API does not.
func claimedPRs(o bridge.Observation) []string {
	var claims []string
	for _, url := range pullRequest.FindAllString(o.Reply, 100) {
		if !strings.EqualFold(url, o.PR) && !slices.Contains(claims, url) && len(claims) < maxClaims {
			claims = append(claims, url)
		}
	}
	return claims
}
