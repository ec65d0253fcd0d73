package runner_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/relay/wire"
)

// With approve_by: either the bridge is told at once that its operator may answer, while the question is open at the machine. Whoever
// answers first decides, once; without an answer it is a no.
func TestEitherMayAnswer(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	synctest.Test(t, func(t *testing.T) {
		h := handle(t, `
limits: { approval_wait: 5m }
actions:
  yes:    { argv: [/bin/echo, 1], approval: each, approve_by: either }
  no:     { argv: [/bin/echo, 2], approval: each, approve_by: either }
  bridge: { argv: [/bin/echo, 3], approval: each, approve_by: either }
  nobody: { argv: [/bin/echo, 4], approval: each, approve_by: either }
  door:   { argv: [/bin/echo, 5], approval: each, approve_by: either }
`, rec)
		ran := func(n int) {
			t.Helper()
			if len(rec.commands) != n || len(h.Pending()) != 0 {
				t.Errorf("%d ran instead of %d, %d are pending", len(rec.commands), n, len(h.Pending()))
			}
		}
		ask := func(action string) wire.Outcome { return h.ask(t, wire.Request{ID: action, Action: action}) }
		opened := func(action string) string {
			t.Helper()
			for range 2 { // asked again, it is the same question
				out := ask(action)
				if out.Refusal != wire.RefusedApproval || out.Definition == "" || !strings.HasPrefix(out.Shows, "it would run") {
					t.Errorf("asked: %+v", out)
				}
			}
			synctest.Wait()
			pending := h.Pending()
			if len(pending) != 1 || pending[0].Request != action {
				t.Fatalf("pending: %+v", pending)
			}
			return pending[0].ID
		}
		answered := func(action string) {
			t.Helper()
			if got := <-h.Answered(); got != action {
				t.Errorf("%q was answered, not %q", got, action)
			}
		}

		must(t, h.Decide(opened("yes"), true, "command line"))
		answered("yes")
		answered("yes") // told again, because nobody came
		if out := ask("yes"); out.Status != wire.StatusExecuted {
			t.Errorf("%+v", out)
		}
		ran(1)
		if out := ask("yes"); !out.Replayed {
			t.Errorf("asked again: %+v", out)
		}

		must(t, h.Decide(opened("no"), false, "command line"))
		answered("no")
		for range 2 {
			if out := ask("no"); out.Refusal != wire.RefusedDenied || out.Error != "a person denied it" {
				t.Errorf("%+v", out)
			}
		}
		ran(1)

		id := opened("bridge")
		definition := ask("bridge").Definition
		if out := h.ask(t, wire.Request{ID: "bridge", Action: "bridge", Approved: &wire.Approval{Definition: definition}}); out.Status != wire.StatusExecuted {
			t.Errorf("%+v", out)
		}
		ran(2)
		if err := h.Decide(id, true, "command line"); err == nil {
			t.Error("the machine may answer what the bridge has answered")
		}

		opened("nobody")
		began := time.Now()
		answered("nobody")
		if out := ask("nobody"); out.Refusal != wire.RefusedDenied || out.Error != "no person approved it within 5m0s" || time.Since(began) != 5*time.Minute {
			t.Errorf("%+v after %s", out, time.Since(began))
		}
		ran(2)

		// Behind the relay's own door is no operator.
		if out := h.ask(t, wire.Request{ID: "door", Action: "door", KeyID: "door"}); out.Refusal != wire.RefusedDenied {
			t.Errorf("%+v", out)
		}
		ran(2)
	})
}

// A yes at the machine that the bridge does not come for is forgotten, and the action is asked about again.
func TestEitherIsForgotten(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	synctest.Test(t, func(t *testing.T) {
		h := handle(t, "actions:\n  a: { argv: [/bin/echo, 1], approval: each, approve_by: either }\n", rec)
		ask := func() wire.Outcome { return h.ask(t, wire.Request{ID: "1", Action: "a"}) }
		ask()
		synctest.Wait()
		must(t, h.Decide(h.Pending()[0].ID, true, "command line"))
		time.Sleep(2 * time.Minute)
		if out := ask(); out.Refusal != wire.RefusedApproval || len(rec.commands) != 0 {
			t.Errorf("%+v", out)
		}
		synctest.Wait()
		if len(h.Pending()) != 1 {
			t.Error("nobody is asked")
		}
		time.Sleep(time.Hour)
	})
}
