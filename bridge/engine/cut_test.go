package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"drawbridge/bridge"
	"drawbridge/bridge/engine"
	"drawbridge/proof/runtimes"
)

// slowCloud is a cloud one of whose calls takes its time, or as long as its context lives.
type slowCloud struct {
	*runtimes.Cloud
	slow string
	took time.Duration
	met  chan struct{}
}

func (c *slowCloud) wait(ctx context.Context, call string) error {
	if call != c.slow {
		return nil
	}
	select {
	case c.met <- struct{}{}:
	default:
	}
	select {
	case <-time.After(c.took):
		return nil
	case <-ctx.Done():
		return &bridge.Error{Kind: bridge.Unavailable, Message: "no answer", Unclear: true, Cause: ctx.Err()}
	}
}

func (c *slowCloud) Launch(ctx context.Context, l bridge.Launch) (bridge.Started, error) {
	if err := c.wait(ctx, "launch"); err != nil {
		return bridge.Started{}, err
	}
	return c.Cloud.Launch(ctx, l)
}

func (c *slowCloud) Send(ctx context.Context, f bridge.FollowUp) (bridge.Started, error) {
	if err := c.wait(ctx, "send"); err != nil {
		return bridge.Started{}, err
	}
	return c.Cloud.Send(ctx, f)
}

func (c *slowCloud) FindLaunch(ctx context.Context, l bridge.Launch) (bridge.Started, bridge.Found, error) {
	if err := c.wait(ctx, "find launch"); err != nil {
		return bridge.Started{}, bridge.FoundUnknown, err
	}
	return c.Cloud.FindLaunch(ctx, l)
}

func (c *slowCloud) Observe(ctx context.Context, r bridge.RunRef) (bridge.Observation, error) {
	if err := c.wait(ctx, "observe"); err != nil {
		return bridge.Observation{}, err
	}
	return c.Cloud.Observe(ctx, r)
}

func (c *slowCloud) Inspect(ctx context.Context, r bridge.RunRef) (bridge.Evidence, error) {
	if err := c.wait(ctx, "inspect"); err != nil {
		return bridge.Evidence{}, err
	}
	return c.Cloud.Inspect(ctx, r)
}

// TestStopCutsOffWhatCanBeRepeated: an answer of the API that takes minutes held up every stop for the whole grace. What can
// be asked again ends at once; what cannot be repeated gets its answer; and the next start does nothing twice.
func TestStopCutsOffWhatCanBeRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		api, slow     string
		took, stopsIn time.Duration
	}{
		"a v1 launch":             {bridge.APIv1, "launch", 150 * time.Second, 0},
		"a look at a run":         {bridge.APIv1, "observe", 150 * time.Second, 0},
		"a look for evidence":     {bridge.APIv1, "inspect", 150 * time.Second, 0},
		"a look before v0 launch": {bridge.APIv0, "find launch", 150 * time.Second, 0},
		"a v0 launch":             {bridge.APIv0, "launch", 5 * time.Second, 5 * time.Second},
		"a follow-up":             {bridge.APIv1, "send", 5 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *world) {
				w.cloud.Answer = func(string, string) bridge.Observation {
					return bridge.Observation{State: bridge.RunFinished, Reply: "Done."}
				}
				cloud := &slowCloud{Cloud: w.cloud, slow: c.slow, took: c.took, met: make(chan struct{}, 1)}
				w.runtime = cloud
				w.start()
				if _, _, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "main", Repo: boss, Prompt: "go", API: c.api}); err != nil {
					t.Fatal(err)
				}
				if c.slow == "send" {
					w.say("and then")
				}
				<-cloud.met
				began := time.Now()
				w.stop()
				if took := time.Since(began); took != c.stopsIn {
					t.Errorf("the stop took %s, want %s", took, c.stopsIn)
				}
				w.runtime = nil
				w.start()
				turns := 1 + strings.Count(c.slow, "send")
				w.idle(turns)
				w.stop()
				effects := 0
				for _, line := range w.cloud.Log() {
					if strings.HasPrefix(line, "launch") || strings.HasPrefix(line, "send") {
						effects++
					}
				}
				if effects != turns {
					t.Errorf("%d effects for %d turns: %q", effects, turns, w.cloud.Log())
				}
			})
		})
	}
}

// TestRuleSettlesV0Launches: launches that never happened needed a person each. With the rule, looks that find nothing for its
// time settle them; without it, or when nobody could look, they stay uncertain.
func TestRuleSettlesV0Launches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule  time.Duration
		blind bool
		want  bridge.TurnState
	}{
		"off":              {0, false, bridge.TurnUncertain},
		"on":               {30 * time.Minute, false, bridge.TurnFailed},
		"nobody can look":  {30 * time.Minute, true, bridge.TurnDelivering},
		"shorter than due": {time.Minute, false, bridge.TurnFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, w *world) {
				began, sent := time.Now(), 0
				w.cloud.Answer = func(string, string) bridge.Observation { return bridge.Observation{State: bridge.RunFinished} }
				w.v0Settle = c.rule
				w.cloud.Fail = func(point, _ string) error {
					switch {
					case point == "before launch":
						sent++
						return &bridge.Error{Kind: bridge.Unavailable, Message: "answer lost", Unclear: true}
					case point == "find launch" && sent > 0 && c.blind:
						return bridge.Errorf(bridge.Unavailable, "not now")
					}
					return nil
				}
				w.start()
				_, turn, err := w.engine.LaunchAgent(t.Context(), engine.Spec{Name: "main", Repo: boss, Prompt: "go", API: bridge.APIv0})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour)
				var now bridge.Turn
				if err := w.engine.View(t.Context(), func(tx *bridge.Scene) (err error) { now, err = tx.Turn(turn.ID); return err }); err != nil {
					t.Fatal(err)
				}
				w.stop()
				if now.State != c.want || sent != 1 {
					t.Errorf("the turn is %s (%s) after %d launches, want %s after one", now.State, now.Trouble, sent, c.want)
				}
				if c.want == bridge.TurnFailed {
					wants(t, now.Trouble, "it was not launched", "cursor.v0_settle")
					if after := now.EndedAt.Sub(began); after < max(c.rule, 5*time.Minute) || after > c.rule+11*time.Minute {
						t.Errorf("settled after %s", after)
					}
				}
			})
		})
	}
}
