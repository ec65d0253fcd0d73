package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/internal/linelog"
	"drawbridge/relay/runner"
	"drawbridge/relay/wire"
)

const lostText = "the relay ended while this action ran; it may have run"

func openJournal(t *testing.T, path string) *runner.FileJournal {
	t.Helper()
	j, err := runner.OpenJournal(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, j.Close()) })
	return j
}

// reopen is a restart of the relay.
func reopen(t *testing.T, j *runner.FileJournal, path string) *runner.FileJournal {
	t.Helper()
	must(t, j.Close())
	return openJournal(t, path)
}

func answered(text string) wire.Answer {
	return wire.Answer{Action: "a", Status: wire.StatusExecuted, ExitCode: 3, Stdout: text, Stderr: "<&>\u2028é\n", DurationMS: 7}
}

func TestJournalSurvivesARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	j := openJournal(t, path)
	for _, id := range []string{"finished", "lost", "withdrawn"} {
		if got := claim(t, j, id, "a"); got != nil {
			t.Fatalf("%s: a new id has the answer %+v", id, got)
		}
	}
	must(t, j.Finish("finished", answered("out")))
	must(t, j.Withdraw("withdrawn"))
	for range 3 { // What a restart decides holds for all later ones.
		j = reopen(t, j, path)
		want := answered("out")
		if diff := cmp.Diff(&want, claim(t, j, "finished", "a")); diff != "" {
			t.Errorf("finished (-want +got):\n%s", diff)
		}
		lost := wire.Answer{Action: "a", Status: wire.StatusInterrupted, ExitCode: wire.NoExitCode, Error: lostText}
		if diff := cmp.Diff(&lost, claim(t, j, "lost", "a")); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
		for _, id := range []string{"finished", "lost"} {
			if _, err := j.Begin(t.Context(), runner.Claim{ID: id, Action: "b"}); !errors.Is(err, runner.ErrOtherAction) {
				t.Errorf("%s: another action: %v", id, err)
			}
		}
		if got := claim(t, j, "withdrawn", "b"); got != nil {
			t.Errorf("withdrawn: %+v", got)
		}
		must(t, j.Withdraw("withdrawn"))
	}
	for name, err := range map[string]error{
		"finish twice": j.Finish("finished", answered("")), "withdraw a finished id": j.Withdraw("finished"),
		"finish what was lost": j.Finish("lost", answered("")), "finish an unknown id": j.Finish("new", answered("")),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := j.Begin(t.Context(), runner.Claim{ID: "a b", Action: "a"}); !errors.Is(err, runner.ErrUnrecorded) {
		t.Errorf("a malformed id: %v", err)
	}
	for _, name := range []string{path, path + ".lock"} {
		stat, err := os.Stat(name)
		if err != nil || stat.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, stat.Mode(), err)
		}
	}
}

// Ids are kept for a day from their end; those that a crash left open for a day from the restart, however late it comes.
func TestJournalForgetsAfterADay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	synctest.Test(t, func(t *testing.T) {
		j := openJournal(t, path)
		claim(t, j, "done", "a")
		must(t, j.Finish("done", answered("x")))
		claim(t, j, "lost", "a")
		time.Sleep(23 * time.Hour)
		j = reopen(t, j, path)
		if claim(t, j, "done", "a") == nil || j.Interrupted() != 1 {
			t.Errorf("after 23 hours: done is forgotten, or %d instead of 1 are interrupted", j.Interrupted())
		}
		time.Sleep(2 * time.Hour)
		j = reopen(t, j, path)
		if got := claim(t, j, "done", "b"); got != nil {
			t.Errorf("after 25 hours: %+v", got)
		}
		must(t, j.Withdraw("done"))
		time.Sleep(21 * time.Hour)
		j = reopen(t, j, path)
		if claim(t, j, "lost", "a") == nil {
			t.Error("what was lost is forgotten 23 hours after the restart")
		}
		time.Sleep(2 * time.Hour)
		j = reopen(t, j, path)
		if got := claim(t, j, "lost", "b"); got != nil {
			t.Errorf("two days later: %+v", got)
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "done") {
			t.Errorf("the file still holds what was forgotten: %s %v", text, err)
		}
	})
}

// A clock that is set back must neither stop the relay nor free an id.
func TestJournalClockSetBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	c := &clock{now: time.Now()}
	reset := func(shift time.Duration) *runner.FileJournal {
		c.pass(shift)
		j, err := runner.OpenJournal(path, c.Now)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := reset(0)
	claim(t, j, "1", "a")
	must(t, j.Finish("1", answered("x")))
	c.pass(25 * time.Hour)
	claim(t, j, "1", "b")
	must(t, j.Finish("1", answered("second")))
	must(t, j.Close())
	for _, shift := range []time.Duration{-24 * 365 * time.Hour, 0} {
		j = reset(shift)
		if got := claim(t, j, "1", "b"); got == nil || got.Stdout != "second" {
			t.Errorf("after the clock was set back: %+v", got)
		}
		must(t, j.Close())
	}
	j = reset(25 * time.Hour)
	defer j.Close()
	if got := claim(t, j, "1", "b"); got != nil {
		t.Errorf("a day after the clock was set back: %+v", got)
	}
}

func TestJournalKeepsTheNewestOutput(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	j := openJournal(t, path)
	for i := range 300 {
		id := fmt.Sprint(i)
		claim(t, j, id, "a")
		must(t, j.Finish(id, wire.Answer{Action: "a", Status: wire.StatusExecuted, Stdout: "mnopq"}))
	}
	j = reopen(t, j, path)
	kept := 0
	for i := range 300 {
		got := claim(t, j, fmt.Sprint(i), "a")
		if got == nil || len(got.Stdout)+int(got.StdoutOmitted) != 5 {
			t.Fatalf("%d: %+v", i, got)
		}
		if got.Stdout != "" {
			kept++
		}
	}
	// Letters, because the times in the file have every number.
	if text, err := os.ReadFile(path); err != nil || kept != 256 || bytes.Count(text, []byte("mnopq")) != 256 {
		t.Errorf("kept the output of %d, %v", kept, err)
	}
}

// The largest output that an action may keep, in the form that takes the most room in the file, survives a restart.
func TestJournalKeepsTheLargestOutput(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	j := openJournal(t, path)
	worst := strings.Repeat("[redacted]<", wire.MaxOutput/2)
	want := wire.Answer{Action: "a", Status: wire.StatusExecuted, Stdout: worst, Stderr: worst}
	claim(t, j, "op-1", "a")
	must(t, j.Finish("op-1", want))
	j = reopen(t, j, path)
	if got := claim(t, j, "op-1", "a"); got == nil || *got != want {
		t.Errorf("%d bytes of output are there", len(got.Stdout))
	}
}

// A journal that runs for months must not fill the disk.
func TestJournalIsWrittenAnewWhenItGrows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	j := openJournal(t, path)
	claim(t, j, "open", "a")
	claim(t, j, "done", "a")
	must(t, j.Finish("done", answered("x")))
	for i := range 100 {
		id := fmt.Sprint(i)
		claim(t, j, id, "a")
		must(t, j.Withdraw(id))
	}
	before, err := os.Stat(path)
	must(t, err)
	for i := range 20 {
		id := fmt.Sprint("large", i)
		claim(t, j, id, "a")
		must(t, j.Finish(id, answered(strings.Repeat("x", 1<<20))))
	}
	after, err := os.Stat(path)
	must(t, err)
	text, err := os.ReadFile(path)
	must(t, err)
	if os.SameFile(before, after) || bytes.Contains(text, []byte("withdrawn")) {
		t.Errorf("the file was not written again; it has %d bytes", len(text))
	}
	claim(t, j, "next", "a")
	must(t, j.Finish("open", answered("y")))
	j = reopen(t, j, path)
	for id, status := range map[string]wire.Status{"open": wire.StatusExecuted, "done": wire.StatusExecuted, "next": wire.StatusInterrupted} {
		if got := claim(t, j, id, "a"); got == nil || got.Status != status {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

func TestJournalLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	j := openJournal(t, path)
	claim(t, j, "1", "a")
	before, err := os.ReadFile(path)
	must(t, err)
	_, err = runner.OpenJournal(path, time.Now)
	if err == nil || !strings.Contains(err.Error(), path+": is in use by another relay; stop that one, or give this one a file of its own") {
		t.Errorf("error %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the second relay changed the file: %v", err)
	}
	must(t, j.Close())
	if _, err := j.Begin(t.Context(), runner.Claim{ID: "2", Action: "a"}); !errors.Is(err, runner.ErrUnrecorded) {
		t.Errorf("a claim after Close: %v", err)
	}
	if err := j.Finish("1", answered("")); err == nil {
		t.Error("a result was recorded after Close")
	}
}

// disk is a file on a disk that fails as it is told.
type disk struct {
	linelog.File
	// room is how many bytes it still takes, less than none is all but the last one of a write; syncs and truncates fail
	// while badSync and badTruncate are set.
	room                 int
	badSync, badTruncate bool
	// done lists the calls that went well.
	done []string
}

func (d *disk) Write(p []byte) (int, error) {
	if d.room < 0 {
		d.room = len(p) - 1
	}
	if n := min(len(p), d.room); n < len(p) {
		d.room = 0
		_, _ = d.File.Write(p[:n])
		return n, syscall.ENOSPC
	}
	d.room -= len(p)
	d.done = append(d.done, "write")
	return d.File.Write(p)
}

func (d *disk) Sync() error {
	if d.badSync {
		return syscall.EIO
	}
	d.done = append(d.done, "sync")
	return d.File.Sync()
}

func (d *disk) Truncate(size int64) error {
	if d.badTruncate {
		return syscall.EIO
	}
	return d.File.Truncate(size)
}

func onDisk(t *testing.T) (*runner.FileJournal, *disk, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.journal")
	j, d := openJournal(t, path), &disk{room: 1 << 20}
	j.Wrap(func(w linelog.File) linelog.File {
		d.File = w
		return d
	})
	return j, d, path
}

// Everything is on the disk before the call returns (facts: relay, rule 8).
func TestJournalSyncs(t *testing.T) {
	t.Parallel()
	j, d, _ := onDisk(t)
	for _, step := range []func(){
		func() { claim(t, j, "1", "a") },
		func() { must(t, j.Finish("1", answered("x"))) },
		func() { claim(t, j, "2", "a") },
		func() { must(t, j.Withdraw("2")) },
	} {
		d.done = nil
		step()
		if diff := cmp.Diff([]string{"write", "sync"}, d.done); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	d.done = nil
	if claim(t, j, "1", "a") == nil || d.done != nil {
		t.Errorf("a lookup did %v", d.done)
	}
}

// However a disk fails, at whichever byte: nothing is claimed that was not recorded, what ran never runs again, and the
// journal goes on as soon as the disk does.
func TestJournalOnAFailingDisk(t *testing.T) {
	t.Parallel()
	faults := map[string]func(*disk){
		"full at once":                func(d *disk) { d.room = 0 },
		"full in the middle":          func(d *disk) { d.room = 50 },
		"full before the last byte":   func(d *disk) { d.room = -1 },
		"full and nothing taken back": func(d *disk) { d.room, d.badTruncate = 50, true },
		"sync fails":                  func(d *disk) { d.badSync = true },
	}
	for name, fail := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, d, path := onDisk(t)
			for _, id := range []string{"early", "ran", "waited"} {
				claim(t, j, id, "a")
			}
			must(t, j.Finish("early", answered("x")))
			fail(d)
			if err := j.Finish("ran", answered(strings.Repeat("x", 100))); err == nil {
				t.Error("a result was recorded on a bad disk")
			}
			checkStatus(t, j, map[string]wire.Status{"early": wire.StatusExecuted, "ran": wire.StatusInterrupted})
			*d = disk{File: d.File, room: 1 << 20}
			claim(t, j, "later", "a")
			must(t, j.Finish("later", answered("y")))
			must(t, j.Withdraw("waited"))
			j = reopen(t, j, path)
			checkStatus(t, j, map[string]wire.Status{
				"early": wire.StatusExecuted, "ran": wire.StatusInterrupted, "later": wire.StatusExecuted, "waited": "",
			})
		})
		t.Run(name+" on claim", func(t *testing.T) {
			t.Parallel()
			j, d, path := onDisk(t)
			claim(t, j, "early", "a")
			fail(d)
			if answer, err := j.Begin(t.Context(), runner.Claim{ID: "new", Action: "a"}); !errors.Is(err, runner.ErrUnrecorded) {
				t.Errorf("claimed on a bad disk: %+v, %v", answer, err)
			}
			*d = disk{File: d.File, room: 1 << 20}
			// Nothing ran, so the id is free, even for another action.
			claim(t, j, "new", "b")
			must(t, j.Finish("new", answered("y")))
			j = reopen(t, j, path)
			if got := claim(t, j, "new", "b"); got == nil || got.Stdout != "y" {
				t.Errorf("new: %+v", got)
			}
			checkStatus(t, j, map[string]wire.Status{"early": wire.StatusInterrupted})
		})
	}
}

func checkStatus(t *testing.T, j runner.Journal, want map[string]wire.Status) {
	t.Helper()
	for id, status := range want {
		var got wire.Status
		if answer := claim(t, j, id, "a"); answer != nil {
			got = answer.Status
		}
		if got != status {
			t.Errorf("%s is %q, want %q", id, got, status)
		}
	}
}

// The folder is gone when the journal has to be written again: nothing runs, and it goes on when the folder is back.
func TestJournalWithoutItsFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "relay.journal")
	j := openJournal(t, path)
	claim(t, j, "1", "a")
	must(t, j.Finish("1", answered("x")))
	must(t, os.Rename(dir, dir+".away"))
	claim(t, j, "2", "a")
	must(t, j.Finish("2", answered("y")))
	d := &disk{badSync: true, room: 1 << 20}
	j.Wrap(func(w linelog.File) linelog.File { d.File = w; return d })
	for _, id := range []string{"3", "4"} {
		if _, err := j.Begin(t.Context(), runner.Claim{ID: id, Action: "a"}); !errors.Is(err, runner.ErrUnrecorded) {
			t.Errorf("%s was claimed: %v", id, err)
		}
	}
	must(t, os.Rename(dir+".away", dir))
	claim(t, j, "3", "a")
	j = reopen(t, j, path)
	checkStatus(t, j, map[string]wire.Status{"1": wire.StatusExecuted, "2": wire.StatusExecuted, "3": wire.StatusInterrupted, "4": ""})
}

func TestJournalForManyCallers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.journal")
	j := openJournal(t, path)
	var group sync.WaitGroup
	var mu sync.Mutex
	ran := map[string]int{}
	for i := range 200 {
		group.Go(func() {
			id := fmt.Sprint(i % 50)
			answer, err := j.Begin(t.Context(), runner.Claim{ID: id, Action: "a"})
			if err != nil {
				t.Error(err)
			}
			if answer != nil {
				return
			}
			mu.Lock()
			ran[id]++
			mu.Unlock()
			if err := j.Finish(id, answered(id)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	j = reopen(t, j, path)
	for i := range 50 {
		id := fmt.Sprint(i)
		if got := claim(t, j, id, "a"); ran[id] != 1 || got == nil || got.Stdout != id {
			t.Errorf("%s ran %d times, recorded %+v", id, ran[id], got)
		}
	}
}

// No answer of an earlier request waits for a disk that takes its time.
func TestJournalLookupDoesNotWaitForTheDisk(t *testing.T) {
	t.Parallel()
	j, d, _ := onDisk(t)
	claim(t, j, "done", "a")
	must(t, j.Finish("done", answered("x")))
	syncing, free := make(chan struct{}), make(chan struct{})
	j.Wrap(func(linelog.File) linelog.File {
		return &slowDisk{File: d, syncing: syncing, free: free}
	})
	ended := make(chan error, 1)
	go func() {
		_, err := j.Begin(context.WithoutCancel(t.Context()), runner.Claim{ID: "slow", Action: "a"})
		ended <- err
	}()
	<-syncing
	if got := claim(t, j, "done", "a"); got == nil || got.Stdout != "x" {
		t.Errorf("%+v", got)
	}
	close(free)
	must(t, <-ended)
}

type slowDisk struct {
	linelog.File
	syncing, free chan struct{}
}

func (d *slowDisk) Sync() error {
	close(d.syncing)
	<-d.free
	return d.File.Sync()
}
