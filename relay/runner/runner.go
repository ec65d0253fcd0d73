// Package runner is the relay: the program on the user's machine that runs what the user listed, and nothing else.
//
// It trusts whoever calls it with nothing. A request names an action of the relay's own list; the command line, the
// folder, the environment, the time and the amount of output all come from that list. It is not a shell, knows no agent,
// no bridge and no policy, and imports none of them, so that what runs on the user's machine stays small enough to read.
// Two fixed paths need no router: net/http alone serves them, without redirects, patterns or another dependency.
//
// A request id runs once, also when the relay or the machine ends in between: the journal, a file of JSON lines beside
// relay.yaml, has the claim on the disk before a process starts and the result before the answer goes out. What was
// claimed and never finished is answered with "interrupted" and left to a person; it is never run again. The promise lasts
// a day, and as long as nobody removes the file or sets the clock ahead.
//
// What it cannot see: a process that moves itself to another process group outlives its action, and a relay that is
// killed with SIGKILL leaves the grandchildren of its actions behind. It runs on Linux and macOS.
//
// Rule of thumb: when in doubt, refuse, and say which line of relay.yaml would change that.
package runner

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/settings"
)

var (
	errStopping = errors.New("the relay is stopping")
	errTimedOut = errors.New("its time is over")
)

const (
	readHeaderTimeout = 5 * time.Second
	readBodyTimeout   = 10 * time.Second
	writeTimeout      = 10 * time.Second
	idleTimeout       = time.Minute
	maxHeaderBytes    = 8 << 10
	// stopTimeout is enough to end every process and to write every answer.
	stopTimeout = 2*killAfter + writeTimeout + time.Second
)

// DefaultGrace is how long running actions have to finish after the relay was told to stop.
const DefaultGrace = 10 * time.Second

// Options is what a [Relay] is made of. Config comes from [settings.Load]; Grace is DefaultGrace unless set; Journal is a
// [Memory], which forgets at the end of the process, unless set; Now is time.Now unless set; the zero Log logs nothing.
type Options struct {
	Config  settings.Config
	Journal Journal
	Now     func() time.Time
	Log     zerolog.Logger
	Grace   time.Duration
}

// Relay serves the actions of one Config on one loopback address.
type Relay struct {
	config   settings.Config
	secret   *output.Redactor
	journal  Journal
	now      func() time.Time
	log      zerolog.Logger
	grace    time.Duration
	slots    *slots
	pace     *pace
	listener net.Listener
}

// Listen opens the configured address, so that a taken port is an error here and not later. It starts nothing: call
// Serve next, or Close.
func Listen(ctx context.Context, o Options) (*Relay, error) {
	if !o.Config.Listens() || o.Config.Listen.IsValid() && !o.Config.Listen.Addr().IsLoopback() {
		return nil, errors.New("open relay: the configuration was not checked by Load")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Journal == nil {
		o.Journal = NewMemory(o.Now)
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", o.Config.Listen.String())
	if err != nil {
		return nil, fmt.Errorf("open relay: %w", err)
	}
	return &Relay{
		config: o.Config, secret: o.Config.Redactor(), journal: o.Journal, now: o.Now, log: o.Log, grace: o.Grace,
		slots: newSlots(o.Config.Limits), pace: newPace(o.Config.Limits.PerMinute, o.Now), listener: listener,
	}, nil
}

// Addr is the address that the relay listens on, with the port that the system chose if the configured one was 0. It is
// also the only Host that requests may name.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close gives up a relay that is not to be served.
func (r *Relay) Close() error { return r.listener.Close() }

// Serve answers requests until ctx is done. Then it accepts nothing more, refuses what waits in the queue, lets running
// actions finish within the grace period, ends the others, and returns nil when nothing runs any more. Call it once.
func (r *Relay) Serve(ctx context.Context) error {
	running, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	server := &http.Server{
		Handler:           r.handler(ctx, running),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          stdlog.New(r.log, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(r.listener) }()
	select {
	case err := <-served:
		end(errStopping)
		_ = r.drain(ctx, server, stopTimeout)
		return fmt.Errorf("serve relay: %w", err)
	case <-ctx.Done():
	}
	if err := r.drain(ctx, server, r.grace); err != nil {
		end(errStopping)
		err = r.drain(ctx, server, stopTimeout)
		if err != nil {
			_ = server.Close()
		}
	}
	<-served
	return nil
}

// drain accepts nothing more and waits until every request is answered, or for patience.
func (r *Relay) drain(ctx context.Context, server *http.Server, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return server.Shutdown(ctx)
}
