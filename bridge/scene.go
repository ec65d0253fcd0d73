package bridge

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"time"
)

// Scene is what one step knows of the database, and what the step changes. It holds
// rows and no connection, so that a decision on it is pure: the same rows give the
// same changes, as often as it runs. A look-up whose rows are not there notes what
// it lacks (Lacks); the store loads that and runs the step again from the start. A
// look-up that may find nothing goes on as if it had found nothing, so that one run
// names more of what lacks; one whose row must be there fails with ErrLacking. It is
// not for concurrent use.
type Scene struct {
	Rows *Rows
	// News are the events that the step records, Lanes what it does with work, both in order.
	News  []Event
	Lanes []LaneChange
	// Search finds passages; nil in a step, which does not search.
	Search func(PassageQuery) ([]Passage, error)
	// Seen gets each row that the step writes, before and after; a nil pointer where there is none. It may be nil.
	Seen func(was, now any)

	whole    bool // every row is here
	stumble  int
	readOnly bool
	known    map[Need]known
	lacks    []Need
	fetch    func(Need) error // of a view, and of a step whose store is near
	given    map[int64]bool   // work that the step has given back
}

// ErrLacking is returned by a look-up whose row the store has to load first. The
// store runs the step again, whatever the step makes of the error.
var ErrLacking = errors.New("the scene lacks rows")

// ErrReadOnly is returned by writes to the scene of a View.
var ErrReadOnly = errors.New("a view must not write")

// Need names rows that a step looks at. Needs are comparable values.
type Need interface{ need() }

type needs struct{}

func (needs) need() {}

// known says that the rows of a need are in the scene.
type known struct {
	// full says that there may be more rows behind those that were loaded.
	full bool
	// n is the answer of a need that asks for a number and not for rows.
	n int64
	// answer is that of a need which the store answers by itself.
	answer any
}

// NewScene returns a scene of which nothing is known yet. It is for one step.
func NewScene() *Scene { return &Scene{Rows: &Rows{}, known: map[Need]known{}} }

// NewView returns a scene that takes no writes and asks fetch for what it lacks.
func NewView(fetch func(Need) error) *Scene {
	return &Scene{Rows: &Rows{}, known: map[Need]known{}, readOnly: true, fetch: fetch}
}

// Seal makes the scene that of a view: it takes no writes and asks fetch for what it lacks.
func (s *Scene) Seal(fetch func(Need) error) { s.readOnly, s.fetch = true, fetch }

// LoadBy makes fetch load at once what a look-up lacks, so that the step runs only once. It is for a store that needs no round trip.
func (s *Scene) LoadBy(fetch func(Need) error) { s.fetch = fetch }

// WholeScene returns a scene over all rows of a database; view makes it refuse writes.
func WholeScene(rows *Rows, view bool) *Scene { return &Scene{Rows: rows, whole: true, readOnly: view} }

// Guesses reports whether this run of the step has met rows that are not loaded. The
// store runs it again then, and nothing of what it decides counts.
func (s *Scene) Guesses() bool { return len(s.lacks) > 0 }

// Lacks returns what look-ups did not find loaded, and forgets it.
func (s *Scene) Lacks() []Need {
	lacks := s.lacks
	s.lacks = nil
	return lacks
}

// Knows notes that the rows of a need are loaded; rows is how many there were.
func (s *Scene) Knows(n Need, rows int) {
	limit := 0
	if l, ok := n.(limitedNeed); ok {
		limit = l.limit()
	}
	s.known[n] = known{full: limit > 0 && rows >= limit}
}

// Counted notes the answer to a need that asks for a number.
func (s *Scene) Counted(n Need, count int64) { s.known[n] = known{n: count} }

// Answered notes the answer to a need that the store answers by itself.
func (s *Scene) Answered(n Need, answer any) { s.known[n] = known{answer: answer} }

// AnswerTo returns what Counted or Answered noted of a need; ok says that it is known.
func (s *Scene) AnswerTo(n Need) (count int64, answer any, ok bool) {
	k, ok := s.known[n]
	return k.n, k.answer, ok
}

// HasLoaded reports whether the rows of a need are loaded.
func (s *Scene) HasLoaded(n Need) bool { _, ok := s.known[n]; return ok }

// limitedNeed is a need for the first rows of an order.
type limitedNeed interface {
	Need
	limit() int
}

// Want says what a loop will look up one by one, so that it is loaded together. It fails with
// ErrLacking when anything of it has to be loaded.
func (s *Scene) Want(all ...Need) error {
	var lacking error
	for _, n := range all {
		if s.present(n) || s.fetch != nil {
			continue
		}
		if err := s.need(n); err != nil {
			lacking = err
		}
	}
	return lacking
}

// present reports whether the row of a need for one row is there already.
func (s *Scene) present(n Need) bool {
	switch m := n.(type) {
	case NeedAgent, NeedTurn, NeedCommand:
		o := OwnerOf(n)
		return s.Rows.Agents.Row(o.Agent) != nil || s.Rows.Turns.Row(o.Turn) != nil || s.Rows.Commands.Row(o.Command) != nil
	case NeedMessage:
		return s.Rows.Messages.Row(m.ID) != nil
	}
	return false
}

// need fails when rows have to be loaded first.
func (s *Scene) need(n Need) error {
	if s.whole {
		return s.stumbles(n)
	}
	if _, ok := s.known[n]; ok || s.made(n) {
		return nil
	}
	if s.fetch != nil {
		return s.fetch(n)
	}
	if !slices.Contains(s.lacks, n) {
		s.lacks = append(s.lacks, n)
	}
	return ErrLacking
}

// guess is need for a look-up that may find nothing. It reports whether the look-up
// has to guess that; the run then counts for nothing.
func (s *Scene) guess(n Need) (guessed bool, err error) {
	if err = s.need(n); errors.Is(err, ErrLacking) {
		return true, nil
	}
	return false, err
}

// missing is the error of a look-up of one row that is not loaded. A row that is
// usually not there counts as not there, so that the run names what else lacks.
func missing(n Need, err error) error {
	if !errors.Is(err, ErrLacking) {
		return err
	}
	switch n.(type) {
	case NeedTold, NeedYes, NeedApproval, NeedTree, NeedRestored, NeedWatch, NeedOnce, NeedTie, NeedReaction:
		return ErrNoRow
	}
	return err
}

// made reports whether a need is about an agent or a turn that the step itself makes: the
// database has no rows about it.
func (s *Scene) made(n Need) bool {
	if !s.Rows.Agents.changed() && !s.Rows.Turns.changed() {
		return false // OwnerOf takes long
	}
	o := OwnerOf(n)
	return o.Agent != "" && s.Rows.Agents.Made(o.Agent) || o.Turn != "" && s.Rows.Turns.Made(o.Turn)
}

// Stumble makes a look-up of a whole scene fail as if rows were to be loaded: the
// first after as many others. It is for stores that have nothing to load, so that a
// step that cannot run again is found there, too.
func (s *Scene) Stumble(after int) { s.stumble = max(after+1, 0) }

func (s *Scene) stumbles(n Need) error {
	if s.stumble == 0 {
		return nil
	}
	if s.stumble--; s.stumble > 0 {
		return nil
	}
	s.lacks = append(s.lacks, n)
	return ErrLacking
}

// Rewind takes back what the step changed; what was loaded stays.
func (s *Scene) Rewind() {
	for _, t := range s.Rows.tables() {
		t.rewind()
	}
	s.News, s.Lanes, s.given, s.lacks = nil, nil, nil, nil
}

// Changed reports whether the step changed anything.
func (s *Scene) Changed() bool {
	return len(s.News) > 0 || len(s.Lanes) > 0 || slices.ContainsFunc(s.Rows.tables(), anyTable.changed)
}

// Table is rows in the order of their keys. A row is replaced and never changed. It
// remembers what the step wrote until Settle or Rewind of the scene.
type Table[K cmp.Ordered, V any] struct {
	keys  []K // sorted
	rows  []*V
	was   map[K]*V
	wrote []K
}

// Write is one row before and after a step; nil where there is none.
type Write[K cmp.Ordered, V any] struct {
	Key      K
	Was, Now *V
}

// Row returns a row or nil.
func (t *Table[K, V]) Row(key K) *V {
	if i, found := slices.BinarySearch(t.keys, key); found {
		return t.rows[i]
	}
	return nil
}

// Len returns how many rows there are.
func (t *Table[K, V]) Len() int { return len(t.keys) }

// All are the rows in the order of their keys.
func (t *Table[K, V]) All() iter.Seq[*V] { return slices.Values(t.rows) }

// Load puts a row as the database has it, unless it is there already.
func (t *Table[K, V]) Load(key K, row V) {
	if _, written := t.was[key]; !written && t.Row(key) == nil {
		t.put(key, &row)
	}
}

// Put puts a row, or removes it when row is nil. It is for stores; a step does not write so.
func (t *Table[K, V]) Put(key K, row *V) { t.put(key, row) }

// Writes are the rows that the step wrote, in the order in which it wrote them first.
func (t *Table[K, V]) Writes() iter.Seq[Write[K, V]] {
	return func(yield func(Write[K, V]) bool) {
		for _, key := range t.wrote {
			if w := (Write[K, V]{key, t.was[key], t.Row(key)}); (w.Was != nil || w.Now != nil) && !yield(w) {
				return
			}
		}
	}
}

// Was is a row as it was before the step wrote it, nil when the step did not write it or there was none.
func (t *Table[K, V]) Was(key K) *V { return t.was[key] }

// Made reports whether the step wrote a row that it had not seen before.
func (t *Table[K, V]) Made(key K) bool { was, wrote := t.was[key]; return wrote && was == nil }

func (t *Table[K, V]) put(key K, row *V) {
	i, found := slices.BinarySearch(t.keys, key)
	switch {
	case found && row != nil:
		t.rows[i] = row
	case found:
		t.keys, t.rows = slices.Delete(t.keys, i, i+1), slices.Delete(t.rows, i, i+1)
	case row != nil:
		t.keys, t.rows = slices.Insert(t.keys, i, key), slices.Insert(t.rows, i, row)
	}
}

// write puts a row, or removes it when row is nil, and remembers what it was.
func (t *Table[K, V]) write(key K, row *V) {
	if _, written := t.was[key]; !written {
		if t.was == nil {
			t.was = map[K]*V{}
		}
		t.was[key] = t.Row(key)
		t.wrote = append(t.wrote, key)
	}
	t.put(key, row)
}

func (t *Table[K, V]) rewind() {
	for _, key := range t.wrote {
		t.put(key, t.was[key])
	}
	t.settle()
}

func (t *Table[K, V]) settle() { t.was, t.wrote = nil, nil }

func (t *Table[K, V]) changed() bool { return len(t.wrote) > 0 }

func (t *Table[K, V]) copyOf(from anyTable) {
	other := from.(*Table[K, V]) //nolint:forcetypeassert // both come from Rows.tables, in the same order
	t.keys, t.rows, t.was, t.wrote = slices.Clone(other.keys), slices.Clone(other.rows), nil, nil
}

// anyTable is a Table of any kind of row.
type anyTable interface {
	rewind()
	settle()
	changed() bool
	copyOf(from anyTable)
}

// Copy returns rows of their own. Nothing may be written in the original at that moment.
func (r *Rows) Copy() *Rows {
	out := &Rows{}
	mine := r.tables()
	for i, t := range out.tables() {
		t.copyOf(mine[i])
	}
	return out
}

// Settle makes what was written what the database has.
func (r *Rows) Settle() {
	for _, t := range r.tables() {
		t.settle()
	}
}

// set writes a row of the scene, or removes it when row is nil.
func set[K cmp.Ordered, V any](s *Scene, in *Table[K, V], key K, row *V) error {
	if s.readOnly {
		return ErrReadOnly
	}
	if s.Seen != nil {
		s.Seen(in.Row(key), row)
	}
	in.write(key, row)
	return nil
}

// where returns the rows that match, in the order of their keys, once the need is loaded.
func where[K cmp.Ordered, V any](s *Scene, t *Table[K, V], n Need, match func(*V) bool) (out []*V, err error) {
	switch guessed, err := s.guess(n); {
	case err != nil:
		return nil, err
	case guessed && s.whole:
		return nil, nil // as if nothing were loaded
	}
	for row := range t.All() {
		if match(row) {
			out = append(out, row)
		}
	}
	return out, nil
}

// one returns the first row that matches, ErrNoRow when none does.
func one[K cmp.Ordered, V any](s *Scene, t *Table[K, V], n Need, match func(*V) bool) (*V, error) {
	found, err := where(s, t, n, match)
	if err == nil && len(found) == 0 {
		err = ErrNoRow
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// row returns the row of a key, ErrNoRow when there is none.
func row[K cmp.Ordered, V any](s *Scene, t *Table[K, V], n Need, key K) (*V, error) {
	if err := s.stumbles(n); err != nil {
		return nil, missing(n, err)
	}
	if found := t.Row(key); found != nil {
		return found, nil
	}
	if _, written := t.was[key]; written { // the step removed it
		return nil, ErrNoRow
	}
	if err := s.need(n); err != nil {
		return nil, missing(n, err)
	}
	if found := t.Row(key); found != nil { // a view has loaded it just now
		return found, nil
	}
	return nil, ErrNoRow
}

// look is a question for the first rows of an order.
type look[V any] struct {
	// need names the rows; limit is how many of them.
	need  func(limit int) Need
	limit int
	match func(*V) bool
	order func(a, b *V) int
}

// first returns the first rows of an order. Rows that the step took out of the
// answer make room for others, which are loaded then.
func first[K cmp.Ordered, V any](s *Scene, t *Table[K, V], l look[V]) ([]*V, error) {
	for extra := 0; ; {
		n := l.need(l.limit + extra)
		found, err := where(s, t, n, l.match)
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(found, l.order)
		gone := 0
		for w := range t.Writes() {
			if w.Was != nil && l.match(w.Was) && (w.Now == nil || !l.match(w.Now)) {
				gone++
			}
		}
		if s.whole || !s.known[n].full || gone <= extra {
			return found[:min(len(found), l.limit)], nil
		}
		extra = 2 * gone
	}
}

// count returns how many rows match: as many as the store counted, and what the step changed of it.
func count[K cmp.Ordered, V any](s *Scene, t *Table[K, V], n Need, match func(*V) bool) (int, error) {
	sum, err := total(s, t, n, func(v *V) int64 {
		if match(v) {
			return 1
		}
		return 0
	})
	return int(sum), err
}

// is reports whether a filter's field lets a value pass; the zero field lets all.
func is[T comparable](want, got T) bool {
	var zero T
	return want == zero || want == got
}

// limitOr is a filter's limit; 0 is 100.
func limitOr(limit int) int {
	if limit <= 0 {
		return 100
	}
	return limit
}

// stamp keeps of a time what a database keeps: microseconds, in UTC.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// pair joins the parts of a key; no id has a line break.
func pair[A, B ~string](a A, b B) string { return string(a) + "\n" + string(b) }
