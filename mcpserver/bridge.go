package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/parser"
)

// bridgeTools is the set that does what the text protocol does, through the same
// policy and ledger.
func (d *Door) bridgeTools() []tool {
	return []tool{
		define("launch_agent", "Launch a subagent on another repository. It knows only the prompt, so put everything that it needs there. The tool returns at once. The result arrives as your next turn when the subagent has ended. status is launched, or held if a person must approve the launch first.",
			takes(text("repo", "GitHub repository that the subagent works on, as github.com/owner/name. list_allowed says which ones are allowed."),
				text("prompt", "Self-contained task description for the subagent.")), d.launchAgent).keyed(),
		d.agentLister(),
		define("agent_status", "Show what one agent of your tree is doing and the state of its latest turn. Do not call it in a loop: results arrive as your next turn by themselves.",
			takes(text("agent", "Name or id of the agent.")), d.agentStatus),
		define("run_local_action", "Run one of the listed actions on the user's machine. An action takes no arguments. The tool returns at once, and the outcome arrives as your next turn. status is requested, or held if a person must approve the action first.",
			takes(text("action", "Id of the action. list_allowed says which ones are allowed.")), d.runLocalAction).keyed(),
		define("list_allowed", "List the repositories for your subagents, the actions that you may run, and your limits. The list also says who must approve an action first. The bridge refuses everything else.",
			takes(), d.listAllowed),
		define("remind", "Send yourself a message that arrives as a turn at a later time. Use this tool instead of waiting.",
			takes(text("when", "An RFC 3339 time such as 2026-03-01T09:00:00Z, a date such as 2026-03-01 (UTC), or a span from now: 30s, 10m, 1h30m, 3d, 1w, in 10 minutes."),
				text("message", "The message that you get at that time.")), d.remind).keyed(),
		define("cancel_reminder", "Cancel a reminder of yours that has not arrived yet.",
			takes(text("reminder_id", "The id that remind returned, cmd_….")), d.cancelReminder).keeps(),
	}
}

// agentLister is the tool list_agents, which stands in the sets bridge and threads.
func (d *Door) agentLister() tool {
	t := define("list_agents", "List the agents of your tree: you, the agent that launched you, your subagents and theirs, newest first, with what each is doing.",
		takes(), d.listAgents)
	t.shared = true
	return t
}

// Asked is what launch_agent, run_local_action and remind answer.
type Asked struct {
	// Status is launched, requested, set, or held.
	Status    string `json:"status"`
	CommandID string `json:"command_id"`
	AgentID   string `json:"agent_id,omitempty"`
	Name      string `json:"name,omitempty"`
	// Due is when a reminder comes back.
	Due time.Time `json:"due,omitzero"`
	// Reason says why the request is held.
	Reason string `json:"reason,omitempty"`
}

type launchArgs struct {
	Repo   string `json:"repo"`
	Prompt string `json:"prompt"`
}

func (d *Door) launchAgent(ctx context.Context, c *caller, in launchArgs) (answer, error) {
	if err := checkWords("prompt", in.Prompt); err != nil {
		return answer{}, err
	}
	got, err := d.launch(ctx, c, parser.Command{Verb: parser.Subagent, Repo: in.Repo, Prompt: in.Prompt})
	return answer{data: got}, err
}

// launch asks for a subagent and names the one that comes of it.
func (d *Door) launch(ctx context.Context, c *caller, cmd parser.Command) (got Asked, err error) {
	_, m, err := d.ask(ctx, c, cmd)
	if limit := d.o.Policy().Limits().Depth; bridge.KindOf(err) == bridge.Denied && c.agent.Depth >= limit {
		// Another repository would be refused, too.
		return got, bridge.Errorf(bridge.Denied, "refused: you are at depth %d of delegation and the limit is %d, so you may not launch subagents; do the work yourself or report to your parent", c.agent.Depth, limit)
	}
	if err != nil {
		return got, err
	}
	err = d.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		got, err = launched(tx, m)
		return err
	})
	return got, err
}

// launched is stands for the command of a launch.
func launched(tx *bridge.Scene, m bridge.Command) (Asked, error) {
	got, err := stands(m)
	if err != nil || m.Child == "" {
		return got, err
	}
	child, err := tx.Agent(m.Child)
	got.Status, got.AgentID, got.Name = "launched", string(child.ID), child.Name
	return got, err
}

// ask takes one command through the gate. A refusal is an error that says what is allowed.
func (d *Door) ask(ctx context.Context, c *caller, cmd parser.Command) (Asked, bridge.Command, error) {
	cmd.Raw = string(cmd.Verb) + ": (by a tool call)"
	m, err := d.o.Engine.Ask(ctx, c.agent.ID, c.once, cmd)
	if err != nil {
		return Asked{}, bridge.Command{}, err
	}
	got, err := stands(m)
	return got, m, err
}

// whyHeld is for the agent. What a relay shows of the user's machine is for the person alone.
func whyHeld(m bridge.Command) string {
	if m.Code == bridge.CodeRelayApproval {
		return "a person has to approve it"
	}
	return m.Reason
}

// refusedFor is the policy's code in the error of a refusal.
type refusedFor string

// Error implements error.
func (r refusedFor) Error() string { return "refused for " + string(r) }

// stands says how a command stands.
func stands(m bridge.Command) (Asked, error) {
	switch m.State {
	case bridge.CommandRefused:
		return Asked{}, &bridge.Error{Kind: bridge.Denied, Message: "refused: " + strings.TrimPrefix(m.Reason, "refused: "), Cause: refusedFor(m.Code)}
	case bridge.CommandHeld:
		return Asked{Status: "held", CommandID: string(m.ID), Reason: words.ForAgent(whyHeld(m))}, nil
	}
	return Asked{Status: "requested", CommandID: string(m.ID), Due: m.Due}, nil
}

type actionArgs struct {
	Action string `json:"action"`
}

func (d *Door) runLocalAction(ctx context.Context, c *caller, in actionArgs) (answer, error) {
	if err := checkWords("action", in.Action); err != nil {
		return answer{}, err
	}
	got, _, err := d.ask(ctx, c, parser.Command{Verb: parser.LocalAction, Action: in.Action})
	return answer{data: got}, err
}

type remindArgs struct {
	When    string `json:"when"`
	Message string `json:"message"`
}

func (d *Door) remind(ctx context.Context, c *caller, in remindArgs) (answer, error) {
	if err := errors.Join(checkWords("when", in.When), checkWords("message", in.Message)); err != nil {
		return answer{}, err
	}
	got, _, err := d.ask(ctx, c, parser.Command{Verb: parser.Remind, When: in.When, Message: in.Message})
	if got.Status == "requested" {
		got.Status = "set"
	}
	return answer{data: got}, err
}

type cancelArgs struct {
	ID string `json:"reminder_id"`
}

// cancelReminder ends a reminder by its own agent's word. Its work stays in its
// lane until it is due, and finds it over.
func (d *Door) cancelReminder(ctx context.Context, c *caller, in cancelArgs) (answer, error) {
	_, err := d.do(ctx, c, func(tx bridge.Change) (string, error) {
		m, err := tx.Command(bridge.CommandID(in.ID))
		switch {
		case errors.Is(err, bridge.ErrNoRow), err == nil && (m.Agent != c.agent.ID || m.Parsed.Verb != parser.Remind):
			return "", bridge.Errorf(bridge.NotFound, "you have no reminder %+.60q; remind returns the id", in.ID)
		case err != nil:
			return "", err
		case m.State != bridge.CommandGranted:
			return "", bridge.Errorf(bridge.Conflict, "reminder %s cannot be cancelled any more; its state is %s", m.ID, m.State)
		}
		m.State, m.Reason, m.UpdatedAt = bridge.CommandFailed, "the agent cancelled it", tx.Now()
		if err := tx.UpdateCommand(m); err != nil {
			return "", err
		}
		if err := tx.Record(bridge.EventCancelled, c.agent, bridge.Event{Turn: m.Turn, Command: m.ID, Text: c.agent.Name + " cancelled its reminder"}); err != nil {
			return "", err
		}
		_, err = tx.Notify(bridge.Notice{Agent: c.agent.ID, Cause: bridge.CauseReport, Quiet: true, Commands: []bridge.CommandID{m.ID}, Text: words.Say("your reminder %s is cancelled, as you asked", m.ID)})
		return string(m.ID), err
	})
	return answer{data: Asked{Status: "cancelled", CommandID: in.ID}}, err
}

// AgentView is an agent as another of its tree sees it.
type AgentView struct {
	ID    string `json:"agent_id"`
	Name  string `json:"name"`
	State string `json:"state"`
	Repo  string `json:"repo"`
	// Relation is self, parent, child, sibling, or "" for one that is further away.
	Relation string `json:"relation,omitempty"`
	Parent   string `json:"parent_id,omitempty"`
	Trouble  string `json:"trouble,omitempty"`
	URL      string `json:"url,omitempty"`
	// Turn is the latest turn; only agent_status tells it.
	Turn *TurnView `json:"latest_turn,omitempty"`
	// WaitsFor are the actions of the agent that wait for a relay or for a person at its machine, in words; only agent_status
	// tells them.
	WaitsFor []string `json:"waits_for,omitempty"`
}

// TurnView is a turn without its texts.
type TurnView struct {
	ID     string `json:"turn_id"`
	Seq    int64  `json:"number"`
	Cause  string `json:"cause"`
	State  string `json:"state"`
	Status string `json:"status,omitempty"`
}

func (c *caller) view(a bridge.Agent) AgentView {
	return AgentView{ID: string(a.ID), Name: a.Name, State: string(a.State), Repo: a.Repo, Relation: c.relation(a), Parent: string(a.Parent), Trouble: words.ForAgent(a.Trouble), URL: a.URL}
}

// relation says how near an agent of the same tree is.
func (c *caller) relation(a bridge.Agent) string {
	switch {
	case a.ID == c.agent.ID:
		return "self"
	case a.ID == c.agent.Parent:
		return "parent"
	case a.Parent == c.agent.ID:
		return "child"
	case a.Parent != "" && a.Parent == c.agent.Parent:
		return "sibling"
	}
	return ""
}

// maxAgents bounds a list of agents.
const maxAgents = 200

func (d *Door) listAgents(ctx context.Context, c *caller, _ struct{}) (answer, error) {
	views := []AgentView{}
	err := d.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		all, err := tx.Agents(bridge.AgentFilter{Root: c.agent.Root, Limit: maxAgents})
		for _, a := range all {
			views = append(views, c.view(a))
		}
		return err
	})
	return answer{data: agentList{views, string(c.agent.ID)}}, err
}

type agentArgs struct {
	Agent string `json:"agent"`
}

func (d *Door) agentStatus(ctx context.Context, c *caller, in agentArgs) (answer, error) {
	var v AgentView
	err := d.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		a, err := c.find(tx, in.Agent)
		if err != nil {
			return err
		}
		v = c.view(a)
		turns, err := tx.Turns(bridge.TurnFilter{Agent: a.ID, Limit: 1})
		for _, t := range turns {
			v.Turn = &TurnView{ID: string(t.ID), Seq: t.Seq, Cause: string(t.Cause), State: string(t.State), Status: string(t.Status)}
		}
		if err != nil {
			return err
		}
		v.WaitsFor, err = waitsFor(tx, a.ID)
		return err
	})
	return answer{data: v}, err
}

// maxWaiting bounds how many actions that wait are listed.
const maxWaiting = 20

// waitsFor says of an agent's actions that wait for a relay, or for a person at its machine, which they are and why.
func waitsFor(tx *bridge.Scene, agent bridge.AgentID) (lines []string, err error) {
	for _, state := range []bridge.CommandState{bridge.CommandGranted, bridge.CommandSending, bridge.CommandHeld, bridge.CommandUncertain} {
		waiting, err := tx.Commands(bridge.CommandFilter{Agent: agent, State: state, Verb: parser.LocalAction, Limit: maxWaiting})
		if err != nil {
			return nil, err
		}
		for _, m := range waiting {
			why, err := whyWaits(tx, m)
			if err != nil {
				return nil, err
			}
			if why != "" {
				lines = append(lines, fmt.Sprintf("%s (%s): %s", m.Canonical, m.ID, why))
			}
		}
	}
	return lines, nil
}

// whyWaits says what an action waits for, or returns "". What a relay shows of its machine is not for agents.
func whyWaits(tx *bridge.Scene, m bridge.Command) (string, error) {
	asked, err := bridge.AskedAbout(tx, m, time.Now())
	switch {
	case err != nil:
		return "", err
	case asked != nil:
		return asked.String(), nil
	case m.State == bridge.CommandGranted:
		return m.Shown(), nil
	}
	return "", nil
}

// find looks an agent of the caller's own tree up by id or name. One of another
// tree is not found in the same words as one that never was.
func (c *caller) find(tx *bridge.Scene, key string) (a bridge.Agent, err error) {
	if strings.HasPrefix(key, "agt_") {
		a, err = tx.Agent(bridge.AgentID(key))
	} else {
		a, err = bridge.FindInTree(tx, c.agent.Root, key)
	}
	if errors.Is(err, bridge.ErrNoRow) || (err == nil && a.Root != c.agent.Root) {
		return bridge.Agent{}, bridge.Errorf(bridge.NotFound, "no agent %+.80q in your tree; call list_agents to see the names", key)
	}
	return a, err
}

// is refuses an id in an argument that is not the caller's own (facts: AGSLAG, fault to fix).
func (c *caller) is(argument, value string) error {
	if value == string(c.agent.ID) || value == c.agent.Name {
		return nil
	}
	return bridge.Errorf(bridge.Denied, "%s is %+.80q, but you are %s (%s); give your own id", argument, value, c.agent.ID, c.agent.Name)
}

// Allowed is what list_allowed answers.
type Allowed struct {
	Repos   []string `json:"repos"`
	Actions []string `json:"actions"`
	// Approvals is, for each action for which a person has to agree, who that is; each of them has to.
	Approvals map[string][]string `json:"approvals,omitempty"`
	Limits    struct {
		CommandsPerTurn int `json:"commands_per_turn"`
		LaunchesPerHour int `json:"launches_per_hour"`
		OpenSubagents   int `json:"open_subagents"`
		Depth           int `json:"depth"`
		Reminders       int `json:"reminders"`
	} `json:"limits"`
}

func (d *Door) listAllowed(ctx context.Context, c *caller, _ struct{}) (answer, error) {
	p, out := d.o.Policy(), Allowed{}
	l := p.Limits()
	out.Limits.CommandsPerTurn, out.Limits.LaunchesPerHour, out.Limits.OpenSubagents = l.CommandsPerTurn, l.LaunchesPerHour, l.OpenSubagents
	out.Limits.Depth, out.Limits.Reminders = l.Depth, l.Reminders
	err := d.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		names, err := tx.Lineage(c.agent)
		if err != nil {
			return err
		}
		// Appended to what is there, since a client reads a list where nil would be null.
		out.Repos, out.Actions = append([]string{}, p.AllowedRepos(names)...), append([]string{}, p.AllowedActions(names)...)
		out.Approvals, err = words.Approvals(p.ActionRules(), out.Actions, tx.OfferedBy)
		return err
	})
	return answer{data: out}, err
}

// maxWords bounds a prompt or a message of a tool call, in bytes, as a line of text is bounded.
const maxWords = 64 << 10

// checkWords refuses text that could not be shown as it is read: the same
// characters as in a command line, but line breaks and tabs are fine here.
func checkWords(argument, value string) error {
	switch {
	case strings.TrimSpace(value) == "":
		return bridge.Errorf(bridge.Invalid, "%s is empty; say what you want", argument)
	case len(value) > maxWords:
		return bridge.Errorf(bridge.TooLarge, "%s has %d bytes; at most %d are allowed: put the rest into a file of the repository", argument, len(value), maxWords)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, hidden):
		return bridge.Errorf(bridge.Invalid, "%s contains control characters or invisible characters that change how people read it; write it without them", argument)
	}
	return nil
}

func hidden(r rune) bool {
	switch {
	case r == '\n', r == '\t', r == '\r':
		return false
	case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == utf8.RuneError:
		return true
	}
	return (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) || (r >= 0xe0000 && r <= 0xe007f)
}

// checkLine refuses what is no short line.
func checkLine(argument, value string) error {
	if err := checkWords(argument, value); err != nil {
		return err
	}
	if len(value) > 300 || strings.ContainsAny(value, "\n\r\t") {
		return bridge.Errorf(bridge.Invalid, "%s must be one line of at most 300 bytes", argument)
	}
	return nil
}
