package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interrupts are the Ctrl-C that come while the program runs. It is safe for concurrent use.
type interrupts struct {
	take atomic.Pointer[func() bool]
	// end ends the context, so that the next signal ends the process the hard way.
	end context.CancelFunc
}

// untilInterrupt ends a context at SIGTERM, and at a Ctrl-C that no command takes. From then on a second signal ends the process the hard way.
func untilInterrupt(ctx context.Context) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	i := &interrupts{end: func() {
		signal.Stop(signals)
		cancel()
	}}
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer i.end()
		for s := range signals {
			if take := i.take.Load(); s != os.Interrupt || take == nil || !(*take)() {
				return
			}
		}
	}()
	return ctx, i
}

// takeInterrupts lets take have each Ctrl-C until leave is called. take reports whether it took it.
func (a app) takeInterrupts(take func() bool) (leave func()) {
	a.interrupts.take.Store(&take)
	return func() { a.interrupts.take.Store(nil) }
}
