package store

import (
	"cmp"
	"context"
	"fmt"

	"drawbridge/bridge"
)

// query is one SELECT whose rows belong into a scene.
type query struct {
	sql  string
	args []any
	// row takes one row; nil for a query whose rows are only counted.
	row func(scanner) error
	// done is called with how many rows there were.
	done func(rows int)
	// beside says that the rows come with those of the need's other query, and are none without them.
	beside bool
}

// statement is one write. Empty says what it means that no row was changed; nil lets it be.
type statement struct {
	sql   string
	args  []any
	empty error
}

// target is where the rows of a need go.
type target[K ~string | ~int64 | ~int, V any] struct {
	sc *bridge.Scene
	n  bridge.Need
	t  *bridge.Table[K, V]
	of table[K, V]
}

func into[K ~string | ~int64 | ~int, V any](sc *bridge.Scene, n bridge.Need, t *bridge.Table[K, V], of table[K, V]) target[K, V] {
	return target[K, V]{sc, n, t, of}
}

// rows returns a query for the rows that its tail selects.
func (d target[K, V]) rows(tail string, args ...any) query {
	return query{
		sql:  "SELECT " + d.of.columns + " FROM " + d.of.name + " " + tail,
		args: args,
		row: func(r scanner) error {
			v, err := d.of.scan(r)
			if err == nil {
				d.t.Load(d.of.key(&v), v)
			}
			return err
		},
		done: func(rows int) { d.sc.Knows(d.n, rows) },
	}
}

// counted returns a query of one number.
func counted(sc *bridge.Scene, n bridge.Need, sql string, args ...any) query {
	return query{
		sql: sql, args: args,
		row: func(r scanner) error {
			v, err := scanInt(r)
			sc.Counted(n, v)
			return err
		},
		done: func(rows int) {
			if rows == 0 {
				sc.Counted(n, 0)
			}
		},
	}
}

// table is how rows of one kind stand in the database.
type table[K ~string | ~int64 | ~int, V any] struct {
	name string
	// columns are all that scan reads, in its order.
	columns string
	scan    func(scanner) (V, error)
	key     func(*V) K
	// insert takes args; update takes args too, and is empty where insert replaces a row that is there.
	insert, update string
	args           func(*V) ([]any, error)
	// rest updates a row whose texts stay the same, without those; its arguments are args, and those of insert and update
	// are args and texts. Empty for tables without long texts.
	rest  string
	same  func(was, now *V) bool
	texts func(*bridge.Scene, *V) []any
	// scene is where texts looks for what a row can leave out.
	scene *bridge.Scene
	// remove deletes the row of removeArgs.
	remove     string
	removeArgs func(*V) []any
}

// writesOf adds what a step wrote in a table.
func writesOf[K ~string | ~int64 | ~int, V any](out *[]statement, t *bridge.Table[K, V], of table[K, V]) error {
	for w := range t.Writes() {
		if w.Now == nil {
			*out = append(*out, statement{sql: of.remove, args: of.removeArgs(w.Was)})
			continue
		}
		args, err := of.args(w.Now)
		if err != nil {
			return fmt.Errorf("write %s: %w", of.name, err)
		}
		st := statement{sql: of.insert, args: args}
		switch {
		case w.Was != nil && of.rest != "" && of.same(w.Was, w.Now):
			st = statement{sql: of.rest, args: args, empty: errRowGone}
		case w.Was != nil && of.update != "":
			st = statement{sql: of.update, args: of.withTexts(args, w.Now), empty: errRowGone}
		default:
			st.args = of.withTexts(args, w.Now)
		}
		*out = append(*out, st)
	}
	return nil
}

// in is the table for rows of a scene, which may show words of each other.
func (of table[K, V]) in(sc *bridge.Scene) table[K, V] {
	of.scene = sc
	return of
}

func (of table[K, V]) withTexts(args []any, row *V) []any {
	if of.texts == nil {
		return args
	}
	return append(args, of.texts(of.scene, row)...)
}

// errRowGone says that a row which the step had read is not there any more. Nobody
// else writes it while the step runs, so that only a person with a tool of the database can have done it.
var errRowGone = fmt.Errorf("a row is gone that was there: %w", bridge.ErrNoRow)

// asArgs is args for rows whose values cannot fail to be written.
func asArgs[V any](args func(*V) []any) func(*V) ([]any, error) {
	return func(v *V) ([]any, error) { return args(v), nil }
}

// loaders turn needs into queries; each knows some kinds of needs and returns nil for others.
var loaders = []func(*bridge.Scene, bridge.Need) []query{loadStory, loadAgents, loadLedger, loadRelays, loadMemory, loadMail}

// queriesOf returns what loads a need.
func queriesOf(sc *bridge.Scene, n bridge.Need) ([]query, error) {
	for _, load := range loaders {
		if q := load(sc, n); q != nil {
			return q, nil
		}
	}
	return nil, fmt.Errorf("the store does not know how to load %T", n)
}

// writers turn what a step changed into statements, in an order that every constraint bears.
var writers = []func(*[]statement, *bridge.Scene) error{writeAgents, writeLedger, writeRelays, writeMail}

func statementsOf(sc *bridge.Scene, index *textIndex) (out []statement, err error) {
	for _, write := range writers {
		if err := write(&out, sc); err != nil {
			return nil, err
		}
	}
	if err := writeMemory(&out, sc, index); err != nil {
		return nil, err
	}
	return append(out, laneStatements(sc.Lanes, index.lane)...), nil
}

// maxRuns bounds how often a step runs: each run finds at least one more row that it needs.
const maxRuns = 1000

// decide runs a step until nothing lacks. fetch loads needs into the scene.
func decide(ctx context.Context, sc *bridge.Scene, fn func(*bridge.Scene) error, fetch func(context.Context, []bridge.Need) error) error {
	var lacks []bridge.Need
	for range maxRuns {
		err := attempt(sc, fn, sc.Guesses)
		lacks = sc.Lacks()
		if len(lacks) == 0 {
			return err
		}
		sc.Rewind()
		if err := fetch(ctx, lacks); err != nil {
			return err
		}
	}
	return fmt.Errorf("the step still lacks rows after %d runs: %+v", maxRuns, lacks)
}

// attempt runs a step once. A panic of a run that guessed does not count: the step runs again.
func attempt(sc *bridge.Scene, fn func(*bridge.Scene) error, guessed func() bool) error {
	defer func() {
		if p := recover(); p != nil && !guessed() {
			panic(p)
		}
	}()
	return fn(sc)
}

// step decides on a scene and writes what the step changed. Rows are loaded when a look-up lacks them, so that the step runs once.
// When the database fails at one, nothing is written, whatever the step makes of the error.
func (t *tx) step(sc *bridge.Scene, fn func(*bridge.Scene) error) error {
	var failed error
	sc.LoadBy(func(n bridge.Need) error {
		if t.kept.Give(sc, n) {
			return nil
		}
		err := t.load(sc, []bridge.Need{n})
		if err == nil {
			t.kept.Take(sc, n)
		}
		failed = cmp.Or(failed, err)
		return err
	})
	err := fn(sc)
	if err = cmp.Or(failed, err); err != nil || !sc.Changed() {
		return err
	}
	return t.kept.Apply(sc, func() error { return t.apply(sc) })
}

// load puts the rows of needs into a scene.
func (t *tx) load(sc *bridge.Scene, needs []bridge.Need) error {
	for _, n := range needs {
		queries, err := queriesOf(sc, n)
		if err != nil {
			return err
		}
		if err := t.runAll(queries); err != nil {
			return fmt.Errorf("load %T: %w", n, err)
		}
	}
	return nil
}

// runAll runs the queries of a need, and those of rows beside others last: without those others there are none.
func (t *tx) runAll(queries []query) error {
	counts, found := make([]int, len(queries)), 0
	for _, beside := range []bool{false, true} {
		for i, q := range queries {
			if q.beside != beside || beside && found == 0 {
				continue
			}
			var err error
			if counts[i], err = t.run(q); err != nil {
				return err
			}
			found += counts[i]
		}
	}
	for i, q := range queries {
		if q.done != nil {
			q.done(counts[i])
		}
	}
	return nil
}

// run returns how many rows there were.
func (t *tx) run(q query) (n int, err error) {
	rows, err := t.q.QueryContext(t.ctx, q.sql, q.args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		if err := q.row(rows); err != nil {
			return 0, err
		}
	}
	return n, rows.Err()
}

// apply writes what a step changed.
func (t *tx) apply(sc *bridge.Scene) error {
	all, err := statementsOf(sc, t.index)
	if err != nil {
		return err
	}
	news, err := eventStatements(sc)
	if err != nil {
		return err
	}
	for _, st := range append(all, news...) {
		n, err := t.execCount(st.sql, st.args...)
		if err != nil {
			return err
		}
		if n == 0 && st.empty != nil {
			return st.empty
		}
	}
	return nil
}
