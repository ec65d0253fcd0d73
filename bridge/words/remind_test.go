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
		"2026-03-04T05:06:08Z": time.Second, "2026-03-04T07:06:07+01:00": time.Hour} {
		if got, err := words.RemindAt(when, now); err != nil || !got.Equal(now.Add(want)) {
			t.Errorf("remindAt(%q) = %s, %v, want %s later", when, got, err, want)
		}
	}
	for when, want := range map[string]string{"": "is no time", "m": "is no time", "10": "is no time", "10s": "is no time", "0m": "is no time", "-5m": "is no time", "1.5h": "is no time",
		"99999999999d": "is no time", "2147483647d": "at most a year", "367d": "at most a year", "213504d": "at most a year", "9999999d": "at most a year", "2026-03-04T05:06:07Z": "in the past", "1999-01-01T00:00:00Z": "in the past",
		"9999-01-01T00:00:00Z": "at most a year", "tomorrow": "is no time", "10ß": "is no time"} {
		if got, err := words.RemindAt(when, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("remindAt(%q) = %s, %v, want %q", when, got, err, want)
		}
	}
}
