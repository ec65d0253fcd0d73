package api

import (
	"slices"
	"strings"
	"time"

	"drawbridge/api/timeline"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
)

// Agent is an agent as the API shows it.
type Agent struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Parent  string `json:"parent,omitempty"`
	Command string `json:"command,omitempty"`
	Root    string `json:"root"`
	Depth   int    `json:"depth"`
	// Runtime is where the agent lives: cursor, or a name below runtimes.
	Runtime string `json:"runtime"`
	// API is the version of the Cloud Agents API, or the Runtime's name again.
	API string `json:"api"`
	// External is the Cloud Agents API's own id; empty until the launch was answered.
	External string `json:"external,omitempty"`
	Repo     string `json:"repo"`
	Ref      string `json:"ref,omitempty"`
	URL      string `json:"url,omitempty"`
	State    string `json:"state"`
	ChatUser string `json:"chat_user,omitempty"`
	// Trouble says in words why the state is failed or gated.
	Trouble string `json:"trouble,omitempty"`
	// Doing is what an agent on a person's machine does since DoingSince: queued, starting, working, silent, asking, limited or idle; a
	// chat agent is also waiting for the model. Empty elsewhere. Nothing is said to it before NotBefore.
	Doing      string     `json:"doing,omitempty"`
	DoingSince *time.Time `json:"doing_since,omitempty"`
	NotBefore  *time.Time `json:"not_before,omitempty"`
	// Task is the first line of what the agent was launched for, 200 characters at most.
	Task string `json:"task,omitempty"`
	// Asked is what people at relays' machines are asked for this agent. Only lists and single look-ups have it.
	Asked []Asked `json:"asked,omitempty"`
	// Join and JoinDeadline say how results of several subagents come back; empty is one by one.
	Join         string `json:"join,omitempty"`
	JoinDeadline string `json:"join_deadline,omitempty"`
	// Tokens and CostUSD are what was last reported; Unmetered is true while the latest is unknown.
	Tokens    int64     `json:"tokens,omitempty"`
	CostUSD   float64   `json:"cost_usd,omitempty"`
	Unmetered bool      `json:"unmetered,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Now is what the agent does in one word, and since when: what people are asked for it first, then Doing of an agent that is busy, then State.
func (a Agent) Now() (word string, since time.Time) {
	switch {
	case len(a.Asked) > 0:
		return string(bridge.DoingAsking), a.Asked[0].Since
	case a.State == string(bridge.AgentBusy) && a.Doing != "" && a.DoingSince != nil:
		return a.Doing, *a.DoingSince
	}
	return a.State, a.UpdatedAt
}

func viewAgent(a bridge.Agent) Agent {
	user, _, _ := strings.Cut(a.ChatUser, chatGeneration)
	deadline := ""
	if a.JoinWithin > 0 {
		deadline = a.JoinWithin.String()
	}
	return Agent{
		Join: string(a.Join), JoinDeadline: deadline, Tokens: a.Tokens, CostUSD: dollars(a.CostMicros), Unmetered: a.Unmetered,
		ID: string(a.ID), Name: a.Name, Parent: string(a.Parent), Command: string(a.Command), Root: string(a.Root), Depth: a.Depth, Runtime: a.Runtime, API: bridge.Through(a.Runtime, a.API),
		External: a.External, Repo: a.Repo, Ref: a.Ref, URL: a.URL, State: string(a.State), ChatUser: user, Trouble: a.Trouble,
		Task: a.Prompt, Doing: string(a.Doing), DoingSince: timeOf(a.DoingSince), NotBefore: timeOf(a.NotBefore),
		CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
	}
}

// timeOf is nil for the zero time, which JSON then leaves out.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func dollars(micros int64) float64 { return float64(micros) / 1e6 }

// Turn is a turn as the API shows it.
type Turn struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	Seq   int64  `json:"seq"`
	Cause string `json:"cause"`
	// Text is what a person or a launch said; Sent is what went out.
	Text  string `json:"text,omitempty"`
	Sent  string `json:"sent,omitempty"`
	Depth int    `json:"depth"`
	State string `json:"state"`
	Run   string `json:"run,omitempty"`
	Reply string `json:"reply,omitempty"`
	// Status is the run's terminal word, such as FINISHED.
	Status   string `json:"status,omitempty"`
	Trouble  string `json:"trouble,omitempty"`
	Attempts int    `json:"attempts"`
	// Retry counts the turns before this one that said the same and failed.
	Retry int `json:"retry,omitempty"`
	// Joining is how many subagents of the turn must end before the agent hears of any; -1 is all.
	Joining int `json:"joining,omitempty"`
	// Stopped is true when a person stopped the turn. Its State says whether it has ended.
	Stopped bool `json:"stopped,omitempty"`
	// Spent is what the turn took, absent when it is unknown.
	Spent *Spent `json:"spent,omitempty"`
	// Commands are those of Reply in their order, with outputs clipped, and NearMisses the lines of Reply that only look like one. Single
	// look-ups alone have them.
	Commands   []Command  `json:"commands,omitempty"`
	NearMisses []NearMiss `json:"near_misses,omitempty"`
	// Clipped is true in a list when a text is longer than is shown there.
	Clipped   bool      `json:"clipped,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	SentAt    time.Time `json:"sent_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// Below groups agents of a list by their parents, the oldest first. Under "" stand roots, and agents whose parent is not in the list.
func Below(newestFirst []Agent) map[string][]Agent {
	known := map[string]bool{}
	for _, a := range newestFirst {
		known[a.ID] = true
	}
	below := map[string][]Agent{}
	for _, a := range slices.Backward(newestFirst) {
		parent := a.Parent
		if !known[parent] {
			parent = ""
		}
		below[parent] = append(below[parent], a)
	}
	return below
}

// Began is when the turn was sent to the agent, or else when it was asked for.
func (t Turn) Began() time.Time {
	if t.SentAt.IsZero() {
		return t.CreatedAt
	}
	return t.SentAt
}

// NearMiss is a line of a reply that looks like a command and is none. Code is a stable word for Reason; the code continued is for text directly
// under a SUBAGENT command, which is no part of its prompt.
type NearMiss struct {
	Line   int    `json:"line"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

func viewTurn(t bridge.Turn) Turn {
	return Turn{
		ID: string(t.ID), Agent: string(t.Agent), Seq: t.Seq, Cause: string(t.Cause), Text: t.Text, Sent: t.Sent, Depth: t.Depth,
		State: string(t.State), Run: t.Run, Reply: t.Reply, Status: string(t.Status), Trouble: t.Trouble, Attempts: t.Attempts, Retry: t.Retry, Joining: t.Joining, Stopped: t.Stopped, Spent: viewSpent(t.Spent),
		CreatedAt: t.CreatedAt, SentAt: t.SentAt, EndedAt: t.EndedAt,
	}
}

// maxListed bounds each text of a turn or command in a list, in characters.
const maxListed = 2000

func viewTurnInList(t bridge.Turn) Turn {
	v := viewTurn(t)
	for _, text := range []*string{&v.Text, &v.Sent, &v.Reply} {
		if short := firstRunes(*text, maxListed); short != *text {
			*text, v.Clipped = short, true
		}
	}
	return v
}

// Command is a command as the API shows it.
type Command struct {
	ID    string `json:"id"`
	Turn  string `json:"turn"`
	Agent string `json:"agent"`
	// AgentName is there in lists.
	AgentName string `json:"agent_name,omitempty"`
	Ordinal   int    `json:"ordinal"`
	Line      int    `json:"line"`
	Verb      string `json:"verb"`
	// Summary says in words what the command asks for; it begins behind the agent's name.
	Summary string `json:"summary"`
	// The arguments as the agent wrote them; nobody trusts them.
	Repo    string `json:"repo,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	Action  string `json:"action,omitempty"`
	When    string `json:"when,omitempty"`
	Message string `json:"message,omitempty"`
	State   string `json:"state"`
	// Ended is how a command ended whose state is reported: refused, failed or finished.
	Ended string `json:"ended,omitempty"`
	// Code and Reason say why it was refused or held, or what failed later.
	Code      string `json:"code,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Canonical string `json:"canonical,omitempty"`
	// Runtime and API are as in an Agent, once a SUBAGENT command made one; before, they are what the rule says.
	Runtime  string `json:"runtime,omitempty"`
	API      string `json:"api,omitempty"`
	Relay    string `json:"relay,omitempty"`
	Approved bool   `json:"approved,omitempty"`
	// Child is the agent that a SUBAGENT command made.
	Child   string   `json:"child,omitempty"`
	Outcome *Outcome `json:"outcome,omitempty"`
	// Due is when a reminder comes back.
	Due time.Time `json:"due,omitzero"`
	// Held says what a yes would do; nil when the command is not held, and in the list of one turn.
	Held *Held `json:"held,omitempty"`
	// Asked is what a person at the relay's machine is asked about the command, nil when nobody is.
	Asked     *Asked    `json:"asked,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Held is a held command as a person decides on it.
type Held struct {
	// Hash names what a yes would do now. Approve takes it.
	Hash string `json:"hash"`
	// Count is how many identical commands of the agent wait; Same are their ids, oldest first.
	Count int                `json:"count"`
	Same  []bridge.CommandID `json:"same"`
	// Effect is everything that a yes brings about, Context what helps to judge it. Both
	// hold what agents and relays wrote, as they wrote it.
	Effect  []bridge.Fact `json:"effect"`
	Context []bridge.Fact `json:"context"`
	// Refused says why the gate would not let it pass now.
	Refused string `json:"refused,omitempty"`
	// TurnSeq numbers the turn in which it was asked.
	TurnSeq int64 `json:"turn_seq"`
	// Outside is true unless it is recorded that nothing but the operator's words has reached the agent. What an agent in the cloud reads
	// by itself is not recorded. Again is true where the last yes to the same target in the tree was to this very effect.
	Outside bool `json:"outside,omitempty"`
	Again   bool `json:"again,omitempty"`
	// Shown is all of this in printable ASCII, whole, for a person to read.
	Shown string `json:"shown"`
}

func viewQuestion(q bridge.Question) Command {
	v := viewCommand(q.Command)
	v.Held = &Held{Hash: q.Hash, Count: len(q.Same), Same: q.Same, Effect: q.Effect, Context: q.Context, Refused: q.Refused, TurnSeq: q.Seq, Outside: q.Outside, Again: q.Again, Shown: q.Shown}
	return v
}

// Outcome is what came of a granted command.
type Outcome struct {
	Status     string `json:"status"`
	ExitCode   int    `json:"exit_code"`
	Stdout     string `json:"stdout,omitempty"`
	Stderr     string `json:"stderr,omitempty"`
	Omitted    int64  `json:"omitted,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	HTTPStatus int    `json:"http_status,omitempty"`
	Error      string `json:"error,omitempty"`
	// Message is what a subagent wrote when it reported its result itself.
	Message bridge.MessageID `json:"message,omitempty"`
}

func viewCommand(c bridge.Command) Command {
	v := Command{
		ID: string(c.ID), Turn: string(c.Turn), Agent: string(c.Agent), Ordinal: c.Ordinal, Line: c.Parsed.Line, Verb: string(c.Parsed.Verb), Summary: words.SafeLine(wants(c), 300),
		Repo: c.Parsed.Repo, Prompt: c.Parsed.Prompt, Action: c.Parsed.Action, When: c.Parsed.When, Message: c.Parsed.Message,
		State: string(c.State), Ended: string(c.Ended), Code: c.Code, Reason: c.Shown(), Canonical: c.Canonical, Runtime: c.Runtime, API: bridge.Through(c.Runtime, c.API), Relay: c.Relay, Approved: c.Approved,
		Child: string(c.Child), Due: c.Due, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
	if c.Outcome != nil {
		out := Outcome(*c.Outcome)
		v.Outcome = &out
	}
	return v
}

// Event is a line of the timeline as the API shows it.
type Event = timeline.Event

func viewEvent(e bridge.Event) Event { return timeline.View(e) }

// The lists. Next, when it is not empty, asks for what follows: as before in
// the next request, or as after for events.
type (
	// AgentList is newest first.
	AgentList struct {
		Agents []Agent `json:"agents"`
		Next   string  `json:"next,omitempty"`
	}
	// TurnList is newest first; long texts are clipped.
	TurnList struct {
		Turns []Turn `json:"turns"`
		Next  string `json:"next,omitempty"`
	}
	// CommandList is newest first, or in order when one turn was asked for. Of held
	// commands that are identical it has the oldest, unless one turn was asked for.
	CommandList struct {
		Commands []Command `json:"commands"`
		Next     string    `json:"next,omitempty"`
	}
	// EventList is oldest first, or newest first with order=newest.
	EventList struct {
		Events []Event `json:"events"`
		Next   string  `json:"next,omitempty"`
	}
	// Launched is a new agent and its first turn.
	Launched struct {
		Agent Agent `json:"agent"`
		Turn  Turn  `json:"turn"`
	}
)

// viewAll converts a list and is never nil, so that JSON shows [] and not null.
func viewAll[N, V any](nouns []N, view func(N) V) []V {
	views := make([]V, len(nouns))
	for i, n := range nouns {
		views[i] = view(n)
	}
	return views
}

// firstRunes returns the first n characters of s.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
