package bridge

import (
	"cmp"
	"context"
	"time"

	"drawbridge/policy"
)

// CloudRuntime is the Runtime that speaks the Cloud Agents API, as bridge.yaml names it. The names of all others stand below runtimes.
const CloudRuntime = "cursor"

// API versions of the Cloud Agents API, as Agent.API and rules name them. Agents of other Runtimes have none.
const (
	APIv0 = "v0"
	APIv1 = "v1"
)

// InCloud reports whether a Runtime is the one of the Cloud Agents API. Empty means that one, too.
func InCloud(runtime string) bool { return runtime == "" || runtime == CloudRuntime }

// Through names where an agent lives in one word: the version of the Cloud Agents API, or else the Runtime. Events, the hash of a
// [Question] and the field api of the HTTP API hold this word; they held it before Runtime and API were two fields.
func Through(runtime, api string) string { return cmp.Or(api, runtime) }

// Repeatable reports whether a launch may be sent again under the same AgentID, because a repeat meets its earlier self.
// Every Runtime keeps this (package proof/runtimes) but the v0 API. api is empty outside of the cloud.
func Repeatable(api string) bool { return api != APIv0 }

// RunState is where a run stands, in one vocabulary for every Runtime.
type RunState string

// The run states. The last four are terminal and absorbing.
const (
	RunCreating  RunState = "CREATING"
	RunRunning   RunState = "RUNNING"
	RunFinished  RunState = "FINISHED"
	RunError     RunState = "ERROR"
	RunCancelled RunState = "CANCELLED"
	RunExpired   RunState = "EXPIRED"
)

// Terminal reports whether the run is over.
func (s RunState) Terminal() bool {
	return s == RunFinished || s == RunError || s == RunCancelled || s == RunExpired
}

// Launch asks a Runtime to create an agent and to give it its first turn.
// Everything that is sent comes from the Grant and from these fixed fields.
type Launch struct {
	Grant policy.Grant
	// Runtime and API are the agent's; see [Agent]. They were settled when the launch
	// was recorded. A repeat must ask the same ones, whatever the rules and the
	// configuration say by now. An empty API is the Grant's version, or else the Runtime's default.
	Runtime, API string
	// AgentID is "bc-" and a UUID derived from the operation key; v1 sends it,
	// so that a repeated launch meets its earlier self. v0 ignores it.
	AgentID string
	// Op is the operation's id (not the key itself), used in the v0 branch name.
	Op   string
	Name string
	// Ref is the branch, tag or commit to start from; empty is the default branch.
	Ref string
	Home
	// Webhook is nil when no public URL is configured; v1 ignores it.
	Webhook *Webhook
	// Owner is our own id of the agent.
	Owner AgentID
	// Door is nil for an agent that gets no tools of ours; v0 ignores it.
	Door *Door
}

// Home is where an agent on a person's machine works.
type Home struct {
	// Within is whose workspace the agent works in; nil for one of its own.
	Within *Within
	// ReadOnly is true for an agent that may change nothing there, as [RoleReviewer] says.
	ReadOnly bool
}

// RoleReviewer is the role of an agent that reads and changes nothing.
const RoleReviewer = "reviewer"

// Within is a folder of another agent's workspace on the same machine.
type Within struct {
	// Name and AgentID are what the launch of the workspace's agent had; see [Launch].
	Name, AgentID string
	// Subdir is the folder below that workspace, with / between its parts; "" is the workspace itself.
	Subdir string
}

// Door is where an agent calls the bridge's tools, and the token that lets it
// in. A repeated launch sends the same.
type Door struct {
	URL   string
	Token string
}

// Webhook is where a v0 agent's end is reported, and the secret that signs it
// (32 to 256 characters).
type Webhook struct {
	URL    string
	Secret string
}

// RunRef names one run of one external agent.
type RunRef struct {
	// Runtime and API are the agent's; see [Agent].
	Runtime, API string
	// Agent is the external agent id.
	Agent string
	// Run is the v1 run id; v0 has none.
	Run string
	// Marker is the line that the turn's text began with, "" for a first turn.
	// It finds a follow-up again where the API gives it no id of its own.
	Marker string
	// Over tells Cancel that the agent gets no more turns, so that its process need not wait for one.
	Over bool
}

// Started is what the API said of a run that it accepted.
type Started struct {
	Agent string
	Run   string
	// Repo is the repository as the API reports it, "" when it reported none.
	Repo   string
	URL    string
	Branch string
}

// FollowUp asks a Runtime to give an existing agent its next turn.
type FollowUp struct {
	// Runtime and API are the agent's; see [Agent].
	Runtime, API string
	// Agent is the external agent id.
	Agent string
	// LastRun is the agent's latest run as far as we know, "" for v0.
	LastRun string
	// Marker is the turn's, and "" for a first turn that goes on after a limit.
	Marker string
	// Text is what the turn says. A turn that goes on after a limit has the text of before: the
	// Runtime looks whether the agent has it.
	Text string
	// Owner and Door are as in a Launch. An API that was given a door at the launch
	// takes this one in its place for the run.
	Owner AgentID
	Door  *Door
}

// Found is what a look-up says of a request whose answer was lost.
type Found string

// The answers of a look-up. The zero Found is FoundUnknown, so that a forgotten answer repeats nothing.
const (
	// FoundUnknown means that the look-up cannot tell: what it does not show may have happened. It is never sent again.
	FoundUnknown Found = ""
	// FoundThere means that the request took effect.
	FoundThere Found = "found"
	// FoundAbsent means that the request has not taken effect. Within the settle time of its Runtime it still may; after that it is
	// sent again.
	FoundAbsent Found = "absent"
)

// Observation is what the API itself says of a run.
type Observation struct {
	State RunState
	// Reply is the agent's final text, whole; empty until the run is over.
	Reply  string
	Repo   string
	Branch string
	PR     string
	// Detail is the API's own word on a failure, often empty. While the run goes on it says what happened to it, such as that the process of
	// its agent ended and another one goes on.
	Detail   string
	Duration time.Duration
	// Cause says why the run ended, where its Runtime tells; the cloud does not.
	Cause EndCause
	// Final is set for a failure that the next try would meet, too: the turn is not tried again by itself.
	Final bool
	// NotBefore is the time before which nothing is to be said to the agent, the zero time for none.
	NotBefore time.Time
	// Seen is what the Runtime itself saw of the run's work, line by line, apart from what the agent says. It holds names that the
	// agent chose, so that it needs a prefix where it is shown in a turn.
	Seen string
	// Spent is what the run took, nil when its Runtime does not say it here.
	Spent *Spent
	// Doing says what the agent does while its run goes on, since DoingSince, where its Runtime tells; "" otherwise.
	Doing      Doing
	DoingSince time.Time
}

// Unsaid reports whether the agent surely got nothing of the turn.
func (o Observation) Unsaid() bool { return o.Cause == CauseUnsaid }

// Doing is what an agent on a person's machine does.
type Doing string

// What an agent may do. A queued turn waits for a slot of its machine.
const (
	DoingQueued Doing = "queued"
	// DoingStarting is for an agent whose process starts.
	DoingStarting Doing = "starting"
	DoingWorking  Doing = "working"
	DoingSilent   Doing = "silent"
	DoingAsking   Doing = "asking"
	DoingIdle     Doing = "idle"
	// DoingNoModel is for an agent whose model does not answer; it is asked again.
	DoingNoModel Doing = "waiting for the model"
	// DoingSleep is for an agent whose account is limited.
	DoingSleep Doing = "limited"
)

// EndCause says why a run of an agent on a person's machine ended.
type EndCause string

// The causes.
const (
	CauseAnswered EndCause = "answered"
	// CauseDeclined means that the agent's model refused to answer.
	CauseDeclined EndCause = "refused"
	CauseLimited  EndCause = "limited"
	CauseStopped  EndCause = "stopped"
	CauseHung     EndCause = "hung"
	CauseCrashed  EndCause = "crashed"
	// CauseFailed means that the agent itself reported an error, such as a model that it cannot reach.
	CauseFailed       EndCause = "failed"
	CauseAsking       EndCause = "asking"
	CauseSessionGone  EndCause = "session_gone"
	CauseLoginMissing EndCause = "login_missing"
	// CauseUnsaid means that the agent got nothing of the turn, so that it can be said again.
	CauseUnsaid EndCause = "unsaid"
	// CauseUnclear means that the agent's machine cannot tell whether the agent got the turn. Only a person can.
	CauseUnclear EndCause = "unclear"
)

// Launcher creates external agents.
type Launcher interface {
	// Launch sends one create request. It refuses an invalid Grant. Safe for
	// concurrent use. A second call with the same AgentID meets 409 at a v1 API
	// and then reports the existing agent, so that twice is fine there; at a v0
	// API it is not: call FindLaunch first. Errors are *Error: Unclear when the
	// agent may exist, RateLimited, UsageLimited, Denied, Invalid, Unavailable.
	Launch(ctx context.Context, l Launch) (Started, error)
	// FindLaunch looks for an earlier attempt whose answer was lost. With an error nothing is known.
	FindLaunch(ctx context.Context, l Launch) (s Started, found Found, err error)
}

// Sender gives existing external agents further turns.
type Sender interface {
	// Send sends one follow-up. Twice is not fine: call FindSend first when an
	// earlier attempt is in doubt. Errors as for Launch, and Busy.
	Send(ctx context.Context, f FollowUp) (Started, error)
	// FindSend looks for an earlier attempt whose answer was lost, by its run or marker.
	FindSend(ctx context.Context, f FollowUp) (s Started, found Found, err error)
}

// Observer reads and stops runs. Both methods are safe for concurrent use and may be repeated.
type Observer interface {
	// Observe reads the authority on the run. It returns TooLarge when the
	// reply exceeds the runtime's limit.
	Observe(ctx context.Context, r RunRef) (Observation, error)
	// Cancel ends a run. A run that is over already is no error.
	Cancel(ctx context.Context, r RunRef) error
}

// Follower is a Runtime that can wait for the end of a run instead of asking
// again and again. It is optional.
type Follower interface {
	// Follow returns nil when the run seems to be over, which is a hint and no
	// proof, and an error when there is nothing to wait at. It ends with ctx. Safe
	// for concurrent use; twice is fine.
	Follow(ctx context.Context, r RunRef) error
}

// Evidence is what the API itself says about what an agent made, beside the
// state of its run. It is read for showing and for budgets, never as proof that a
// task was done.
type Evidence struct {
	// Artifacts are the files that the agent left, in the order in which the API
	// lists them; at most 100.
	Artifacts []Artifact
	// Usage is what the agent has consumed since its launch, nil when the API does
	// not tell: at v0 always, at v1 where the account has no access to it.
	Usage *Usage
	// Spent is what the run consumed that RunRef names, nil when the API does not tell it (yet).
	Spent *Tokens
	// Unread says in words what could not be read, or not whole; "" when all was.
	// That the API does not offer a part at all is not said here.
	Unread string
}

// Artifact is one file in the API's list. The agent chose its name, so that Path
// is text of an agent: shown in a turn it needs a prefix like any other.
type Artifact struct {
	Path string
	// Size is in bytes and never negative.
	Size int64
}

// Usage sums an agent's runs. It may lag behind the runs, and it only grows.
type Usage struct {
	// Tokens counts every kind of token: input, output, cache writes and reads.
	Tokens int64
	// CostMicros is what was charged in millionths of a US dollar, 0 when not told.
	CostMicros int64
	// CostKnown is false when the API told no cost, which is not a cost of nothing.
	CostKnown bool
}

// Tokens counts what one run consumed, by kind. Input leaves out what came from caches or went into them.
type Tokens struct{ Input, Output, CacheWrite, CacheRead int64 }

// All is the sum of every kind.
func (t Tokens) All() int64 { return t.Input + t.Output + t.CacheWrite + t.CacheRead }

// Spent is what a turn took, as its agent or its API says it.
type Spent struct {
	// Tokens is nil when it is unknown.
	Tokens *Tokens
	// CostMicros is in millionths of a US dollar, nil when it is unknown.
	CostMicros *int64
	// Model is the last model that the agent used, "" when it is unknown.
	Model string
}

// Plus adds what a later run of the same turn took.
func (s *Spent) Plus(later *Spent) *Spent {
	if s == nil || later == nil {
		return cmp.Or(s, later)
	}
	sum := Spent{Tokens: cmp.Or(later.Tokens, s.Tokens), CostMicros: cmp.Or(later.CostMicros, s.CostMicros), Model: cmp.Or(later.Model, s.Model)}
	if a, b := s.Tokens, later.Tokens; a != nil && b != nil {
		sum.Tokens = &Tokens{a.Input + b.Input, a.Output + b.Output, a.CacheWrite + b.CacheWrite, a.CacheRead + b.CacheRead}
	}
	if a, b := s.CostMicros, later.CostMicros; a != nil && b != nil {
		micros := *a + *b
		sum.CostMicros = &micros
	}
	return &sum
}

// Inspector is a Runtime that can say more of an agent than the state of a run. It is optional.
type Inspector interface {
	// Inspect reads artifacts and usage of an agent. Parts that could not be read
	// are named in Evidence.Unread; an error means that nothing could, and is of a
	// kind as for Observe. Both speak of the whole agent, whichever run r names.
	// Safe for concurrent use; twice is fine.
	Inspect(ctx context.Context, r RunRef) (Evidence, error)
}

// Runtime executes turns.
type Runtime interface {
	Launcher
	Sender
	Observer
}

// ActionRequest asks a relay to run one action.
type ActionRequest struct {
	Grant policy.Grant
	// Request is the idempotency key: the same id never runs twice at one relay.
	Request string
	// Line and Agent are the agent's own line and name, for whoever approves at the relay; both untrusted.
	Line, Agent string
	// Approved is an operator's approval, or nil.
	Approved *ActionApproval
}

// ActionApproval is an operator's word on one definition of an action, as the relay had it then.
type ActionApproval struct {
	Definition string
	At         time.Time
}

// ActionStatus is what came of an action at the relay.
type ActionStatus string

// The action statuses.
const (
	ActionExecuted ActionStatus = "executed"
	ActionRefused  ActionStatus = "refused"
	ActionFailed   ActionStatus = "failed"
	ActionTimedOut ActionStatus = "timed_out"
)

// MaxOutput is how many bytes the bridge keeps of each output stream of an action, as they are shown. It keeps the end.
const MaxOutput = 512 << 10

// ActionOutcome is the relay's answer. Both outputs are at most [MaxOutput] bytes.
type ActionOutcome struct {
	Status   ActionStatus
	ExitCode int
	Stdout   string
	Stderr   string
	// Omitted counts the bytes of both streams that the relay or the bridge dropped.
	Omitted  int64
	Duration time.Duration
	// Error says why an action did not run or did not end by itself.
	Error string
	// HTTPStatus is the relay's answer status, for the seed's /chat words.
	HTTPStatus int
	// Wants is set when nothing ran because the relay wants an operator's approval: the definition to approve.
	Wants string
	// Shows is what that definition would run, in the relay's words; untrusted.
	Shows string
}

// ActionRunner runs granted actions at relays. Safe for concurrent use. It
// refuses an invalid Grant. An unreachable relay is Unavailable and not
// Unclear; an answer that was lost after sending is Unclear.
type ActionRunner interface {
	RunAction(ctx context.Context, r ActionRequest) (ActionOutcome, error)
	// LookUp asks the relay's journal what became of a request. It never runs anything; twice is fine. Unavailable when the
	// relay cannot be asked now.
	LookUp(ctx context.Context, q ActionLookup) (ActionFinding, error)
}

// ActionLookup names an action that was asked for.
type ActionLookup struct {
	// Request is the request's id. Relay may be "" for the relay that the request was given to.
	Request, Relay string
	// Action, Line and Agent are those of the request; a relay's journal knows it by all of them.
	Action, Line, Agent string
}

// ActionKnown is what a relay's journal says of a request.
type ActionKnown string

// The words of a journal.
const (
	// JournalOver comes with the outcome.
	JournalOver ActionKnown = "over"
	// JournalOpen means that the action runs, or waits for a person at the relay's machine.
	JournalOpen ActionKnown = "open"
	// JournalInterrupted means that the relay ended while the action ran; nobody knows what it came to.
	JournalInterrupted ActionKnown = "interrupted"
	// JournalNever means that the action did not run: the very process that it was sent to never got it.
	JournalNever ActionKnown = "never"
	// JournalNothing means that this journal does not know the request, which proves nothing: it may be another journal than the
	// one that the request was sent to, or have forgotten it.
	JournalNothing ActionKnown = "nothing"
)

// ActionFinding is what a look-up found. Outcome is set when Known is JournalOver.
type ActionFinding struct {
	// Relay is the one that was asked.
	Relay   string
	Known   ActionKnown
	Outcome ActionOutcome
}
