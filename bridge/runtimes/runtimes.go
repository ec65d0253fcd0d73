// Package runtimes lets several Runtimes stand where the engine knows one: the
// cloud's, and those that the configuration names besides. It decides nothing:
// which Runtime an agent lives in was settled when its launch was recorded.
// Rule of thumb: a Runtime that is gone makes its agents wait, never fail, and
// never move to another.
package runtimes

import (
	"context"
	"time"

	"drawbridge/bridge"
)

// Full is a Runtime with everything that one can do.
type Full interface {
	bridge.Runtime
	bridge.Follower
	bridge.Inspector
	bridge.Transcriber
}

// Set is a Runtime made of others: each call goes to the one that it names.
// Safe for concurrent use as far as they are.
type Set struct {
	// Cloud takes both versions of the Cloud Agents API; nil without a key for it.
	Cloud Full
	// Named are the others, which may lack what Full adds.
	Named map[string]bridge.Runtime
}

var _ Full = Set{}

// of returns the Runtime of that name. Unavailable when there is none: a person
// may put it back, and nothing was sent.
func (s Set) of(name string) (bridge.Runtime, error) {
	switch {
	case !bridge.InCloud(name): // a name of the configuration
	case s.Cloud == nil:
		return nil, bridge.Errorf(bridge.Unavailable, NoCloudKey)
	default:
		return s.Cloud, nil
	}
	if r, ok := s.Named[name]; ok {
		return r, nil
	}
	return nil, bridge.Errorf(bridge.Unavailable, "bridge.yaml does not have the runtime %+.60q; add it below runtimes. Agents that live there wait until then", name)
}

// NoCloudKey says why nothing reaches the Cloud Agents API without a key, and what the operator can do.
const NoCloudKey = "this bridge has no key for the Cloud Agents API; set cursor.key in bridge.yaml and start the bridge again"

// Away says why nothing can be sent to the Runtime of that name now; nil while something can. It is made to be the engine's Away.
func (s Set) Away(runtime string) error {
	_, err := s.of(runtime)
	return err
}

// Settler is a Runtime that knows for how long a request whose answer was lost may
// still take effect; 0 is for one whose look-ups know it at once.
type Settler interface {
	SettleTime() time.Duration
}

// usualSettle is for a Runtime that does not say.
const usualSettle = 5 * time.Minute

// SettleTime is that of the Runtime of that name. It is made to be the engine's Settle.
func (s Set) SettleTime(runtime string) time.Duration {
	if r, err := s.of(runtime); err == nil {
		if known, ok := r.(Settler); ok {
			return known.SettleTime()
		}
	}
	return usualSettle
}

// Launch implements bridge.Launcher.
func (s Set) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	r, err := s.of(l.Runtime)
	if err != nil {
		return bridge.Started{}, err
	}
	return r.Launch(ctx, l)
}

// FindLaunch implements bridge.Launcher.
func (s Set) FindLaunch(ctx context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	r, err := s.of(l.Runtime)
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	return r.FindLaunch(ctx, l)
}

// Send implements bridge.Sender.
func (s Set) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	r, err := s.of(f.Runtime)
	if err != nil {
		return bridge.Started{}, err
	}
	return r.Send(ctx, f)
}

// FindSend implements bridge.Sender.
func (s Set) FindSend(ctx context.Context, f bridge.FollowUp) (bridge.Started, bridge.Found, error) {
	r, err := s.of(f.Runtime)
	if err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	return r.FindSend(ctx, f)
}

// Observe implements bridge.Observer.
func (s Set) Observe(ctx context.Context, ref bridge.RunRef) (bridge.Observation, error) {
	r, err := s.of(ref.Runtime)
	if err != nil {
		return bridge.Observation{}, err
	}
	return r.Observe(ctx, ref)
}

// Cancel implements bridge.Observer.
func (s Set) Cancel(ctx context.Context, ref bridge.RunRef) error {
	r, err := s.of(ref.Runtime)
	if err != nil {
		return err
	}
	return r.Cancel(ctx, ref)
}

// Follow implements bridge.Follower. Invalid for a Runtime that cannot.
func (s Set) Follow(ctx context.Context, ref bridge.RunRef) error {
	r, err := s.of(ref.Runtime)
	if err != nil {
		return err
	}
	if f, ok := r.(bridge.Follower); ok {
		return f.Follow(ctx, ref)
	}
	return bridge.Errorf(bridge.Invalid, "the runtime %q has no streams", ref.Runtime)
}

// Inspect implements bridge.Inspector. A Runtime that cannot tells nothing.
func (s Set) Inspect(ctx context.Context, ref bridge.RunRef) (bridge.Evidence, error) {
	r, err := s.of(ref.Runtime)
	if err != nil {
		return bridge.Evidence{}, err
	}
	if i, ok := r.(bridge.Inspector); ok {
		return i.Inspect(ctx, ref)
	}
	return bridge.Evidence{}, nil
}

// SentSince implements bridge.Transcriber. A Runtime that cannot shows nothing.
func (s Set) SentSince(ctx context.Context, ref bridge.RunRef) ([]bridge.SentRun, error) {
	r, err := s.of(ref.Runtime)
	if err != nil {
		return nil, err
	}
	if t, ok := r.(bridge.Transcriber); ok {
		return t.SentSince(ctx, ref)
	}
	return nil, nil
}
