package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
	"sync"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/uuid"

	"drawbridge/internal/clip"
	"drawbridge/openai/upstream"
)

// session is one conversation in one folder.
type session struct {
	a  *Agent
	id acp.SessionId
	// dir is the folder as the client named it, real the same without links, and root is all that the tools for files reach.
	dir, real string
	root      *os.Root
	keep      keep
	servers   []*server

	turn sync.Mutex // held for a turn
	said []said

	mu   sync.Mutex // guards what follows
	stop context.CancelFunc
	// gone is set when the session ends for good.
	gone bool
	// did is what the tools of this turn did.
	did []string
}

func (s *session) close() error {
	errs := []error{s.root.Close()}
	for _, m := range s.servers {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

// cancel ends the turn that runs; with forGood, no further one begins.
func (s *session) cancel(forGood bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = s.gone || forGood
	if s.stop != nil {
		s.stop()
	}
}

// end waits for the end of a turn that was canceled for good, and closes the session.
func (s *session) end() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.close()
}

// note keeps what a tool did, for the history of a turn that breaks off.
func (s *session) note(title, trouble string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if trouble != "" {
		title += " (" + trouble + ")"
	}
	if len(s.did) < maxDid {
		s.did = append(s.did, clip.Text(title, maxTitle))
	}
}

// Bounds of what a turn leaves in the history: deeds, bytes of each, and bytes of its words.
const (
	maxDid   = 200
	maxTitle = 500
	maxKept  = 1 << 20
)

// prompt runs one turn to its end.
func (s *session) prompt(ctx context.Context, blocks []acp.ContentBlock) (acp.PromptResponse, error) {
	if !s.turn.TryLock() {
		return acp.PromptResponse{}, acp.NewInvalidRequest(map[string]any{"error": "a turn of this session is running; wait for its end, or cancel it"})
	}
	defer s.turn.Unlock()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.mu.Lock()
	s.stop, s.did = stop, nil
	gone := s.gone
	s.mu.Unlock()
	if gone {
		return acp.PromptResponse{}, acp.NewInvalidRequest(map[string]any{"error": "the session was closed"})
	}

	q, err := s.request(blocks)
	if err != nil {
		return acp.PromptResponse{}, err
	}
	asked := q.Messages[q.New]
	if err := s.remember(said{Role: asked.Role, Text: asked.Text}); err != nil {
		return acp.PromptResponse{}, err
	}
	answer, usage, err := s.answer(ctx, q)
	told := said{Role: "assistant", Text: answer}
	if err == nil {
		told.Turn = q.Turn
	}
	if err != nil {
		told.Text = s.brokenOff(told.Text)
	}
	if told.Text != "" || err == nil {
		err = errors.Join(err, s.remember(told))
	}
	if ctx.Err() != nil {
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
	}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn, Usage: usage}, failure(err)
}

// brokenOff is what the history has of a turn without an end: its words, and what was done, so that the next turn does not do it again.
func (s *session) brokenOff(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.did) > 0 {
		text += "\n(Before this turn broke off, these were done: " + strings.Join(s.did, "; ") + ")"
	}
	return text
}

func (s *session) remember(m said) error {
	if err := s.keep.add(m); err != nil {
		return err
	}
	s.said = append(s.said, m)
	return nil
}

// failure is an error in the words of the protocol.
func failure(err error) error {
	var e *upstream.Error
	if !errors.As(err, &e) {
		return err
	}
	text := e.Message
	if e.Said != "" && !strings.Contains(text, e.Said) {
		text += ": " + e.Said
	}
	code := -32603
	if e.Code == "upstream_login" {
		code = -32000 // the protocol's "authentication required"
	}
	return &acp.RequestError{Code: code, Message: text, Data: map[string]any{"details": e.Code}}
}

// request is the turn as the service is asked for it.
func (s *session) request(blocks []acp.ContentBlock) (upstream.Request, error) {
	asked := upstream.Message{Role: "user"}
	var text []string
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			text = append(text, b.Text.Text)
		case b.Image != nil:
			data, err := base64.StdEncoding.DecodeString(b.Image.Data)
			if err != nil {
				return upstream.Request{}, acp.NewInvalidParams(map[string]any{"error": "the image is not base64"})
			}
			asked.Images = append(asked.Images, upstream.Image{MIME: b.Image.MimeType, Data: data})
		case b.ResourceLink != nil:
			text = append(text, b.ResourceLink.Name+": "+b.ResourceLink.Uri)
		case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
			r := b.Resource.Resource.TextResourceContents
			text = append(text, r.Uri+":\n"+r.Text)
		default:
			return upstream.Request{}, acp.NewInvalidParams(map[string]any{"error": "this agent reads only text, images and text resources"})
		}
	}
	asked.Text = strings.Join(text, "\n")
	messages, follows := s.messages()
	q := upstream.Request{Turn: uuid.NewString(), Session: string(s.id), Model: s.a.o.Model, Messages: append(messages, asked), New: len(messages),
		Follows: follows, Tools: s.tools(), State: s.keep}
	return q, nil
}

// answer has the service answer, and shows what it says and does.
func (s *session) answer(ctx context.Context, q upstream.Request) (text string, usage *acp.Usage, err error) {
	t, err := s.a.o.Client.StartLocal(ctx, q, hands{s})
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	var calls []upstream.Call
	var running sync.WaitGroup
	calling, stopCalls := context.WithCancel(ctx)
	undelivered := make(chan error, 1)
	defer func() { // the turn is over when nothing of it runs any more
		stopCalls()
		_ = t.Cancel(ctx) // it changes nothing behind the end
		for err := error(nil); err == nil; {
			_, err = t.Next(context.WithoutCancel(ctx))
		}
		running.Wait()
	}()
	for {
		e, err := t.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			select {
			case err = <-undelivered:
			default:
				err = context.Canceled
			}
			return b.String(), usage, err
		case err != nil:
			return b.String(), usage, err
		}
		switch e.Kind {
		case upstream.Text:
			if b.Len() < maxKept {
				b.WriteString(e.Text)
			}
			for piece := range pieces(e.Text) {
				s.update(ctx, acp.UpdateAgentMessageText(piece))
			}
		case upstream.Reasoning:
			for piece := range pieces(e.Text) {
				s.update(ctx, acp.UpdateAgentThoughtText(piece))
			}
		case upstream.CallPiece:
			calls = append(calls, upstream.Call{ID: e.ID, Name: e.Name, Arguments: json.RawMessage(e.Arguments)})
		case upstream.Parked:
			ask := calls
			calls = nil
			running.Go(func() {
				if err := t.Deliver(calling, s.callAll(calling, ask)); err != nil && calling.Err() == nil {
					undelivered <- err
					_ = t.Cancel(calling) // it waits for them no more
				}
			})
		case upstream.Ended:
			return b.String(), spent(e.Usage), nil
		}
	}
}

// pieces cuts a text where it is long, between characters: a message to the client has a bound.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > maxShown {
			cut := clip.Whole([]byte(text[:maxShown]))
			if !yield(text[:cut]) {
				return
			}
			text = text[cut:]
		}
		yield(text)
	}
}

// spent is the usage in the words of the protocol.
func spent(u *upstream.Usage) *acp.Usage {
	if u == nil {
		return nil
	}
	out := &acp.Usage{InputTokens: number(u.Prompt), OutputTokens: number(u.Completion)}
	out.TotalTokens = out.InputTokens + out.OutputTokens
	if u.Cached != nil {
		out.CachedReadTokens = acp.Ptr(number(u.Cached))
	}
	if u.Reasoning != nil {
		out.ThoughtTokens = acp.Ptr(number(u.Reasoning))
	}
	return out
}

func number(n *int64) int {
	if n == nil {
		return 0
	}
	return int(*n)
}
