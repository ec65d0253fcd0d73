//go:build deep

package cli_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/relay/agents"
)

// Many events are read and not kept.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	events := 1_000_000
	if sampled {
		events = 20_000
	}
	for _, name := range streams {
		w := newWorld(t, name)
		a, err := w.prompt(fmt.Sprintf("do: events %d\ndo: say over", events))
		if err != nil || a.Text() != "over" || a.Updates < events {
			t.Errorf("%s: %q, %d events, %v", name, a.Text(), a.Updates, err)
		}
	}
}

// Each way in which a program fails its turn has one cause, the process and what it started are gone, and memory does not grow with what it writes.
func TestHostilePrograms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, prompt string
		formats      []string
		cause        agents.Cause
		reason       string
	}{
		{"garbage", "do: garbage 200000", streams, agents.Crashed, "does not have the format of its entry"},
		{"100 MB on a line and no end", fmt.Sprintf("do: line %d\ndo: silent", much()), streams, agents.Crashed, "the relay skipped lines of more than 8 MiB: 1"},
		{"ends without a final event", "do: say half\ndo: silent", streams, agents.Crashed, "ended without an answer"},
		{"ends with a code", "do: say half\ndo: exit 7", streams, agents.Crashed, "exit code 7"},
		{"ends with a code", "do: exit 7", []string{"text"}, agents.Crashed, "exit code 7"},
		{"floods its errors and ends", fmt.Sprintf("do: stderr %d\ndo: exit 7", much()), streams, agents.Crashed, "exit code 7; it wrote"},
		{"is killed", "do: say half\ndo: kill", append([]string{"text"}, streams...), agents.Crashed, "ended by a signal: killed"},
		{"spawns and ends", "do: spawn 1000\ndo: exit 1", streams, agents.Crashed, "exit code 1"},
		{"fails and says so", "do: fail boom", []string{"codex", "claude"}, agents.Failed, "boom"},
		{"fails", "do: fail boom", []string{"cursor"}, agents.Crashed, "boom"},
		{"wants a login", "do: fail Not logged in · Please run /login", append([]string{"text"}, streams...), agents.LoginMissing, "Please run /login"},
		{"has a wrong key", "do: complain Error: 401 Unauthorized\ndo: exit 1", append([]string{"text"}, streams...), agents.LoginMissing, "401 Unauthorized"},
		{"is limited", "do: fail You've hit your usage limit, try again in 2 h 5 m", append([]string{"text"}, streams...), agents.Limited, "usage limit"},
		{"is limited by a code", "do: fail API Error: Request rejected (429)", streams, agents.Limited, "429"},
		{"hangs", "do: hang", append([]string{"text"}, streams...), agents.Hung, "longer than allowed"},
		{"hangs behind a tool", "do: start x\ndo: hang", streams, agents.Hung, "longer than allowed"},
	}
	for _, tt := range tests {
		for _, name := range tt.formats {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, name)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				c := w.open()
				if tt.cause == agents.Hung {
					behind := strings.Contains(tt.prompt, "do: start")
					go func() {
						w.eventually("the program hangs", func() bool {
							heard, working := c.Heard()
							return w.prompts() == 1 && (!behind || working && !heard.IsZero())
						})
						cancel(context.DeadlineExceeded)
					}()
				}
				_, err := c.Prompt(ctx, tt.prompt)
				why := wantCause(t, err, tt.cause, tt.reason)
				if wait := time.Until(why.Until); (tt.cause == agents.Limited) != (wait > 0) || strings.Contains(tt.reason, "usage limit") && wait < 2*time.Hour {
					t.Errorf("to be tried again in %v", wait)
				}
				wantNothingLeft(t, w)
				if tt.cause != agents.Hung {
					w.log()
				}
			})
		}
	}
}
