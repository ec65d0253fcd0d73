package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/store"
)

// keepers is how many agents the tests of kept rows have.
const keepers = 3

// everyKept writes down all that the writer may keep in memory, as a step or a view sees it.
func everyKept(tx *bridge.Scene) (string, error) {
	var b strings.Builder
	for n := range keepers + 1 { // the last one is not there
		id := plainAgent(n).ID
		a, err := tx.Agent(id)
		fmt.Fprintln(&b, id, a.Trouble, err)
		tree, err := tx.Tree(id)
		fmt.Fprintln(&b, tree.Why, err)
		told, err := tx.ToldBy(id, "item")
		fmt.Fprintln(&b, told, err)
		head, err := tx.CurrentTurn(id)
		fmt.Fprintln(&b, head, err)
		open, err := tx.HasOpenTurn(id)
		fmt.Fprintln(&b, open, err)
		tokens, err := tx.Tokens(id)
		for _, t := range tokens {
			fmt.Fprintln(&b, t.ID, t.Revoked())
		}
		fmt.Fprintln(&b, len(tokens), err)
		if tx.Guesses() {
			return "", bridge.ErrLacking
		}
	}
	return b.String(), nil
}

// keeper makes updates at random and knows what the next one has to see.
type keeper struct {
	t    *testing.T
	s    *store.Store
	ctx  context.Context //nolint:containedctx // a test's
	rand *rand.Rand
	// want is what all see now; made counts the words that were written.
	want string
	made int
	// foreigners counts the calls of foreign.
	foreigners int
}

func (k *keeper) word() string { k.made++; return fmt.Sprintf("word%04d", k.made) }

// write changes one thing that may be kept.
func (k *keeper) write(tx *bridge.Scene) error {
	id, word := plainAgent(k.rand.IntN(keepers)).ID, k.word()
	switch k.rand.IntN(6) {
	case 0:
		a, err := tx.Agent(id)
		a.Trouble = word
		return errors.Join(err, tx.UpdateAgent(a))
	case 1:
		return tx.PutTree(bridge.Tree{Root: id, Why: word})
	case 2:
		return tx.PutTold(id, []bridge.ItemID{"item"}, bridge.TurnID(word))
	case 3:
		return tx.InsertToken(bridge.DoorToken{ID: bridge.TokenID(word), Agent: id, Hash: word})
	case 4:
		_, err := tx.RevokeTokens(id, time.Unix(1, 0))
		return err
	}
	return k.turn(tx, id, bridge.TurnID(word))
}

// turn adds a turn to an agent, or takes its first open one a step further.
func (k *keeper) turn(tx *bridge.Scene, id bridge.AgentID, word bridge.TurnID) error {
	t, err := tx.OpenTurn(id)
	if errors.Is(err, bridge.ErrNoRow) {
		_, err = tx.InsertTurn(bridge.Turn{ID: word, Agent: id, State: bridge.TurnQueued})
		return err
	}
	next := map[bridge.TurnState]bridge.TurnState{bridge.TurnQueued: bridge.TurnDelivering, bridge.TurnDelivering: bridge.TurnReplied}
	t.State = next[t.State]
	return errors.Join(err, tx.UpdateTurn(t))
}

var errNo = errors.New("no")

// update returns a step that looks at everything before and after it writes, and comes to nothing when end says so.
func (k *keeper) update(end error) func(*bridge.Scene) error {
	return func(tx *bridge.Scene) error {
		if k.rand.IntN(2) == 0 { // else it writes before it looks
			if got, err := everyKept(tx); err != nil || got != k.want {
				k.t.Errorf("a step sees\n%s(%v), want\n%s", got, err, k.want)
			}
		}
		for range k.rand.IntN(3) {
			if err := k.write(tx); err != nil {
				k.t.Error(err)
			}
		}
		after, err := everyKept(tx)
		if end == nil {
			k.want = after
		}
		return errors.Join(err, end)
	}
}

// batch runs several steps in one transaction, which may be lost.
func (k *keeper) batch() {
	before, lost := k.want, k.rand.IntN(4) == 0
	var fns []func(*bridge.Scene) error
	for range 1 + k.rand.IntN(3) {
		fns = append(fns, k.update([]error{nil, errNo}[k.rand.IntN(2)]))
	}
	if lost {
		fns = append(fns, func(tx *bridge.Scene) error { return errors.Join(k.update(errNo)(tx), k.s.LoseTransaction(k.ctx)) })
	}
	for _, err := range k.s.Together(k.ctx, fns) {
		if err != nil && !errors.Is(err, errNo) && !lost {
			k.t.Error(err)
		}
	}
	if lost {
		k.want = before
	}
}

// foreign lets another room or another program write, in a way that no step knows of.
func (k *keeper) foreign() {
	id, word := plainAgent(k.rand.IntN(keepers)).ID, k.word()
	k.foreigners++
	for _, q := range []string{
		"UPDATE agents SET trouble = '" + word + "' WHERE id = '" + string(id) + "'",
		"DELETE FROM told WHERE agent = '" + string(id) + "'",
		"REPLACE INTO trees (root, launches, turns, tokens, cost, unmetered, stopped_at, why) VALUES ('" + string(id) + "', 0, 0, 0, 0, 0, 0, '" + word + "')",
		"UPDATE turns SET state = 'failed' WHERE agent = '" + string(id) + "'",
		"DELETE FROM door_tokens WHERE agent = '" + string(id) + "'",
	} {
		var err error
		switch k.foreigners % 3 { // one kind alone, because each makes the writer forget all
		case 0:
			err = k.s.ExecBeside(k.ctx, q)
		case 1:
			err = k.s.WriteRows(k.ctx, func(r store.Rows) error { _, err := r.Exec(q); return err })
		case 2:
			if err = k.s.WriteRows(k.ctx, func(r store.Rows) error { _, err := r.Exec(q); return errors.Join(err, errNo) }); errors.Is(err, errNo) {
				err = nil
			}
		}
		if err != nil {
			k.t.Error(err)
		}
	}
	k.look()
}

// look reads from the database what everybody has to see.
func (k *keeper) look() {
	var err error
	if failed := k.s.View(k.ctx, func(tx *bridge.Scene) error { k.want, err = everyKept(tx); return err }); failed != nil {
		k.t.Error(failed)
	}
}

// TestKeptRowsAreAsCommitted: what SQLite's writer keeps in memory is what stands in the database, whatever was taken back, lost, or
// written by somebody else.
func TestKeptRowsAreAsCommitted(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	for seed := range uint64(3) {
		k := &keeper{t: t, s: s, ctx: bridge.Forgettable(t.Context()), rand: rand.New(rand.NewPCG(seed, 0))}
		k.made = 1000 * int(seed)
		for n := range keepers {
			if err := s.Update(k.ctx, insertAgent(n)); err != nil && seed == 0 {
				t.Fatal(err)
			}
		}
		k.look()
		for range 25 {
			if k.rand.IntN(4) == 0 {
				k.foreign()
			}
			k.batch()
			written := k.want
			if k.look(); k.want != written {
				t.Fatalf("seed %d: the database has\n%swhere the steps left\n%s", seed, k.want, written)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// TestNothingWritesByItself: SQLite's writer knows by a step's rows what the step changes. A trigger or a foreign key that changes
// other rows would pass it by.
func TestNothingWritesByItself(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "drawbridge.db"))
	byItself, tables := regexp.MustCompile(`(?i)\bTRIGGER\b|\bON\s+(DELETE|UPDATE)\b`), 0
	if err := s.ReadRows(t.Context(), func(r store.Rows) error {
		return r.Query("SELECT type, coalesce(sql, '') FROM sqlite_schema", func(scan func(...any) error) error {
			var kind, text string
			err := scan(&kind, &text)
			if tables++; byItself.MatchString(kind + " " + text) {
				t.Errorf("this writes by itself: %s", text)
			}
			return err
		})
	}); err != nil || tables < 30 {
		t.Fatal(tables, err)
	}
}
