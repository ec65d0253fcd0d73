// Package fault names what goes wrong in the plays of package simulation, and
// where it may strike. It makes nothing go wrong itself. Rule of thumb: a kind
// that no place knows does not belong here, and each must have struck over many
// seeds.
package fault

// Kind is a kind of thing that goes wrong.
type Kind string

// The faults of a request to the cloud or the relay.
const (
	LostBefore      Kind = "call: no effect and no answer"
	LostAfter       Kind = "call: effect and no answer"
	LateEffect      Kind = "call: no answer, and the effect comes later"
	Hang            Kind = "call: nothing until the timeout"
	Repeated        Kind = "call: the request arrives twice"
	Unreachable503  Kind = "call: unreachable, surely no effect"
	RateLimited     Kind = "call: 429"
	Busy            Kind = "call: busy"
	UsageLimited    Kind = "call: usage limit"
	Unauthenticated Kind = "call: the key does not count for a while"
	Rejected        Kind = "call: refused for good"
	ServerError     Kind = "read: 5xx"
	StaleRead       Kind = "read: an answer behind the truth"
	Ambiguous       Kind = "read: several runs could be ours"
)

// The faults of the process, its clock and its store.
const (
	CrashBeforeCall   Kind = "crash before a call's effect"
	CrashAfterCall    Kind = "crash after a call's effect"
	CrashBeforeCommit Kind = "crash before a commit"
	CrashAfterCommit  Kind = "crash after a commit"
	CrashAtRest       Kind = "crash between two works"
	StopInCall        Kind = "stopped in the middle of a call"
	Panic             Kind = "a handler panics"
	StoreFails        Kind = "store: an update fails"
	CommitUnknown     Kind = "store: committed, and the caller is told otherwise"
	Overlap           Kind = "others act in the middle of a call or before a commit"
	Pause             Kind = "paused beyond the lease in a call or before a commit, others act"
	ClockForward      Kind = "clock jumps forward"
	ClockBack         Kind = "clock jumps back"
	Restored          Kind = "database restored from an older copy"
	Narrowed          Kind = "allowlist narrowed for a while"
)

// The faults of the world outside.
const (
	WebhookLost     Kind = "webhook lost"
	WebhookTwice    Kind = "webhook delivered twice"
	WebhookLate     Kind = "webhook late, behind others"
	WebhookReplayed Kind = "old webhook replayed"
	HiddenLaunch    Kind = "a v0 launch that no look-up finds"
	WrongRepo       Kind = "the API reports another repository"
	ForeignRun      Kind = "somebody else speaks to the agent"
	RunBroken       Kind = "a run ends without FINISHED"
	Oversize        Kind = "a reply too large to be read"
	RelayRefuses    Kind = "the relay refuses or fails an action"
	RelayAsks       Kind = "the relay wants the operator's word"
	RelayDown       Kind = "the relay is away for longer than anybody waits"
	LongRun         Kind = "a run takes much longer than others"
)

// What the operator does that cuts plans short.
const (
	SmallBudget       Kind = "a budget that is soon used up"
	TreeStopped       Kind = "the operator stops a tree"
	ReminderCancelled Kind = "the operator cancels a reminder"
)

// All are all kinds; over many seeds each must have struck.
var All = []Kind{
	LostBefore, LostAfter, LateEffect, Hang, Repeated, Unreachable503, RateLimited, Busy, UsageLimited, Unauthenticated, Rejected,
	ServerError, StaleRead, Ambiguous,
	CrashBeforeCall, CrashAfterCall, CrashBeforeCommit, CrashAfterCommit, CrashAtRest, StopInCall, Panic, StoreFails, CommitUnknown,
	Overlap, Pause, ClockForward, ClockBack, Restored, Narrowed,
	WebhookLost, WebhookTwice, WebhookLate, WebhookReplayed, HiddenLaunch, WrongRepo, ForeignRun, RunBroken, Oversize, RelayRefuses, RelayAsks, RelayDown, LongRun,
	SmallBudget, TreeStopped, ReminderCancelled,
}

// Which faults may strike where: in a launch, a follow-up, an action, a look-up,
// the look-up of a follow-up, a cancellation, a commit. One that stands twice is as much more likely.
var (
	InLaunch = []Kind{LostBefore, LostAfter, LateEffect, LateEffect, LateEffect, Hang, Repeated, Unreachable503, RateLimited, UsageLimited, Unauthenticated, Rejected,
		CrashBeforeCall, CrashAfterCall, StopInCall, Panic, Overlap, Pause}
	InSend   = append([]Kind{Busy}, InLaunch...)
	InAction = []Kind{LostBefore, LostAfter, LateEffect, Hang, Repeated, Unreachable503, RateLimited, Busy,
		CrashBeforeCall, CrashAfterCall, StopInCall, Panic, Overlap, Pause}
	InRead     = []Kind{ServerError, StaleRead, RateLimited, Hang, CrashBeforeCall, StopInCall, Panic, Overlap, Pause}
	InFindSend = append([]Kind{Ambiguous}, InRead...)
	InCancel   = []Kind{ServerError, LostBefore, LostAfter, Hang, RateLimited, CrashBeforeCall, CrashAfterCall, StopInCall, Overlap, Pause}
	InCommit   = []Kind{CrashBeforeCommit, CrashAfterCommit, StoreFails, CommitUnknown, Overlap, Pause}
)
