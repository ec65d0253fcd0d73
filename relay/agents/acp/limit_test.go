package acp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/agents/limits"
)

// A limit is a time: the one that the error states in its words or in its data, and else a wait that grows until the agent answers.
func TestLimitsAreTimes(t *testing.T) {
	t.Parallel()
	pace := new(limits.Pace)
	for _, tt := range []struct {
		name, answer string
		after        time.Duration
	}{
		{"in its words", `{"code":-32603,"message":"Internal error","data":{"details":"You've hit your usage limit, try again in 2 h 5 m"}}`, 2*time.Hour + 5*time.Minute},
		{"in its data", `{"code":-32603,"message":"429 Too Many Requests","data":{"status":429,"headers":{"retry-after":"3600"}}}`, time.Hour},
		{"nowhere", `{"code":-32603,"message":"Internal error","data":{"errorKind":"rate_limit"}}`, time.Minute},
		{"nowhere again", `{"code":-32603,"message":"Too many requests"}`, 2 * time.Minute},
		{"", "", 0},
		{"nowhere after an answer", `{"code":-32603,"message":"Too many requests"}`, time.Minute},
	} {
		play(t, acp.Options{Pace: pace}, func(f *fake) {
			f.begin()
			p := f.want("session/prompt")
			if tt.answer == "" {
				f.answer(p, `{"stopReason":"end_turn"}`)
				return
			}
			f.write(`{"jsonrpc":"2.0","id":` + string(p.ID) + `,"error":` + tt.answer + "}\n")
		}, func(ctx context.Context, c *acp.Conn) {
			before := time.Now()
			var why *agents.Error
			if err := oneTurn(ctx, c); tt.answer == "" && err == nil {
				return
			} else if !errors.As(err, &why) || why.Cause != agents.Limited || why.Until.Sub(before).Round(time.Second) != tt.after {
				t.Errorf("%s: %+v; want limited for %v", tt.name, err, tt.after)
			}
		})
	}
}

// What an error's data quotes of other things does not make it a limit.
func TestDataIsNotALimit(t *testing.T) {
	t.Parallel()
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		f.write(`{"jsonrpc":"2.0","id":` + string(f.want("session/prompt").ID) + `,"error":{"code":-32603,"message":"Internal error","data":{"prompt":"the usage limit, resets at 9pm"}}}` + "\n")
	}, func(ctx context.Context, c *acp.Conn) {
		wantCause(t, oneTurn(ctx, c), agents.Failed, "Internal error")
	})
}
