package turns

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/runner/settings"
)

// signs is a conversation that tests say what it hears of.
type signs struct {
	Conversation
	mu      sync.Mutex // guards the fields below
	last    time.Time
	working bool
}

// Heard implements Conversation.
func (s *signs) Heard() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.working
}

// says is a sign of life, after which the agent runs a tool or not.
func (s *signs) says(working bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.working = time.Now(), working
}

// TestWatch: a turn ends as hung when it takes too long or is silent for too long, and as asking when a question is open for too long. A tool
// that runs is not silence, and the time in which a person is asked is not the turn's.
func TestWatch(t *testing.T) {
	t.Parallel()
	const timeout, silent, hold = time.Hour, 5 * time.Minute, 3 * time.Hour
	for name, tt := range map[string]struct {
		// plays is what happens in the turn, in virtual time.
		plays func(j *job, s *signs)
		cause agents.Cause
		// after is when the turn ends, 0 for never.
		after time.Duration
	}{
		"silence":     {func(*job, *signs) {}, agents.Hung, silent},
		"a long tool": {func(_ *job, s *signs) { s.says(true); time.Sleep(timeout - time.Minute) }, "", 0},
		"silence behind a tool": {func(_ *job, s *signs) {
			s.says(true)
			time.Sleep(10 * time.Minute)
			s.says(false)
		}, agents.Hung, 10*time.Minute + silent},
		"words": {func(_ *job, s *signs) {
			for range 58 {
				time.Sleep(time.Minute)
				s.says(false)
			}
		}, "", 0},
		"too long":           {func(_ *job, s *signs) { s.says(true) }, agents.Hung, timeout},
		"a person is asked":  {func(j *job, _ *signs) { j.asks(); time.Sleep(2 * time.Hour) }, "", 0},
		"a question is open": {func(j *job, _ *signs) { j.asks() }, agents.Asking, hold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &signs{last: time.Now()}
				l := &lane{host: &Host{o: Options{Now: time.Now}}, entry: settings.Agent{TurnTimeout: timeout, SilentAfter: silent, AskHold: hold}}
				j := &job{lane: l, r: &run{ctx: t.Context()}, w: &warm{Conversation: s}}
				began := time.Now()
				ctx, stop := j.watch()
				defer stop()
				tt.plays(j, s)
				if tt.after == 0 {
					if err := context.Cause(ctx); err != nil {
						t.Errorf("after %s: %v", time.Since(began), err)
					}
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(24 * time.Hour):
				}
				if took := time.Since(began); agents.CauseOf(context.Cause(ctx)) != tt.cause || took < tt.after || took > tt.after+2*time.Second {
					t.Errorf("after %s: %v; want %s after %s", took, context.Cause(ctx), tt.cause, tt.after)
				}
			})
		})
	}
}

// asks opens a question to a person.
func (j *job) asks() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.r.asking = append(j.r.asking, time.Now())
}
