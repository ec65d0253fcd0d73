package words

import (
	"cmp"
	"fmt"
	"strings"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Describe says in a few words what a command asks for.
func Describe(m bridge.Command) string {
	switch m.Parsed.Verb {
	case parser.Subagent:
		called := ""
		if m.Parsed.Name != "" {
			called = " " + m.Parsed.Name
		}
		return fmt.Sprintf("SUBAGENT%s on %s: %s", called, cmp.Or(m.Canonical, m.Parsed.Repo), OneLine(m.Parsed.Prompt, 120))
	case parser.LocalAction:
		return "LOCAL_ACTION " + OneLine(m.Parsed.Action, 120)
	case parser.Remind:
		return "REMIND " + m.Parsed.When + ": " + OneLine(m.Parsed.Message, 120)
	case bridge.VerbPermission:
		return fmt.Sprintf("PERMISSION %s: %s", m.Canonical, OneLine(m.Parsed.Message, 120))
	}
	return string(m.Parsed.Verb)
}

// Introduced is the prompt of a command for the agent that is called name: one that a tool call spawned reads who it is. With within
// its working folder is in its parent's workspace.
func Introduced(cmd parser.Command, name, parent string, within bool) string {
	if cmd.Role == "" {
		return cmd.Prompt
	}
	var where bridge.Words
	switch {
	case within && cmd.Subdir != "":
		where = Say("Your working folder is the folder %s of that agent's workspace.\n", cmd.Subdir)
	case within:
		where = Say("You work in that agent's workspace, at the same time as that agent.\n")
	case cmd.Subdir != "":
		where = Say("Work in the subdirectory %s.\n", cmd.Subdir)
	}
	if within && cmd.Role == bridge.RoleReviewer {
		where += "You can read everything there and change nothing.\n"
	}
	return string(Say("You are %s, a %s; the agent %s spawned you.", name, Own(cmd.Role), parent)) + "\n" + string(where) + "\n" + cmd.Prompt
}

// Fields are what an event or a log line tells of a command.
func Fields(m bridge.Command) map[string]string {
	f := map[string]string{"verb": string(m.Parsed.Verb), "line": fmt.Sprint(m.Parsed.Line), "code": m.Code, "canonical": m.Canonical}
	for key, value := range map[string]string{"repo": m.Parsed.Repo, "prompt": Clip(m.Parsed.Prompt, 1000), "action": Clip(m.Parsed.Action, 200), "relay": m.Relay, "child": string(m.Child),
		"name": m.Parsed.Name, "role": m.Parsed.Role, "workspace_subdir": m.Parsed.Subdir} {
		if value != "" {
			f[key] = value
		}
	}
	return f
}

// Results is what became of the subagents that one turn launched.
type Results struct {
	// Seq is the turn's number.
	Seq      int64
	Launched int
	// Open are the commands of those that have not ended.
	Open []bridge.Command
	// Held counts launches that wait for a person.
	Held int
	// Why says why the wait ended early, "" when it did not.
	Why string
}

// Joined says how many of a turn's subagents have ended, and which are missing.
func Joined(r Results) bridge.Words {
	text := Say("results of your turn %d, joined: %s", r.Seq, Own(endedOf(r.Launched-len(r.Open), r.Launched)))
	if r.Why != "" {
		text += " (" + Own(r.Why) + ")"
	}
	for _, m := range r.Open {
		text += Say("\n   missing: %s (SUBAGENT on %s), %s; its result comes when it has ended", Where(m.Parsed.Line), m.Canonical, m.State)
	}
	if r.Held > 0 {
		text += Say("\n   %d more %s for a person's approval", r.Held, Own(verb(r.Held, "waits", "wait")))
	}
	return text
}

// endedOf says how many of the subagents of a turn have ended.
func endedOf(ended, all int) string {
	switch {
	case all == 1 && ended == 1:
		return "its subagent has ended"
	case all == 1:
		return "its subagent has not ended"
	}
	return fmt.Sprintf("%d of its %d subagents %s ended", ended, all, verb(ended, "has", "have"))
}

// Failure says why a subagent's turn failed: its launch, when first is true, or a later one.
func Failure(a bridge.Agent, m bridge.Command, first bool, reason string) bridge.Words {
	if m.ID != "" && first {
		return Say("%s (SUBAGENT on %s) failed: %s", Where(m.Parsed.Line), m.Canonical, Own(reason))
	}
	return Say("subagent %s (%s): its turn failed: %s", a.Name, a.Repo, Own(reason))
}

// Reported tells a parent that a subagent reports the result of its task itself.
// head announces the message that holds it. Without a head, the result is summed up later.
func Reported(a bridge.Agent, head bridge.Words) bridge.Words {
	if head == "" {
		return Say("subagent %s (%s) reported its result itself:\nWEBHOOK_RESULT: agent_id=%s, status=done", a.Name, a.Repo, a.External)
	}
	return Say("subagent %s (%s) says that its task is done. The API has not confirmed the end of its run yet.\nWEBHOOK_RESULT: agent_id=%s, status=done\n%s", a.Name, a.Repo, a.External, head)
}

// WaitsFor says what of a subagent a person has to look at.
func WaitsFor(m bridge.Command) string {
	if m.State == bridge.CommandUncertain {
		return fmt.Sprintf("the outcome of its %s on %s is unknown (%s), and a person has to look", m.Parsed.Verb, m.Canonical, m.ID)
	}
	return fmt.Sprintf("a person has to approve its %s on %s (%s)", m.Parsed.Verb, m.Canonical, m.ID)
}

// ChildWaits tells a parent that the task of a subagent waits for a person.
func ChildWaits(a bridge.Agent, why string) bridge.Words {
	return Say("subagent %s (%s) waits for a person: %s. Its result comes when its task is done.", a.Name, a.Repo, Own(why))
}

// ReadOnly is why no answer comes from an agent that ended its turn without one.
const ReadOnly = "it read the message and ended its turn without an answer"

// NoAnswer tells the sender of a message that no answer comes from an agent, and why.
func NoAnswer(name string, m bridge.Message, why string) bridge.Words {
	return Say("No answer from %s to your message %s: %s. Anything that it writes later reaches you as a separate message.", name, m.ID, Own(why))
}

// Stopped says that a person stopped a tree, and why.
func Stopped(tree bridge.Tree) string {
	text := "the operator stopped this tree of agents"
	if tree.Why != "" {
		text += ": " + tree.Why
	}
	return text
}

// TurnStopped says that a person stopped one turn.
const TurnStopped = "a person stopped the turn"

// TurnUnsaid says that a person stopped one turn of which the agent got nothing.
const TurnUnsaid = "a person stopped the turn before the agent got it"

// Cut says that a person stopped a run, and what may follow. got is true when the agent had the turn.
func Cut(turn bridge.TurnID, got bool) string {
	if got {
		return fmt.Sprintf("%s; tell the agent what to do instead, or type `drawbridge continue %s`", TurnStopped, turn)
	}
	return fmt.Sprintf("%s; tell the agent something else, or type `drawbridge continue %s`", TurnUnsaid, turn)
}

// Parked says how much waits for an agent whose turn failed, and what takes it
// along. The turn may be "" when it is not at hand.
func Parked(a bridge.Agent, waiting int, turn bridge.TurnID) string {
	how := fmt.Sprintf("`drawbridge say %s`", a.Name)
	switch {
	case a.External == "" || a.Quarantined:
		how = "no later turn"
	case turn != "":
		how = fmt.Sprintf("`drawbridge continue %s` or %s", turn, how)
	}
	return fmt.Sprintf("%s %s for agent %s, whose turn failed (%s); %s delivers what waits", Count(waiting, "outcome"), verb(waiting, "waits", "wait"), a.Name, a.Trouble, how)
}

// SubagentName is the repository's name and the end of the id: readable and unique.
// A repository that is called like a person or the bridge is not taken for one.
func SubagentName(repo string, id bridge.AgentID) string {
	name := repo[strings.LastIndexByte(repo, '/')+1:]
	if policy.ReservedName(name) != "" {
		name = "repo-" + name
	}
	return name + "-" + string(id[len(id)-6:])
}

// Where names the place of a command in a turn: its line, or a tool call, which has none.
func Where(line int) bridge.Words {
	if line == 0 {
		return "tool call"
	}
	return Say("line %d", line)
}

// OfTurn is Where as it is said to the agent whose turn it was.
func OfTurn(line int) bridge.Words {
	if line == 0 {
		return "your tool call"
	}
	return Where(line) + " of your turn"
}

// Misses tells an agent which of its lines looked like commands and were not. all
// counts those that there were; misses are the first of them.
func Misses(misses []parser.NearMiss, all int) bridge.Words {
	text := bridge.Words("lines that look like commands and were not run:")
	for _, n := range misses {
		text += Say("\n   - line %d: %s\n     the line: %s", n.Line, Own(n.Reason), line(n.Text))
	}
	if more := all - len(misses); more > 0 {
		text += Say("\n   - and %d more", more)
	}
	return text
}
