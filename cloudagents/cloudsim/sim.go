package cloudsim

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"drawbridge/cloudagents/cloudsim/internal/courier"
	"drawbridge/cloudagents/cloudsim/script"
)

// DefaultKey is the API key that is accepted when neither [Options] nor the script name one.
const DefaultKey = "cursor_sim_key"

// Script says what agents answer; see package script for its parts, and for the faults.
type Script = script.Script

// Fault is one misbehavior that can be switched on; the kinds are in package script.
type Fault = script.Fault

// LoadScript reads and checks a script file. Errors name the file and the line.
func LoadScript(path string) (*Script, error) { return script.Load(path) }

// Options configures a [Sim]. The zero value is usable: an empty script, [DefaultKey], real time and real randomness.
type Options struct {
	// Script says what agents answer; nil answers "Done." to everything. The Sim does not change it.
	Script *script.Script
	// Keys are accepted besides those of the
	Keys []string
	// Now reads the clock for every timestamp; it must be safe for concurrent use. Waiting uses the time package, so a test that wants to steer time runs the Sim
	// in a testing/synctest bubble and leaves Now nil.
	Now func() time.Time
	// Rand is the source of every id; nil is crypto/rand. It is read under the Sim's lock.
	Rand io.Reader
	// Webhooks carries webhook requests; nil is a transport that connects to loopback addresses only.
	Webhooks http.RoundTripper
}

// Sim is the simulated service. All methods are safe for concurrent use. A Sim owns the goroutines that move runs along and
// deliver webhooks; [Sim.Close] waits for them.
type Sim struct {
	now      func() time.Time
	keys     []string
	rules    *script.Rulebook
	settings script.Settings
	models   []script.Model
	hooks    *courier.Courier
	handler  http.Handler
	done     chan struct{} // closed by Close
	tasks    sync.WaitGroup

	mu         sync.Mutex // guards everything below
	random     io.Reader
	linkSecret string
	closed     bool
	cancels    map[int]context.CancelFunc
	nextTask   int
	agents     map[string]*agent // by lower-cased id, deleted ones included
	order      []*agent          // in order of creation
	effects    []Effect
	deliveries []Delivery
	sent       chan struct{} // closed and replaced whenever a webhook has been answered
	faults     script.Book
	lists      map[string][]time.Time // calls of the repository lists, by key
	replays    map[string]reply       // by Idempotency-Key, when that is switched on
}

// New builds a Sim from opts. It starts nothing; an error names the place in the script that is wrong.
func New(opts Options) (*Sim, error) {
	sc := opts.Script
	if sc == nil {
		sc = &Script{}
	}
	rules, err := script.Compile(sc)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	s := &Sim{
		now: opts.Now, random: opts.Rand, rules: rules,
		settings: sc.Settings.WithDefaults(),
		models:   sc.Models,
		keys:     append(append([]string(nil), opts.Keys...), sc.Keys...),
		done:     make(chan struct{}),
		sent:     make(chan struct{}),
		cancels:  map[int]context.CancelFunc{},
		agents:   map[string]*agent{},
		lists:    map[string][]time.Time{},
		replays:  map[string]reply{},
	}
	s.fillDefaults(opts)
	for _, f := range sc.Faults {
		if err := s.AddFault(f); err != nil {
			return nil, fmt.Errorf("read script: %w", err)
		}
	}
	s.linkSecret = s.newID("")
	s.handler = s.edge(s.router())
	return s, nil
}

func (s *Sim) fillDefaults(opts Options) {
	if s.now == nil {
		s.now = func() time.Time { return time.Now().UTC() }
	}
	if s.random == nil {
		s.random = rand.Reader
	}
	if len(s.keys) == 0 {
		s.keys = []string{DefaultKey}
	}
	if len(s.models) == 0 {
		s.models = script.DefaultModels()
	}
	s.hooks = s.newCourier(opts)
}

// Handler serves the whole API and the control endpoints below /_sim/. It may be mounted anywhere, but a caller who mounts it
// on another address than loopback is on its own.
func (s *Sim) Handler() http.Handler { return s.handler }

// Close ends every run in progress where it stands, drops pending webhooks, ends open streams and waits for all of it. Calls
// that arrive later get 503. Close may be called more than once.
func (s *Sim) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		for _, cancel := range s.cancels {
			cancel()
		}
	}
	s.mu.Unlock()
	s.tasks.Wait()
}

// spawn runs work in a goroutine that Close cancels and waits for. It outlives the request that ctx came from. The caller
// holds the lock.
func (s *Sim) spawn(ctx context.Context, work func(context.Context)) {
	if s.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	id := s.nextTask
	s.nextTask++
	s.cancels[id] = cancel
	s.tasks.Go(func() {
		work(ctx)
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancels, id)
	})
}

// newID makes prefix plus a random UUID. The caller holds the lock, or is New.
func (s *Sim) newID(prefix string) string {
	var b [16]byte
	if _, err := io.ReadFull(s.random, b[:]); err != nil {
		_, _ = rand.Read(b[:]) // an exhausted test source must not yield the same id twice; crypto/rand never fails
	}
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%s%x-%x-%x-%x-%x", prefix, b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
