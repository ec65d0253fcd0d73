package bridge

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"drawbridge/parser"
)

// The typed ids. Each carries its prefix in the text, so that a log line
// cannot confuse them.
type (
	// AgentID is "agt_…".
	AgentID string
	// TurnID is "trn_…".
	TurnID string
	// CommandID is "cmd_…".
	CommandID string
	// NoticeID is "ntc_…".
	NoticeID string
	// CompletionID is "cpl_…".
	CompletionID string
	// DeliveryID is "dlv_…".
	DeliveryID string
)

// Agent is someone we can deliver a Turn to.
type Agent struct {
	ID   AgentID
	Name string
	// Role is what the configuration calls the agent, besides its name: the
	// orchestrators of its repository, separated by blanks. What is narrowed for a
	// role is narrowed for the agent, whatever name it was launched under.
	Role string
	// Quarantined agents get no turns: the API reported another repository than was granted.
	Quarantined bool
	// Parent and Command are empty for an agent that a person launched.
	Parent  AgentID
	Command CommandID
	// Root is the agent's own id when it has no parent.
	Root  AgentID
	Depth int
	// Runtime is where the agent lives: CloudRuntime, or a name below runtimes in
	// bridge.yaml. The operator alone moves an agent.
	Runtime string
	// API is the version of the Cloud Agents API, for good; empty in every other Runtime.
	API string
	// OpKey is the hex operation key of the launch; the external id of a v1
	// agent is made from it.
	OpKey    string
	External string
	LastRun  string
	// Repo is canonical; Ref is where the agent starts from, often empty.
	Repo  string
	Ref   string
	URL   string
	State AgentState
	// ChatUser is the seed's user_id for an agent behind /chat.
	ChatUser string
	// Trouble says in words why the state is failed or gated.
	Trouble string
	// Prompt is the first line of what the agent was launched for, 200 characters at most.
	Prompt string
	// Task says how far the task is that the agent was launched for by another;
	// it stays TaskOpen for an agent that a person launched.
	Task Task
	// Join says how the results of the subagents that one turn launches come
	// back; JoinWithin is how long the agent waits for them at most.
	Join       Join
	JoinWithin time.Duration
	// Tokens and CostMicros (millionths of a US dollar) are what is known of its
	// usage; Unmetered is true while the latest is unknown.
	Tokens     int64
	CostMicros int64
	Unmetered  bool
	// NotBefore is the time before which nothing is said to the agent, because its account is limited; the zero time for none.
	NotBefore time.Time
	// Doing is what the agent does since DoingSince, where its Runtime tells; "" elsewhere.
	Doing      Doing
	DoingSince time.Time
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// forgottenMark stands in the name of an agent that was forgotten. A name that is given never holds it.
const forgottenMark = "~"

// Forgotten reports whether the agent gave its name back: an operator forgot it, or it was never launched and another
// took its name.
func (a Agent) Forgotten() bool { return strings.Contains(a.Name, forgottenMark) }

// MayAct returns a Conflict error for an agent that was forgotten: a call of its own that
// is still under way has no effect.
func (a Agent) MayAct() error {
	if a.Forgotten() {
		return Errorf(Conflict, "agent %s was forgotten and may not act any more; launch another one", a.ID)
	}
	return nil
}

// Forget gives the agent's name back. The name keeps its beginning, so that a record shows who it was.
func (a *Agent) Forget() {
	if !a.Forgotten() {
		a.Name += forgottenMark + string(a.ID[len(a.ID)-6:])
	}
}

// Task says how far a subagent's task is, as its parent knows it.
type Task string

// The states of a task. TaskWaiting: the parent was told that the task waits for
// a person. TaskFailed: the parent was told of a failure, and a later success is
// still news. TaskDone: the parent was told the one result.
const (
	TaskOpen    Task = ""
	TaskWaiting Task = "waiting"
	TaskFailed  Task = "failed"
	TaskDone    Task = "done"
)

// Names are the words that a policy narrows the agent by: its roles and its name.
func (a Agent) Names() []string { return append(strings.Fields(a.Role), a.Name) }

// Join is a policy for the results of several subagents of one turn: "each",
// "any", "all", or how many of them as a decimal number. Empty is "each".
type Join string

// The join policies that have a name.
const (
	JoinEach Join = "each"
	JoinAny  Join = "any"
	JoinAll  Join = "all"
)

// joinAll is Need's word for all of them, however many they come to be.
const joinAll = -1

// Need returns how many results end the wait: 0 when each comes by itself, -1
// for all. ok is false for a word that is no policy; at most 100 can be waited for.
func (j Join) Need() (need int, ok bool) {
	switch j {
	case "", JoinEach:
		return 0, true
	case JoinAny:
		return 1, true
	case JoinAll:
		return joinAll, true
	}
	n, err := strconv.Atoi(string(j))
	return n, err == nil && n >= 1 && n <= 100 && strconv.Itoa(n) == string(j)
}

// DefaultJoinWithin is how long an agent waits for joined results when nobody
// said; MaxJoinWithin is the longest that may be said.
const (
	DefaultJoinWithin = time.Hour
	MaxJoinWithin     = 30 * 24 * time.Hour
)

// Within returns the deadline of the policy for one that was said: the default
// for 0, and 0 where nothing waits. Invalid for a word that is no policy, and
// for a deadline out of bounds.
func (j Join) Within(said time.Duration) (time.Duration, error) {
	need, ok := j.Need()
	switch {
	case !ok:
		return 0, Errorf(Invalid, "join %.20q: use each, all, any or a number from 1 to 100", string(j))
	case said < 0 || said > MaxJoinWithin:
		return 0, Errorf(Invalid, "a join's deadline may be at most %s", MaxJoinWithin)
	case need == 0:
		return 0, nil
	case said == 0:
		return DefaultJoinWithin, nil
	}
	return said, nil
}

// Tree is what the agents under one root, the root included, have used of
// their budget, and whether a person stopped them. Its counters never shrink,
// except that a corrected report of usage may.
type Tree struct {
	Root AgentID
	// Launches counts subagents that were granted, Turns those that were sent.
	Launches int
	Turns    int
	// Tokens and CostMicros (millionths of a US dollar) sum what is known of the
	// usage; Unmetered counts agents whose latest usage is unknown.
	Tokens     int64
	CostMicros int64
	Unmetered  int
	// StoppedAt is the zero time while the tree may go on.
	StoppedAt time.Time
	Why       string
}

// Stopped reports whether a person stopped the tree.
func (t Tree) Stopped() bool { return !t.StoppedAt.IsZero() }

// Cause says why an agent got a turn.
type Cause string

// The causes. A person's turn starts a chain at depth 0.
const (
	CauseUser          Cause = "user"
	CauseLaunch        Cause = "launch"
	CauseCompletion    Cause = "completion"
	CauseActionOutcome Cause = "action_outcome"
	CauseMessage       Cause = "message"
	CauseReminder      Cause = "reminder"
	CauseReport        Cause = "report"
)

// Turn is one message delivered to an agent, and its reply.
type Turn struct {
	ID    TurnID
	Agent AgentID
	// Seq numbers an agent's turns from 1.
	Seq   int64
	Cause Cause
	// Text is what a person or a launch says; empty for a turn made of notices alone.
	Text string
	// Said are the items among Text, in no order; a text of an older bridge has none.
	Said []Said
	// Sent is the text as it went out behind the marker: Text and the joined notices.
	Sent string
	// Depth counts the turns since a person last spoke in this chain.
	Depth int
	// Streak counts the turns in a row that only reported refusals and near misses.
	Streak int
	State  TurnState
	Run    string
	Reply  string
	// Status is the terminal word of the turn's last run that ended, empty before.
	Status RunState
	// Trouble says in words what went wrong, for a person.
	Trouble  string
	Attempts int
	// Retry counts the turns before this one that said the same and failed.
	Retry int
	// Joining is how many of the subagents that the turn launched must end before
	// the agent hears of any: -1 for all, 0 when it waits for none (any more).
	Joining int
	// Stopped is true when a person stopped the turn: its run is cancelled, and nothing that it says runs.
	Stopped bool
	// Got is true when the agent surely has the turn, because a limit cut its run off.
	Got bool
	// Spent is what the runs of the turn took together, nil when it is unknown.
	Spent *Spent
	// DoubtSince is when an attempt was first left without an answer.
	DoubtSince time.Time
	CreatedAt  time.Time
	SentAt     time.Time
	EndedAt    time.Time
}

// IsLaunch reports whether a turn makes its agent: the first one does, every other is a follow-up.
func (t Turn) IsLaunch() bool { return t.Seq == 1 }

// GoesOn reports whether the agent has the turn already and was cut off in it, by a limit or by the end of its process. It is asked to go on, and not told again. A turn
// that was cut off has a Status, also when the run with which it was to go on never began.
func (t Turn) GoesOn() bool {
	return (t.Run != "" || t.Status != "") && (t.State == TurnQueued || t.State == TurnDelivering)
}

// Marker is the first line of a follow-up's text. It finds the turn again
// where an answer was lost (facts: Effects over an unreliable API).
func (t Turn) Marker() string { return "[bridge " + string(t.ID) + "]" }

// SayFirst puts the words of an earlier turn in front of the turn's own. It
// reports false, and changes nothing, when both are too long for one turn.
func (t *Turn) SayFirst(before Turn) bool {
	both := strings.Trim(before.Text+betweenWords+t.Text, "\n")
	if len(both) > MaxText {
		return false
	}
	t.Text, t.Said = both, slices.Concat(before.Said, t.Said)
	return true
}

const betweenWords = "\n\n"

// Says reports whether a text is what the turn says, or stands in front of it.
func (t Turn) Says(text string) bool {
	return text != "" && (t.Text == text || strings.HasPrefix(t.Text, text+betweenWords))
}

// Command is what an agent's text asks for; nobody trusts it.
type Command struct {
	ID      CommandID
	Turn    TurnID
	Agent   AgentID
	Ordinal int
	// Parsed holds verb, line and arguments as written.
	Parsed parser.Command
	OpKey  string
	State  CommandState
	// Code and Reason are the policy's word, or what failed later.
	Code      string
	Reason    string
	Canonical string
	// Runtime and API are those of the repository's rule, often empty; once a SUBAGENT
	// command has its agent, those of the agent.
	Runtime, API string
	Relay        string
	// ApprovalKey names what a person approves when the command is held.
	ApprovalKey string
	// Approved is true once a person let the command pass.
	Approved bool
	// Child is the agent that a SUBAGENT command makes.
	Child AgentID
	// Outcome is the relay's answer to a LOCAL_ACTION, or how the child's task ended.
	Outcome *CommandOutcome
	// Ended is the state in which the command ended, once the agent was told it and State is CommandReported; "" before.
	Ended CommandState
	// Due is when a REMIND comes back, the zero time for everything else.
	Due       time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Waits says that a granted action waits for its relay; "" for every other command. An action that waits behind another of the
// same relay has no reason of its own yet.
func (c Command) Waits() string {
	switch {
	case c.Parsed.Verb != parser.LocalAction || c.State != CommandGranted && c.State != CommandSending:
		return ""
	case c.Relay == "":
		return "waiting for its relay"
	}
	return "waiting for relay " + c.Relay
}

// Shown is the reason as people and agents read it: why a command is where it is.
func (c Command) Shown() string {
	if c.State == CommandGranted && c.Reason == "" {
		return c.Waits()
	}
	return c.Reason
}

// NoExitCode stands where an action has no exit code, or nobody knows it.
const NoExitCode = -1

// CommandOutcome is what came of a granted command.
type CommandOutcome struct {
	Status     string `json:"status"`
	ExitCode   int    `json:"exit_code"`
	Stdout     string `json:"stdout,omitempty"`
	Stderr     string `json:"stderr,omitempty"`
	Omitted    int64  `json:"omitted,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	HTTPStatus int    `json:"http_status,omitempty"`
	Error      string `json:"error,omitempty"`
	// Message is what a subagent wrote when it reported its result itself.
	Message MessageID `json:"message,omitempty"`
}

// Notice is one thing that happened to an agent and waits to be told to it.
// Notices that wait for a busy agent are joined into its next turn.
type Notice struct {
	ID    NoticeID
	Agent AgentID
	Cause Cause
	// Text is what the bridge itself says.
	Text Words
	// Untrusted is text that others wrote. It is kept apart and enters the turn with every line prefixed.
	Untrusted string
	Depth     int
	// Streak counts the turns in a row that only reported refusals and near misses, this one included.
	Streak int
	// Quiet notices wait for another reason to speak to the agent.
	Quiet bool
	// Commands are those whose end the notice tells.
	Commands   []CommandID
	Completion CompletionID
	// Join is the turn whose subagents' results are joined, or the broadcast whose
	// answers are (HeldFor); Withheld is true while the notice waits for the others.
	Join     TurnID
	Withheld bool
	// Message is the one that the notice brings, empty for everything else.
	Message MessageID
	// Turn carries the notice; empty while it waits.
	Turn TurnID
	// Item names the news over restored databases; Source and Author say whose words
	// it brings. Asked is the agent's own turn that asked for it, "" when none did.
	Item      ItemID
	Source    Origin
	Author    string
	Asked     TurnID
	CreatedAt time.Time
}

// Urgency says what turn notices that wait for an agent call for, and how deep
// it stands in its chain and its streak; no cause when all are quiet.
func Urgency(waiting []Notice) (cause Cause, depth, streak int) {
	for _, n := range waiting {
		depth = max(depth, n.Depth+1)
		if !n.Quiet && (cause == "" || cause == CauseReport) {
			cause = n.Cause
		}
		streak = max(streak, n.Streak)
	}
	if cause != CauseReport {
		streak = 0
	}
	return cause, depth, streak
}

// Source says how we learned of a completion.
type Source string

// The sources. Whoever is first wins; the rest are duplicates.
const (
	SourceWebhook Source = "webhook"
	SourceStream  Source = "stream"
	SourcePoll    Source = "poll"
)

// Completion is a run's end, recorded once per (operation, run, status).
type Completion struct {
	ID CompletionID
	// Op is the id of the launched agent, which is the operation.
	Op     AgentID
	Turn   TurnID
	Run    string
	Status RunState
	Source Source
	// Evidence says in words what the API confirmed of the run, and what the
	// agent only claimed.
	Evidence string
	// CarriedBy is the parent's turn that brought it back; it counts as
	// delivered only when that turn ran.
	CarriedBy   TurnID
	DeliveredAt time.Time
	CreatedAt   time.Time
}

// Verdicts of a Delivery.
const (
	VerdictAccepted  = "accepted"
	VerdictDuplicate = "duplicate"
	VerdictStored    = "stored"
)

// Delivery is one webhook as received: raw body, headers and verdict. Only
// deliveries whose signature was right become one.
type Delivery struct {
	ID DeliveryID
	Op AgentID
	// External, Status and SentAt are what the signed body says.
	External   string
	Event      string
	Status     string
	SentAt     string
	WebhookID  string
	Headers    map[string][]string
	Body       []byte
	Verdict    string
	ReceivedAt time.Time
}
