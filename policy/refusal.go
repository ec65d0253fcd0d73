package policy

import (
	"fmt"
	"strconv"
	"strings"

	"drawbridge/internal/clip"
)

const (
	// maxNamed is how many allowed entries a refusal names.
	maxNamed = 20
	// maxQuoted is how many bytes of a value a refusal repeats.
	maxQuoted = 80
)

func refusal(code Code, reason string) Verdict {
	return Verdict{Decision: Refused, Code: code, Reason: reason}
}

// holdFor takes the grant out of a verdict: a held command carries none.
func holdFor(v Verdict, code Code, reason string) Verdict {
	v.Decision, v.Code, v.Reason, v.Grant = Held, code, reason, Grant{}
	return v
}

func approvalReason(v Verdict) string {
	if v.Approval.Mode == ApprovalOnce {
		return fmt.Sprintf("%s needs a person's approval, %s", v.Canonical, v.Approval)
	}
	return fmt.Sprintf("%s needs a person's approval each time", v.Canonical)
}

func badRepoReason(value string, err error) string {
	return fmt.Sprintf("%s is not a repository: %v", quote(value), err)
}

// allowedText says what would have been allowed.
func allowedText(list []string) string {
	if len(list) == 0 {
		return "nothing is allowed"
	}
	text := "allowed: " + strings.Join(list[:min(len(list), maxNamed)], ", ")
	if more := len(list) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// quote makes a value that an agent wrote safe to show: clipped first, so that a
// long one costs nothing, and escaped to ASCII, so that it can forge no line and
// a homoglyph shows.
func quote(value string) string { return strconv.QuoteToASCII(clip.Text(value, maxQuoted)) }

// room says how many launches would still fit, or what to do when none does.
func room(left int, wait string) string {
	if left <= 0 {
		return wait
	}
	return fmt.Sprintf("ask for at most %d now", left)
}

// verb returns one after the number 1, and many after any other.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
