package policy

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// ApprovalMode says how often a person is asked before a rule is used.
type ApprovalMode string

// The modes. The zero value counts as ApprovalNever.
const (
	ApprovalNever ApprovalMode = "never"
	ApprovalEach  ApprovalMode = "each"
	ApprovalOnce  ApprovalMode = "once"
)

// Approval is a rule's demand for a person. For is how long one approval lasts
// and is used with ApprovalOnce only.
type Approval struct {
	Mode ApprovalMode
	For  time.Duration
}

const (
	minApproval    = time.Second
	maxApproval    = 365 * 24 * time.Hour
	approvalRemedy = "write never, each or once per 24h"
)

var errApproval = errors.New(approvalRemedy + " (1s to 365d)")

// ParseApproval reads "never", "each" or "once per <duration>", where the duration
// is Go's (90m, 24h) or whole days (7d), from one second to 365 days. Nothing is
// guessed: a mode that is misspelt must not become "never".
func ParseApproval(text string) (Approval, error) {
	switch text = trimBlanks(text); text {
	case string(ApprovalNever):
		return Approval{Mode: ApprovalNever}, nil
	case string(ApprovalEach):
		return Approval{Mode: ApprovalEach}, nil
	}
	rest, ok := strings.CutPrefix(text, "once per ")
	if !ok {
		return Approval{}, errApproval
	}
	d, err := parseSpan(trimBlanks(rest))
	if err != nil {
		return Approval{}, errApproval
	}
	a := Approval{Mode: ApprovalOnce, For: d}
	if !a.valid() {
		return Approval{}, errApproval
	}
	return a, nil
}

// String returns the text that ParseApproval reads back to an equal demand.
func (a Approval) String() string {
	switch a.Mode {
	case ApprovalOnce:
		return "once per " + a.For.String()
	case "":
		return string(ApprovalNever)
	}
	return string(a.Mode)
}

func (a Approval) valid() bool {
	switch a.Mode {
	case "", ApprovalNever, ApprovalEach:
		return a.For == 0
	case ApprovalOnce:
		return a.For >= minApproval && a.For <= maxApproval
	}
	return false
}

// needed reports whether a person has to be asked at all.
func (a Approval) needed() bool { return a.Mode != "" && a.Mode != ApprovalNever }

func parseSpan(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}
