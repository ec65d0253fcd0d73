package audit_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"drawbridge/relay/runner/audit"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// written is a log of n lines that was closed.
func written(t *testing.T, n int) (path string, head audit.Head) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "relay.audit")
	log, err := audit.Open(path, time.Now, nil)
	must(t, err)
	for i := range n {
		exit := i
		must(t, log.Add(audit.Event{Event: audit.Ran, Request: fmt.Sprint("r", i), Action: "a", Exit: &exit}))
	}
	head = log.Head()
	must(t, log.Close())
	return path, head
}

func read(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n")+"\n", "\n")[:strings.Count(string(text), "\n")]
}

func TestVerifyFindsWhatWasDone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		attack func(lines []string) []string
		line   int
		want   string
	}{
		{"changed", func(l []string) []string {
			l[2] = strings.Replace(l[2], `"exit":2`, `"exit":0`, 1)
			return l
		}, 3, "was changed: its hash does not match"},
		{"hash changed too", func(l []string) []string {
			l[2] = strings.Replace(l[2], `"prev":"`, `"prev": "`, 1)
			return l
		}, 3, "was changed"},
		{"replaced by one with a right hash", func(l []string) []string {
			body, _, _ := strings.Cut(strings.Replace(l[2], `"exit":2`, `"exit":0`, 1), `,"hash":"`)
			l[2] = fmt.Sprintf("%s,\"hash\":\"%x\"}\n", body, sha256.Sum256([]byte(body)))
			return l
		}, 4, "does not have the hash of the line before it: that line was replaced"},
		{"removed", func(l []string) []string { return append(l[:2:2], l[3:]...) }, 3, "is number 4: 3 to 3 are missing before it"},
		{"removed at the beginning", func(l []string) []string { return l[1:] }, 1, "is number 2: 1 to 1 are missing"},
		{"moved", func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }, 2, "is number 3: 2 to 2 are missing"},
		{"put in again", func(l []string) []string { return append(l[:3:3], l[2:]...) }, 4, "is number 3 in the place of number 4"},
		{"cut off", func(l []string) []string { return l[:3] }, 4, "is missing: the end was cut off after line 5 was written"},
		{"emptied", func([]string) []string { return nil }, 1, "is missing: the end was cut off"},
		{"something else", func(l []string) []string { l[0] = "{}\n"; return l }, 1, "was changed"},
		{"a long line", func(l []string) []string { l[0] = strings.Repeat("x", 1<<20) + "\n"; return l }, 1, "was changed: it is longer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path, _ := written(t, 5)
			must(t, os.WriteFile(path, []byte(strings.Join(tt.attack(read(t, path)), "")), 0o600))
			_, err := audit.Verify(path, "")
			var damage *audit.Damage
			if !errors.As(err, &damage) || damage.Line != tt.line || !strings.Contains(damage.Reason, tt.want) {
				t.Errorf("%v, want line %d: %s", err, tt.line, tt.want)
			}
			if _, err := audit.Open(path, time.Now, nil); err == nil || !strings.Contains(err.Error(), "keep it as evidence") {
				t.Errorf("a relay goes on with it: %v", err)
			}
		})
	}
}

// A writer of log and head is found by a hash that was kept elsewhere.
func TestVerifyContains(t *testing.T) {
	t.Parallel()
	path, head := written(t, 5)
	report, err := audit.Verify(path, head.Hash)
	if err != nil || report.Head != head {
		t.Errorf("%+v, %v", report, err)
	}
	forged, _ := written(t, 7)
	if _, err := audit.Verify(forged, head.Hash); err == nil || !strings.Contains(err.Error(), "written again") {
		t.Errorf("a log that was written again: %v", err)
	}
}

// A swap of the log alone shows by the head.
func TestVerifyOtherLog(t *testing.T) {
	t.Parallel()
	path, _ := written(t, 5)
	forged, _ := written(t, 7)
	must(t, os.Rename(forged, path))
	if _, err := audit.Verify(path, ""); err == nil || !strings.Contains(err.Error(), "line 5: was written again") {
		t.Errorf("%v", err)
	}
}

// A kill can leave the log at any byte of its last line.
func TestTornLine(t *testing.T) {
	t.Parallel()
	path, _ := written(t, 3)
	lines := read(t, path)
	whole := len(lines[0]) + len(lines[1])
	head, err := os.ReadFile(path + audit.HeadSuffix)
	must(t, err)
	for _, extra := range []int{1, 10, len(lines[2]) - 1} {
		dir := t.TempDir()
		torn := filepath.Join(dir, "relay.audit")
		must(t, os.WriteFile(torn, []byte(strings.Join(lines, "")[:whole+extra]), 0o600))
		// The head is written after the line, so it stands before it; here it is empty, which is put on record with a line of its own.
		must(t, os.WriteFile(torn+audit.HeadSuffix, head[:0], 0o600))
		report, err := audit.Verify(torn, "")
		if err != nil || report.Torn != int64(extra) || report.Head.Seq != 2 {
			t.Fatalf("%d bytes of a line: %+v, %v", extra, report, err)
		}
		log, err := audit.Open(torn, time.Now, nil)
		must(t, err)
		must(t, log.Add(audit.Event{Event: audit.Ran}))
		must(t, log.Close())
		report, err = audit.Verify(torn, "")
		if err != nil || report.Torn != 0 || report.Head.Seq != 5 {
			t.Errorf("after a start: %+v, %v", report, err)
		}
		if got := read(t, torn)[2]; !strings.Contains(got, `"event":"torn"`) {
			t.Errorf("the cut is not recorded: %s", got)
		}
	}
}

// Whoever is refused everything cannot fill the disk, and how often is on record.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.audit")
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	log, err := audit.Open(path, func() time.Time { return now }, nil)
	must(t, err)
	for range 100_000 {
		must(t, log.Add(audit.Event{Event: audit.Refused, Reason: "not listed"}))
	}
	must(t, log.Add(audit.Event{Event: audit.Ran}))
	now = now.Add(time.Minute)
	must(t, log.Add(audit.Event{Event: audit.Refused}))
	must(t, log.Close())
	lines := read(t, path)
	if len(lines) != 62 || !strings.Contains(lines[60], `"skipped":99940`) {
		t.Errorf("%d lines, %s", len(lines), lines[min(60, len(lines)-1)])
	}
	if _, err := audit.Verify(path, ""); err != nil {
		t.Error(err)
	}
}

// A bridge that uses one id for two requests, or asks and asks, is on record without filling the disk, and what it floods the log
// with does not hide the rest.
func TestFloodHidesNothingElse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.audit")
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	log, err := audit.Open(path, func() time.Time { return now }, nil)
	must(t, err)
	for _, kind := range []string{audit.Refused, audit.Alarm, audit.Asked, audit.Approved} {
		for range 1000 {
			must(t, log.Add(audit.Event{Event: kind}))
		}
	}
	for range 100 {
		must(t, log.Add(audit.Event{Event: audit.Ran}))
	}
	must(t, log.Close())
	count := map[string]int{}
	for _, line := range read(t, path) {
		var e audit.Event
		must(t, json.Unmarshal([]byte(line), &e))
		count[e.Event]++
		count["skipped"] += e.Skipped
	}
	want := map[string]int{audit.Refused: 60, audit.Alarm: 60, audit.Asked: 60, audit.Approved: 60, audit.Ran: 100, "skipped": 4 * 940}
	if !maps.Equal(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
}

// Lines that were cut off together with the head file cannot be told, but that the head file was gone stays on record.
func TestMissingHeadIsOnRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.audit")
	for _, want := range []int{0, 0, 1, 1} {
		log, err := audit.Open(path, time.Now, nil)
		must(t, err)
		must(t, log.Add(audit.Event{Event: audit.Ran}))
		must(t, log.Close())
		if n := strings.Count(strings.Join(read(t, path), "\n"), "the head file was missing or empty"); n != want {
			t.Errorf("%d alarms, want %d", n, want)
		}
		if want == 0 && len(read(t, path)) == 2 {
			must(t, os.Remove(path+audit.HeadSuffix))
		}
	}
	if _, err := audit.Verify(path, ""); err != nil {
		t.Error(err)
	}
}

func TestOneRelayALog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.audit")
	log, err := audit.Open(path, time.Now, nil)
	must(t, err)
	defer log.Close()
	if _, err := audit.Open(path, time.Now, nil); err == nil || !strings.Contains(err.Error(), "is in use by another relay") {
		t.Errorf("%v", err)
	}
}

// The next start knows which relay.yaml the one before read, whatever was recorded in between.
func TestBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for start, want := range []string{"", "one", "two", "two"} {
		log, err := audit.Open(path, time.Now, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := log.Before(); got != want {
			t.Errorf("start %d: before it was %q, want %q", start, got, want)
		}
		for _, e := range []audit.Event{{Event: audit.Ready, File: []string{"one", "two", "two", "three"}[start]}, {Event: audit.Accepted, Action: "a"}, {Event: audit.Ended}} {
			if err := log.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := audit.Verify(path, ""); err != nil || report.File != "three" {
		t.Errorf("%+v, %v", report, err)
	}
}
