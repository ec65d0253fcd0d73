package alerts

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"drawbridge/api"
	"drawbridge/bridge"
	"drawbridge/bridge/words"
	"drawbridge/internal/pause"
	"drawbridge/internal/rates"
)

// The times and bounds of alerts.
const (
	// Kept is how long an alert is listed after what it was about waits no more.
	Kept = 7 * 24 * time.Hour
	// perMinute bounds how many alerts one bridge sends in a minute; the others wait.
	perMinute = 30
	// settle is how long changes are collected before the bridge looks again, beat how often it looks without a change.
	settle = 2 * time.Second
	beat   = time.Minute
	// gone is how long nobody may see that something waits before it waits no more. What comes back earlier is not told again: a budget waits
	// only while the tree works, a relay comes and goes, and other bridges may see something else. Each bridge notes what it sees each noteEach.
	gone     = 10 * time.Minute
	noteEach = 3 * time.Minute
	// sendTimeout bounds one try. Another bridge on the same database leaves the alert alone for the time of lease, by its own clock.
	sendTimeout = 15 * time.Second
	lease       = 5 * time.Minute
)

// waits are the spans after each try, as Standard Webhooks proposes; the last try has none.
var waits = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}

// Records keeps alerts, for all bridges on a database. Its methods are safe for concurrent use.
type Records interface {
	// Open returns the alerts about what waits.
	Open(ctx context.Context) ([]api.Alert, error)
	// Change adds alerts, notes now as SeenAt of those with the ids seen, closes those that were not seen since before, and forgets those that were
	// closed Kept before now. Of two calls that add an alert about one need, one adds it.
	Change(ctx context.Context, c Change) error
	// Take counts a try of an alert, and reserves it until then; ok is false when another one took it, or when it does not wait.
	Take(ctx context.Context, a api.Alert, until time.Time) (ok bool, err error)
	// Tried records what came of a try that was reserved until then, unless another one has the alert by now.
	Tried(ctx context.Context, a api.Alert, until time.Time) error
	// List returns the newest alerts with an id below before.
	List(ctx context.Context, before string, limit int) ([]api.Alert, error)
}

// Change is what a look changes.
type Change struct {
	Add         []api.Alert
	Seen        []string
	Before, Now time.Time
}

// Options configures a Service. Needs, Watch, Records, URL and Keys are required.
type Options struct {
	// Needs returns what waits for a person.
	Needs func(ctx context.Context) (api.NeedList, error)
	// Watch returns a channel that gets a value after changes, and what ends it.
	Watch   func() (<-chan struct{}, func())
	Records Records
	// URL takes the alerts. It may be a secret.
	URL string
	// Keys sign, the newest first.
	Keys [][]byte
	// Private lets URL lead to an address that is not public.
	Private bool
	// Contents sends the words of agents, too.
	Contents bool
	// Page is the address of the page, without a slash at the end.
	Page string
	// Transport sends; nil is a transport that refuses what Private does not allow.
	Transport http.RoundTripper
	// Now defaults to the clock.
	Now func() time.Time
	Log zerolog.Logger
}

// Service sends alerts. Safe for concurrent use.
type Service struct {
	o     Options
	post  *poster
	rates *rates.Limiter
}

// New checks the options; it starts nothing.
func New(o Options) (*Service, error) {
	if o.Needs == nil || o.Watch == nil || o.Records == nil || o.URL == "" || len(o.Keys) == 0 {
		return nil, errors.New("alerts need something to look at, a watch, records, a URL and a key")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{o: o, post: newPoster(o), rates: rates.New(perMinute, o.Now)}, nil
}

// Run sends alerts until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	changes, stop := s.o.Watch()
	defer stop()
	defer s.post.close()
	for ctx.Err() == nil {
		wait, err := s.step(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn().Str("error", bridge.SafeMessage(err)).Msg("the bridge cannot read what waits, or cannot record its alerts; it tries again soon")
			wait = beat
		}
		tick := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-changes:
			_ = pause.For(ctx, settle)
		}
		tick.Stop()
	}
	return nil
}

// step looks what waits, sends one alert that is due, and returns after which time there is more to do.
func (s *Service) step(ctx context.Context) (time.Duration, error) {
	open, needs, err := s.look(ctx)
	if err != nil {
		return 0, err
	}
	now, next := s.o.Now(), beat
	for _, a := range open {
		at := slices.IndexFunc(needs, a.About)
		if a.State != api.AlertWaiting || at < 0 {
			continue
		}
		if left := a.DueAt.Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		if a.Tries > len(waits) { // the last try was cut off, and nobody knows what came of it
			a.State, a.Trouble = api.AlertFailed, "the bridge stopped during the last try, so the alert may not have arrived; look at the page"
			return 0, s.o.Records.Tried(ctx, a, a.DueAt)
		}
		if full := s.rates.Take(""); full > 0 {
			return min(next, full), nil
		}
		until := now.Add(lease)
		if mine, err := s.o.Records.Take(ctx, a, until); err != nil || !mine {
			return 0, err
		}
		return 0, s.try(ctx, a, until, s.body(needs[at], len(needs)))
	}
	return next, nil
}

// look keeps an alert for each need, and returns those that are open, the one that is due first in front, and what waits. The alerts are read
// first: one whose need is not there afterwards has lost it.
func (s *Service) look(ctx context.Context) (open []api.Alert, needs []api.Need, err error) {
	if open, err = s.o.Records.Open(ctx); err != nil {
		return nil, nil, err
	}
	list, err := s.o.Needs(ctx)
	if err != nil {
		return nil, nil, err
	}
	now := s.o.Now()
	c := Change{Now: now, Before: now.Add(-gone)}
	for _, n := range list.Needs {
		at := slices.IndexFunc(open, func(a api.Alert) bool { return a.About(n) })
		switch {
		case at < 0:
			c.Add = append(c.Add, api.Alert{ID: bridge.NewID("msg_"), Need: n.Key, Kind: n.Kind, Turn: n.Turn, Agent: n.AgentName, State: api.AlertWaiting, MadeAt: now, DueAt: now, SeenAt: now})
		case now.Sub(open[at].SeenAt) >= noteEach:
			c.Seen = append(c.Seen, open[at].ID)
		}
	}
	lost := slices.ContainsFunc(open, func(a api.Alert) bool { return a.SeenAt.Before(c.Before) && !slices.Contains(c.Seen, a.ID) })
	if len(c.Add)+len(c.Seen) > 0 || lost {
		// Two bridges that add the same alerts take them in one order, so that neither waits for the other.
		slices.SortFunc(c.Add, func(a, b api.Alert) int {
			return cmp.Or(cmp.Compare(a.Need, b.Need), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Turn, b.Turn))
		})
		slices.Sort(c.Seen)
		if err := s.o.Records.Change(ctx, c); err != nil {
			return nil, nil, err
		}
		if open, err = s.o.Records.Open(ctx); err != nil {
			return nil, nil, err
		}
	}
	slices.SortStableFunc(open, func(a, b api.Alert) int { return a.DueAt.Compare(b.DueAt) })
	return open, list.Needs, nil
}

// try sends an alert once and records what came of it. Each try has the same id, so that the receiver knows a repeat.
func (s *Service) try(ctx context.Context, a api.Alert, until time.Time, body []byte) error {
	a.Tries++
	a.TriedAt, a.Trouble, a.State = s.o.Now(), "", api.AlertSent
	if err := s.post.send(ctx, a.ID, body); err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // the lease ends, and the alert is tried again
		}
		a.Trouble, a.State = words.SafeLine(err.Error(), maxTrouble), api.AlertFailed
		if a.Tries <= len(waits) {
			a.State, a.DueAt = api.AlertWaiting, s.o.Now().Add(spread(waits[a.Tries-1]))
		}
		s.o.Log.Warn().Str("alert", a.ID).Str("need", a.Need).Int("try", a.Tries).Bool("last", a.State == api.AlertFailed).Str("error", a.Trouble).Msg("an alert did not arrive")
	}
	return s.o.Records.Tried(context.WithoutCancel(ctx), a, until)
}

// maxTrouble bounds the words of why an alert did not arrive.
const maxTrouble = 200

// spread adds up to a fifth, so that the alerts of a time do not all come back at one time.
func spread(d time.Duration) time.Duration { return d + rand.N(d/5) }

// Test sends a test at once, and returns why it did not arrive.
func (s *Service) Test(ctx context.Context) error {
	return s.post.send(ctx, bridge.NewID("msg_"), s.marshal("test", alertData{Link: s.o.Page + "/"}))
}

// List implements api.Alerts.
func (s *Service) List(ctx context.Context, before string, limit int) ([]api.Alert, error) {
	return s.o.Records.List(ctx, before, limit)
}

// Trouble says how many alerts about what waits did not arrive, and why the last one did not; "" when all arrived.
func (s *Service) Trouble(ctx context.Context) (n int, why string, err error) {
	open, err := s.o.Records.Open(ctx)
	var last time.Time
	for _, a := range open {
		if a.Trouble == "" || s.o.Now().Sub(a.SeenAt) > noteEach+beat { // the latter waits no more
			continue
		}
		n++
		if !a.TriedAt.Before(last) {
			last, why = a.TriedAt, a.Trouble
		}
	}
	return n, why, err
}
