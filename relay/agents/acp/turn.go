package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"drawbridge/relay/agents"
	"drawbridge/relay/wire"
)

// Answer is what a turn brought. It holds what was said until then when the turn ended with an error.
type Answer struct {
	// Messages are the agent's own messages, the oldest first.
	Messages []string
	// Spent is what the turn took, nil where the agent does not say it.
	Spent *wire.Spent
	// Total is what the session took so far, of that which the agent counts for the session and not for the turn; nil for nothing.
	Total *wire.Spent
	// Updates counts what the agent reported.
	Updates int
	// Noise is what was left out of its output since the process began.
	Noise agents.Noise
}

// Text is every message, each from the beginning of a line.
func (a Answer) Text() string { return join(a.Messages) }

// turn is the turn that runs.
type turn struct {
	text    text
	steps   steps
	updates int
	// news gets a signal for each update.
	news chan struct{}
	// prompt is what is said, and old is true once the agent sent another turn's prompt in the middle of this one.
	prompt string
	old    bool
	named  bool // the agent gave an id
}

func (t *turn) stir() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// prompted is the answer to a prompt.
type prompted struct {
	StopReason string          `json:"stopReason"`
	Usage      json.RawMessage `json:"usage"`
	Meta       json.RawMessage `json:"_meta"`
}

// Prompt runs one turn. When ctx is done it cancels the turn, and an answer that came all the same still counts; the error then is the cause
// of ctx if that is an *agents.Error, Hung for a deadline, and Stopped otherwise. An agent that does not end a cancelled turn is given up,
// so that its process has to be ended. An error is an *agents.Error, with what was said until then in the Answer.
func (s *Session) Prompt(ctx context.Context, prompt string) (Answer, error) {
	t := &turn{news: make(chan struct{}, 1), prompt: prompt}
	s.mu.Lock()
	busy := s.turn != nil
	if !busy {
		t.steps = newSteps(s.tell)
		s.turn, s.words = t, pieces{}
		s.count++
		s.late.cut()
		s.spending.counted = nil
	}
	s.mu.Unlock()
	if busy {
		return Answer{}, &agents.Error{Cause: agents.Crashed, Reason: "the relay began a turn while another one ran in the same session"}
	}
	said, err := s.exchange(ctx, prompt)
	// The last words of agents that send them after the end of the turn, a stopped one too.
	whole := s.rests(context.WithoutCancel(ctx), t.news, settleMost, func() time.Duration { return cmp.Or(s.conn.o.SettleFor, settleFor) })
	s.mu.Lock()
	s.turn = nil
	clear(s.tools)
	if !whole {
		_ = s.tooLate(t.text.openLine()) // what is too long is left out
	}
	t.steps.end()
	a, old := Answer{Messages: t.text.all(), Updates: t.updates, Noise: s.conn.Noise()}, t.old
	a.Spent, a.Total = s.spending.took(said)
	s.mu.Unlock()
	switch {
	case err != nil:
		return a, err
	case old: // an old answer must not run its commands again
		return Answer{Updates: a.Updates, Noise: a.Noise, Spent: a.Spent, Total: a.Total}, &agents.Error{Cause: agents.Crashed, Reason: "the agent sent its history in the middle of the turn; the relay cannot tell its answer from older ones"}
	}
	return a, s.judge(ctx, said.StopReason)
}

// exchange sends the prompt and returns the agent's answer to it.
func (s *Session) exchange(ctx context.Context, prompt string) (said prompted, err error) {
	call, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	reply, mark := make(chan error, 1), s.conn.rpc.written.Load()
	go func() {
		reply <- s.conn.rpc.call(call, sdk.AgentMethodSessionPrompt, sdk.PromptRequest{SessionId: sdk.SessionId(s.ID), Prompt: []sdk.ContentBlock{sdk.TextBlock(prompt)}}, &said)
	}()
	select {
	case err = <-reply:
		if err != nil {
			err = s.notTaken(err, mark)
		}
		return said, err
	case <-ctx.Done():
	}
	_ = s.conn.rpc.request(nil, sdk.AgentMethodSessionCancel, sdk.CancelNotification{SessionId: sdk.SessionId(s.ID)})
	s.conn.withdraw(s.ID)
	late := time.NewTimer(cancelFor)
	defer late.Stop()
	select {
	case err = <-reply:
	case <-late.C:
		giveUp(nil)
		if err = <-reply; err != nil {
			s.conn.rpc.fail(&agents.Error{Cause: agents.Hung, Reason: fmt.Sprintf("the agent did not end a cancelled turn within %s", cancelFor)})
		}
	}
	if err != nil {
		// Some agents answer a cancelled turn with an error.
		return said, stopped(ctx)
	}
	return said, nil
}

// notTaken is the end of a turn that the agent did not answer. mark counts the bytes that were written before the turn.
func (s *Session) notTaken(err error, mark int64) error {
	err = s.conn.ended(err, "take the turn")
	var why *agents.Error
	if !errors.As(err, &why) || !s.conn.rpc.untouched(mark) {
		return err
	}
	unread := *why
	unread.Unread = true
	return &unread
}

// stopped is the end of a turn whose ctx is done.
func stopped(ctx context.Context) *agents.Error {
	cause := context.Cause(ctx)
	var why *agents.Error
	switch {
	case errors.As(cause, &why):
		return why
	case errors.Is(cause, context.DeadlineExceeded):
		return &agents.Error{Cause: agents.Hung, Reason: "the turn took longer than allowed"}
	default:
		return &agents.Error{Cause: agents.Stopped, Reason: "the turn was stopped"}
	}
}

// judge turns the reason for which the agent stopped into an error, nil for a turn that was answered.
func (s *Session) judge(ctx context.Context, reason string) error {
	switch sdk.StopReason(reason) {
	case sdk.StopReasonEndTurn:
		s.conn.o.Pace.Answered()
		return nil
	case sdk.StopReasonRefusal:
		return &agents.Error{Cause: agents.Refused, Reason: "the agent refused to go on"}
	case sdk.StopReasonMaxTokens:
		return &agents.Error{Cause: agents.Refused, Reason: "the agent reached its limit of tokens; its answer is incomplete"}
	case sdk.StopReasonMaxTurnRequests:
		return &agents.Error{Cause: agents.Refused, Reason: "the agent reached its limit of requests to its model; its answer is incomplete"}
	case sdk.StopReasonCancelled:
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		return &agents.Error{Cause: agents.Stopped, Reason: "the agent says that its turn was cancelled"}
	default:
		return s.conn.broke(fmt.Sprintf("the agent ended its turn with a reason that the protocol does not define: %s", s.conn.o.clean(reason)))
	}
}
