package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/runner"
	"drawbridge/relay/wire"
)

func claim(t *testing.T, j runner.Journal, id, action string) *wire.Answer {
	t.Helper()
	answer, err := j.Begin(t.Context(), runner.Claim{ID: id, Action: action})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestMemoryRemembersForADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := runner.NewMemory(time.Now)
		want := wire.Answer{Action: "a", Status: wire.StatusExecuted, Stdout: "x"}
		if got := claim(t, j, "1", "a"); got != nil {
			t.Fatalf("a new id has the answer %+v", got)
		}
		if err := j.Finish("1", want); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour - time.Second)
		if diff := cmp.Diff(&want, claim(t, j, "1", "a")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if _, err := j.Begin(t.Context(), runner.Claim{ID: "1", Action: "b"}); !errors.Is(err, runner.ErrOtherAction) {
			t.Errorf("another action: %v", err)
		}
		time.Sleep(2 * time.Second)
		if got := claim(t, j, "1", "b"); got != nil {
			t.Errorf("after a day: %+v", got)
		}
	})
}

func TestMemoryWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := runner.NewMemory(time.Now)
		claim(t, j, "1", "a")
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := j.Begin(impatient, runner.Claim{ID: "1", Action: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an impatient caller got %v", err)
		}
		took := make(chan *wire.Answer)
		go func() {
			answer, err := j.Begin(t.Context(), runner.Claim{ID: "1", Action: "a"})
			if err != nil {
				t.Error(err)
			}
			took <- answer
		}()
		synctest.Wait()
		if err := j.Withdraw("1"); err != nil {
			t.Fatal(err)
		}
		if answer := <-took; answer != nil {
			t.Errorf("after a withdrawal the next one is to run, got %+v", answer)
		}
		if err := j.Finish("1", wire.Answer{Status: wire.StatusFailed}); err != nil {
			t.Errorf("the second claim: %v", err)
		}
		for _, err := range []error{j.Finish("1", wire.Answer{}), j.Withdraw("1"), j.Finish("2", wire.Answer{}), j.Withdraw("2")} {
			if err == nil {
				t.Error("an id that is not open was closed")
			}
		}
	})
}

// Over the cap nothing runs; forgetting a young id would let it run twice.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := runner.NewMemory(time.Now)
		for i := range 1 << 16 {
			id := fmt.Sprint(i)
			claim(t, j, id, "a")
			if err := j.Finish(id, wire.Answer{Status: wire.StatusExecuted, Stdout: "12345", StderrOmitted: 1, Stderr: "é"}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := j.Begin(t.Context(), runner.Claim{ID: "more", Action: "a"}); !errors.Is(err, runner.ErrJournalFull) {
			t.Errorf("over the cap: %v", err)
		}
		slim := wire.Answer{Status: wire.StatusExecuted, StdoutOmitted: 5, StderrOmitted: 3}
		if diff := cmp.Diff(&slim, claim(t, j, "0", "a")); diff != "" {
			t.Errorf("an old answer (-want +got):\n%s", diff)
		}
		if last := claim(t, j, "65535", "a"); last.Stdout != "12345" {
			t.Errorf("the last answer is %+v", last)
		}
		time.Sleep(25 * time.Hour)
		if got := claim(t, j, "more", "a"); got != nil {
			t.Errorf("a day later: %+v", got)
		}
	})
}

// However much the actions of a day print, the relay stays small.
func TestMemoryOfLargeAnswers(t *testing.T) {
	t.Parallel()
	j := runner.NewMemory(time.Now)
	const answers, size = 40, 1 << 20
	large := strings.Repeat("x", size/2)
	for i := range answers {
		id := fmt.Sprint(i)
		claim(t, j, id, "a")
		if err := j.Finish(id, wire.Answer{Status: wire.StatusExecuted, Stdout: large, Stderr: large}); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for i := range answers {
		answer := claim(t, j, fmt.Sprint(i), "a")
		kept += len(answer.Stdout) + len(answer.Stderr)
		if got := int64(len(answer.Stdout)+len(answer.Stderr)) + answer.StdoutOmitted + answer.StderrOmitted; got != size {
			t.Errorf("answer %d tells of %d bytes", i, got)
		}
		if whole := answer.Stdout != ""; whole != (i >= answers-8) {
			t.Errorf("answer %d has its output: %t", i, whole)
		}
	}
	if kept != 8<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
}
