package acp_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"drawbridge/relay/agents/acp"
)

// question is a request for permission.
func question(id, session, input, options string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"session/request_permission","params":{"sessionId":%q,"toolCall":{"toolCallId":"c1","title":"Run","kind":"execute","rawInput":%s,"locations":[{"path":"/work/a"}]},"options":[%s]}}`+"\n",
		id, session, input, options)
}

// A question's option is chosen by its kind, whatever its id and its place. A yes is for one call: where the agent offers only more, it
// gets no yes. No option that lifts the asking is ever chosen.
func TestAnswersByKind(t *testing.T) {
	t.Parallel()
	const (
		always  = `{"optionId":"allow","name":"Allow","kind":"allow_always"}`
		once    = `{"optionId":"reject","name":"Sure","kind":"allow_once"}`
		no      = `{"optionId":"once","name":"No","kind":"reject_once"}`
		never   = `{"optionId":"never","name":"Never","kind":"reject_always"}`
		bypass  = `{"optionId":"bypassPermissions","name":"Yes, and bypass permissions","kind":"allow_once"}`
		unknown = `{"optionId":"x","name":"X","kind":"allow_sometimes"}`
	)
	selected := func(id string) string { return `{"outcome":{"optionId":"` + id + `","outcome":"selected"}}` }
	const cancelled = `{"outcome":{"outcome":"cancelled"}}`
	tests := []struct {
		name, options string
		reply         acp.Reply
		want          string
	}{
		{"yes", always + "," + once + "," + no, acp.Allow, selected("reject")},
		{"no", always + "," + once + "," + no, acp.Refuse, selected("once")},
		{"nobody", always + "," + once + "," + no, acp.Unanswered, cancelled},
		{"yes for all calls alone", always + "," + no, acp.Allow, cancelled},
		{"no for all calls alone", once + "," + never, acp.Refuse, cancelled},
		{"bypass first", bypass + "," + once, acp.Allow, selected("reject")},
		{"bypass alone", bypass + "," + no, acp.Allow, cancelled},
		{"unknown kinds", unknown, acp.Allow, cancelled},
		{"no options", "", acp.Allow, cancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play(t, acp.Options{Ask: func(context.Context, acp.Question) acp.Reply { return tt.reply }}, func(f *fake) {
				f.begin()
				p := f.want("session/prompt")
				f.write(question(`"q-1"`, "s1", `{}`, tt.options))
				if h, _ := f.hear(); string(h.ID) != `"q-1"` || string(h.Result) != tt.want {
					t.Errorf("answered %s to %s, want %s", h.Result, h.ID, tt.want)
				}
				f.answer(p, endTurn)
			}, func(ctx context.Context, c *acp.Conn) {
				if _, err := open(t, ctx, c).Prompt(ctx, "Go."); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The arguments come as the agent wrote them: what a person is shown and what a hash is made of must not be a reading of them.
func TestExactArguments(t *testing.T) {
	t.Parallel()
	const input = `{"command" : "rm  -rf \u0061", "n":12345678901234567890, "command":"ls"}`
	for name, ask := range map[string]bool{"asked": true, "nobody is there": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got acp.Question
			o := acp.Options{}
			if ask {
				o.Ask = func(_ context.Context, q acp.Question) acp.Reply { got = q; return acp.Allow }
			}
			play(t, o, func(f *fake) {
				f.begin()
				p := f.want("session/prompt")
				f.write(question("0", "s1", input, `{"optionId":"a","name":"A","kind":"allow_once"},{"optionId":"b","name":"B","kind":"reject_once"}`))
				h, _ := f.hear()
				if want := map[bool]string{true: `{"outcome":{"optionId":"a","outcome":"selected"}}`, false: `{"outcome":{"optionId":"b","outcome":"selected"}}`}[ask]; string(h.Result) != want || string(h.ID) != "0" {
					t.Errorf("answered %s", h.Result)
				}
				f.answer(p, endTurn)
			}, func(ctx context.Context, c *acp.Conn) {
				if _, err := open(t, ctx, c).Prompt(ctx, "Go."); err != nil {
					t.Error(err)
				}
			})
			if ask && (string(got.Arguments) != input || got.Session != "s1" || got.Call != "c1" || got.Kind != "execute" || !got.Allowable || !got.Refusable || len(got.Paths) != 1) {
				t.Errorf("asked %+v with %s", got, got.Arguments)
			}
		})
	}
}

// Every request of the agent's gets an answer, also one that this client does not know or does not serve.
func TestEveryRequestIsAnswered(t *testing.T) {
	t.Parallel()
	play(t, acp.Options{Ask: func(context.Context, acp.Question) acp.Reply { return acp.Allow }}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		for request, want := range map[string]int{
			`{"jsonrpc":"2.0","id":"a","method":"fs/read_text_file","params":{"sessionId":"s1","path":"/etc/passwd"}}`: -32601,
			`{"jsonrpc":"2.0","id":"a","method":"terminal/create","params":{"sessionId":"s1","command":"ls"}}`:         -32601,
			`{"jsonrpc":"2.0","id":"a","method":"cursor/ask_question"}`:                                                -32601,
			`{"jsonrpc":"2.0","id":"a","method":"_vendor/x","params":[1]}`:                                             -32601,
			`{"jsonrpc":"2.0","id":"a","method":"session/request_permission","params":7}`:                              -32602,
			`{"jsonrpc":"2.0","id":null,"method":"initialize","params":{}}`:                                            -32601,
		} {
			f.write(request + "\n")
			if h, _ := f.hear(); h.Error == nil || h.Error.Code != want {
				t.Errorf("%s was answered with %s %+v", request, h.Result, h.Error)
			}
		}
		f.write(question(`"q"`, "another session", `{}`, ``))
		if h, _ := f.hear(); h.Error == nil || h.Error.Code != -32602 {
			t.Errorf("a question of an unknown session: %s %+v", h.Result, h.Error)
		}
		f.answer(p, endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		if _, err := open(t, ctx, c).Prompt(ctx, "Go."); err != nil {
			t.Error(err)
		}
	})
}

// A question that the agent takes back, or that is open when the process ends, has nobody who waits for it any more.
func TestQuestionTakenBack(t *testing.T) {
	t.Parallel()
	ended := make(chan time.Time, 2)
	ask := func(ctx context.Context, _ acp.Question) acp.Reply {
		<-ctx.Done()
		ended <- time.Now()
		return acp.Allow
	}
	play(t, acp.Options{Ask: ask}, func(f *fake) {
		f.begin()
		f.want("session/prompt")
		f.write(question("7", "s1", `{}`, ``))
		f.write(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}` + "\n")
		if h, _ := f.hear(); string(h.Result) != `{"outcome":{"outcome":"cancelled"}}` {
			t.Errorf("answered %s", h.Result)
		}
		f.write(question("8", "s1", `{}`, ``))
		f.conn.Over(exited)
	}, func(ctx context.Context, c *acp.Conn) {
		_, err := open(t, ctx, c).Prompt(ctx, "Go.")
		wantCause(t, err, "crashed", "exit code 1")
	})
	if len(ended) != 2 {
		t.Errorf("%d of 2 questions ended", len(ended))
	}
}
