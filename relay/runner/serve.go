package runner

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net/http"
	"sync"
	"time"

	"drawbridge/relay/runner/control"
)

const (
	readHeaderTimeout = 5 * time.Second
	readBodyTimeout   = 10 * time.Second
	writeTimeout      = 10 * time.Second
	idleTimeout       = time.Minute
	maxHeaderBytes    = 8 << 10
	// stopTimeout is enough to end every process and to write every answer.
	stopTimeout = 10*time.Second + writeTimeout
	// switchEvery is how often the kill switch is looked at, for the case that nobody could tell the relay.
	switchEvery = time.Second
)

// Serve answers requests until ctx is done. Then it accepts nothing more, refuses what waits, lets running actions finish
// within the grace period, ends the others, and returns nil when nothing runs any more. A relay without a door only waits,
// for what others hand to [Relay.Run]. Call it once.
func (r *Relay) Serve(ctx context.Context) error {
	watching, unwatch := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { r.watchSwitch(watching) })
	defer watch.Wait()
	defer unwatch()
	if r.own != nil {
		defer r.own.Close()
	}
	server := &http.Server{
		Handler: r, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: stdlog.New(r.o.Log, "", 0),
	}
	served := make(chan error, 1)
	if r.listener != nil {
		go func() { served <- server.Serve(r.listener) }()
	}
	var failed error
	select {
	case failed = <-served:
	case <-ctx.Done():
	}
	r.calls.refuse(errStopping)
	if failed != nil {
		r.calls.end(errStopping)
	}
	if err := r.drain(ctx, server, r.o.Grace); err != nil {
		r.calls.end(errStopping)
		if err := r.drain(ctx, server, stopTimeout); err != nil {
			_ = server.Close()
		}
	}
	if failed != nil {
		return fmt.Errorf("serve relay: %w", failed)
	}
	if r.listener != nil {
		<-served
	}
	return nil
}

// drain accepts nothing more and waits until every request is answered, or for patience.
func (r *Relay) drain(ctx context.Context, server *http.Server, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), r.calls.wait(ctx))
}

// watchSwitch follows the kill switch.
func (r *Relay) watchSwitch(ctx context.Context) {
	ticker := time.NewTicker(switchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var err error
		if control.Switched(r.o.Config.State) {
			err = r.SwitchOff()
		} else {
			err = r.SwitchOn()
		}
		if err != nil {
			r.o.Log.Error().Err(err).Msg("kill switch")
		}
	}
}
