// Package runner is the relay: the program on the user's machine that runs what the user listed, and nothing else.
//
// It trusts whoever calls it with nothing. A request names an action of the relay's own list; the command line, the
// folder, the environment, the time and the amount of output all come from that list. It is not a shell, knows no agent,
// no bridge and no policy, and imports none of them, so that what runs on the user's machine stays small enough to read.
// Two fixed paths need no router: net/http alone serves them, without redirects, patterns or another dependency.
//
// What it does with a request is in [Relay.Run]; how a request gets here, over its own door or over a connection that the
// relay opened to its bridge, makes no difference. The parts have packages of their own: settings, trust, keeper, sandbox,
// output, approval, audit, control.
//
// A request id runs once, also when the relay or the machine ends in between: the journal, a file of JSON lines beside
// relay.yaml, has the claim on the disk before a process starts and the result before the answer goes out. What was
// claimed and never finished is answered with "interrupted" and left to a person, unless the action is idempotent. The
// promise lasts a day, and as long as nobody removes the file or sets the clock ahead.
//
// Rule of thumb: when in doubt, refuse, and say which line of relay.yaml would change that.
package runner

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/internal/trust"
	"drawbridge/relay/runner/approval"
	"drawbridge/relay/runner/audit"
	"drawbridge/relay/runner/control"
	"drawbridge/relay/runner/keeper"
	"drawbridge/relay/runner/output"
	"drawbridge/relay/runner/sandbox"
	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

var (
	errStopping = wire.ErrEnding
	errSwitched = errors.New("the relay's kill switch is on; its user turns it off with drawbridge-relay start")
	errTimedOut = errors.New("its time is over")
)

// DefaultGrace is how long running actions have to finish after the relay was told to stop.
const DefaultGrace = 10 * time.Second

// Executor runs programs; *keeper.Pool is one.
type Executor interface {
	// Run is described at keeper.Pool.
	Run(ctx context.Context, c keeper.Command) (keeper.End, error)
	fmt.Stringer
}

// Options is what a [Relay] is made of. Config comes from [settings.Load]; Executor is a keeper.Pool of the relay's own
// unless set, for which the main of the process has to call keeper.Main; Journal is a [Memory], which forgets at the end of
// the process, unless set; without an Audit nothing is audited; without a Desk what needs approval at the machine is refused;
// Grace is DefaultGrace and Now time.Now unless set; the zero Log logs nothing.
type Options struct {
	Config settings.Config
	// Env is what Config was loaded with.
	Env      settings.LookupEnv
	Executor Executor
	Journal  Journal
	Audit    *audit.Log
	Desk     *approval.Desk
	Ability  sandbox.Ability
	// Key makes the definitions' digests, see settings.Action.Definition. It should be the same at every start.
	Key   []byte
	Now   func() time.Time
	Log   zerolog.Logger
	Grace time.Duration
}

// Relay runs the actions of one Config. It is a wire.Handler, safe for concurrent use.
type Relay struct {
	o        Options
	live     *settings.Live
	outdated atomic.Bool
	secret   *output.Redactor
	slots    *slots
	pace     *pace
	listener net.Listener
	calls    calls
	offers   []wire.Offer
	either   *either
	started  time.Time
	// connection is what the link said last, nil when there is none.
	connection atomic.Pointer[wire.Connection]
	// own is the executor when the relay made it.
	own *keeper.Pool
	// process names this start of the relay.
	process string
	// agents is nil for a relay without agents. It is set before the relay serves.
	agents Agents
}

var (
	_ wire.Handler    = (*Relay)(nil)
	_ wire.Answerer   = (*Relay)(nil)
	_ wire.Watcher    = (*Relay)(nil)
	_ wire.Stoppable  = (*Relay)(nil)
	_ wire.Outdatable = (*Relay)(nil)
	_ wire.Asker      = (*Relay)(nil)
	_ control.Relay   = (*Relay)(nil)
)

// Listen opens the configured door, so that a taken port is an error here and not later. It starts nothing: call Serve
// next, or Close.
func Listen(ctx context.Context, o Options) (*Relay, error) {
	if o.Config.Actions == nil || o.Config.Listen.IsValid() && !o.Config.Listen.Addr().IsLoopback() || o.Config.Listens() && o.Config.Token == "" {
		return nil, errors.New("open relay: the configuration was not checked by settings.Load")
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
	var own *keeper.Pool
	if o.Executor == nil {
		var err error
		if own, err = keeper.NewPool(true); err != nil {
			return nil, fmt.Errorf("open relay: %w", err)
		}
		o.Executor = own
	}
	var starts []time.Time
	if j, remembers := o.Journal.(interface{ Starts() []time.Time }); remembers {
		starts = j.Starts()
	}
	r := &Relay{
		o: o, secret: o.Config.Redactor(), slots: newSlots(o.Config), pace: newPace(o.Config.Limits, o.Now, starts),
		own: own, either: newEither(), started: o.Now(), process: rand.Text(),
	}
	r.offers = r.makeOffers()
	r.live = settings.Follow(o.Config, o.Env, r.noteFile)
	var err error
	if control.Switched(o.Config.State) {
		r.calls.refuse(errSwitched)
		// It was turned on while no relay ran, and means the same.
		if o.Desk != nil {
			err = o.Desk.DenyAll("kill switch")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open relay: %w", err)
	}
	switch {
	case o.Config.Socket != "":
		r.listener, err = control.ListenUnix(ctx, o.Config.Socket)
	case o.Config.Listens():
		var lc net.ListenConfig
		r.listener, err = lc.Listen(ctx, "tcp", o.Config.Listen.String())
	}
	if err != nil {
		return nil, fmt.Errorf("open relay: %w", err)
	}
	return r, nil
}

// Addr is the address that the relay listens on, with the port that the system chose if the configured one was 0. It is
// also the only Host that requests may name. It is empty when the relay does not listen.
func (r *Relay) Addr() string {
	switch {
	case r.o.Config.Socket != "":
		return "unix:" + r.o.Config.Socket
	case r.listener == nil:
		return ""
	default:
		return r.listener.Addr().String()
	}
}

// Close gives up a relay that is not to be served.
func (r *Relay) Close() error {
	if r.listener == nil {
		return nil
	}
	return r.listener.Close()
}

// Offers lists what the relay may run, in the order of the ids. The definitions are those at the start: a program that is
// replaced afterwards is refused where it needs approval or has a digest in relay.yaml.
func (r *Relay) Offers() []wire.Offer { return slices.Clone(r.offers) }

func (r *Relay) makeOffers() []wire.Offer {
	var list []wire.Offer
	left := wire.MaxShown
	for _, id := range slices.Sorted(maps.Keys(r.o.Config.Actions)) {
		action := r.o.Config.Actions[id]
		// A program that cannot be read has no digest, and is refused where one matters.
		digest, program, _ := openProgram(action)
		if program != nil {
			_ = program.Close()
		}
		offer := wire.Offer{
			Action: id, Approval: action.Approval.String(), Bridge: action.Approval.Bridge(), Definition: action.Definition(id, digest, r.o.Key),
		}
		if action.Approval.Needed() {
			offer.ApproveBy = action.Approval.By
		}
		if offer.Bridge {
			// What nobody at the bridge can approve is not the bridge's to know.
			offer.Shows = r.shows(action, r.question(action), left)
			left = max(0, left-len(offer.Shows))
		}
		list = append(list, offer)
	}
	return list
}

// openProgram opens the program of an action and digests what it opened.
func openProgram(action settings.Action) (digest string, program interface {
	io.ReaderAt
	io.Closer
}, err error) {
	file, err := trust.Program(action.Argv[0])
	if err != nil {
		return "", nil, err
	}
	digest, err = digestOf(file)
	if err != nil {
		return "", nil, errors.Join(err, file.Close())
	}
	return digest, file, nil
}

// digestOf is the hex SHA-256 of a whole file, wherever it was read before.
func digestOf(file io.ReaderAt) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, 1<<62)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Pending lists the questions that wait for a person.
func (r *Relay) Pending() []approval.Pending {
	var open []approval.Pending
	if r.o.Desk != nil {
		open = r.o.Desk.Pending()
	}
	if q := r.questions(); q != nil {
		open = append(open, q.Pending()...)
	}
	return open
}

// Watch implements wire.Watcher.
func (r *Relay) Watch(c wire.Connection) { r.connection.Store(&c) }

// Status is how the relay is now.
func (r *Relay) Status() control.Status {
	s := control.Status{Started: r.started, Door: r.Addr(), Connection: r.connection.Load(), Stopped: control.Switched(r.o.Config.State), Outdated: r.Outdated()}
	s.Actions, s.Waiting = r.slots.now()
	for _, p := range r.Pending() {
		if p.By == "" {
			s.Approvals++
		}
	}
	if r.o.Audit != nil {
		if err := r.o.Audit.Failed(); err != nil {
			s.Audit = err.Error()
		}
	}
	return s
}

// Decide is a person's word on a question; by names the door.
func (r *Relay) Decide(id string, approve bool, by string) error {
	if q := r.questions(); q != nil {
		if err := q.DecideHere(id, approve, by); !errors.Is(err, approval.ErrUnknown) {
			return err
		}
	}
	if r.o.Desk == nil {
		return approval.ErrUnknown
	}
	return r.o.Desk.Decide(id, approve, by)
}

// SwitchOff follows the kill switch: if it is on, everything is refused from now on, what waits is refused, what runs is
// ended, and the call returns when nothing runs any more.
func (r *Relay) SwitchOff() error {
	if !control.Switched(r.o.Config.State) {
		return nil
	}
	fresh := r.calls.refuse(errSwitched)
	r.calls.end(errSwitched)
	if r.agents != nil {
		r.agents.Halt()
	}
	if !fresh {
		// Somebody else turned it off a moment ago; that nothing runs is not yet true.
		return r.calls.wait(context.Background())
	}
	var err error
	if r.o.Desk != nil {
		err = r.o.Desk.DenyAll("kill switch")
	}
	if q := r.questions(); q != nil {
		err = errors.Join(err, q.DenyAll("kill switch"))
	}
	return errors.Join(err, r.calls.wait(context.Background()), r.note(audit.Event{Event: audit.Stopped}))
}

// SwitchOn follows the kill switch: if it is off, requests are judged again.
func (r *Relay) SwitchOn() error {
	if control.Switched(r.o.Config.State) || !r.calls.allow(errSwitched) {
		return nil
	}
	if r.agents != nil {
		r.agents.Proceed()
	}
	return r.note(audit.Event{Event: audit.Resumed})
}

// noteFile says that another relay.yaml counts. Who changed it is not known: an action without a sandbox could, and so could its user.
func (r *Relay) noteFile(before, now settings.Config) {
	r.o.Log.Warn().Str("file", now.SHA256).Str("before", before.SHA256).Msg("relay.yaml changed, and its clones and permissions are in force now; if you did not change it, run drawbridge-relay stop and review the file")
	if err := r.note(changedFile(before.SHA256, now.SHA256)); err != nil {
		r.o.Log.Error().Err(err).Msg("audit")
	}
}

func changedFile(before, now string) audit.Event {
	return audit.Event{Event: audit.Changed, File: now, Reason: "relay.yaml was " + before}
}

// note writes an audit line if there is an audit.
func (r *Relay) note(e audit.Event) error {
	if r.o.Audit == nil {
		return nil
	}
	return r.o.Audit.Add(e)
}
