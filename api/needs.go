package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/moving"
	"drawbridge/bridge/words"
	"drawbridge/internal/httpx"
	"drawbridge/parser"
)

// Need is one thing that waits for a person.
type Need struct {
	// Key names it, and stays the same while it waits: the id of the command, turn or agent, or relay:NAME, copy:NAME, budget:AGENT, allowlist.
	Key string `json:"key"`
	// Kind says what it is; see NeedKinds.
	Kind string `json:"kind"`
	// Agent, AgentName, Turn, Command and Relay are what it is about, as far as it is.
	Agent     string `json:"agent,omitempty"`
	AgentName string `json:"agent_name,omitempty"`
	Turn      string `json:"turn,omitempty"`
	Command   string `json:"command,omitempty"`
	Relay     string `json:"relay,omitempty"`
	// Since is when it began to wait, absent when nobody knows.
	Since time.Time `json:"since,omitzero"`
	// Text says in one sentence who wants what, or what happened. Line is the first line of what an agent or a relay wrote about it.
	Text string `json:"text"`
	Line string `json:"line,omitempty"`
	// Next says what a person does about it.
	Next string `json:"next"`
	// Count is how many identical ones it stands for, 1 at least.
	Count int `json:"count"`
}

// The kinds of a Need, the most urgent first.
const (
	NeedAllowlist  = "allowlist"  // the allowlist on disk is broken, and the one before stays in force
	NeedUncertain  = "uncertain"  // nobody knows whether a launch, an action or a turn happened
	NeedCopy       = "copy"       // a relay was refused as a copy
	NeedStopped    = "stopped"    // a relay's kill switch is on
	NeedPermission = "permission" // an agent at a relay asks whether it may do something
	NeedApproval   = "approval"   // a command is held
	NeedQuestion   = "question"   // a person at a relay's machine is asked
	NeedFailed     = "failed"     // an agent's turn failed, or the agent was never launched
	NeedGated      = "gated"      // an agent had too many turns without a person, or its tree has used up its budget
	NeedAway       = "away"       // a relay is not connected, and work waits for it
	NeedBudget     = "budget"     // a tree has used nine tenths of its budget
)

// NeedKinds lists the kinds of a Need, the most urgent first.
var NeedKinds = []string{NeedAllowlist, NeedUncertain, NeedCopy, NeedStopped, NeedPermission, NeedApproval, NeedQuestion, NeedFailed, NeedGated, NeedAway, NeedBudget}

// NeedList is what waits for a person: by urgency, and the oldest first within a kind.
type NeedList struct {
	Needs []Need `json:"needs"`
	// Working counts the agents that have a turn, 1,000 at most.
	Working int `json:"working"`
}

// maxNeeds bounds what is looked at of each kind.
const maxNeeds = 500

func (h *Handler) needs(w http.ResponseWriter, r *http.Request) error {
	list, err := h.Needs(r.Context())
	if err != nil {
		return err
	}
	httpx.WriteJSON(w, http.StatusOK, list)
	return nil
}

// Needs returns what waits for a person.
func (h *Handler) Needs(ctx context.Context) (NeedList, error) {
	var f finding
	err := h.o.Engine.View(ctx, func(tx *bridge.Scene) error {
		f = finding{h: h, tx: tx, names: map[bridge.AgentID]string{}}
		for _, look := range []func() error{f.held, f.asked, f.doubtful, f.failed, f.gated, f.relays, f.budgets} {
			if err := look(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return NeedList{}, err
	}
	if h.o.Problem != nil && h.o.Problem() != "" {
		f.add(Need{Key: NeedAllowlist, Kind: NeedAllowlist, Text: "The allowlist file has an error. The bridge still uses the earlier version.", Line: h.o.Problem(), Next: "Correct the file. The bridge reads it again by itself."})
	}
	slices.SortStableFunc(f.needs, func(a, b Need) int {
		return cmp.Or(cmp.Compare(slices.Index(NeedKinds, a.Kind), slices.Index(NeedKinds, b.Kind)), a.Since.Compare(b.Since), strings.Compare(a.Key, b.Key))
	})
	return NeedList{Needs: append([]Need{}, f.needs...), Working: f.working}, nil
}

// finding collects what waits for a person.
type finding struct {
	h       *Handler
	tx      *bridge.Scene
	needs   []Need
	names   map[bridge.AgentID]string
	working int
}

func (f *finding) add(n Need) {
	n.Count = max(n.Count, 1)
	f.needs = append(f.needs, n)
}

// name is an agent's.
func (f *finding) name(id bridge.AgentID) (string, error) {
	if name, known := f.names[id]; known {
		return name, nil
	}
	a, err := f.tx.Agent(id)
	f.names[id] = a.Name
	return a.Name, err
}

// about is a Need about a command.
func (f *finding) about(c bridge.Command, kind string) (Need, error) {
	name, err := f.name(c.Agent)
	return Need{Key: string(c.ID), Kind: kind, Agent: string(c.Agent), AgentName: name, Turn: string(c.Turn), Command: string(c.ID), Relay: c.Relay, Since: c.UpdatedAt, Line: firstLine(commandWords(c))}, err
}

// commandWords are the words of a command that a yes would let through, "" for an action: its sentence names it.
func commandWords(c bridge.Command) string {
	if p, asks := c.Asks(); asks {
		return cmp.Or(CommandLine(p.Arguments), p.Tool)
	}
	return cmp.Or(c.Parsed.Prompt, c.Parsed.Message)
}

// CommandLine returns the command line of arguments that are nothing but one, and other arguments as they are.
func CommandLine(arguments string) string {
	var all map[string]string
	if json.Unmarshal([]byte(arguments), &all) == nil && len(all) == 1 && all["command"] != "" {
		return all["command"]
	}
	return arguments
}

// permissionKinds says in words what an agent at a relay wants to do.
var permissionKinds = map[string]string{
	"execute": "run a command", "edit": "change a file", "delete": "delete a file", "move": "move a file", "read": "read a file", "search": "search files", "fetch": "fetch a page",
}

// wants says in words what a command would do.
func wants(c bridge.Command) string {
	switch c.Parsed.Verb {
	case bridge.VerbPermission:
		p, _ := c.Asks()
		return fmt.Sprintf("asks on %s to %s", p.Relay, cmp.Or(permissionKinds[p.Kind], "use "+cmp.Or(p.Tool, p.Kind, "a tool")))
	case parser.Subagent:
		return "wants to launch an agent on " + cmp.Or(c.Canonical, c.Parsed.Repo)
	case parser.LocalAction:
		return fmt.Sprintf("wants to run %s on %s", cmp.Or(c.Canonical, c.Parsed.Action), cmp.Or(c.Relay, "the relay that offers it"))
	case parser.Remind:
		return "wants to be reminded: " + c.Parsed.When
	}
	return "asks for " + string(c.Parsed.Verb)
}

// firstLine is the beginning of a text that others wrote, on one line and at most 200 characters.
func firstLine(text string) string { return words.SafeLine(strings.TrimSpace(text), 200) }

func (f *finding) held() error {
	all, err := f.h.o.Engine.Waiting(f.tx)
	if err != nil {
		return err
	}
	for _, q := range all {
		n, err := f.about(q.Command, NeedApproval)
		if err != nil {
			return err
		}
		n.Text, n.Count, n.Next = words.SafeLine(n.AgentName+" "+wants(q.Command), 300), len(q.Same), "Approve it with the hash that the bridge showed you, or deny it."
		if p, asks := q.Command.Asks(); asks {
			if n.Kind = NeedPermission; !p.AtBridge {
				n.Kind, n.Next = NeedQuestion, fmt.Sprintf("Answer on %s: in the folder of relay.yaml, type drawbridge-relay approvals. Its relay.yaml says approve_by: machine.", p.Relay)
			}
		}
		f.add(n)
	}
	return nil
}

// asked finds the questions that wait at a machine alone.
func (f *finding) asked() error {
	all, err := bridge.AllAsked(f.tx, f.h.o.Now())
	if err != nil {
		return err
	}
	for _, questions := range all {
		for _, q := range questions {
			c, err := f.tx.Command(q.Command)
			if err != nil {
				return err
			}
			if c.State != bridge.CommandSending {
				continue // it stands among those that are held or uncertain
			}
			n, err := f.about(c, NeedQuestion)
			if err != nil {
				return err
			}
			n.Relay, n.Since, n.Text = q.Relay, q.Since, words.SafeLine(n.AgentName+" "+wants(c), 300)
			n.Next = fmt.Sprintf("Answer on %s: in the folder of relay.yaml, type drawbridge-relay approvals. Without an answer by %s UTC, the relay denies it.", q.Relay, q.Until.UTC().Format(time.TimeOnly))
			f.add(n)
		}
	}
	return nil
}

// doubtful finds commands and turns of which nobody knows whether they happened.
func (f *finding) doubtful() error {
	commands, err := f.tx.Commands(bridge.CommandFilter{State: bridge.CommandUncertain, Limit: maxNeeds})
	if err != nil {
		return err
	}
	doubted := map[bridge.CommandID]bool{}
	for _, c := range commands {
		doubted[c.ID] = true
		n, err := f.about(c, NeedUncertain)
		if err != nil {
			return err
		}
		n.Text, n.Next = words.SafeLine("The bridge does not know whether "+n.AgentName+" launched an agent on "+c.Canonical, 300), "Look for the agent in the cloud's list of agents, then say whether it is there."
		if c.Parsed.Verb == parser.LocalAction {
			n.Text, n.Next = words.SafeLine("The bridge does not know whether "+c.Canonical+" ran for "+n.AgentName, 300), "Ask the relay's journal, or say whether the action ran."
		}
		f.add(n)
	}
	turns, err := f.tx.Turns(bridge.TurnFilter{State: bridge.TurnUncertain, Limit: maxNeeds})
	if err != nil {
		return err
	}
	for _, t := range turns {
		a, err := f.tx.Agent(t.Agent)
		if err != nil {
			return err
		}
		if doubted[a.Command] && t.IsLaunch() {
			continue // the command stands for it
		}
		f.add(Need{Key: string(t.ID), Kind: NeedUncertain, Agent: string(t.Agent), AgentName: a.Name, Turn: string(t.ID), Since: cmp.Or(t.SentAt, t.CreatedAt), Line: firstLine(t.Text),
			Text: fmt.Sprintf("The bridge does not know whether %s got its turn %d", a.Name, t.Seq), Next: "Look at the agent's work, then say whether the turn arrived."})
	}
	return nil
}

// failed finds agents at the top of their tree whose last turn failed. What fails below is told to the parent, and what a person stopped rests.
func (f *finding) failed() error {
	return f.each(bridge.AgentFilter{State: bridge.AgentFailed, Roots: true}, func(a bridge.Agent) error {
		n := Need{Key: string(a.ID), Kind: NeedFailed, Agent: string(a.ID), AgentName: a.Name, Since: a.UpdatedAt, Line: firstLine(a.Trouble),
			Text: a.Name + " was not launched", Next: "Forget the agent, and launch it again under its name."}
		if a.Quarantined {
			n.Text = a.Name + " gets no more turns"
		}
		last, err := f.tx.Turns(bridge.TurnFilter{Agent: a.ID, Limit: 1})
		if err != nil {
			return err
		}
		if (a.External != "" || moving.Is(a)) && !a.Quarantined && len(last) > 0 && last[0].State == bridge.TurnFailed {
			n.Turn, n.Text, n.Line = string(last[0].ID), fmt.Sprintf("Turn %d of %s failed", last[0].Seq, a.Name), firstLine(cmp.Or(last[0].Trouble, a.Trouble))
			n.Next = "Let the agent continue, say the same again, or give the turn up."
		}
		f.add(n)
		return nil
	})
}

// gated finds agents that were shut.
func (f *finding) gated() error {
	return f.each(bridge.AgentFilter{State: bridge.AgentGated}, func(a bridge.Agent) error {
		f.add(Need{Key: string(a.ID), Kind: NeedGated, Agent: string(a.ID), AgentName: a.Name, Since: a.UpdatedAt, Line: firstLine(a.Trouble),
			Text: a.Name + " may not go on by itself", Next: "Say something to the agent. If its budget is used up, raise the budget in allowlist.yaml first."})
		return nil
	})
}

// each calls fn for the agents of a filter, but not for those of a tree that a person stopped: that was the person's word.
func (f *finding) each(filter bridge.AgentFilter, fn func(bridge.Agent) error) error {
	filter.Known, filter.Limit = true, maxNeeds
	agents, err := f.tx.Agents(filter)
	for _, a := range agents {
		tree, treeErr := f.tx.Tree(a.Root)
		if treeErr == nil && !tree.Stopped() {
			treeErr = fn(a)
		}
		err = errors.Join(err, treeErr)
	}
	return err
}

// relays finds relays that are stopped, that were copied, or that are away while work waits for them.
func (f *finding) relays() error {
	relays, err := f.tx.Relays(bridge.RelayFilter{State: bridge.RelayEnrolled, Limit: maxCountedAgents})
	if err != nil || len(relays) == 0 {
		return err
	}
	waits := map[string]int{}
	granted, err := f.tx.Commands(bridge.CommandFilter{State: bridge.CommandGranted, Verb: parser.LocalAction, Limit: maxNeeds})
	if err != nil {
		return err
	}
	for _, c := range granted {
		if c.Code == bridge.CodeRelayAway && c.Relay != "" {
			waits[c.Relay]++
		}
	}
	if f.h.o.RelayOf != nil {
		if err := f.each(bridge.AgentFilter{State: bridge.AgentBusy}, func(a bridge.Agent) error {
			waits[f.h.o.RelayOf(a.Runtime)]++
			return nil
		}); err != nil {
			return err
		}
	}
	for _, r := range relays {
		if now := f.h.o.Now(); !r.CopyAt.IsZero() && now.Sub(r.CopyAt) < copyShown && !r.Accepts(r.CopyEpoch, now) {
			f.add(Need{Key: "copy:" + r.Name, Kind: NeedCopy, Relay: r.Name, Text: "A copy of relay " + r.Name + " tries to connect. The bridge refuses it.",
				Next: "If you restored the relay's state from a backup, accept it: drawbridge relay accept " + r.Name})
		}
		n := Need{Key: "relay:" + r.Name, Relay: r.Name}
		switch {
		case !r.StoppedAt.IsZero():
			n.Kind, n.Since, n.Text, n.Next = NeedStopped, r.StoppedAt, "The kill switch of relay "+r.Name+" is on. Nothing runs there.", "On "+r.Name+", type: drawbridge-relay start"
		case r.Replica == "" && waits[r.Name] > 0:
			n.Kind, n.Since, n.Count, n.Text = NeedAway, r.SeenAt, waits[r.Name], "Relay "+r.Name+" is not connected, and work waits for it."
			n.Next = "On " + r.Name + ", type: drawbridge-relay run"
		default:
			continue
		}
		f.add(n)
	}
	return nil
}

// nearBudget is which part of a budget counts as nearly all, in tenths.
const nearBudget = 9

// budgets finds trees with an agent at work that have used nearly all of a budget. One that has used all is among those that are gated.
func (f *finding) budgets() error {
	roots := map[bridge.AgentID]bool{}
	for _, state := range []bridge.AgentState{bridge.AgentBusy, bridge.AgentWaiting} {
		agents, err := f.tx.Agents(bridge.AgentFilter{State: state, Known: true, Limit: maxCountedAgents})
		if err != nil {
			return err
		}
		for _, a := range agents {
			roots[a.Root] = true
		}
		if state == bridge.AgentBusy {
			f.working = len(agents)
		}
	}
	for id := range roots {
		root, err := f.tx.Agent(id)
		if err != nil {
			return err
		}
		used, _, err := f.tx.TreeUsage(id)
		if err != nil {
			return err
		}
		b := f.h.o.Policy().Budget(root.Names())
		var near []string
		for _, bound := range []struct {
			used, most float64
			text       string
		}{
			{float64(used.Launches), float64(b.Launches), "%.0f of %.0f launches"}, {float64(used.Turns), float64(b.Turns), "%.0f of %.0f turns"},
			{float64(used.Tokens), float64(b.Tokens), "%.0f of %.0f tokens"}, {dollars(used.CostMicros), float64(b.CostUSD), "$%.2f of $%.0f"},
		} {
			if bound.most > 0 && bound.used*10 >= bound.most*nearBudget {
				near = append(near, fmt.Sprintf(bound.text, bound.used, bound.most))
			}
		}
		if len(near) > 0 {
			f.add(Need{Key: "budget:" + string(id), Kind: NeedBudget, Agent: string(id), AgentName: root.Name, Line: strings.Join(near, ", "),
				Text: "The agents of " + root.Name + " have nearly used up their budget", Next: "Raise limits.tree in allowlist.yaml, or stop the tree."})
		}
	}
	return nil
}

// Needs lists what waits for a person.
func (c *Client) Needs(ctx context.Context) (NeedList, error) {
	return get[NeedList](ctx, c, "/v1/needs", nil)
}
