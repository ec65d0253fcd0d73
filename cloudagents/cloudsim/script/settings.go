package script

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// The words of [Settings]. The first of each group is the default.
const (
	FollowupQueue  = "queue"  // runs after the active run
	FollowupRefuse = "refuse" // 409 agent_busy

	StopIdleRefuse = "refuse" // 409 for an agent that does not run
	StopIdleAccept = "accept" // 200, no effect

	V0ErrorsDocumented = "documented" // {"error":{"code":…,"message":…}}
	V0ErrorsObserved   = "observed"   // {"error":"…"} for every 400

	BranchKeep     = "keep"     // target.branchName is used as asked
	BranchGenerate = "generate" // target.branchName is ignored

	IdempotencyIgnore = "ignore" // the Idempotency-Key header has no effect
	IdempotencyReplay = "replay" // a repeated key gets the first answer again
)

// Settings decide what the vendor's documents leave open. The zero value is what the documents and published captures make
// most likely.
type Settings struct {
	// V0Cancelled is the v0 status of a cancelled or stopped agent: FINISHED (the default, as its replayed stream status says),
	// ERROR or EXPIRED. It never causes a webhook.
	V0Cancelled string `yaml:"v0_cancelled"`
	// V0FollowupWhileRunning is queue or refuse.
	V0FollowupWhileRunning string `yaml:"v0_followup_while_running"`
	// V0StopIdle is refuse or accept.
	V0StopIdle string `yaml:"v0_stop_idle"`
	// V0Errors is documented or observed.
	V0Errors string `yaml:"v0_errors"`
	// V0BranchName is keep or generate.
	V0BranchName string `yaml:"v0_branch_name"`
	// IdempotencyKey is ignore or replay.
	IdempotencyKey string `yaml:"idempotency_key"`
	// ReuseDeletedIDs lets a deleted agent's id be used again instead of 409.
	ReuseDeletedIDs bool `yaml:"reuse_deleted_ids"`
	// AccessStatus is the HTTP status of repository_access: 400 (the default) or 403.
	AccessStatus int `yaml:"access_status"`
	// AnyModel accepts model ids that are not listed.
	AnyModel bool `yaml:"any_model"`
	// Pools are the known worker pools; "default" when empty.
	Pools []string `yaml:"pools"`
	// UnlimitedRepositories switches the limit of the repository lists off (1 a minute and 30 an hour for each key).
	UnlimitedRepositories bool `yaml:"unlimited_repositories"`
	// NoUsage answers the usage call with 403 feature_unavailable.
	NoUsage bool `yaml:"no_usage"`
	// UsageCost adds what runs cost to the usage call. It is in no public document, but in the SDK's types and in live answers.
	UsageCost bool `yaml:"usage_cost"`
	// CostLag is how long after its end a run shows no cost yet; none when 0.
	CostLag Duration `yaml:"cost_lag"`

	// StreamRetention is how long after its end a run can be streamed; 4 days when 0.
	StreamRetention Duration `yaml:"stream_retention"`
	// NoPrompts keeps the prompt out of a run's stream.
	NoPrompts bool `yaml:"no_prompts"`
	// Heartbeat is the longest silence of a live stream; 15 s when 0.
	Heartbeat Duration `yaml:"heartbeat"`

	// WebhookAttempts is how often one delivery is tried in all; 3 when 0.
	WebhookAttempts int `yaml:"webhook_attempts"`
	// WebhookSpacing is the pause ahead of the first retry, doubled for each further one; 1 s when 0.
	WebhookSpacing Duration `yaml:"webhook_spacing"`
	// WebhookTimeout is how long one attempt may take; 10 s when 0.
	WebhookTimeout Duration `yaml:"webhook_timeout"`
	// WebhookNewIDOnRetry gives every attempt its own X-Webhook-ID instead of one for each delivery.
	WebhookNewIDOnRetry bool `yaml:"webhook_new_id_on_retry"`
	// WebhookFirstRunOnly sends no webhook for the runs that follow-ups start.
	WebhookFirstRunOnly bool `yaml:"webhook_first_run_only"`
	// WebhookSignWithoutSecret sends a signature made with the empty key when the launch gave no secret.
	WebhookSignWithoutSecret bool `yaml:"webhook_sign_without_secret"`
}

// WithDefaults fills in the fields that are zero.
func (s Settings) WithDefaults() Settings {
	s.V0Cancelled = cmp.Or(s.V0Cancelled, StatusFinished)
	s.V0FollowupWhileRunning = cmp.Or(s.V0FollowupWhileRunning, FollowupQueue)
	s.V0StopIdle = cmp.Or(s.V0StopIdle, StopIdleRefuse)
	s.V0Errors = cmp.Or(s.V0Errors, V0ErrorsDocumented)
	s.V0BranchName = cmp.Or(s.V0BranchName, BranchKeep)
	s.IdempotencyKey = cmp.Or(s.IdempotencyKey, IdempotencyIgnore)
	s.AccessStatus = cmp.Or(s.AccessStatus, http.StatusBadRequest)
	s.StreamRetention = cmp.Or(s.StreamRetention, Duration(4*24*time.Hour))
	s.Heartbeat = cmp.Or(s.Heartbeat, Duration(15*time.Second))
	s.WebhookAttempts = cmp.Or(s.WebhookAttempts, 3)
	s.WebhookSpacing = cmp.Or(s.WebhookSpacing, Duration(time.Second))
	s.WebhookTimeout = cmp.Or(s.WebhookTimeout, Duration(10*time.Second))
	if len(s.Pools) == 0 {
		s.Pools = []string{"default"}
	}
	return s
}

func (s Settings) check() error {
	s = s.WithDefaults()
	words := []struct {
		key, value string
		allowed    []string
	}{
		{"v0_cancelled", s.V0Cancelled, []string{StatusFinished, StatusError, StatusExpired}},
		{"v0_followup_while_running", s.V0FollowupWhileRunning, []string{FollowupQueue, FollowupRefuse}},
		{"v0_stop_idle", s.V0StopIdle, []string{StopIdleRefuse, StopIdleAccept}},
		{"v0_errors", s.V0Errors, []string{V0ErrorsDocumented, V0ErrorsObserved}},
		{"v0_branch_name", s.V0BranchName, []string{BranchKeep, BranchGenerate}},
		{"idempotency_key", s.IdempotencyKey, []string{IdempotencyIgnore, IdempotencyReplay}},
	}
	for _, w := range words {
		if !slices.Contains(w.allowed, w.value) {
			return wrong("must be one of "+orList(w.allowed), "settings", w.key)
		}
	}
	if s.AccessStatus != http.StatusBadRequest && s.AccessStatus != http.StatusForbidden {
		return wrong("must be 400 or 403", "settings", "access_status")
	}
	if s.WebhookAttempts < 1 || s.WebhookAttempts > 20 {
		return wrong("must be 1 to 20", "settings", "webhook_attempts")
	}
	return nil
}
