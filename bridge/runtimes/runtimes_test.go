package runtimes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/runtimes"
	proof "drawbridge/proof/runtimes"
)

// plain is a Runtime that can do nothing more than each must.
type plain struct{ bridge.Runtime }

// followed is a cloud that has streams.
type followed struct{ *proof.Cloud }

func (followed) Follow(context.Context, bridge.RunRef) error { return nil }

func newCloud() *proof.Cloud {
	return &proof.Cloud{Answer: func(_, text string) bridge.Observation {
		switch {
		case strings.Contains(text, proof.NeverEnds):
			return bridge.Observation{State: bridge.RunRunning}
		case strings.Contains(text, proof.Fails):
			return bridge.Observation{State: bridge.RunError}
		}
		return bridge.Observation{Reply: text}
	}}
}

// TestEachInItsOwn: the contract holds for each Runtime of a set, and the other hears nothing of it.
func TestEachInItsOwn(t *testing.T) {
	t.Parallel()
	for _, home := range []struct{ name, api string }{{bridge.CloudRuntime, bridge.APIv1}, {"", bridge.APIv1}, {"", ""}, {"local", ""}} {
		t.Run(home.name+" "+home.api, func(t *testing.T) {
			t.Parallel()
			proof.Run(t, proof.Suite{
				Abilities: proof.Abilities{Repeats: true, Cancelled: true, Inspects: true},
				New: func(t *testing.T) proof.World {
					mine, other := newCloud(), newCloud()
					s := runtimes.Set{Cloud: followed{mine}, Named: map[string]bridge.Runtime{"local": plain{other}}}
					if home.name == "local" {
						s = runtimes.Set{Cloud: followed{other}, Named: map[string]bridge.Runtime{"local": mine}}
					}
					t.Cleanup(func() {
						if log := other.Log(); len(log) > 0 {
							t.Errorf("the other runtime did %q", log)
						}
					})
					return proof.World{Runtime: s, Name: home.name, API: home.api, Made: func() (int, int) { return mine.Effects("launch "), mine.Effects("send ") }}
				},
			})
		})
	}
}

// TestGone: agents of a runtime that is not configured wait, and what one cannot do harms nothing.
func TestGone(t *testing.T) {
	t.Parallel()
	s := runtimes.Set{Cloud: followed{newCloud()}, Named: map[string]bridge.Runtime{"local": plain{newCloud()}}}
	ctx, gone := t.Context(), bridge.RunRef{Runtime: "gone", Agent: "a"}
	_, launch := s.Launch(ctx, bridge.Launch{Runtime: "gone"})
	_, _, findLaunch := s.FindLaunch(ctx, bridge.Launch{Runtime: "gone"})
	_, send := s.Send(ctx, bridge.FollowUp{Runtime: "gone"})
	_, _, findSend := s.FindSend(ctx, bridge.FollowUp{Runtime: "gone"})
	_, observe := s.Observe(ctx, gone)
	_, inspect := s.Inspect(ctx, gone)
	for i, err := range []error{launch, findLaunch, send, findSend, observe, inspect, s.Cancel(ctx, gone), s.Follow(ctx, gone)} {
		if bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	local := bridge.RunRef{Runtime: "local", Agent: "a"}
	if err := s.Follow(ctx, local); bridge.KindOf(err) != bridge.Invalid {
		t.Errorf("follow: %v", err)
	}
	if e, err := s.Inspect(ctx, local); err != nil || e.Usage != nil {
		t.Errorf("inspect: %+v %v", e, err)
	}
	if err := s.Follow(ctx, bridge.RunRef{API: bridge.APIv1}); err != nil {
		t.Errorf("follow in the cloud: %v", err)
	}
}

// TestNoCloud: without a cloud its agents wait, a launch hears what to do, and other runtimes work.
func TestNoCloud(t *testing.T) {
	t.Parallel()
	s := runtimes.Set{Named: map[string]bridge.Runtime{"local": newCloud()}}
	ctx := t.Context()
	for _, name := range []string{"", bridge.CloudRuntime} {
		ref := bridge.RunRef{Runtime: name, API: bridge.APIv1, Agent: "a"}
		_, launch := s.Launch(ctx, bridge.Launch{Runtime: name})
		_, _, findLaunch := s.FindLaunch(ctx, bridge.Launch{Runtime: name})
		_, send := s.Send(ctx, bridge.FollowUp{Runtime: name})
		_, _, findSend := s.FindSend(ctx, bridge.FollowUp{Runtime: name})
		_, observe := s.Observe(ctx, ref)
		_, inspect := s.Inspect(ctx, ref)
		_, sent := s.SentSince(ctx, ref)
		for i, err := range []error{launch, findLaunch, send, findSend, observe, inspect, sent, s.Cancel(ctx, ref), s.Follow(ctx, ref), s.Away(name)} {
			if bridge.KindOf(err) != bridge.Unavailable || bridge.IsUnclear(err) || !strings.Contains(bridge.SafeMessage(err), "set cursor.key in bridge.yaml") {
				t.Errorf("runtime %q, call %d: %v", name, i, err)
			}
		}
		if got := s.SettleTime(name); got != 5*time.Minute {
			t.Errorf("runtime %q settles in %s", name, got)
		}
	}
	if err := s.Away("local"); err != nil {
		t.Error(err)
	}
	if err := s.Away("gone"); bridge.KindOf(err) != bridge.Unavailable || !strings.Contains(err.Error(), "gone") {
		t.Error(err)
	}
	with := runtimes.Set{Cloud: followed{newCloud()}}
	if err := with.Away(bridge.CloudRuntime); err != nil {
		t.Error(err)
	}
}

// settling is a Runtime that says how long it takes.
type settling struct {
	bridge.Runtime
	takes time.Duration
}

func (s settling) SettleTime() time.Duration { return s.takes }

// TestSettleTime: each Runtime's own, and a careful one for those that do not say or are gone.
func TestSettleTime(t *testing.T) {
	t.Parallel()
	s := runtimes.Set{Cloud: followed{newCloud()}, Named: map[string]bridge.Runtime{"local": settling{newCloud(), 0}, "slow": settling{newCloud(), time.Hour}, "plain": plain{newCloud()}}}
	for name, want := range map[string]time.Duration{bridge.CloudRuntime: 5 * time.Minute, "local": 0, "slow": time.Hour, "plain": 5 * time.Minute, "gone": 5 * time.Minute} {
		if got := s.SettleTime(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
