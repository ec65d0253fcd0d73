package script

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// FaultKind names one way in which the simulated service misbehaves.
type FaultKind string

// The faults. Unless said otherwise a fault applies to both API versions.
const (
	LostCreateResponse   FaultKind = "lost_create_response"   // the agent is created, then the connection is cut
	SlowCreate           FaultKind = "slow_create"            // the answer to a create comes Delay late (35 s when 0)
	Create5xx            FaultKind = "create_5xx"             // a create answers Status (500 when 0), before or after its effect
	FollowupLostResponse FaultKind = "followup_lost_response" // the follow-up is accepted, then the connection is cut
	FollowupInvisible    FaultKind = "followup_invisible"     // the v0 conversation hides a follow-up for Delay (5 s when 0)
	RunsLag              FaultKind = "runs_lag"               // the v1 list of runs hides those younger than Delay (5 s when 0)
	RateLimit            FaultKind = "rate_limit"             // 429 rate_limit_exceeded, Retry-After is Delay (1 s when 0)
	UsageLimit           FaultKind = "usage_limit"            // 429 usage_limit_exceeded on creates and follow-ups
	Cancel500            FaultKind = "cancel_500"             // a cancel or stop answers 500 and has no effect
	GarbageResponse      FaultKind = "garbage_response"       // 200 with a body that is not JSON, after the effect unless When is before
	Hang                 FaultKind = "hang"                   // no answer until the client gives up or Delay (60 s when 0) is over, then a cut
	ErrorShape           FaultKind = "error_shape"            // errors have the shape Shape: A, B, C, D or E

	WrongRepo             FaultKind = "wrong_repo"               // the new agent reports the repository As
	FinishedWithoutResult FaultKind = "finished_without_result"  // the run finishes and has no text
	GitMissing            FaultKind = "git_missing"              // the run pushes and git stays absent
	OversizedResult       FaultKind = "oversized_result"         // the reply is filled up to Bytes (1 MiB when 0)
	RunErrorWithoutDetail FaultKind = "run_error_without_detail" // the run ends in ERROR with neither result nor error
	SchemefulRepoURLs     FaultKind = "schemeful_repo_urls"      // v1 repository URLs come with https://

	CancelledReplayFinished FaultKind = "cancelled_replay_finished" // the replayed status of a cancelled run says FINISHED
	StreamDrop              FaultKind = "stream_drop"               // the stream is cut after Count events (2 when 0)
	StreamUnavailable       FaultKind = "stream_unavailable"        // the stream says error stream_unavailable, done, and ends
	Stream410               FaultKind = "stream_410"                // 410 stream_expired

	WebhookDuplicate  FaultKind = "webhook_duplicate"    // a delivery is sent Count times more (1 when 0), each with its own id
	WebhookLate       FaultKind = "webhook_late"         // a delivery starts Delay (5 s when 0) late
	WebhookNever      FaultKind = "webhook_never"        // a delivery is not sent
	WebhookOutOfOrder FaultKind = "webhook_out_of_order" // a delivery waits until another one has been sent, or Delay (5 s when 0)
)

// Op is one operation, the same word for v0 and v1.
type Op string

// The operations. A v0 follow-up and a v1 run creation are both followup, a v0 stop and a v1 cancel are both cancel; webhook
// and run are no requests but happen later.
const (
	OpMe           Op = "me"
	OpModels       Op = "models"
	OpRepositories Op = "repositories"
	OpCreate       Op = "create"
	OpList         Op = "list"
	OpGet          Op = "get"
	OpDelete       Op = "delete"
	OpArchive      Op = "archive"
	OpUnarchive    Op = "unarchive"
	OpConversation Op = "conversation"
	OpFollowup     Op = "followup"
	OpCancel       Op = "cancel"
	OpRuns         Op = "runs"
	OpRun          Op = "run"
	OpStream       Op = "stream"
	OpUsage        Op = "usage"
	OpArtifacts    Op = "artifacts"
	OpDownload     Op = "download"
	OpWebhook      Op = "webhook"
)

// API is a version of the API.
type API string

// The versions.
const (
	V0 API = "v0"
	V1 API = "v1"
)

// The words of Fault.When.
const (
	Before = "before" // instead of the effect
	After  = "after"  // the effect has happened, the answer is lost or late
)

// Fault switches one misbehavior on for the calls that API, Op and Repo select, Times times. Fields that a kind does not name
// have no meaning for it.
type Fault struct {
	Kind FaultKind `yaml:"fault" json:"fault"`
	// API is v0, v1 or empty for both.
	API API `yaml:"api" json:"api,omitempty"`
	// Op narrows rate_limit, garbage_response, hang and error_shape to one operation; empty is all.
	Op Op `yaml:"op" json:"op,omitempty"`
	// Repo is a repository as in AgentRule; empty is all, and calls that concern none match only then.
	Repo string `yaml:"repo" json:"repo,omitempty"`
	// Times is how many matching calls it hits; 0 is every one.
	Times  int      `yaml:"times" json:"times,omitempty"`
	When   string   `yaml:"when" json:"when,omitempty"`
	Delay  Duration `yaml:"delay" json:"delay,omitempty"`
	Count  int      `yaml:"count" json:"count,omitempty"`
	Status int      `yaml:"status" json:"status,omitempty"`
	Shape  string   `yaml:"shape" json:"shape,omitempty"`
	As     string   `yaml:"as" json:"as,omitempty"`
	Bytes  int      `yaml:"bytes" json:"bytes,omitempty"`
}

// maxOversize bounds the memory that one scripted reply may take, in bytes.
const maxOversize = 64 << 20

// faultSpec says where a kind applies; whens is empty for a kind that is not an answer.
type faultSpec struct {
	ops   []Op     // nil: every operation, or Fault.Op
	whens []string // the first is the default
	fill  Fault    // what zero fields become
}

var faultSpecs = map[FaultKind]faultSpec{
	LostCreateResponse:   {ops: []Op{OpCreate}, whens: []string{After}},
	SlowCreate:           {ops: []Op{OpCreate}, whens: []string{After, Before}, fill: Fault{Delay: seconds(35)}},
	Create5xx:            {ops: []Op{OpCreate}, whens: []string{Before, After}, fill: Fault{Status: 500}},
	FollowupLostResponse: {ops: []Op{OpFollowup}, whens: []string{After}},
	FollowupInvisible:    {ops: []Op{OpFollowup}, fill: Fault{Delay: seconds(5)}},
	RunsLag:              {ops: []Op{OpRuns}, fill: Fault{Delay: seconds(5)}},
	RateLimit:            {whens: []string{Before}, fill: Fault{Delay: seconds(1)}},
	UsageLimit:           {ops: []Op{OpCreate, OpFollowup}, whens: []string{Before}},
	Cancel500:            {ops: []Op{OpCancel}, whens: []string{Before}},
	GarbageResponse:      {whens: []string{After, Before}},
	Hang:                 {whens: []string{Before, After}, fill: Fault{Delay: seconds(60)}},
	ErrorShape:           {},

	WrongRepo:             {ops: []Op{OpCreate}, fill: Fault{As: "github.com/somebody-else/other"}},
	FinishedWithoutResult: {ops: []Op{OpCreate, OpFollowup}},
	GitMissing:            {ops: []Op{OpCreate, OpFollowup}},
	OversizedResult:       {ops: []Op{OpCreate, OpFollowup}, fill: Fault{Bytes: 1 << 20}},
	RunErrorWithoutDetail: {ops: []Op{OpCreate, OpFollowup}},
	SchemefulRepoURLs:     {},

	CancelledReplayFinished: {ops: []Op{OpStream}},
	StreamDrop:              {ops: []Op{OpStream}, fill: Fault{Count: 2}},
	StreamUnavailable:       {ops: []Op{OpStream}},
	Stream410:               {ops: []Op{OpStream}},

	WebhookDuplicate:  {ops: []Op{OpWebhook}, fill: Fault{Count: 1}},
	WebhookLate:       {ops: []Op{OpWebhook}, fill: Fault{Delay: seconds(5)}},
	WebhookNever:      {ops: []Op{OpWebhook}},
	WebhookOutOfOrder: {ops: []Op{OpWebhook}, fill: Fault{Delay: seconds(5)}},
}

func seconds(n int) Duration { return Duration(n) * Duration(time.Second) }

// Check says what is wrong with f, for a person to read.
func (f Fault) Check() error {
	spec, ok := faultSpecs[f.Kind]
	switch {
	case !ok:
		return fmt.Errorf("fault %q is not known; known: %s", f.Kind, kindList())
	case f.API != "" && f.API != V0 && f.API != V1:
		return fmt.Errorf("api %q must be v0 or v1", f.API)
	case f.Op != "" && spec.ops != nil && !slices.Contains(spec.ops, f.Op):
		return fmt.Errorf("op %q does not go with fault %q", f.Op, f.Kind)
	case f.Op != "" && !slices.Contains(ops, f.Op):
		return fmt.Errorf("op %q is not known", f.Op)
	case f.When != "" && !slices.Contains(spec.whens, f.When):
		return fmt.Errorf("when %q does not go with fault %q", f.When, f.Kind)
	case f.Kind == ErrorShape && !slices.Contains([]string{"A", "B", "C", "D", "E"}, f.Shape):
		return fmt.Errorf("shape %q must be A, B, C, D or E", f.Shape)
	case f.Times < 0 || f.Count < 0 || f.Bytes < 0 || f.Delay < 0 || f.Bytes > maxOversize:
		return fmt.Errorf("times, count and delay must not be negative, bytes must be 0 to %d", maxOversize)
	case f.Status != 0 && (f.Status < 500 || f.Status > 599):
		return fmt.Errorf("status %d must be 500 to 599", f.Status)
	}
	if _, ok := RepoPath(f.As); f.As != "" && !ok {
		return fmt.Errorf("as %q must be github.com/owner/name", f.As)
	}
	if _, err := path.Match(f.Repo, ""); err != nil {
		return fmt.Errorf("repo %q is not a pattern", f.Repo)
	}
	return nil
}

// ops is every operation that a fault may name.
var ops = []Op{
	OpMe, OpModels, OpRepositories, OpCreate, OpList, OpGet, OpDelete, OpArchive, OpUnarchive, OpConversation, OpFollowup,
	OpCancel, OpRuns, OpRun, OpStream, OpUsage, OpArtifacts, OpDownload, OpWebhook,
}

func kindList() string {
	kinds := slices.Sorted(maps.Keys(faultSpecs))
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return orList(words)
}

func (f Fault) withDefaults() Fault {
	spec := faultSpecs[f.Kind]
	if len(spec.whens) > 0 {
		f.When = cmp.Or(f.When, spec.whens[0])
	}
	f.Delay = cmp.Or(f.Delay, spec.fill.Delay)
	f.Count = cmp.Or(f.Count, spec.fill.Count)
	f.Status = cmp.Or(f.Status, spec.fill.Status)
	f.Bytes = cmp.Or(f.Bytes, spec.fill.Bytes)
	f.As = cmp.Or(f.As, spec.fill.As)
	return f
}

// Place is where a fault may strike: an operation of an API version, on a repository as made by RepoPath or on none.
type Place struct {
	API  API
	Op   Op
	Repo string
}

func (f Fault) strikes(p Place) bool {
	ops := faultSpecs[f.Kind].ops
	return (f.API == "" || f.API == p.API) &&
		(f.Op == "" || f.Op == p.Op) &&
		(ops == nil || slices.Contains(ops, p.Op)) &&
		repoMatches(strings.ToLower(f.Repo), p.Repo)
}

// Book holds the faults that are switched on, in the order in which they were added. The zero Book is empty. It is not safe
// for concurrent use.
type Book struct{ active []activeFault }

type activeFault struct {
	Fault
	left int // strikes that remain; -1 is without end
}

// Add switches f on, which must have passed Check, in addition to those that are.
func (b *Book) Add(f Fault) {
	f = f.withDefaults()
	b.active = append(b.active, activeFault{Fault: f, left: cmp.Or(f.Times, -1)})
}

// Clear switches every fault off.
func (b *Book) Clear() { b.active = nil }

// Active lists the faults that can still strike; Times is what is left, 0 for those without end.
func (b *Book) Active() []Fault {
	out := []Fault{}
	for _, f := range b.active {
		if f.left != 0 {
			f.Times = max(f.left, 0)
			out = append(out, f.Fault)
		}
	}
	return out
}

// Take uses up one strike of kind k at p, if one is switched on there.
func (b *Book) Take(k FaultKind, p Place) (Fault, bool) {
	return b.take(p, func(f Fault) bool { return f.Kind == k })
}

// TakeAnswer uses up one strike of the first fault that replaces or spoils the answer at p, before or after the effect.
func (b *Book) TakeAnswer(when string, p Place) (Fault, bool) {
	return b.take(p, func(f Fault) bool { return f.When == when })
}

func (b *Book) take(p Place, wanted func(Fault) bool) (Fault, bool) {
	for i := range b.active {
		f := &b.active[i]
		if f.left == 0 || !wanted(f.Fault) || !f.strikes(p) {
			continue
		}
		if f.left > 0 {
			f.left--
		}
		return f.Fault, true
	}
	return Fault{}, false
}
