package simulation

import "time"

// Fault is a kind of thing that goes wrong.
type Fault string

// The faults of a request to the cloud or the relay.
const (
	LostBefore      Fault = "call: no effect and no answer"
	LostAfter       Fault = "call: effect and no answer"
	LateEffect      Fault = "call: no answer, and the effect comes later"
	Hang            Fault = "call: nothing until the timeout"
	Repeated        Fault = "call: the request arrives twice"
	Unreachable503  Fault = "call: unreachable, surely no effect"
	RateLimited     Fault = "call: 429"
	Busy            Fault = "call: busy"
	UsageLimited    Fault = "call: usage limit"
	Unauthenticated Fault = "call: the key does not count for a while"
	Rejected        Fault = "call: refused for good"
	ServerError     Fault = "read: 5xx"
	StaleRead       Fault = "read: an answer behind the truth"
	Ambiguous       Fault = "read: several runs could be ours"
)

// The faults of the process, its clock and its store.
const (
	CrashBeforeCall   Fault = "crash before a call's effect"
	CrashAfterCall    Fault = "crash after a call's effect"
	CrashBeforeCommit Fault = "crash before a commit"
	CrashAfterCommit  Fault = "crash after a commit"
	CrashAtRest       Fault = "crash between two works"
	StopInCall        Fault = "stopped in the middle of a call"
	Panic             Fault = "a handler panics"
	StoreFails        Fault = "store: an update fails"
	CommitUnknown     Fault = "store: committed, and the caller is told otherwise"
	Overlap           Fault = "others act in the middle of a call or before a commit"
	Pause             Fault = "paused beyond the lease in a call or before a commit, others act"
	ClockForward      Fault = "clock jumps forward"
	ClockBack         Fault = "clock jumps back"
	Restored          Fault = "database restored from an older copy"
	Narrowed          Fault = "allowlist narrowed for a while"
)

// The faults of the world outside.
const (
	WebhookLost     Fault = "webhook lost"
	WebhookTwice    Fault = "webhook delivered twice"
	WebhookLate     Fault = "webhook late, behind others"
	WebhookReplayed Fault = "old webhook replayed"
	HiddenLaunch    Fault = "a v0 launch that no look-up finds"
	WrongRepo       Fault = "the API reports another repository"
	ForeignRun      Fault = "somebody else speaks to the agent"
	RunBroken       Fault = "a run ends without FINISHED"
	Oversize        Fault = "a reply too large to be read"
	RelayRefuses    Fault = "the relay refuses or fails an action"
	RelayDown       Fault = "the relay is away for longer than anybody waits"
)

// Faults are all kinds; over many seeds each must have struck.
var Faults = []Fault{
	LostBefore, LostAfter, LateEffect, Hang, Repeated, Unreachable503, RateLimited, Busy, UsageLimited, Unauthenticated, Rejected,
	ServerError, StaleRead, Ambiguous,
	CrashBeforeCall, CrashAfterCall, CrashBeforeCommit, CrashAfterCommit, CrashAtRest, StopInCall, Panic, StoreFails, CommitUnknown,
	Overlap, Pause, ClockForward, ClockBack, Restored, Narrowed,
	WebhookLost, WebhookTwice, WebhookLate, WebhookReplayed, HiddenLaunch, WrongRepo, ForeignRun, RunBroken, Oversize, RelayRefuses, RelayDown,
}

// Which faults may strike where.
var (
	inLaunch = []Fault{LostBefore, LostAfter, LateEffect, LateEffect, LateEffect, Hang, Repeated, Unreachable503, RateLimited, UsageLimited, Unauthenticated, Rejected,
		CrashBeforeCall, CrashAfterCall, StopInCall, Panic, Overlap, Pause}
	inSend   = append([]Fault{Busy}, inLaunch...)
	inAction = []Fault{LostBefore, LostAfter, LateEffect, Hang, Repeated, Unreachable503, RateLimited, Busy,
		CrashBeforeCall, CrashAfterCall, StopInCall, Panic, Overlap, Pause}
	inRead     = []Fault{ServerError, StaleRead, RateLimited, Hang, CrashBeforeCall, StopInCall, Panic, Overlap, Pause}
	inFindSend = append([]Fault{Ambiguous}, inRead...)
	inCancel   = []Fault{ServerError, LostBefore, LostAfter, Hang, RateLimited, CrashBeforeCall, CrashAfterCall, StopInCall, Overlap, Pause}
	inCommit   = []Fault{CrashBeforeCommit, CrashAfterCommit, StoreFails, CommitUnknown, Overlap, Pause}
)

// The bounds of the promises: what is later than these is the documented hole
// of an API without idempotency keys (facts: Effects over an unreliable API).
const (
	settle = 5 * time.Minute
	// latest is how long after a request left, or was about to, it may take effect.
	latest = 3 * time.Minute
	// lag is how long an effect may stay hidden from look-ups.
	lag = 30 * time.Second
	// skew is how far two replicas' clocks may be apart.
	skew = 20 * time.Second
)

// fate is which faults a seed has, and how often they strike.
type fate struct {
	enabled map[Fault]bool
	// rate is the chance of a fault at each place where one may strike, more or
	// less: at commits, which a play passes most often, times commits; at calls
	// with an effect, and at the look-ups behind them, times calls.
	rate, commits, calls float64
}

func (w *world) drawFate(calm bool) fate {
	f := fate{enabled: map[Fault]bool{}}
	share := []float64{0.15, 0.5, 1}[w.rng.IntN(3)]
	rates := []float64{0, 0.02, 0.05, 0.1, 0.2, 0.35}
	f.rate = rates[w.rng.IntN(len(rates))]
	f.commits = []float64{1, 0.3, 0.05}[w.rng.IntN(3)]
	f.calls = []float64{1, 2.5, 2.5}[w.rng.IntN(3)]
	for _, kind := range Faults {
		f.enabled[kind] = w.rng.Float64() < share
	}
	if calm {
		f.rate = 0
	}
	return f
}

// pick returns the fault that strikes now, mostly none.
func (w *world) pick(kinds []Fault, weight float64) Fault {
	if w.calm || w.fate.rate == 0 || w.rng.Float64() >= w.fate.rate*weight {
		return ""
	}
	kind := kinds[w.rng.IntN(len(kinds))]
	if !w.fate.enabled[kind] {
		return ""
	}
	return kind
}

// strikes decides about one fault of the world outside, whose chance is given.
func (w *world) strikes(kind Fault, chance float64) bool {
	if w.calm || w.fate.rate == 0 || !w.fate.enabled[kind] || w.rng.Float64() >= chance {
		return false
	}
	w.hit(kind)
	return true
}

func (w *world) hit(kind Fault) {
	w.cover.Faults[kind]++
	w.note("fault", string(kind))
}
