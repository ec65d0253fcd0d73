package parser

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// When reads the time of a reminder, seen from now: a time in RFC 3339, a date
// such as 2026-03-05, which begins at midnight UTC, or 2026-03-05 09:00, in UTC, or a
// span such as 30s, 10m, 1h30m, 3d, 1w, "in 10 minutes" and "in 1 hour and 30
// minutes". ok is false for anything else. Whether the time lies in the future, or
// is sensible, is for the caller to judge. A span of more than 100 years counts as
// 100 years.
func When(s string, now time.Time) (at time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, true
		}
	}
	span, ok := readSpan(s)
	return now.Add(span), ok
}

// units are those of spans, the longest first, with the words for each.
var units = []struct {
	length time.Duration
	words  string
}{
	{7 * 24 * time.Hour, " w week weeks "},
	{24 * time.Hour, " d day days "},
	{time.Hour, " h hr hrs hour hours "},
	{time.Minute, " m min mins minute minutes "},
	{time.Second, " s sec secs second seconds "},
}

const maxSpan = 100 * 366 * 24 * time.Hour

var (
	shortSpan = regexp.MustCompile(`^([0-9]{1,6}[a-z])+$`)
	longSpan  = regexp.MustCompile(`^(?i:in)[ \t]+([0-9]{1,6}[ \t]*[a-z]+)(([ \t]+|[ \t]+and[ \t]+)[0-9]{1,6}[ \t]*[a-z]+)*$`)
	spanPart  = regexp.MustCompile(`([0-9]{1,6})[ \t]*([a-z]+)`)
)

// readSpan reads a span whose units get shorter from left to right. Blanks and
// words for units are allowed behind "in", where nothing else can be meant.
func readSpan(s string) (all time.Duration, ok bool) {
	if !shortSpan.MatchString(s) && !longSpan.MatchString(s) {
		return 0, false
	}
	last := -1
	for _, part := range spanPart.FindAllStringSubmatch(s, -1) {
		n, err := strconv.ParseInt(part[1], 10, 64)
		unit := unitOf(part[2])
		if err != nil || unit <= last {
			return 0, false
		}
		last = unit
		length := units[unit].length
		all += time.Duration(min(n, int64(maxSpan/length))) * length
	}
	return min(all, maxSpan), true
}

// unitOf returns the place of a unit in units, -1 for a word that is not one.
func unitOf(word string) int {
	for i, u := range units {
		if strings.Contains(u.words, " "+word+" ") {
			return i
		}
	}
	return -1
}
