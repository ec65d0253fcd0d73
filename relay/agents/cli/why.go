package cli

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/host"
	"drawbridge/relay/agents/limits"
)

// Words with which programs say that their user has to log in, and that they do not know a session.
var (
	loginWords = regexp.MustCompile(`(?i)not (?:logged|signed) in|/login\b|\b(?:please|must|need to|run \S*(?: \S+)?) (?:log|sign) ?in\b|\blogin (?:is )?required|not authenticated|authentication (?:is )?required|authentication_(?:error|failed)|invalid (?:x-)?api[ -]key|(?:no|missing|incorrect) api key|api key (?:is )?(?:missing|required|not (?:set|found|valid))|\b401\b[ :]+unauthorized|oauth token (?:has )?(?:expired|been revoked)|(?:access|refresh|auth\w*) token (?:\w+ )?(?:has )?(?:expired|revoked|could not be refreshed)|agent login\b|set CURSOR_API_KEY`)
	goneWords  = regexp.MustCompile(`(?i)no (?:conversation|rollout|session|thread|chat) (?:was )?found|(?:conversation|session|thread|chat)(?: id)?(?: with)?(?: id)?:? ?\S{0,200}? (?:was |is |does |could )?not (?:be )?(?:found|exist|known)|unknown (?:session|conversation|thread|chat)|(?:invalid|no such) (?:session|conversation|thread|chat)`)
)

// why is what is known beside the outcome of a turn that failed.
type why struct {
	end     host.OnceEnd
	resumed bool
	pace    *limits.Pace
	hide    func(string) string
	local   *time.Location
}

// why gives the end of a turn without an answer its cause.
func (o outcome) why(w why) *agents.Error {
	said, all := "", w.end.Stderr
	if o.failed != nil {
		said = o.failed.words
	}
	switch {
	case said == "":
		// A program that reports nothing says on its standard error why it ended.
	case o.failed.beside:
		all = said + "\n" + w.end.Stderr
	default:
		all = said
	}
	if (o.failed == nil || o.failed.beside) && w.end.Lost != nil && w.end.Lost.Cause == agents.Stopped {
		return w.end.Lost
	}
	if o.failed != nil && o.failed.cause == agents.Refused {
		return &agents.Error{Cause: agents.Refused, Reason: w.hide(said)}
	}
	if w.resumed && (goneWords.MatchString(said) || goneWords.MatchString(w.end.Stderr)) {
		return &agents.Error{Cause: agents.SessionGone, Reason: "the agent does not know the session: " + w.hide(last(all))}
	}
	if limited := o.limited(w, all); limited != nil {
		return limited
	}
	if loginWords.MatchString(all) || o.failed != nil && o.failed.cause == agents.LoginMissing {
		return &agents.Error{Cause: agents.LoginMissing, Reason: "the agent wants its user to log in: " + w.hide(last(all))}
	}
	if o.failed != nil && o.failed.words != "" && !o.failed.beside {
		return &agents.Error{Cause: agents.Failed, Reason: "the agent could not take the turn: " + w.hide(last(o.failed.words))}
	}
	end := crashed("%s", o.reason(w))
	// A program that ends by itself without an answer would do so again.
	end.Ended = o.failed == nil && w.end.Lost != nil && w.end.Lost.Ended && w.end.Cut
	return end
}

// limited is the end of a turn at a limit of the account, nil for any other.
func (o outcome) limited(w why, words string) *agents.Error {
	now := time.Now()
	read, limited := limits.Read(words, now, w.local)
	if o.failed != nil && o.failed.cause == agents.Limited && !limited {
		read, limited = limits.Reading{Wait: limits.Soon}, true
	}
	if !limited {
		return nil
	}
	if o.failed != nil && !o.failed.until.IsZero() {
		read = limits.At(o.failed.until, now)
	}
	return &agents.Error{Cause: agents.Limited, Reason: "the agent's account is limited: " + w.hide(last(words)), Until: w.pace.Until(read, now)}
}

// reason says in words how a turn ended that has no better cause.
func (o outcome) reason(w why) string {
	if w.end.Lost != nil {
		return w.end.Lost.Reason + o.strange()
	}
	return "the agent ended without an answer" + w.end.Tail(w.hide) + o.strange()
}

// strange says what else was seen in the output.
func (o outcome) strange() (text string) {
	if o.garbage != "" {
		text += fmt.Sprintf("; it printed %q", o.garbage)
	}
	if o.skipped > 0 {
		text += fmt.Sprintf("; the relay skipped lines of more than %d MiB: %d", maxLine>>20, o.skipped)
	}
	return text
}

// last is the last line of a text with something on it.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
