package openai

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"github.com/rs/zerolog"

	"drawbridge/bridge"
	"drawbridge/internal/httpx"
	"drawbridge/openai/upstream"
)

// Backend is one upstream behind the door.
type Backend struct {
	// Name is its name in the configuration.
	Name     string
	Upstream upstream.Upstream
	// Prefix is what the names of its models begin with, such as "agent/". The backend itself does not see it.
	Prefix string
	// Agents marks backends whose turns wake agents: requests for titles, tags and follow-up questions never reach these.
	Agents bool
	// Stateless marks backends that keep nothing between requests: each request holds the whole conversation, and results of tools come in the next one.
	Stateless bool
	// Anew marks backends at which a turn that was lost while it waited is made up for by a new one with the whole conversation, results included.
	Anew bool
}

// Options configures a Door. Records and at least one backend are required.
type Options struct {
	Records  Records
	Backends []Backend
	// Anonymous names the token of callers on this machine that send none; "" lets nobody in without one.
	Anonymous string
	// URL is where a proxy shows the door; Origins are web pages that may call it.
	URL     string
	Origins []string
	// ParkTimeout is how long a turn waits for results of the caller's tools; default 15 minutes.
	ParkTimeout time.Duration
	// SideModel answers requests for titles and the like; "" answers them by a rule.
	SideModel string
	// Alone says that no other process uses the records: what an earlier process held is free at once.
	Alone bool
	Log   zerolog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// The times of the door.
const (
	// statusWait is how long the caller waits for the backend's status before it gets a 200 and comments.
	statusWait = time.Second
	// keepalive is the time between two comments while nothing is said.
	keepalive = 10 * time.Second
	// holdFor is how long a turn stays this process's after its last sign.
	holdFor = 30 * time.Second
	// signEach is how often a process among several gives a sign: a repeat at another one waits for it.
	signEach = 2 * time.Second
	// repeatWithin is how long after a broken connection the same body is a repeat, and markedWithin how long for a request that says
	// that it is one: clients wait longer before each try. repeatSince is how old the turn may be, as clients wait long for an answer.
	repeatWithin = 30 * time.Second
	markedWithin = 10 * time.Minute
	repeatSince  = 2 * time.Hour
	// passWithin is how long a request waits in this process until the one of the same body before it has its record, or its connection broke.
	passWithin = 2 * time.Second
	// doubtFor is how soon after a whole answer a connection ends when the answer may be lost on its way. lostWithin is how soon after that the
	// same body is a repeat, and lostMarked how soon for a request that says so.
	doubtFor   = 250 * time.Millisecond
	lostWithin = 500 * time.Millisecond
	lostMarked = 2 * time.Second
	// remember is how long a turn that is over stays in memory, and keepFor how long in the record. The door looks for older ones each
	// forgetEach, and deletes at most forgetAtOnce at each sign.
	remember     = time.Minute
	keepFor      = 30 * 24 * time.Hour
	forgetEach   = time.Hour
	forgetAtOnce = 500
)

// Door is the OpenAI-compatible door. Safe for concurrent use. Run has to run while requests are served.
type Door struct {
	o      Options
	holder string
	router http.Handler
	models catalog
	// base is the context of turns under way: they outlive the requests that began them.
	base  context.Context //nolint:containedctx // ended by Run alone
	stop  context.CancelFunc
	turns sync.WaitGroup
	// gates hold a lock for each token with a rate.
	gates sync.Map
	began time.Time

	mu   sync.Mutex // guards what follows
	legs map[string]*leg
	// refused holds when the last try of a body was refused before anything was begun, by the token's name and the body's digest.
	refused map[[2]string]time.Time
	// passing has a channel for each body whose request is being recorded or answered, by the same names. It is closed when that is done.
	passing map[[2]string]chan struct{}
	// lost has the answers that may be lost on their way, by the same names.
	lost map[[2]string]lostAnswer
	// parked are the runs that wait for results, by the id of the leg that asked.
	parked map[string]*run
}

// New returns a door that does not yet serve.
func New(o Options) (*Door, error) {
	if o.Records == nil || len(o.Backends) == 0 {
		return nil, errors.New("the OpenAI-compatible door needs records and a backend")
	}
	if o.ParkTimeout <= 0 {
		o.ParkTimeout = 15 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	edge, err := newEdge(o)
	if err != nil {
		return nil, err
	}
	d := &Door{o: o, holder: strings.ToLower(rand.Text()), began: o.Now(), legs: map[string]*leg{}, refused: map[[2]string]time.Time{}, passing: map[[2]string]chan struct{}{}, lost: map[[2]string]lostAnswer{}, parked: map[string]*run{}}
	d.models = catalog{backends: o.Backends, now: o.Now}
	d.base, d.stop = context.WithCancel(context.Background())
	d.router = httpx.RequestLog(httpx.LogOptions{Log: o.Log}, httpx.Recover(edge.wrap(d.routes())))
	return d, nil
}

// now is the clock in the resolution of the records.
func (d *Door) now() time.Time { return d.o.Now().UTC().Truncate(time.Microsecond) }

// Handler serves the door: below /v1, and below / for clients whose base address lacks it.
func (d *Door) Handler() http.Handler { return d.router }

func (d *Door) routes() http.Handler {
	r := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, base := range []string{"/v1", ""} {
		r.Handle(base+"/chat/completions", d.endpoint(d.chat)).Methods(http.MethodPost)
		r.Handle(base+"/responses", d.endpoint(d.responses)).Methods(http.MethodPost)
		r.Handle(base+"/tool_results", d.endpoint(d.toolResults)).Methods(http.MethodPost)
		r.Handle(base+"/models", d.endpoint(d.listModels)).Methods(http.MethodGet)
		r.Handle(base+"/models/{id:.+}", d.endpoint(d.getModel)).Methods(http.MethodGet)
	}
	r.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		httpx.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	}).Methods(http.MethodGet)
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeError(w, r, noPath(r)) })
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeError(w, r, &upstream.Error{Status: http.StatusMethodNotAllowed, Type: typeInvalid, Code: "method_not_allowed", Message: r.Method + " is not allowed on " + r.URL.Path, NothingHappened: true})
	})
	return r
}

// endpoint turns a handler that returns its error into one that writes it.
func (d *Door) endpoint(serve func(http.ResponseWriter, *http.Request, Token) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r, tokenOf(r.Context())); err != nil && !errors.Is(err, context.Cause(r.Context())) { // when the caller has left, nobody reads that
			writeError(w, r, err)
		}
	})
}

// Run keeps hold of the turns under way, takes over those of processes that ended, and ends parked ones whose time is over, until ctx
// ends. Turns that can be resumed go on at the next start.
func (d *Door) Run(ctx context.Context) error {
	if d.o.Alone {
		d.takeOver(ctx, d.now().Add(100*365*24*time.Hour))
	}
	forget := d.forgetOld(ctx, d.now())
	each := signEach
	if d.o.Alone {
		each = holdFor / 3
	}
	tick := time.NewTicker(each)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			d.mu.Lock()
			d.stop()
			d.mu.Unlock()
			d.turns.Wait()
			d.letGo(context.WithoutCancel(ctx))
			return nil
		case <-tick.C:
			d.holdOn(ctx)
			d.takeOver(ctx, d.now())
			forget = d.forgetOld(ctx, forget)
		}
	}
}

// forgetOld deletes some of what the record kept long enough, when it is time, and returns when that is again.
func (d *Door) forgetOld(ctx context.Context, at time.Time) time.Time {
	now := d.now()
	if now.Before(at) {
		return at
	}
	n, err := d.o.Records.Forget(ctx, now.Add(-keepFor), forgetAtOnce)
	if err != nil && ctx.Err() == nil {
		d.o.Log.Warn().Err(err).Msg("the bridge could not delete old turns of the OpenAI-compatible endpoint; it tries again in an hour")
	}
	if err == nil && n == forgetAtOnce {
		return now
	}
	return now.Add(forgetEach)
}

// lasting is for what must still happen when the door stops, half a minute at most.
func (d *Door) lasting() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(d.base), 30*time.Second)
}

// aside runs fn beside the request that asks for it, and Run waits for it. It reports false, and runs nothing, when the door has stopped.
func (d *Door) aside(fn func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.base.Err() != nil {
		return false
	}
	d.turns.Go(fn)
	return true
}

// mine lists the turns under way in this process.
func (d *Door) mine() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for id, l := range d.legs {
		if !l.isOver() || d.parked[id] != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func (d *Door) holdOn(ctx context.Context) {
	if ids := d.mine(); len(ids) > 0 {
		if _, err := d.o.Records.Hold(ctx, d.holder, ids, d.now().Add(holdFor)); err != nil && ctx.Err() == nil {
			d.o.Log.Warn().Err(err).Msg("the bridge could not renew its hold on turns of the OpenAI-compatible endpoint; another replica may take them over")
		}
	}
}

// letGo frees the turns under way for the next process.
func (d *Door) letGo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if ids := d.mine(); len(ids) > 0 {
		if _, err := d.o.Records.Hold(ctx, d.holder, ids, d.now().Add(-time.Second)); err != nil {
			d.o.Log.Warn().Err(err).Msg("the bridge could not release turns of the OpenAI-compatible endpoint; they go on when their hold has run out")
		}
	}
}

// newTurnID returns the id of a turn, and the part of it that its calls carry.
func newTurnID() string { return bridge.NewID(turnPrefix) }

// callID names the nth call of a turn, from 1. It has at most 40 bytes, which is what clients and endpoints take.
func callID(turn string, n int) string {
	return fmt.Sprintf("call_%s_%d", strings.TrimPrefix(turn, turnPrefix), n)
}
