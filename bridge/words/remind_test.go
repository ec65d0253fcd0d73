package words_test

import (
	"strings"
	"testing"
	"time"

	"drawbridge/bridge/words"
)

func TestRemindAt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for when, want := range map[string]time.Duration{"10m": 10 * time.Minute, "2h": 2 * time.Hour, "3d": 72 * time.Hour, "366d": 366 * 24 * time.Hour,
		"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "1w": 7 * 24 * time.Hour, "1w2d3h4m5s": (9*24+3)*time.Hour + 4*time.Minute + 5*time.Second,
		"in 10 minutes": 10 * time.Minute, "In 1 hour and 30 minutes": 90 * time.Minute, "in 2h": 2 * time.Hour, "in 1 day 2 hours": 26 * time.Hour, "in 45 sec": 45 * time.Second,
		"2026-03-05": 18*time.Hour + 53*time.Minute + 53*time.Second, "2026-03-04 06:06": 59*time.Minute + 53*time.Second, "2026-03-04T05:06:09": 2 * time.Second,
		"2026-03-04T05:06:08Z": time.Second, "2026-03-04T07:06:07+01:00": time.Hour} {
		if got, err := words.RemindAt(when, now); err != nil || !got.Equal(now.Add(want)) {
			t.Errorf("remindAt(%q) = %s, %v, want %s later", when, got, err, want)
		}
	}
	for when, want := range map[string]string{"": "is not a time", "m": "is not a time", "10": "is not a time", "90x": "is not a time", "2 h": "is not a time", "30m1h": "is not a time", "1h1h": "is not a time", "in a while": "is not a time", "in 10 parsecs": "is not a time", "in10m": "is not a time", "2026-02-30": "is not a time", "2026-03-04": "in the past", "0m": "in the past", "-5m": "is not a time", "1.5h": "is not a time",
		"99999999999d": "is not a time", "2147483647d": "is not a time", "367d": "at most a year", "213504d": "at most a year", "9999999d": "is not a time", "999999w999999d": "at most a year", "2026-03-04T05:06:07Z": "in the past", "1999-01-01T00:00:00Z": "in the past",
		"9999-01-01T00:00:00Z": "at most a year", "tomorrow": "is not a time", "10ß": "is not a time"} {
		if got, err := words.RemindAt(when, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("remindAt(%q) = %s, %v, want %q", when, got, err, want)
		}
	}
}
