package store_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/mail"
	"drawbridge/policy"
	"drawbridge/proof/runtimes"
	"drawbridge/store"
)

// counted is a store that counts the statements of steps, and takes them back, while counting is set.
type counted struct {
	*store.Store
	counting, kept bool
	statements     int
}

// Update implements bridge.Store.
func (c *counted) Update(ctx context.Context, fn func(*bridge.Scene) error, hints ...bridge.Need) (err error) {
	if !c.counting {
		return c.Store.Update(bridge.Forgettable(ctx), fn, hints...)
	}
	c.statements, err = c.Statements(ctx, c.kept, fn)
	return err
}

// newOffice is a post office over an engine that does not run, so that no turn is delivered.
func newOffice(t *testing.T, s bridge.Store) *mail.Service {
	t.Helper()
	rules, problems := policy.New(policy.Rules{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	e, err := engine.New(engine.Options{Store: s, Runtime: &runtimes.Cloud{}, Actions: &runtimes.Relay{}, Log: zerolog.Nop(),
		Policy: func() *policy.Policy { return rules }, OnEvent: func(bridge.Event) {},
		Keys: bridge.Keys{Current: bridge.Key{ID: "1", Secret: []byte(strings.Repeat("k", 32))}}})
	if err != nil {
		t.Fatal(err)
	}
	office, err := mail.New(mail.Options{Steps: e, PerPair: -1})
	if err != nil {
		t.Fatal(err)
	}
	return office
}

// family are an agent that writes and its siblings: one gets a turn, one was stopped, the turn of one failed.
func family(tx *bridge.Scene) error {
	root := bridge.Agent{ID: "agt_root", Name: "root", Root: "agt_root", State: bridge.AgentIdle}
	if err := tx.InsertAgent(root); err != nil {
		return err
	}
	for name, state := range map[string]bridge.AgentState{"writer": bridge.AgentDone, "busy": bridge.AgentDone, "stopped": bridge.AgentGated,
		"failed": bridge.AgentFailed} {
		id := bridge.AgentID("agt_" + name)
		if err := tx.InsertAgent(bridge.Agent{ID: id, Name: name, Root: root.ID, Parent: root.ID, External: "bc-" + name, State: state}); err != nil {
			return err
		}
	}
	return nil
}

// TestSendTakesTheSameStatements: a message to an agent for which many letters wait takes the statements of one to an agent for which
// one waits, with an empty memory (of a bridge that has just started) and with rows that are kept.
func TestSendTakesTheSameStatements(t *testing.T) {
	t.Parallel()
	c := &counted{Store: open(t, filepath.Join(t.TempDir(), "drawbridge.db"))}
	office := newOffice(t, c)
	if err := c.Update(t.Context(), family); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"busy", "stopped", "failed"} {
		send := func() {
			t.Helper()
			if _, err := office.Send(t.Context(), "agt_writer", mail.Draft{To: "agt_" + to, Text: "a message of some words", Sync: to == "busy"}); err != nil {
				t.Fatal(err)
			}
		}
		measure := func(kept bool) int {
			c.counting, c.kept = true, kept
			defer func() { c.counting = false }()
			send()
			return c.statements
		}
		send()
		measure(true) // what it looks up is kept from here on
		cold, hot := measure(false), measure(true)
		t.Logf("to %s: %d statements, %d with kept rows", to, cold, hot)
		if hot >= cold {
			t.Errorf("a message to %s takes %d statements, and %d with kept rows", to, cold, hot)
		}
		for _, letters := range []int{5, 115} { // the latter are more than one turn carries
			for range letters {
				send()
			}
			measure(true)
			if again, hotter := measure(false), measure(true); again != cold || hotter != hot {
				t.Errorf("with %d letters more a message to %s takes %d statements, and %d with kept rows; %d and %d before", letters, to, again, hotter, cold, hot)
			}
		}
	}
}
