package openai

import (
	"context"
	"io"

	"drawbridge/openai/upstream"
)

// ruled is a backend that knows its answer already.
type ruled struct{ answer string }

// Models implements upstream.Upstream.
func (ruled) Models(context.Context) ([]upstream.Model, error) { return nil, nil }

// Start implements upstream.Upstream.
func (r ruled) Start(context.Context, upstream.Request) (upstream.Turn, error) {
	return &ruledTurn{events: []upstream.Event{{Kind: upstream.Text, Text: r.answer}, {Kind: upstream.Ended, Finish: "stop"}}}, nil
}

// Resume implements upstream.Upstream. Such an answer takes no time, so that only a crash at the very moment comes here.
func (ruled) Resume(context.Context, upstream.Request, string) (upstream.Turn, error) {
	return nil, &upstream.Error{Code: "answer_lost", Message: "the bridge was restarted before this answer was given; send the request again"}
}

type ruledTurn struct{ events []upstream.Event }

// Ref implements upstream.Turn.
func (*ruledTurn) Ref() string { return "" }

// Next implements upstream.Turn.
func (t *ruledTurn) Next(context.Context) (upstream.Event, error) {
	if len(t.events) == 0 {
		return upstream.Event{}, io.EOF
	}
	e := t.events[0]
	t.events = t.events[1:]
	return e, nil
}

// Deliver implements upstream.Turn.
func (*ruledTurn) Deliver(context.Context, []upstream.Result) error {
	return unprocessable("tool_call_id", "not_waiting", "this answer takes no tool results")
}

// Cancel implements upstream.Turn.
func (*ruledTurn) Cancel(context.Context) error { return nil }
