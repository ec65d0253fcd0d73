package policy

import "time"

// Decision is what becomes of a command.
type Decision string

// The decisions. Held waits for a person. Noted is for a WEBHOOK_RESULT that an
// agent wrote: an acknowledgement, never proof, and nothing is carried out for it.
const (
	Granted Decision = "granted"
	Refused Decision = "refused"
	Held    Decision = "held"
	Noted   Decision = "noted"
)

// Code is a stable word for why a command was refused or held; "" when it was not.
type Code string

// The codes. The policy itself never says CodeStopped or CodeRuntimeAway; they are here so that the
// engine and the policy share one vocabulary.
const (
	CodeRepoNotAllowed   Code = "repo_not_allowed"
	CodeActionNotAllowed Code = "action_not_allowed"
	CodeBadRepo          Code = "bad_repo"
	CodeMalformed        Code = "malformed"
	CodeOverCap          Code = "over_cap"
	CodeEcho             Code = "echo"
	CodeDuplicate        Code = "duplicate"
	CodeNeedsApproval    Code = "needs_approval"
	CodeNotEnabled       Code = "not_enabled"
	CodeStopped          Code = "stopped"
	CodeRuntimeAway      Code = "runtime_away"
	CodeNoRoom           Code = "no_workspace"
)

// Verdict is the policy's answer to one command.
type Verdict struct {
	Decision Decision
	Code     Code
	// Reason is one sentence that an agent can act on, without the word refused
	// or held in front; empty when granted. Values that the agent wrote are quoted,
	// escaped to ASCII and clipped, so that they cannot forge a line.
	Reason string
	// Canonical is the canonical repository or the action id, "" when there is none.
	Canonical string
	// Rule is the pattern of the repository rule, or the id of the action rule, that allows the command; "" when none does.
	Rule string
	// Runtime, API and Relay are the rule's; "" means the configured default. See [RepoRule].
	Runtime, API, Relay string
	// Approval is what the matching rule demands. How long an approval lasts is Approval.For.
	Approval Approval
	// Wait is how long an action waits for a relay that is away.
	Wait time.Duration
	// ApprovalKey names what a "once per" approval covers: this rule, and this
	// repository or this action at this relay. Any change of the rule changes the
	// key, so that an old approval never covers a new meaning. "" for other rules.
	ApprovalKey string
	// Grant is valid exactly when Decision is Granted.
	Grant Grant
}

// String returns the decision and the reason, as in
// `refused: action "deploy" is not on the allowlist; allowed: backup_script`.
func (v Verdict) String() string {
	if v.Reason == "" {
		return string(v.Decision)
	}
	return string(v.Decision) + ": " + v.Reason
}

// NoRoom refuses a launch that the rules would let pass, or would hold for a person, because its agent cannot work in its parent's workspace;
// why says so, and what to do. Other verdicts stay as they are.
func (v Verdict) NoRoom(why string) Verdict {
	if v.Decision != Granted && v.Decision != Held {
		return v
	}
	out := refusal(CodeNoRoom, why)
	out.Canonical, out.Runtime, out.API = v.Canonical, v.Runtime, v.API
	return out
}

// Away refuses a launch that the rules would let pass, or would hold for a person, because nothing can be launched where the
// agent would live; why says so, and what the operator can do. Other verdicts stay as they are.
func (v Verdict) Away(why string) Verdict {
	if v.Decision != Granted && v.Decision != Held {
		return v
	}
	away := refusal(CodeRuntimeAway, why+"; do the task yourself, or ask the operator to do this first")
	away.Canonical, away.Runtime, away.API = v.Canonical, v.Runtime, v.API
	return away
}
