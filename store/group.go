package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"drawbridge/bridge"
)

// maxBatch bounds how many updates share one commit; it keeps one slow batch
// from starving the one that comes next.
const maxBatch = 256

// group lets callers that meet share one transaction and one commit.
type group struct {
	db *sqliteDB
	// leader is held by the caller that commits for everyone in queue.
	leader chan struct{}

	mu    sync.Mutex // guards queue
	queue []*update
}

func newGroup(db *sqliteDB) group { return group{db: db, leader: make(chan struct{}, 1)} }

// update is a step, or a few statements that need no scene.
type update struct {
	ctx  context.Context
	fn   func(*bridge.Scene) error
	raw  func(*tx) error
	err  error
	done chan struct{}
}

// errAborted is what everyone in a batch gets when it could not be committed as a whole.
var errAborted = errors.New("the shared transaction was rolled back; nothing of it is recorded")

// update is Update on SQLite. Callers that meet share one commit: the one that
// gets to lead runs everybody's function, each in its savepoint, and commits
// once. A function that panics is an error of its own caller alone. Calling
// Update from within fn waits without end.
func (g *group) update(ctx context.Context, fn func(*bridge.Scene) error) error {
	return g.join(&update{ctx: ctx, fn: fn, done: make(chan struct{})})
}

// direct runs a few statements as Update does.
func (g *group) direct(ctx context.Context, raw func(*tx) error) error {
	return g.join(&update{ctx: ctx, raw: raw, done: make(chan struct{})})
}

// join waits until a leader has committed an update, and leads if nobody does.
func (g *group) join(u *update) error {
	g.mu.Lock()
	g.queue = append(g.queue, u)
	g.mu.Unlock()
	select {
	case <-u.done:
	case g.leader <- struct{}{}:
		n := g.lead(u)
		g.db.tidy(context.WithoutCancel(u.ctx), n)
	}
	return u.err
}

// lead commits batches until its own update is done, and returns how many
// updates that were.
func (g *group) lead(own *update) (n int) {
	defer func() { <-g.leader }()
	for {
		select {
		case <-own.done:
			return n
		default:
		}
		// Those whom the last commit let go get to queue up again first;
		// otherwise every other commit is for one caller alone.
		runtime.Gosched()
		batch := g.nextBatch()
		g.commit(batch)
		n += len(batch)
	}
}

// nextBatch takes the oldest updates off the queue.
func (g *group) nextBatch() []*update {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.queue), maxBatch)
	batch := g.queue[:n:n]
	g.queue = g.queue[n:]
	if len(g.queue) == 0 {
		g.queue = nil
	}
	return batch
}

// commit runs a batch in one transaction, sets each update's error and lets
// its caller go, even when one of the functions ends this goroutine.
func (g *group) commit(batch []*update) {
	ctx := context.WithoutCancel(batch[0].ctx)
	err := errAborted
	var q querier
	defer func() {
		if err != nil {
			if q != nil {
				// It fails when there is no transaction any more, which is what is wanted.
				_ = g.db.end(ctx, q, false)
			}
			abort(batch, err)
		}
		for _, u := range batch {
			u.err = runTrouble(u.err)
			close(u.done)
		}
	}()
	if q, err = g.db.begin(ctx, durable(batch)); err != nil {
		q, err = nil, fmt.Errorf("begin update: %w", err)
		return
	}
	err = errAborted // until the batch says otherwise
	if err = runBatch(&tx{ctx: ctx, q: q, index: g.db.index(), kept: &g.db.kept}, batch); err != nil {
		return
	}
	done := q
	q = nil
	if err = g.db.end(ctx, done, true); err != nil {
		_ = g.db.end(ctx, done, false)
		err = fmt.Errorf("commit: %w", err)
	}
}

// durable reports whether anybody in a batch must find it again after a power failure.
func durable(batch []*update) bool {
	return slices.ContainsFunc(batch, func(u *update) bool { return !bridge.IsForgettable(u.ctx) })
}

// abort fails every update of a batch; those that failed by themselves keep their own error.
func abort(batch []*update, err error) {
	for _, u := range batch {
		if u.err == nil {
			u.err = err
		}
	}
}

// runBatch returns an error when nothing of the batch was committed.
func runBatch(t *tx, batch []*update) error {
	for _, u := range batch {
		if u.err = u.ctx.Err(); u.err != nil {
			continue
		}
		if err := t.exec("SAVEPOINT u"); err != nil {
			return fmt.Errorf("savepoint: %w", err)
		}
		undo := "" // what to run before the savepoint goes
		if u.err = u.run(t); u.err != nil {
			undo = "ROLLBACK TO u"
		}
		if err := endSavepoint(t, undo); err != nil {
			return lost(u.err, err)
		}
	}
	return nil
}

// run calls the update's function and writes what it changed; a panic becomes its error.
func (u *update) run(t *tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("update panicked: %v", p)
		}
	}()
	if u.raw != nil {
		return u.raw(&tx{ctx: t.ctx, q: t.q, index: t.index}) // what it reads is not kept
	}
	return t.step(bridge.NewScene(), u.fn)
}

// lost says why a whole transaction is gone: for the reason of the update in
// which the database gave up, when that was the database's own.
func lost(cause, err error) error {
	if trouble := runTrouble(cause); trouble != cause {
		return fmt.Errorf("%w (%w)", trouble, err)
	}
	return err
}

// endSavepoint fails when the database gave up the whole transaction by
// itself, for example on a full disk. Going on would start a new one unseen,
// and commit half of a batch.
func endSavepoint(t *tx, undo string) error {
	if undo != "" {
		if err := t.exec(undo); err != nil {
			return fmt.Errorf("roll back to savepoint: %w", err)
		}
	}
	if err := t.exec("RELEASE u"); err != nil {
		return fmt.Errorf("release savepoint: %w", err)
	}
	return nil
}
