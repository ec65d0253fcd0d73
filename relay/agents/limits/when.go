package limits

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// clock is the time at which a text is read, and the zone of times without one.
type clock struct {
	now   time.Time
	local *time.Location
}

// Fields of JSON and names of headers whose value is a time, and those whose value is a wait.
var (
	atField   = regexp.MustCompile(`(?i)\b(?:resets?_?at|reset_?time(?:stamp)?|quota_?reset_?time_?stamp|(?:x-|anthropic-)?ratelimit-(?:[a-z]+-)*reset(?:-requests|-tokens)?|x-codex-primary-reset-at|retry[-_]?after|not_?before)["']?\s*[:=]\s*["']?([^"'}\]]{1,40})`)
	forField  = regexp.MustCompile(`(?i)\b(?:resets?_in_seconds|reset_after_seconds|retry[-_]?after(?:[-_]?(?:seconds|secs))?|x-ratelimit-reset(?:-requests|-tokens)?|retry_?delay|quota_?reset_?delay)["']?\s*[:=]\s*["']?([0-9][0-9a-z. ]{0,30})`)
	forMillis = regexp.MustCompile(`(?i)\b(?:retry[-_]?after[-_]?ms|retry_?delay_?ms|resets?_in_ms)["']?\s*[:=]\s*["']?([0-9]{1,12})`)
	// afterPipe is Claude Code's own form: "usage limit reached|1763424000".
	afterPipe = regexp.MustCompile(`\|\s*([0-9]{10}|[0-9]{13})\b`)
	// resetWords and againWords lead to a time or a wait in a sentence.
	filler     = `(?:[ :,]+(?:your|the|this|limits?|usage|quota|credits|access|is|be|will|it|again|for|to|until|till|at|on|by|in|after|around|about|please))*[ :,(]*`
	resetWords = regexp.MustCompile(`(?i)\b(?:resets?|reset(?:ting)?|refresh(?:es|ed)?|renews?|renewed|replenish(?:es|ed)?|cycle ends|restored|lifted)\b` + filler)
	againWords = regexp.MustCompile(`(?i)\b(?:try again|try|retry(?:ing)?|come back|available|wait)\b` + filler)
	// nowOrLater leads to a time of today: Codex writes a date with any other day.
	nowOrLater = regexp.MustCompile(`(?i)\btry again at ?$`)
)

// shortWindow says that the limit is one of a few hours, so that a time of day that is farther away has passed.
var shortWindow = regexp.MustCompile(`(?i)\b(?:session|5[- ]?h(?:our)?) limit`)

const (
	shortMost = 5*time.Hour + 30*time.Minute
	// justPassed is how long ago a time of day may be that is not meant for tomorrow.
	justPassed = 15 * time.Minute
)

// stated returns the time that a text states, the most exact form first, zero without one.
func stated(text string, c clock) time.Time {
	for _, read := range []func(string, clock) time.Time{fields, pipe, waits, sentence(resetWords), sentence(againWords)} {
		if t := read(text, c); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func fields(text string, c clock) time.Time {
	for _, m := range atField.FindAllStringSubmatch(text, 8) {
		value := strings.TrimSpace(m[1])
		if t := epoch(value); !t.IsZero() {
			return t
		}
		if t, err := http.ParseTime(strings.TrimSpace(cutAfter(value, "GMT"))); err == nil {
			return t
		}
		if t := isoDate(value, c); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// cutAfter cuts a text behind a word, when it has it.
func cutAfter(text, word string) string {
	if i := strings.Index(text, word); i >= 0 {
		return text[:i+len(word)]
	}
	return text
}

func pipe(text string, _ clock) time.Time {
	if m := afterPipe.FindStringSubmatch(text); m != nil {
		return epoch(m[1])
	}
	return time.Time{}
}

// epoch reads seconds or milliseconds since 1970 that lie in this century.
func epoch(text string) time.Time {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil:
	case len(digits) == 10:
		return time.Unix(n, 0)
	case len(digits) == 13:
		return time.UnixMilli(n)
	}
	return time.Time{}
}

func waits(text string, c clock) time.Time {
	if m := forMillis.FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64) // at most twelve digits
		return c.after(time.Duration(n) * time.Millisecond)
	}
	for _, m := range forField.FindAllStringSubmatch(text, 8) {
		if d, ok := duration(m[1]); ok {
			return c.after(d)
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(leading(m[1])), 64); err == nil {
			return c.after(seconds(n))
		}
	}
	return time.Time{}
}

// leading returns the number at the beginning of a text.
func leading(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789."))]
}

// seconds makes a wait of a number, without running over.
func seconds(n float64) time.Duration {
	if n > (2 * Most).Seconds() {
		return 2 * Most
	}
	return time.Duration(n * float64(time.Second))
}

func (c clock) after(d time.Duration) time.Time { return c.now.Add(min(d, 2*Most)) }

// sentence returns a reader of what follows each of some words.
func sentence(words *regexp.Regexp) func(string, clock) time.Time {
	return func(text string, c clock) time.Time {
		for _, at := range words.FindAllStringIndex(text, 32) {
			rest := text[at[1]:]
			rest = rest[:min(len(rest), 80)]
			if d, ok := duration(rest); ok {
				return c.after(d)
			}
			if t, dated := c.date(rest); dated {
				return t
			}
			if t := c.timeOfDay(rest, nowOrLater.MatchString(text[:at[1]])); !t.IsZero() {
				if shortWindow.MatchString(text) && t.After(c.now.Add(shortMost)) {
					return c.now
				}
				return t
			}
		}
		return time.Time{}
	}
}

var (
	amount = regexp.MustCompile(`(?i)^(?:and )?(\d{1,9}(?:\.\d{1,9})?|an?) ?([a-z]+)`)
	units  = map[string]time.Duration{
		"ms": time.Millisecond, "millisecond": time.Millisecond, "msec": time.Millisecond, "s": time.Second, "sec": time.Second, "second": time.Second,
		"m": time.Minute, "min": time.Minute, "minute": time.Minute, "h": time.Hour, "hr": time.Hour, "hour": time.Hour,
		"d": 24 * time.Hour, "day": 24 * time.Hour, "w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
	}
)

// duration reads a wait at the beginning of a text: "5 days 22 hours 11 minutes", "4h28m20s", "2 h 5 m", "11.254s", "an hour".
func duration(text string) (sum time.Duration, ok bool) {
	for {
		m := amount.FindStringSubmatch(text)
		if m == nil {
			return sum, ok
		}
		unit, known := units[strings.ToLower(m[2])]
		if !known {
			unit, known = units[strings.TrimSuffix(strings.ToLower(m[2]), "s")]
		}
		if !known {
			return sum, ok
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			n = 1 // an hour
		}
		sum, ok = min(sum+seconds(n*unit.Seconds()), 2*Most), true
		text = strings.TrimLeft(text[len(m[0]):], " ,")
	}
}
