package cloudagents

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"drawbridge/bridge"
	"drawbridge/internal/loosejson"
	"drawbridge/internal/pause"
)

const (
	recoverAttempts = 3
	recoverDelay    = 150 * time.Millisecond
)

// recoverReply reads the stream of a finished run whose answer had no result. A
// stream that is gone, or that breaks each time, leaves the reply empty and says
// so in Detail, because the run is over all the same; what a later call may do
// better (a rate limit, a key refused, our own end) is an error.
func (c *Client) recoverReply(ctx context.Context, r bridge.RunRef, o bridge.Observation) (bridge.Observation, error) {
	var err error
	for attempt := range recoverAttempts {
		if err = backOff(ctx, attempt); err != nil {
			return bridge.Observation{}, c.transportError(get("observe run", ""), err, true)
		}
		o.Reply, err = c.streamText(ctx, r)
		if err == nil {
			if o.Reply == "" {
				o.Detail = "the API gave no text for this run"
			}
			return o, nil
		}
		if ctx.Err() != nil || !recoverable(err) {
			return bridge.Observation{}, err
		}
		if bridge.KindOf(err) != bridge.Unavailable {
			break
		}
	}
	o.Reply = ""
	o.Detail = clip("the API gave no result for this run, and the bridge could not read its stream: "+bridge.SafeMessage(err), maxMessage)
	return o, nil
}

func recoverable(err error) bool {
	switch bridge.KindOf(err) {
	case bridge.RateLimited, bridge.UsageLimited, bridge.Unauthenticated, bridge.TooLarge:
		return false
	}
	return true
}

// backOff waits before a repeated attempt, twice as long each time, with jitter.
func backOff(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	delay := recoverDelay << (attempt - 1)
	return pause.For(ctx, delay+rand.N(delay))
}

// streamText collects a run's final text from its stream.
func (c *Client) streamText(ctx context.Context, r bridge.RunRef) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, min(c.opts.Timeout, maxReadTimeout))
	defer cancel()
	col := collector{limit: c.opts.MaxReply}
	if err := c.Stream(ctx, r, "", col.event); err != nil {
		return "", err
	}
	if col.result != "" {
		return col.result, nil
	}
	return col.text.String(), nil
}

// collector puts a reply together from the simple events. interaction_update
// doubles them and is left out.
type collector struct {
	limit int
	text  strings.Builder
	// parted is true when a tool call stands between the text so far and the next.
	parted bool
	result string
	// pieces joins the text.
	pieces loosejson.Joiner
}

func (c *collector) event(e Event) error {
	var data struct {
		Text json.RawMessage `json:"text"`
	}
	switch e.Name {
	case "tool_call":
		c.parted, c.pieces = c.text.Len() > 0, loosejson.Joiner{}
		return nil
	case "assistant", "result":
		if e.Oversize && e.Name == "assistant" {
			return bridge.Errorf(bridge.TooLarge, "observe run: a part of the reply has more than %d bytes", maxFrame)
		}
		if e.Oversize {
			return nil // the parts are there
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return &bridge.Error{Kind: bridge.Unavailable, Message: "observe run: the stream has an event that is not JSON", Cause: err}
		}
	default:
		return nil
	}
	if e.Name == "result" {
		c.result = loosejson.Text(data.Text)
		return nil
	}
	return c.add(c.pieces.Add(data.Text))
}

// add begins a new line behind a tool call: what an agent says after it is a new
// message, and a command in its first line must stand at a line's start.
func (c *collector) add(text string) error {
	if c.parted && text != "" && !strings.HasSuffix(c.text.String(), "\n") {
		c.text.WriteByte('\n')
	}
	c.parted = c.parted && text == ""
	c.text.WriteString(text)
	if c.text.Len() > c.limit {
		return bridge.Errorf(bridge.TooLarge, "observe run: the reply has more than %d bytes", c.limit)
	}
	return nil
}
