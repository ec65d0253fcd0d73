package words

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/parser"
	"drawbridge/policy"
)

// Action is the bridge's word on what an action did. What the relay says of it is in Outputs.
func Action(out bridge.ActionOutcome) bridge.Words {
	var text bridge.Words
	switch out.Status {
	case bridge.ActionExecuted:
		text = Say("executed, exit code %d after %s", out.ExitCode, out.Duration.Round(time.Millisecond))
	case bridge.ActionTimedOut:
		text = Say("timed out and was killed after %s", out.Duration.Round(time.Millisecond))
	case bridge.ActionRefused:
		text = "refused by the relay"
	default:
		text = "failed at the relay"
	}
	if out.Omitted > 0 {
		text += Say(" (%s of output dropped)", Own(Count(out.Omitted, "byte")))
	}
	return text
}

// Acted is Action for people, with what the relay says of it on the same line.
func Acted(out bridge.ActionOutcome) string {
	text := string(Action(out))
	if out.Error != "" {
		text += ": " + SafeLine(out.Error, 300)
	}
	return text
}

// Outputs joins what the relay says and both outputs for the agent, each named.
func Outputs(out bridge.ActionOutcome) string {
	said := ""
	if out.Error != "" {
		said = "the relay says:\n" + out.Error + "\n"
	}
	return strings.TrimSuffix(said+streams(out), "\n")
}

func streams(out bridge.ActionOutcome) string {
	switch {
	case out.Stderr == "":
		return out.Stdout
	case out.Stdout == "":
		return "stderr:\n" + out.Stderr
	}
	return "stdout:\n" + out.Stdout + "\nstderr:\n" + out.Stderr
}

// Span writes a time span without its empty parts: 1h, 90s or 1h30m.
func Span(d time.Duration) string {
	text := d.Round(time.Second).String()
	if d >= time.Minute {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour {
		text = strings.TrimSuffix(text, "h0m") + strings.Repeat("h", strings.Count(text[max(0, len(text)-3):], "h0m"))
	}
	return text
}

// maxRemind bounds how far ahead a reminder may be.
const maxRemind = 366 * 24 * time.Hour

// RemindAt reads the time of a reminder, as parser.When does. It may be at most a
// year ahead.
func RemindAt(when string, now time.Time) (time.Time, error) {
	when = strings.Trim(when, " \t") // as the policy reads it
	at, ok := parser.When(when, now)
	if !ok {
		return time.Time{}, fmt.Errorf("%q is not a time: write 30s, 10m, 1h30m, 3d, 1w, in 10 minutes, a date such as %s or a time such as %s",
			OneLine(when, 60), now.AddDate(0, 0, 1).UTC().Format(time.DateOnly), now.Add(time.Hour).UTC().Format(time.RFC3339))
	}
	switch {
	case !at.After(now):
		return time.Time{}, fmt.Errorf("%s is in the past; it is %s now", when, now.UTC().Format(time.RFC3339))
	case at.Sub(now) > maxRemind:
		return time.Time{}, errors.New("a reminder may be at most a year ahead")
	}
	return at, nil
}

// RelayAsks is what the operator reads of an action for which a relay needs their approval.
func RelayAsks(out bridge.ActionOutcome) string {
	text := fmt.Sprintf("the relay needs your approval for it (definition %.12s): %s", out.Wants, escape(OneLine(out.Error, 300)))
	if out.Shows != "" {
		text += "; " + escape(out.Shows)
	}
	return text
}

// Approved is what a person let pass: what it asks for, and what a relay showed of it.
func Approved(m bridge.Command, shown string) string {
	if shown == "" {
		return Describe(m)
	}
	return Describe(m) + "; " + shown
}

// Repeats names commands that end together with another, which they are identical to.
func Repeats(ids []bridge.CommandID) bridge.Words {
	if len(ids) == 1 {
		return Say("%s is identical and does not run", ids[0])
	}
	return Say("%d more commands are identical and do not run: %s", len(ids), Own(Listed(ids, 10)))
}

// Listed names the first of many.
func Listed[ID ~string](ids []ID, limit int) string {
	shown := make([]string, 0, limit)
	for _, id := range ids[:min(len(ids), limit)] {
		shown = append(shown, string(id))
	}
	text := strings.Join(shown, ", ")
	if more := len(ids) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Errand names a command at the beginning of what the agent hears of it.
func Errand(m bridge.Command) bridge.Words {
	return Say("%s (%s %s): ", OfTurn(m.Parsed.Line), m.Parsed.Verb, m.Canonical)
}

// RefusedNow is why a command that was granted may not be sent any more.
func RefusedNow(v policy.Verdict) string {
	if v.Decision == policy.Held {
		return "the allowlist changed since: " + v.Reason + "; ask for it again"
	}
	return v.Reason
}

// Approvals says for each of the actions for which a person has to agree who that is: the operator where the allowlist says so, and
// whoever counts at the relay that would run it. offers gives what relays say of an action.
func Approvals(rules []policy.ActionRule, actions []string, offers func(action string) ([]bridge.RelayOffer, error)) (map[string][]string, error) {
	who := map[string][]string{}
	for _, rule := range rules {
		if !slices.Contains(actions, rule.ID) {
			continue
		}
		if rule.Approval.String() != string(policy.ApprovalNever) {
			who[rule.ID] = append(who[rule.ID], "the operator")
		}
		offered, err := offers(rule.ID)
		if err != nil {
			return nil, err
		}
		at := slices.DeleteFunc(offered, func(o bridge.RelayOffer) bool { return rule.Relay != "" && rule.Relay != o.Relay })
		if len(at) == 1 && at[0].Approver() != "" {
			who[rule.ID] = append(who[rule.ID], "at its relay "+at[0].Approver())
		}
	}
	return who, nil
}
