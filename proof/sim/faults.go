package sim

import (
	"math/rand/v2"
	"time"

	"drawbridge/bridge"
)

// Fault is a kind of thing that goes wrong.
type Fault string

// The faults of a request to the cloud or the relay.
const (
	faultLostBefore      Fault = "call: no effect and no answer"
	faultLostAfter       Fault = "call: effect and no answer"
	faultLateEffect      Fault = "call: no answer, and the effect comes later"
	faultHang            Fault = "call: nothing until the timeout"
	faultRepeated        Fault = "call: the request arrives twice"
	faultUnreachable503  Fault = "call: unreachable, surely no effect"
	faultRateLimited     Fault = "call: 429"
	faultBusy            Fault = "call: busy"
	faultUsageLimited    Fault = "call: usage limit"
	faultUnauthenticated Fault = "call: the key does not count for a while"
	faultRejected        Fault = "call: refused for good"
	faultServerError     Fault = "read: 5xx"
	faultStaleRead       Fault = "read: an answer behind the truth"
	faultAmbiguous       Fault = "read: several runs could be ours"
)

// The faults of the process, its clock and its store.
const (
	faultCrashBeforeCall   Fault = "crash before a call's effect"
	faultCrashAfterCall    Fault = "crash after a call's effect"
	faultCrashBeforeCommit Fault = "crash before a commit"
	faultCrashAfterCommit  Fault = "crash after a commit"
	faultCrashAtRest       Fault = "crash between two works"
	faultStopInCall        Fault = "stopped in the middle of a call"
	faultPanic             Fault = "a handler panics"
	faultStoreFails        Fault = "store: an update fails"
	faultCommitUnknown     Fault = "store: committed, and the caller is told otherwise"
	faultOverlap           Fault = "others act in the middle of a call or before a commit"
	faultPause             Fault = "paused beyond the lease in a call or before a commit, others act"
	faultClockForward      Fault = "clock jumps forward"
	faultClockBack         Fault = "clock jumps back"
	faultRestored          Fault = "database restored from an older copy"
	faultStalled           Fault = "paused for long after a commit, others act"
	faultNarrowed          Fault = "allowlist narrowed for a while"
)

// The faults of the world outside.
const (
	faultWebhookLost     Fault = "webhook lost"
	faultWebhookTwice    Fault = "webhook delivered twice"
	faultWebhookLate     Fault = "webhook late, behind others"
	faultWebhookReplayed Fault = "old webhook replayed"
	faultHiddenLaunch    Fault = "a v0 launch that no look-up finds"
	faultWrongRepo       Fault = "the API reports another repository"
	faultForeignRun      Fault = "somebody else speaks to the agent"
	faultRunBroken       Fault = "a run ends without FINISHED"
	faultOversize        Fault = "a reply too large to be read"
	faultRelayRefuses    Fault = "the relay refuses or fails an action"
	faultRelayAsks       Fault = "the relay wants the operator's word"
	faultRelayDown       Fault = "the relay is away for longer than anybody waits"
	faultLongRun         Fault = "a run takes much longer than others"
)

// The faults of agents on a relay.
const (
	faultHostLimited          Fault = "hosted: the account is limited"
	faultHostRefuses          Fault = "hosted: the model refuses"
	faultHostHung             Fault = "hosted: the agent hangs"
	faultHostCrashed          Fault = "hosted: the agent's process ends"
	faultHostGone             Fault = "hosted: the session is gone"
	faultHostLogin            Fault = "hosted: the login is missing"
	faultHostAsks             Fault = "hosted: the agent asks a person"
	faultHostRelayKilled      Fault = "hosted: the relay is killed"
	faultHostRelayKilledAtEnd Fault = "hosted: the relay is killed before it has written an answer down"
	faultHostKilledAtEnd      Fault = "hosted: an agent is killed after its answer, which its own file loses"
	faultHostKilledAsking     Fault = "hosted: an agent is killed while it asks"
	faultHostCut              Fault = "hosted: the connection is lost"
)

// What the operator does that cuts plans short.
const (
	faultSmallBudget       Fault = "a budget that is soon used up"
	faultTreeStopped       Fault = "the operator stops a tree"
	faultTurnStopped       Fault = "the operator stops a turn"
	faultReminderCancelled Fault = "the operator cancels a reminder"
)

// allFaults are all kinds; over many seeds each must have struck.
var allFaults = []Fault{
	faultLostBefore, faultLostAfter, faultLateEffect, faultHang, faultRepeated, faultUnreachable503, faultRateLimited, faultBusy, faultUsageLimited, faultUnauthenticated, faultRejected,
	faultServerError, faultStaleRead, faultAmbiguous,
	faultCrashBeforeCall, faultCrashAfterCall, faultCrashBeforeCommit, faultCrashAfterCommit, faultCrashAtRest, faultStopInCall, faultPanic, faultStoreFails, faultCommitUnknown,
	faultOverlap, faultPause, faultStalled, faultClockForward, faultClockBack, faultRestored, faultNarrowed,
	faultWebhookLost, faultWebhookTwice, faultWebhookLate, faultWebhookReplayed, faultHiddenLaunch, faultWrongRepo, faultForeignRun, faultRunBroken, faultOversize, faultRelayRefuses, faultRelayAsks, faultRelayDown, faultLongRun,
	faultSmallBudget, faultTreeStopped, faultTurnStopped, faultReminderCancelled,
}

// hostedFaults are those of a relay with agents. Plays without one draw nothing for them.
var hostedFaults = []Fault{
	faultHostLimited, faultHostRefuses, faultHostHung, faultHostCrashed, faultHostGone, faultHostLogin, faultHostAsks, faultHostRelayKilled, faultHostRelayKilledAtEnd, faultHostKilledAtEnd, faultHostKilledAsking, faultHostCut,
}

// Which faults may strike where: in a launch, a follow-up, an action, a look-up,
// the look-up of a follow-up, a cancellation, a commit. One that stands twice is as much more likely.
var (
	inLaunch = []Fault{faultLostBefore, faultLostAfter, faultLateEffect, faultLateEffect, faultLateEffect, faultHang, faultRepeated, faultUnreachable503, faultRateLimited, faultUsageLimited, faultUnauthenticated, faultRejected,
		faultCrashBeforeCall, faultCrashAfterCall, faultStopInCall, faultPanic, faultOverlap, faultPause}
	inSend   = append([]Fault{faultBusy}, inLaunch...)
	inAction = []Fault{faultLostBefore, faultLostAfter, faultLateEffect, faultHang, faultRepeated, faultUnreachable503, faultRateLimited, faultBusy,
		faultCrashBeforeCall, faultCrashAfterCall, faultStopInCall, faultPanic, faultOverlap, faultPause}
	inRead     = []Fault{faultServerError, faultStaleRead, faultRateLimited, faultHang, faultCrashBeforeCall, faultStopInCall, faultPanic, faultOverlap, faultPause}
	inLookup   = []Fault{faultServerError, faultRateLimited, faultHang, faultCrashBeforeCall, faultStopInCall, faultOverlap, faultPause}
	inFindSend = append([]Fault{faultAmbiguous, faultAmbiguous, faultAmbiguous, faultAmbiguous}, inRead...)
	inCancel   = []Fault{faultServerError, faultLostBefore, faultLostAfter, faultHang, faultRateLimited, faultCrashBeforeCall, faultCrashAfterCall, faultStopInCall, faultOverlap, faultPause}
	inCommit   = []Fault{faultCrashBeforeCommit, faultCrashAfterCommit, faultStoreFails, faultCommitUnknown, faultOverlap, faultPause, faultStalled}
)

// fate is which faults a seed has, and how often they strike.
type fate struct {
	enabled map[Fault]bool
	// rate is the chance of a fault at each place where one may strike, more or
	// less: at commits, which a play passes most often, times commits; at calls
	// with an effect, and at the look-ups behind them, times calls.
	rate, commits, calls float64
	// length is how long things go wrong at most.
	length time.Duration
}

// drawHosted draws the fate of a play with agents on a relay.
func (f fate) drawHosted(rng *rand.Rand) {
	share := []float64{0.3, 0.6, 1}[rng.IntN(3)]
	for _, kind := range hostedFaults {
		f.enabled[kind] = rng.Float64() < share
	}
	f.enabled[faultRestored] = false // the record of a relay is not put back with the database
}

// drawFate draws a fate; a calm one has no fault.
func drawFate(rng *rand.Rand, calm bool) fate {
	f := fate{enabled: map[Fault]bool{}, length: 20 * time.Minute}
	share := []float64{0.15, 0.5, 1}[rng.IntN(3)]
	rates := []float64{0, 0.02, 0.05, 0.1, 0.2, 0.35}
	f.rate = rates[rng.IntN(len(rates))]
	f.commits = []float64{1, 0.3, 0.05}[rng.IntN(3)]
	f.calls = []float64{1, 2.5, 2.5}[rng.IntN(3)]
	for _, kind := range allFaults {
		f.enabled[kind] = rng.Float64() < share
	}
	if rng.IntN(10) == 0 { // one line that loses every other answer, and nothing else
		f.enabled = map[Fault]bool{faultLostBefore: true, faultLostAfter: true, faultLateEffect: true, faultBusy: true, faultAmbiguous: true}
		f.rate, f.calls, f.commits, f.length = 0.3, 2.5, 0, time.Hour
	}
	if calm {
		f.rate = 0
	}
	return f
}

// faultAnswers are what the cloud or the relay says when a request surely had no effect.
var faultAnswers = map[Fault]bridge.Error{
	faultUnreachable503:  {Kind: bridge.Unavailable, Message: "it cannot be reached"},
	faultRateLimited:     {Kind: bridge.RateLimited, Message: "slow down"},
	faultBusy:            {Kind: bridge.Busy, Message: "busy"},
	faultUsageLimited:    {Kind: bridge.UsageLimited, Message: "the plan's limit is reached"},
	faultUnauthenticated: {Kind: bridge.Unauthenticated, Message: "the key does not count"},
	faultRejected:        {Kind: bridge.Invalid, Message: "it does not like this request"},
	faultServerError:     {Kind: bridge.Unavailable, Message: "internal error there"},
	faultAmbiguous:       {Kind: bridge.Conflict, Message: "several runs could be ours"},
}
