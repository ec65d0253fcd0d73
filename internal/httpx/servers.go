package httpx

import (
	"context"
	"errors"
	"sync"
)

// Servers are several HTTP servers of one program that start and stop together.
type Servers []*Server

// ListenAll takes every address, or none: when one cannot be taken, it gives up those that it has taken already.
func ListenAll(ctx context.Context, options ...ServerOptions) (Servers, error) {
	var all Servers
	for _, o := range options {
		s, err := Listen(ctx, o)
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all = append(all, s)
	}
	return all, nil
}

// Serve serves on every address until ctx ends, then stops all of them at once, so that the grace periods run side by side.
// When one server fails, the others stop too.
func (all Servers) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, s := range all {
		running.Go(func() {
			defer stop()
			errs[i] = s.Serve(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// close gives up addresses on which nothing is served yet.
func (all Servers) close() error {
	errs := make([]error, len(all))
	for i, s := range all {
		errs[i] = s.listener.Close()
	}
	return errors.Join(errs...)
}
