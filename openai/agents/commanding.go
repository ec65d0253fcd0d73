package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"drawbridge/openai/upstream"
)

// Commanding is a backend whose answers act for tokens that name an agent. Answers of other tokens pass as they are.
type Commanding struct {
	upstream.Upstream
	Commander *Commander
	// Agent returns the agent that a token names by the token's name, "" for none.
	Agent func(ctx context.Context, token string) (string, error)
}

// Start implements [upstream.Upstream]: the answer opens with what came of commands in earlier ones.
func (b Commanding) Start(ctx context.Context, r upstream.Request) (upstream.Turn, error) {
	agent, err := b.Agent(ctx, r.Token)
	if err != nil {
		return nil, fmt.Errorf("look up the token %q: %w", r.Token, err)
	}
	if agent == "" {
		return b.Upstream.Start(ctx, r)
	}
	t := &commanding{by: b.Commander}
	t.said = Spoken{Agent: agent, Token: r.Token, Session: r.Session, Turn: r.Turn, Messages: r.Messages, State: r.State}
	if t.opening, t.told, err = b.Commander.Outcomes(ctx, r.State); err != nil {
		return nil, fmt.Errorf("look up what came of commands: %w", err)
	}
	t.Turn, err = b.Upstream.Start(ctx, r)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// commanding is an answer that acts when it ends by itself. One that goes on after a restart does not: what the model read is not at hand then.
type commanding struct {
	upstream.Turn
	by      *Commander
	said    Spoken
	opening string
	told    func(context.Context) error

	mu   sync.Mutex // guards read
	read []upstream.Message

	// The rest is of Next alone.
	text strings.Builder
	last *upstream.Event
}

// Next implements [upstream.Turn].
func (t *commanding) Next(ctx context.Context) (upstream.Event, error) {
	if text := t.opening; text != "" {
		t.opening = ""
		return upstream.Event{Kind: upstream.Text, Text: text}, nil
	}
	if t.last != nil {
		e := *t.last
		t.last = nil
		return e, nil
	}
	e, err := t.Turn.Next(ctx)
	switch {
	case err != nil:
		return e, err
	case e.Kind == upstream.Text:
		t.text.WriteString(e.Text)
	case e.Kind == upstream.Parked: // only the last words of a turn act, and what it said before counts as read
		t.heard(upstream.Message{Role: "assistant", Text: t.text.String()})
		t.text.Reset()
	case e.Kind == upstream.Ended:
		if t.act(ctx, e) != nil {
			t.last = &e
			return upstream.Event{Kind: upstream.Text, Text: "\n\n(The bridge could not check the commands of this answer against the allowlist. Ask again.)"}, nil
		}
	}
	return e, nil
}

// Deliver implements [upstream.Turn]: the model reads the results, so they are outside text, too.
func (t *commanding) Deliver(ctx context.Context, results []upstream.Result) error {
	for _, r := range results {
		t.heard(upstream.Message{Role: "tool", Text: r.Text})
	}
	return t.Turn.Deliver(ctx, results)
}

func (t *commanding) heard(m upstream.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = append(t.read, m)
}

// act notes that the outcomes were told, and takes the answer to the gate. Why an agent may not act is an outcome, and no error.
func (t *commanding) act(ctx context.Context, e upstream.Event) error {
	if err := t.told(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	t.said.Messages = append(slices.Clone(t.said.Messages), t.read...)
	t.mu.Unlock()
	t.said.Finish, t.said.Text = e.Finish, t.text.String()
	return t.by.Act(ctx, t.said)
}
