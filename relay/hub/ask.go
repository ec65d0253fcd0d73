package hub

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"drawbridge/bridge"
	"drawbridge/relay/wire"
)

// ask is a request on its way to a relay that is connected to some replica.
type ask struct {
	ID  string   `json:"id"`
	Ask wire.Ask `json:"ask"`
}

// askOf cuts what an agent wrote to what the wire takes.
func askOf(r bridge.ActionRequest) ask {
	a := ask{ID: r.Request, Ask: wire.Ask{Action: r.Grant.Action(), Line: cut(r.Line, wire.MaxLine), Agent: cut(r.Agent, wire.MaxAgent)}}
	if r.Approved != nil {
		a.Ask.Approved = &wire.Approval{Definition: r.Approved.Definition, By: "operator", At: r.Approved.At.Unix()}
	}
	return a
}

func cut(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	for !utf8.ValidString(text) && text != "" {
		text = text[:len(text)-1]
	}
	return text
}

// ask signs a request, sends it over the connection that this replica holds, and waits for what comes of it.
func (h *Hub) ask(ctx context.Context, relay string, a ask) (bridge.ActionOutcome, error) {
	c := h.reach(ctx, relay)
	if c == nil {
		return bridge.ActionOutcome{}, away(relay)
	}
	if err := ctx.Err(); err != nil {
		return bridge.ActionOutcome{}, &bridge.Error{Kind: bridge.Unavailable, Message: fmt.Sprintf("the bridge did not ask relay %q", relay), Cause: err}
	}
	to := addressee{relay, c.process, a.ID}
	may, _, err := h.tieTo(ctx, to, false)
	if err == nil && !may {
		var out bridge.ActionOutcome
		var again bool
		if out, again, err = h.recall(ctx, c, a); err != nil || !again {
			return out, doubtful(err)
		}
		_, _, err = h.tieTo(ctx, to, true)
	}
	if err != nil {
		return bridge.ActionOutcome{}, err
	}
	k, first, err := c.begin(a.ID, a.Ask.Action)
	if err != nil {
		return bridge.ActionOutcome{}, away(relay)
	}
	if first {
		if err := c.send(ctx, a); err != nil {
			return bridge.ActionOutcome{}, err
		}
	}
	select {
	case <-ctx.Done():
		// The relay goes on, and its journal has the answer for whoever asks again.
		return bridge.ActionOutcome{}, unclear(relay, context.Cause(ctx))
	case <-k.done:
	}
	if k.err != nil {
		return bridge.ActionOutcome{}, unclear(relay, k.err)
	}
	return result(relay, a.Ask.Action, k.outcome)
}

// send signs and writes the request. Once the first byte may have left, whatever goes wrong leaves it open.
func (c *conn) send(ctx context.Context, a ask) error {
	signed, err := wire.Sign(c.signer.Load().private, wire.Order{ID: a.ID, Relay: c.relay, Ask: a.Ask, Created: c.stamp(), For: wire.MaxAge})
	if err != nil {
		c.forget(a.ID, err)
		return bridge.Errorf(bridge.Invalid, "the request is not valid for a relay")
	}
	// The caller's end must not cut a frame in half, which would end the connection for all.
	if err := c.write(context.WithoutCancel(ctx), wire.Frame{Request: &signed}); err != nil {
		c.forget(a.ID, err)
		c.cancel()
		return unclear(c.relay, err)
	}
	return nil
}

// forget gives up a call that could not be sent, for everyone who waits.
func (c *conn) forget(id string, err error) {
	c.mu.Lock()
	k := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if k != nil {
		k.err = err
		close(k.done)
	}
}

// doubtful marks every failure of a look-up as unclear: what is looked up may have run.
func doubtful(err error) error {
	var e *bridge.Error
	if errors.As(err, &e) && !e.Unclear {
		marked := *e
		marked.Unclear = true
		return &marked
	}
	return err
}

func away(relay string) error {
	return bridge.Errorf(bridge.Unavailable, "relay %q is not connected; is drawbridge-relay running there?", relay)
}

func unclear(relay string, cause error) error {
	return &bridge.Error{Kind: bridge.Unavailable, Unclear: true, Cause: cause, Message: fmt.Sprintf("relay %q gave no answer; the action may have run", relay)}
}

// result turns a relay's outcome into ours, or into the error that it stands for.
func result(relay, action string, out wire.Outcome) (bridge.ActionOutcome, error) {
	switch {
	case out.Status == wire.StatusInterrupted:
		return bridge.ActionOutcome{}, interrupted(relay, out.Error)
	case out.Action == "" && out.Refusal == wire.RefusedInvalid:
		// It was refused before it was read: its signature or its time is wrong there, such as by a clock that is off.
	case out.Action != action:
		e := bridge.Errorf(bridge.Unavailable, "relay %q answered for another action", relay)
		e.Unclear = true
		return bridge.ActionOutcome{}, e
	}
	if err := refusalKind(relay, out); err != nil {
		return bridge.ActionOutcome{}, err
	}
	status := 200
	if out.Status == wire.StatusRefused {
		status = 403
	}
	out.Answer = out.Keeping(bridge.MaxOutput)
	return bridge.ActionOutcome{
		Status: bridge.ActionStatus(out.Status), ExitCode: out.ExitCode, Stdout: out.Stdout, Stderr: out.Stderr,
		Omitted: out.StdoutOmitted + out.StderrOmitted, Duration: time.Duration(out.DurationMS) * time.Millisecond,
		Error: out.Error, HTTPStatus: status, Wants: wants(out), Shows: out.Shows,
	}, nil
}

// wants is the definition that the operator is to approve, or "".
func wants(out wire.Outcome) string {
	if out.Refusal != wire.RefusedApproval {
		return ""
	}
	return out.Definition
}

// refusalKind returns an error for the refusals that are not about the action itself.
func refusalKind(relay string, out wire.Outcome) error {
	kinds := map[wire.Refusal]bridge.ErrorKind{
		wire.RefusedBusy:     bridge.Unavailable,
		wire.RefusedRate:     bridge.RateLimited,
		wire.RefusedConflict: bridge.Conflict,
		wire.RefusedInvalid:  bridge.Invalid,
	}
	kind, is := kinds[out.Refusal]
	if !is {
		return nil
	}
	e := bridge.Errorf(kind, "relay %q refused: %+.200q", relay, out.Error)
	e.RetryAfter = time.Duration(min(out.RetryMS, maxRetryAfter*1000)) * time.Millisecond
	return e
}

// spoken is what one replica tells another of a call.
type spoken struct {
	Outcome *bridge.ActionOutcome `json:"outcome,omitempty"`
	// Finding answers a look-up.
	Finding *bridge.ActionFinding `json:"finding,omitempty"`
	// Ended and TurnFound answer a turn and its look-up.
	Ended     *wire.TurnEnded  `json:"ended,omitempty"`
	TurnFound *wire.TurnFound  `json:"turn_found,omitempty"`
	Kind      bridge.ErrorKind `json:"kind,omitempty"`
	Message   string           `json:"message,omitempty"`
	Unclear   bool             `json:"unclear,omitempty"`
	Retry     time.Duration    `json:"retry,omitempty"`
}

func speak(out bridge.ActionOutcome, err error) spoken {
	if err == nil {
		return spoken{Outcome: &out}
	}
	s := spoken{Kind: bridge.Unavailable, Message: "the bridge did not ask the relay", Unclear: true}
	var e *bridge.Error
	if errors.As(err, &e) {
		s = spoken{Kind: e.Kind, Message: e.Message, Unclear: e.Unclear, Retry: e.RetryAfter}
	}
	return s
}

func (s spoken) heard() (bridge.ActionOutcome, error) {
	if s.Outcome != nil {
		return *s.Outcome, nil
	}
	return bridge.ActionOutcome{}, &bridge.Error{Kind: s.Kind, Message: s.Message, Unclear: s.Unclear, RetryAfter: s.Retry}
}
