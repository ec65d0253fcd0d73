package approval_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/relay/runner/approval"
)

// saying is a person who gives the same answer to everything.
func saying(yes bool, asked *int) map[string]approval.Prompter {
	return map[string]approval.Prompter{"terminal": func(ctx context.Context, _ approval.Pending, decide func(bool)) {
		*asked++
		decide(yes)
		<-ctx.Done()
	}}
}

// Each no makes the next question about that action come later, over a restart of the relay and for other requests as well; no
// answer is a no. Other actions are asked about all the same, and a yes ends it.
func TestNobodyIsAskedRightAfterANo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		asked, n := 0, 0
		next := func() approval.Question {
			n++
			return question(fmt.Sprint(n), "d")
		}
		refused := func(rest time.Duration) {
			t.Helper()
			before := asked
			for range 3 { // the noes to what nobody was asked do not add up
				_, err := open(t, path, saying(true, &asked)).Ask(t.Context(), next())
				var unasked *approval.UnaskedError
				if !errors.As(err, &unasked) || !unasked.Denied || unasked.Wait != rest || asked != before {
					t.Errorf("after a no: %v, asked %d times", err, asked-before)
				}
			}
			other := next()
			other.Action = fmt.Sprint("other", n)
			if v, err := open(t, path, saying(true, &asked)).Ask(t.Context(), other); err != nil || !v.Approved {
				t.Errorf("another action: %+v, %v", v, err)
			}
			time.Sleep(rest)
		}
		for _, rest := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, time.Hour} {
			if v, err := open(t, path, saying(false, &asked)).Ask(t.Context(), next()); err != nil || v.Approved {
				t.Errorf("%+v, %v", v, err)
			}
			refused(rest)
		}
		if v, err := open(t, path, nil).Ask(t.Context(), next()); err != nil || v.By != "nobody" {
			t.Errorf("%+v, %v", v, err)
		}
		refused(time.Hour)
		if v, err := open(t, path, saying(true, &asked)).Ask(t.Context(), next()); err != nil || !v.Approved {
			t.Errorf("asked again: %+v, %v", v, err)
		}
		if v, err := open(t, path, saying(false, &asked)).Ask(t.Context(), next()); err != nil || v.Approved {
			t.Errorf("after a yes: %+v, %v", v, err)
		}
		refused(time.Minute)
		if v, err := open(t, path, saying(false, &asked)).Ask(t.Context(), next()); err != nil || v.Approved {
			t.Errorf("%+v, %v", v, err)
		}
		must(t, open(t, path, nil).DenyAll("kill switch"))
		if v, err := open(t, path, saying(true, &asked)).Ask(t.Context(), next()); err != nil || !v.Approved {
			t.Errorf("after the kill switch: %+v, %v", v, err)
		}
	})
}

// However often a person says yes, and whether anybody waits for the answer or not: so many questions and no more.
func TestQuestionsHaveARate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "approvals")
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		desk := open(t, path, saying(true, &asked))
		began := time.Now()
		for n := 0; time.Since(began) < 2*time.Hour; n++ {
			v, err := desk.Ask(t.Context(), question(fmt.Sprint(n), "d"))
			var unasked *approval.UnaskedError
			switch {
			case err == nil && v.Approved:
			case errors.As(err, &unasked) && !unasked.Denied && unasked.Wait > 0:
				time.Sleep(unasked.Wait)
			default:
				t.Fatalf("%+v, %v", v, err)
			}
			if limit := 30 * (1 + int(time.Since(began)/time.Hour)); asked > limit || time.Since(began) < time.Minute && asked > 5 {
				t.Fatalf("asked %d times in %s", asked, time.Since(began))
			}
		}
		if asked < 60 {
			t.Errorf("asked %d times in two hours", asked)
		}
	})
}
