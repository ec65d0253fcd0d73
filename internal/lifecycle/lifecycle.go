// Package lifecycle runs the parts of a program together: they start in the
// order given and stop in reverse, each with a deadline of its own, when the
// program is told to stop or when one of them ends by itself. It is not a
// supervisor: what failed is not started again. Rule of thumb: what others
// depend on comes first in the list and so stops last.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Part is one component. Run blocks until its context ends or it fails; it
// must have opened what can fail (a port, a file) before it became a Part.
type Part struct {
	Name string
	Run  func(context.Context) error
	// Stop bounds how long Run may take to return once its context ended; default 10 s.
	Stop time.Duration
}

type running struct {
	Part
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Run runs parts until ctx ends or one of them returns, then stops all. It
// returns the parts' errors, and says which did not stop in time. A part that
// ends without an error while ctx lives is an error too: nobody asked it to.
func Run(ctx context.Context, parts ...Part) error {
	ended := make(chan *running, len(parts))
	all := make([]*running, len(parts))
	for i, p := range parts {
		partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r := &running{Part: p, cancel: cancel, done: make(chan struct{})}
		all[i] = r
		go func() {
			r.err = r.Run(partCtx)
			close(r.done)
			ended <- r
		}()
	}
	var first error
	select {
	case <-ctx.Done():
	case r := <-ended:
		if r.err == nil {
			first = fmt.Errorf("%s ended by itself", r.Name)
		}
	}
	errs := []error{first}
	for i := len(all) - 1; i >= 0; i-- {
		errs = append(errs, all[i].stop())
	}
	return errors.Join(errs...)
}

func (r *running) stop() error {
	r.cancel()
	limit := r.Stop
	if limit == 0 {
		limit = 10 * time.Second
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		return fmt.Errorf("%s did not stop within %s", r.Name, limit)
	}
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		return fmt.Errorf("%s: %w", r.Name, r.err)
	}
	return nil
}
