package runner_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/internal/linelog"
	"drawbridge/relay/runner"
	"drawbridge/relay/wire"
)

// step is one thing that happened to a journal, and the length of its file afterwards.
type step struct {
	id   string
	want wire.Status
	size int
}

// sampleJournal returns the text of a journal and what stood in it after each of its lines.
func sampleJournal(t *testing.T) ([]byte, []step) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.journal")
	j := openJournal(t, path)
	var steps []step
	note := func(id string, want wire.Status) {
		stat, err := os.Stat(path)
		must(t, err)
		steps = append(steps, step{id, want, int(stat.Size())})
	}
	note("", "")
	claim(t, j, "1", "a")
	note("1", wire.StatusInterrupted)
	claim(t, j, "2", "a")
	note("2", wire.StatusInterrupted)
	must(t, j.Finish("1", answered("é")))
	note("1", wire.StatusExecuted)
	must(t, j.Withdraw("2"))
	note("2", "")
	claim(t, j, "3", "a")
	note("3", wire.StatusInterrupted)
	must(t, j.Finish("3", wire.Answer{Action: "a", Status: wire.StatusTimedOut}))
	note("3", wire.StatusTimedOut)
	text, err := os.ReadFile(path)
	must(t, err)
	return text, steps
}

// statusAt returns what is known of the ids 1 to 3 from the first bytes of a sample.
func statusAt(steps []step, size int) map[string]wire.Status {
	known := map[string]wire.Status{"1": "", "2": "", "3": ""}
	for _, s := range steps {
		if s.size <= size && s.id != "" {
			known[s.id] = s.want
		}
	}
	return known
}

func TestJournalDamage(t *testing.T) {
	t.Parallel()
	text, _ := sampleJournal(t)
	lines := strings.SplitAfter(string(text), "\n")
	without := func(drop int) string {
		return strings.Join(append(append([]string{}, lines[:drop]...), lines[drop+1:]...), "")
	}
	advice := "restore it, or move it away; even then the relay does not rerun requests that the audit log shows as started in the last 24 hours"
	tests := []struct{ name, text, want string }{
		{"another file", "token: x\n", "is not a journal of this version of drawbridge-relay; name another file with journal: in relay.yaml"},
		{"another version", strings.Replace(string(text), `"version":1`, `"version":2`, 1), "is not a journal of this version"},
		{"no header", without(0), "is not a journal"},
		{"CRLF", strings.ReplaceAll(string(text), "\n", "\r\n"), "is not a journal"},
		{"missing line", without(1), "is damaged in line 2: its checksum does not match; " + advice},
		{"lines swapped", lines[0] + lines[2] + lines[1] + lines[3], "is damaged in line 2: its checksum"},
		{"cut in the middle", lines[0] + lines[1][:20] + lines[2], "is damaged in line 2: its checksum"},
		{"last line is no record", string(text) + "hello\n", "is damaged in line 8: it is too short"},
		{"no record", sealedLines(t, `[]`), "is damaged in line 2: it does not hold a record"},
		{"unknown state", sealedLines(t, `{"state":"done","id":"1","action":"a"}`), "its state is unknown"},
		{"result without a claim's action", sealedLines(t, `{"state":"claimed","id":"1","action":"a"}`,
			`{"state":"withdrawn","id":"1","action":"b"}`), "is damaged in line 3: its id is claimed for another action"},
		{"nothing to withdraw", sealedLines(t, `{"state":"withdrawn","id":"1","action":"b"}`), "its id is not claimed"},
		{"two results", sealedLines(t, strings.Repeat(`|{"state":"finished","id":"1","action":"a","at":"2126-01-01T00:00:00Z","answer":{"status":"failed"}}`, 2)[1:]),
			"is damaged in line 3: its id is not claimed"},
		{"result without an answer", sealedLines(t, `{"state":"finished","id":"1","action":"a"}`), "its state and its answer do not belong together"},
		{"header twice", lines[0] + lines[0], "is damaged in line 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, filepath.Join(t.TempDir(), "relay.journal"), tt.text, 0o600)
			_, err := runner.OpenJournal(path, time.Now)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "open journal "+path+": ") {
				t.Errorf("error %v\nwant one with %s", err, tt.want)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != tt.text {
				t.Errorf("the damaged file was changed: %v", err)
			}
			// The refusal did not keep the lock.
			must(t, os.Remove(path))
			openJournal(t, path)
		})
	}
}

// sealedLines is a journal of the given records, which may also stand in one text with bars between them.
func sealedLines(t *testing.T, records ...string) string {
	t.Helper()
	var text bytes.Buffer
	_, _, err := linelog.Write(&text, linelog.Options{
		Header: `{"journal":"drawbridge-relay","version":1}`, MaxRecord: 1 << 20,
		Needed: func(emit func([]byte) error) error {
			for _, record := range strings.Split(strings.Join(records, "|"), "|") {
				if err := emit([]byte(record)); err != nil {
					return err
				}
			}
			return nil
		},
	})
	must(t, err)
	return text.String()
}

func TestWhoCanWriteTheJournal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		arrange func(t *testing.T, dir string)
		want    string
	}{
		{"owner only", func(*testing.T, string) {}, ""},
		{"others read it", chmod("relay.journal", 0o644), ""},
		{"group writes it", chmod("relay.journal", 0o620), "DIR/relay.journal can be written by others (mode 0620); run: chmod go-w DIR/relay.journal"},
		{"group writes the lock", chmod("relay.journal.lock", 0o660), "DIR/relay.journal.lock can be written by others"},
		{"others write the folder", chmod(".", 0o777), "DIR can be written by others (mode 0777); run: chmod go-w DIR"},
		{"folder", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/relay.journal"))
			must(t, os.Mkdir(dir+"/relay.journal", 0o700))
		}, "is not a regular file; name a plain file"},
		{"link", func(t *testing.T, dir string) {
			must(t, os.Rename(dir+"/relay.journal", dir+"/real"))
			must(t, os.Symlink("real", dir+"/relay.journal"))
		}, "is not a regular file"},
		{"lock is a link", func(t *testing.T, dir string) {
			must(t, os.Rename(dir+"/relay.journal.lock", dir+"/real"))
			must(t, os.Symlink("real", dir+"/relay.journal.lock"))
		}, "relay.journal.lock"},
		{"leftover of a crash", func(t *testing.T, dir string) { write(t, dir+"/relay.journal.new", "half", 0o600) }, ""},
		{"no folder", func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, "its folder does not exist; create it or correct the path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			must(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "relay.journal")
			j, err := runner.OpenJournal(path, time.Now)
			must(t, err)
			claim(t, j, "1", "a")
			must(t, j.Close())
			tt.arrange(t, dir)
			j, err = runner.OpenJournal(path, time.Now)
			if want := strings.ReplaceAll(tt.want, "DIR", dir); want != "" {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v\nwant %q", err, want)
				}
				return
			}
			must(t, err)
			defer j.Close()
			checkStatus(t, j, map[string]wire.Status{"1": wire.StatusInterrupted})
			if stat, err := os.Stat(path); err != nil || stat.Mode() != 0o600 {
				t.Errorf("mode %v, %v", stat.Mode(), err)
			}
		})
	}
}

// Whatever the bytes, reading them never panics, and what was read means the same when it is written and read again.
// The same holds for any history of claims, results and withdrawals, of which the bytes are taken for a description.
func FuzzJournalFile(f *testing.F) {
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	now := func() time.Time { return start }
	for _, history := range []string{"", "a", "aB", "abcABCxyz", "aAaBbCc\xff\x00"} {
		text, err := runner.FormatJournal(enact(f, history, now))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add([]byte(history))
		f.Add(append(text, "\x00\x00\n"...))
		f.Add(text[:len(text)*2/3])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := runner.ParseJournal(text, now); err == nil {
			roundTrip(t, m, now)
		}
		roundTrip(t, enact(t, string(text), now), now)
	})
}

// enact makes a history: each byte claims, finishes or withdraws one of 8 ids.
func enact(t testing.TB, history string, now func() time.Time) *runner.Memory {
	t.Helper()
	m := runner.NewMemory(now)
	text := strings.ToValidUTF8(history, "\ufffd")
	for i := range len(history) {
		c := history[i]
		id, action := fmt.Sprintf("id-%d", c%8), fmt.Sprintf("action.%d", c%8/2)
		switch c / 8 % 3 {
		case 0:
			// Begin would wait for an id that is claimed, so that it is given up first.
			if m.Recorded(id, action, "") == nil {
				_ = m.Withdraw(id)
				if _, err := m.Begin(t.Context(), runner.Claim{ID: id, Action: action}); err != nil {
					t.Fatal(err)
				}
			}
		case 1:
			// It may not be claimed, which is an error and no other effect.
			_ = m.Finish(id, wire.Answer{
				Action: action, Status: wire.StatusFailed, ExitCode: int(c), Stdout: text, Error: text, StderrOmitted: int64(i),
			})
		default:
			_ = m.Withdraw(id)
		}
	}
	return m
}

func roundTrip(t *testing.T, m *runner.Memory, now func() time.Time) {
	t.Helper()
	first, err := runner.FormatJournal(m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := runner.ParseJournal(first, now)
	if err != nil {
		t.Fatalf("%v of\n%s", err, first)
	}
	second, err := runner.FormatJournal(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(second)); diff != "" {
		t.Fatalf("written, read and written (-first +second):\n%s", diff)
	}
	for i := range 8 {
		id, action := fmt.Sprintf("id-%d", i), fmt.Sprintf("action.%d", i/2)
		if diff := cmp.Diff(m.Recorded(id, action, ""), again.Recorded(id, action, "")); diff != "" {
			t.Fatalf("%s (-before +after):\n%s", id, diff)
		}
	}
}

// An epoch is on the disk when KeepEpoch returns, outlives the journal's being written again, and never goes back.
func TestEpochIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	for _, step := range []struct{ keep, want int64 }{{1, 1}, {7, 7}, {3, 7}} {
		j := openAt(t, path)
		if err := j.KeepEpoch(step.keep); err != nil || j.Epoch() != step.want {
			t.Fatalf("after %d: epoch %d, %v", step.keep, j.Epoch(), err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	j := openAt(t, path)
	if j.Epoch() != 7 {
		t.Errorf("epoch %d at the last start", j.Epoch())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// A look-up tells the five cases apart and claims nothing.
func TestJournalLookup(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	j := openAt(t, path)
	look := func(id, action, body string) string {
		known, answer := j.Lookup(id, action, body)
		switch {
		case answer != nil:
			return string(answer.Status)
		case known:
			return "open"
		}
		return "unknown"
	}
	for id, later := range map[string]bool{"runs": false, "waits": true, "over": false} {
		if _, err := j.Begin(t.Context(), runner.Claim{ID: id, Action: "a", Body: "b", Later: later}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Finish("over", wire.Answer{Action: "a", Status: wire.StatusExecuted}); err != nil {
		t.Fatal(err)
	}
	got := []string{look("runs", "a", "b"), look("waits", "a", "b"), look("over", "a", "b"), look("none", "a", "b"), look("over", "b", "b"), look("over", "a", "c")}
	if want := []string{"open", "open", "executed", "unknown", "unknown", "unknown"}; !slices.Equal(got, want) {
		t.Errorf("looked up %q, want %q", got, want)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openAt(t, path)
	if got := []string{look("runs", "a", "b"), look("waits", "a", "b"), look("over", "a", "b")}; !slices.Equal(got, []string{"interrupted", "unknown", "executed"}) {
		t.Errorf("looked up %q after the relay ended", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func openAt(t *testing.T, path string) *runner.FileJournal {
	t.Helper()
	j, err := runner.OpenJournal(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return j
}
