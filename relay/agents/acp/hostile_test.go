package acp_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
)

// An agent can misbehave in every way that it likes: the turn, or the start, ends once, with a cause, and nothing is left.
func TestHostileAgents(t *testing.T) {
	t.Parallel()
	start := func(script func(*fake)) func(*fake) { return script }
	turn := func(script func(f *fake, prompt heard)) func(*fake) {
		return func(f *fake) {
			f.begin()
			script(f, f.want("session/prompt"))
		}
	}
	tests := []struct {
		name   string
		script func(*fake)
		cause  agents.Cause
		reason string
	}{
		{"never answers initialize", start(func(f *fake) { f.want("initialize") }), agents.Hung, "the agent did not start in time"},
		{"says in its own words what it wants", start(func(f *fake) { f.want("initialize"); f.write("Usage: agent [flags]\n") }), agents.Hung, `in time; it wrote "Usage: agent [flags]"`},
		{"ends at once", start(func(f *fake) { f.conn.Over(exited) }), agents.Crashed, "exit code 1"},
		{"speaks version 2", start(func(f *fake) { f.answer(f.want("initialize"), `{"protocolVersion":2}`) }), agents.Crashed, "the agent speaks version 2 of the protocol"},
		{"speaks version 0", start(func(f *fake) { f.answer(f.want("initialize"), `{"protocolVersion":0}`) }), agents.Crashed, "speaks version 0"},
		{"speaks a date", start(func(f *fake) { f.answer(f.want("initialize"), `{"protocolVersion":"2025-06-18"}`) }), agents.Crashed, `speaks version "2025-06-18"`},
		{"speaks no version", start(func(f *fake) { f.answer(f.want("initialize"), `{}`) }), agents.Crashed, "speaks version"},
		{"answers with nothing", start(func(f *fake) { f.answer(f.want("initialize"), `null`) }), agents.Crashed, "speaks version"},
		{"answers with a list", start(func(f *fake) { f.answer(f.want("initialize"), `[]`) }), agents.Crashed, "the agent's answer to initialize cannot be read"},
		{"opens a session without an id", start(func(f *fake) {
			f.answer(f.want("initialize"), whole)
			f.answer(f.want("session/new"), `{}`)
		}), agents.Crashed, "a session without an id"},
		{"wants a login", start(func(f *fake) {
			f.answer(f.want("initialize"), whole)
			f.fail(f.want("session/new"), -32000, "Authentication required")
		}), agents.LoginMissing, "wants its user to log in"},
		{"changes its version later", turn(func(f *fake, p heard) {
			f.write(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}` + "\n")
			f.conn.Over(exited)
		}), agents.Crashed, "exit code 1"},
		{"garbage without an end", turn(func(f *fake, _ heard) {
			for range 100 {
				f.write(strings.Repeat("\x1b[31mnot a message\x1b[0m\n", 1000))
			}
		}), agents.Crashed, `the agent does not write messages of the Agent Client Protocol; its output begins with "\\x1b[31mnot a message`},
		{"binary garbage on one line", turn(func(f *fake, _ heard) {
			for range 100 {
				f.write(strings.Repeat("\x00\xff{", 1<<16))
			}
		}), agents.Crashed, "a line of more than 8 MiB"},
		{"JSON of another kind", turn(func(f *fake, _ heard) {
			for range 200 {
				f.write(strings.Repeat(`[{"jsonrpc":"2.0"}]`+"\n"+`"text"`+"\n"+`{}`+"\n", 300))
			}
		}), agents.Crashed, "does not write messages"},
		{"100 MB on a line", turn(func(f *fake, _ heard) {
			f.write(`{"jsonrpc":"2.0","method":"session/update","params":"`)
			block := strings.Repeat("x", 1<<16)
			for range 1600 {
				f.write(block)
			}
		}), agents.Crashed, "a line of more than 8 MiB"},
		{"a million updates", turn(func(f *fake, _ heard) {
			if sampled {
				f.conn.SetMaxUpdates(10_000) // half a million take a minute
			}
			line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"usage_update"}}}` + "\n"
			block := strings.Repeat(line, 1000)
			for range 1000 {
				f.write(block)
			}
		}), agents.Crashed, "0000 updates in one turn"},
		{"text without an end", turn(func(f *fake, _ heard) {
			for range 100 {
				f.chunk("s1", strings.Repeat("x", 1<<16))
			}
		}), agents.Crashed, "said more than 4 MiB in one turn"},
		{"ends without an answer", turn(func(f *fake, _ heard) { f.chunk("s1", "half"); f.conn.Over(exited) }), agents.Crashed, "exit code 1"},
		{"ends in the middle of a line", turn(func(f *fake, p heard) {
			f.write(`{"jsonrpc":"2.0","id":` + string(p.ID) + `,"result":{"stopReason":"end_tu`)
			f.conn.Over(exited)
		}), agents.Crashed, "exit code 1"},
		{"answers something else", turn(func(f *fake, p heard) {
			f.write(`{"jsonrpc":"2.0","id":999,"result":{"stopReason":"end_turn"}}` + "\n" + `{"jsonrpc":"2.0","id":"` + string(p.ID) + `","result":{"stopReason":"end_turn"}}` + "\n")
			f.conn.Over(exited)
		}), agents.Crashed, "exit code 1"},
		{"ends for a reason of its own", turn(func(f *fake, p heard) { f.answer(p, `{"stopReason":"tired"}`) }), agents.Crashed, "with a reason that the protocol does not define: tired"},
		{"ends without a reason", turn(func(f *fake, p heard) { f.answer(p, `{}`) }), agents.Crashed, "with a reason that the protocol does not define"},
		{"refuses", turn(func(f *fake, p heard) { f.answer(p, `{"stopReason":"refusal"}`) }), agents.Refused, "refused to go on"},
		{"runs out of tokens", turn(func(f *fake, p heard) { f.answer(p, `{"stopReason":"max_tokens"}`) }), agents.Refused, "its answer is incomplete"},
		{"runs out of requests", turn(func(f *fake, p heard) { f.answer(p, `{"stopReason":"max_turn_requests"}`) }), agents.Refused, "its answer is incomplete"},
		{"cancels by itself", turn(func(f *fake, p heard) { f.answer(p, `{"stopReason":"cancelled"}`) }), agents.Stopped, "the agent says that its turn was cancelled"},
		{"forgot the session", turn(func(f *fake, p heard) { f.fail(p, -32002, "Resource not found") }), agents.SessionGone, "Resource not found"},
		{"lost its login", turn(func(f *fake, p heard) { f.fail(p, -32000, "Authentication required") }), agents.LoginMissing, "Authentication required"},
		{"has no more use", turn(func(f *fake, p heard) {
			f.write(`{"jsonrpc":"2.0","id":` + string(p.ID) + `,"error":{"code":-32603,"message":"Internal error","data":{"details":"You've hit your usage limit, resets at 9pm"}}}` + "\n")
		}), agents.Limited, "resets at 9pm"},
		{"fails", turn(func(f *fake, p heard) { f.fail(p, -32603, "boom\x1b[2J sk-secret-key") }), agents.Failed, `the agent could not take the turn: boom\x1b[2J (hidden) (error -32603)`},
		{"asks without an end", turn(func(f *fake, _ heard) {
			for i := range 70 {
				f.write(question(fmt.Sprint(i), "s1", `{}`, ``))
			}
		}), agents.Crashed, "sent more than 64 requests at once"},
		{"asks twice under one id", turn(func(f *fake, _ heard) {
			f.write(question("5", "s1", `{}`, ``))
			f.write(question("5", "s1", `{"other":1}`, ``))
		}), agents.Crashed, "sent two requests with the same id"},
		{"closes its input", func(f *fake) {
			f.begin()
			_ = f.raw.Close()
			time.Sleep(time.Second)
			f.conn.Over(exited)
		}, agents.Crashed, "exit code 1"},
		{"closes its input and lives on", func(f *fake) { f.begin(); _ = f.raw.Close() }, agents.Crashed, "the agent closed its input"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := acp.Options{
				Ask:  func(ctx context.Context, _ acp.Question) acp.Reply { <-ctx.Done(); return acp.Allow },
				Hide: func(text string) string { return strings.ReplaceAll(text, "sk-secret-key", "(hidden)") },
			}
			play(t, o, tt.script, func(ctx context.Context, c *acp.Conn) {
				wantCause(t, oneTurn(ctx, c), tt.cause, tt.reason)
			})
		})
	}
}

// oneTurn starts an agent, opens a session and plays a turn.
func oneTurn(ctx context.Context, c *acp.Conn) error {
	start, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := c.Initialize(start); err != nil {
		return err
	}
	s, err := c.NewSession(start, acp.Start{Dir: "/work"})
	if err != nil {
		return err
	}
	// What the agent does after it opened the session comes before the turn.
	synctest.Wait()
	turn, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	_, err = s.Prompt(turn, "Go.")
	return err
}

// An agent that does not read holds nobody for long.
func TestInputNotRead(t *testing.T) {
	t.Parallel()
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		time.Sleep(time.Minute)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		began := time.Now()
		_, err := s.Prompt(ctx, "Go.")
		wantCause(t, err, agents.Hung, "the agent did not read its input for 10s")
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("given up after %s", took)
		}
	})
}

// What comes twice, or after the end of a turn, changes nothing about it and nothing about the next one.
func TestAnswersTwiceAndLate(t *testing.T) {
	t.Parallel()
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		f.chunk("s1", "one")
		f.answer(p, endTurn)
		f.answer(p, `{"stopReason":"refusal"}`)
		f.fail(p, -32000, "again")
		q := f.want("session/prompt")
		f.answer(p, `{"stopReason":"refusal"}`)
		f.chunk("s1", "two")
		f.answer(q, endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		for _, want := range []string{"one", "two"} {
			if a, err := s.Prompt(ctx, "Go."); err != nil || a.Text() != want {
				t.Errorf("%q, %v", a.Text(), err)
			}
		}
	})
}

// A replay without an end keeps no more than its end; one message without an end is given up.
func TestReplayIsBounded(t *testing.T) {
	t.Parallel()
	block := strings.Repeat("x", 1<<20)
	play(t, acp.Options{}, func(f *fake) {
		f.answer(f.want("initialize"), whole)
		h := f.want("session/load")
		for range 10 {
			f.update("old", `{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"`+block+`"}}`)
			f.chunk("old", "answer")
		}
		f.update("old", `{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"the last"}}`)
		f.answer(h, `{}`)
		f.want("session/load")
		for range 10 {
			f.chunk("old", block)
		}
	}, func(ctx context.Context, c *acp.Conn) {
		if _, err := c.Initialize(ctx); err != nil {
			t.Fatal(err)
		}
		_, said, err := c.Load(ctx, "old", acp.Start{Dir: "/work"})
		if err != nil || len(said) == 0 || said[len(said)-1].Text != "the last" || len(said) > 18 {
			t.Errorf("%d messages, %v", len(said), err)
		}
		_, _, err = c.Load(ctx, "old", acp.Start{Dir: "/work"})
		wantCause(t, err, agents.Crashed, "replayed a message of more than 8 MiB")
	})
}

// What an agent writes is not kept: memory does not grow with it.
func TestMemoryIsBounded(t *testing.T) {
	// The race detector keeps memory of its own.
	const most = 32 << 20
	for name, script := range map[string]func(f *fake){
		"100 MB on a line": func(f *fake) {
			block := strings.Repeat("x", 1<<16)
			for range 1600 {
				f.write(block)
			}
		},
		"100 MB of updates that are not words": func(f *fake) {
			line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call_update","rawOutput":"` + strings.Repeat("x", 1<<18) + `"}}}` + "\n"
			lines := 400
			if sampled {
				lines = 40
			}
			for range lines {
				f.write(line)
			}
			f.conn.Over(exited)
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, acp.Options{}, func(f *fake) {
				f.begin()
				f.want("session/prompt")
				script(f)
			}, func(ctx context.Context, c *acp.Conn) {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				wantCause(t, oneTurn(ctx, c), agents.Crashed, "")
				synctest.Wait()
				runtime.GC()
				runtime.ReadMemStats(&after)
				if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > most {
					t.Errorf("%d MB are kept", grown>>20)
				}
			})
		})
	}
}
