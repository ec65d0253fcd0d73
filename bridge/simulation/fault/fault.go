// Package fault names what goes wrong in the plays of package simulation, and
// where it may strike. It makes nothing go wrong itself. Rule of thumb: a kind
// that no place knows does not belong here, and each must have struck over many
// seeds.
package fault

import (
	"math/rand/v2"
	"time"
)

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
	Stalled           Kind = "paused for long after a commit, others act"
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
	Overlap, Pause, Stalled, ClockForward, ClockBack, Restored, Narrowed,
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
	InLookup   = []Kind{ServerError, RateLimited, Hang, CrashBeforeCall, StopInCall, Overlap, Pause}
	InFindSend = append([]Kind{Ambiguous, Ambiguous, Ambiguous, Ambiguous}, InRead...)
	InCancel   = []Kind{ServerError, LostBefore, LostAfter, Hang, RateLimited, CrashBeforeCall, CrashAfterCall, StopInCall, Overlap, Pause}
	InCommit   = []Kind{CrashBeforeCommit, CrashAfterCommit, StoreFails, CommitUnknown, Overlap, Pause, Stalled}
)

// Fate is which faults a seed has, and how often they strike.
type Fate struct {
	Enabled map[Kind]bool
	// Rate is the chance of a fault at each place where one may strike, more or
	// less: at commits, which a play passes most often, times Commits; at calls
	// with an effect, and at the look-ups behind them, times Calls.
	Rate, Commits, Calls float64
	// Length is how long things go wrong at most.
	Length time.Duration
}

// Draw draws a fate; a calm one has no fault.
func Draw(rng *rand.Rand, calm bool) Fate {
	f := Fate{Enabled: map[Kind]bool{}, Length: 20 * time.Minute}
	share := []float64{0.15, 0.5, 1}[rng.IntN(3)]
	rates := []float64{0, 0.02, 0.05, 0.1, 0.2, 0.35}
	f.Rate = rates[rng.IntN(len(rates))]
	f.Commits = []float64{1, 0.3, 0.05}[rng.IntN(3)]
	f.Calls = []float64{1, 2.5, 2.5}[rng.IntN(3)]
	for _, kind := range All {
		f.Enabled[kind] = rng.Float64() < share
	}
	if rng.IntN(10) == 0 { // one line that loses every other answer, and nothing else
		f.Enabled = map[Kind]bool{LostBefore: true, LostAfter: true, LateEffect: true, Busy: true, Ambiguous: true}
		f.Rate, f.Calls, f.Commits, f.Length = 0.3, 2.5, 0, time.Hour
	}
	if calm {
		f.Rate = 0
	}
	return f
}
