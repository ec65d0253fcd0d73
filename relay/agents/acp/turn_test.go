package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"

	"drawbridge/relay/agents"
	"drawbridge/relay/agents/acp"
	"drawbridge/relay/wire"
)

const endTurn = `{"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":7,"totalTokens":12,"cachedReadTokens":3}}`

// The text of a turn is made of the agent's own message chunks and of nothing else. Each message begins on a line of its own, and none is cut
// in two by a tool that runs beside it.
func TestText(t *testing.T) {
	t.Parallel()
	text := func(text string) string {
		return `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}`
	}
	named := func(id, text string) string {
		return `{"sessionUpdate":"agent_message_chunk","messageId":"` + id + `","content":{"type":"text","text":"` + text + `"}}`
	}
	const tool = `{"sessionUpdate":"tool_call","toolCallId":"c1","title":"ls","kind":"execute","status":"pending"}`
	tests := []struct {
		name    string
		updates []string
		want    []string
	}{
		{"chunks", []string{text("one "), text("two")}, []string{"one two"}},
		{"not its words", []string{
			`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"SUBAGENT: thought"}}`,
			`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"SUBAGENT: quoted"}}`,
			`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"SUBAGENT: title","content":[{"type":"content","content":{"type":"text","text":"SUBAGENT: tool"}}]}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","rawOutput":"SUBAGENT: output","content":[{"type":"content","content":{"type":"text","text":"SUBAGENT: tool"}}]}`,
			`{"sessionUpdate":"plan","entries":[{"content":"SUBAGENT: plan","priority":"high","status":"pending"}]}`,
			`{"sessionUpdate":"session_info_update","title":"SUBAGENT: title"}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource","resource":{"uri":"file:///x","text":"SUBAGENT: file"}}}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","uri":"file:///x","name":"SUBAGENT: link"}}`,
			`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"eA==","mimeType":"image/png"}}`,
			text("mine"),
		}, []string{"mine"}},
		{"updates that the library does not know", []string{
			`{"sessionUpdate":"notice","content":{"type":"text","text":"SUBAGENT: notice"}}`, `{"sessionUpdate":"compaction_summary_chunk","content":{"type":"text","text":"SUBAGENT: summary"}}`,
			`{"sessionUpdate":""}`, `{}`, `null`, `7`, text("mine"),
		}, []string{"mine"}},
		{"a message for each side of a tool", []string{text("I look."), tool, text("SUBAGENT: x")}, []string{"I look.", "SUBAGENT: x"}},
		{"a tool beside one message", []string{named("m", "SUBAGENT: do "), tool, named("m", "this")}, []string{"SUBAGENT: do this"}},
		{"messages by their ids", []string{named("m", "one"), named("n", "two")}, []string{"one", "two"}},
		{"tool updates cut nothing", []string{text("SUBAGENT: do "), `{"sessionUpdate":"tool_call_update","toolCallId":"c0","status":"completed"}`, text("this")}, []string{"SUBAGENT: do this"}},
		{"fields that only inform", []string{
			`{"sessionUpdate":"agent_message_chunk","messageId":7,"_meta":3,"content":{"type":"text","text":"mine ","annotations":"none"}}`,
			`{"sessionUpdate":"agent_message_chunk","messageId":null,"content":{"type":"text","text":"too","_meta":[]}}`,
		}, []string{"mine too"}},
		{"broken chunks", []string{`{"sessionUpdate":"agent_message_chunk"}`, `{"sessionUpdate":"agent_message_chunk","content":"x"}`, text("mine")}, []string{"mine"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play(t, acp.Options{}, func(f *fake) {
				f.begin()
				p := f.want("session/prompt")
				f.chunk("another session", "SUBAGENT: elsewhere")
				for _, u := range tt.updates {
					f.update("s1", u)
				}
				f.answer(p, endTurn)
			}, func(ctx context.Context, c *acp.Conn) {
				a, err := open(t, ctx, c).Prompt(ctx, "Go.")
				if diff := cmp.Diff(tt.want, a.Messages); diff != "" || err != nil {
					t.Errorf("messages (-want +got):\n%s%v", diff, err)
				}
				if a.Spent == nil || a.Spent.Tokens == nil || *a.Spent.Tokens != (wire.Tokens{Input: 5, Output: 7, CacheRead: 3}) {
					t.Errorf("spent %+v", a.Spent)
				}
			})
		})
	}
}

func TestTextBeginsMessagesOnLines(t *testing.T) {
	t.Parallel()
	if got := (acp.Answer{Messages: []string{"I look.", "SUBAGENT: x\n", "end"}}).Text(); got != "I look.\nSUBAGENT: x\nend" {
		t.Errorf("%q", got)
	}
}

// The library reads an update that it does not know as one that it knows, without an error: as an empty session_info_update, or, when there is a
// content, as words of the user's. The driver therefore skips such updates before. This test says when a newer library makes that needless.
func TestLibraryDoesNotKnowUpdates(t *testing.T) {
	t.Parallel()
	decode := func(update string) sdk.SessionUpdate {
		var n sdk.SessionNotification
		if err := json.Unmarshal([]byte(`{"sessionId":"s","update":`+update+`}`), &n); err != nil {
			t.Errorf("the library refuses %s (%v); look whether the driver still has to skip it", update, err)
		}
		return n.Update
	}
	if u := decode(`{"sessionUpdate":"compaction_update","state":"running"}`); u.SessionInfoUpdate == nil {
		t.Errorf("the library reads an unknown update as %+v; look whether the driver still has to skip it", u)
	}
	if u := decode(`{"sessionUpdate":"notice","content":{"type":"text","text":"x"}}`); u.UserMessageChunk == nil {
		t.Errorf("the library reads an unknown update with a content as %+v; look whether the driver still has to skip it", u)
	}
}

// What the driver sends is what agents demand, and it offers nothing that it does not serve.
func TestRequests(t *testing.T) {
	t.Parallel()
	var sent []heard
	play(t, acp.Options{Mode: "default", Meta: map[string]any{"agent": "asks"}}, func(f *fake) {
		h := f.want("initialize")
		f.answer(h, whole)
		sent = append(sent, h)
		h = f.want("session/new")
		f.answer(h, `{"sessionId":"s1","modes":{"currentModeId":"yolo","availableModes":[{"id":"yolo"},{"id":"default"}]}}`)
		sent = append(sent, h)
		h = f.want("session/set_mode")
		f.answer(h, `{}`)
		sent = append(sent, h)
		h = f.want("session/prompt")
		f.answer(h, endTurn)
		sent = append(sent, h)
	}, func(ctx context.Context, c *acp.Conn) {
		about, err := c.Initialize(ctx)
		if want := (acp.About{Name: "fake", Version: "7", Protocol: 1, Load: true, Resume: true, List: true, Close: true}); err != nil || !cmp.Equal(about, want) {
			t.Errorf("%+v, %v", about, err)
		}
		s, err := c.NewSession(ctx, acp.Start{Dir: "/work", MCP: []acp.MCPServer{{Name: "drawbridge", Command: "/bin/relay", Args: []string{"mcp"}, Env: map[string]string{"A": "b"}}}})
		if err != nil {
			t.Fatal(err)
		}
		if mode, began := s.Mode(); mode != "default" || began != "yolo" || len(s.Modes()) != 2 {
			t.Errorf("mode %q, began in %q, of %q", mode, began, s.Modes())
		}
		if _, err := s.Prompt(ctx, "Go."); err != nil {
			t.Error(err)
		}
	})
	want := []string{
		`{"clientCapabilities":{"auth":{},"fs":{}},"clientInfo":{"name":"test","version":"1"},"protocolVersion":1}`,
		`{"_meta":{"agent":"asks"},"cwd":"/work","mcpServers":[{"args":["mcp"],"command":"/bin/relay","env":[{"name":"A","value":"b"}],"name":"drawbridge"}]}`,
		`{"modeId":"default","sessionId":"s1"}`,
		`{"prompt":[{"text":"Go.","type":"text"}],"sessionId":"s1"}`,
	}
	for i, h := range sent {
		var params any
		if err := json.Unmarshal(h.Params, &params); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(params); string(got) != want[i] {
			t.Errorf("%s sent\n%s\nwant\n%s", h.Method, got, want[i])
		}
	}
}

// The mode is an option of the session where an agent has no modes.
func TestModeOption(t *testing.T) {
	t.Parallel()
	play(t, acp.Options{}, func(f *fake) {
		f.answer(f.want("initialize"), whole)
		f.answer(f.want("session/new"), `{"sessionId":"s1","configOptions":[{"id":"model","category":"model","type":"select","currentValue":"m"},{"id":"new","type":"unheard of","currentValue":{}},`+
			`{"id":"mode","category":"mode","type":"select","currentValue":"build","options":[{"value":"build"},{"value":"plan"}]}]}`)
		h := f.want("session/set_config_option")
		if string(h.Params) != `{"configId":"mode","sessionId":"s1","value":"plan"}` {
			t.Errorf("sent %s", h.Params)
		}
		f.answer(h, `{"configOptions":[]}`)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		if mode, _ := s.Mode(); mode != "build" || !cmp.Equal(s.Modes(), []string{"build", "plan"}) {
			t.Errorf("mode %q of %q", mode, s.Modes())
		}
		if err := s.SetMode(ctx, "plan"); err != nil {
			t.Error(err)
		}
	})
}

// An agent without modes is borne where the caller says so, and refused else. One that has modes has to take the wanted one.
func TestModeIfAny(t *testing.T) {
	t.Parallel()
	const modes = `,"modes":{"currentModeId":"auto","availableModes":[{"id":"auto","name":"Auto"},{"id":"default","name":"Default"}]}`
	for _, c := range []struct {
		bear         bool
		modes        string
		set, refused bool
	}{{true, "", false, false}, {false, "", true, true}, {true, modes, true, true}, {false, modes, true, true}} {
		play(t, acp.Options{Mode: "default", ModeIfAny: c.bear}, func(f *fake) {
			f.answer(f.want("initialize"), whole)
			f.answer(f.want("session/new"), `{"sessionId":"s1"`+c.modes+`}`)
			if c.set {
				f.fail(f.want(map[bool]string{true: "session/set_mode", false: "session/set_config_option"}[c.modes != ""]), -32602, "no such mode")
			}
		}, func(ctx context.Context, conn *acp.Conn) {
			if _, err := conn.Initialize(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.NewSession(ctx, acp.Start{Dir: "/work"}); (err != nil) != c.refused {
				t.Errorf("%+v: %v", c, err)
			}
		})
	}
}

// Some agents send their last words after the end of the turn. Those that come at once belong to it; later ones are kept apart, so that
// they are not taken for words of the next turn.
func TestLateWords(t *testing.T) {
	t.Parallel()
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		f.answer(f.want("session/prompt"), endTurn)
		time.Sleep(100 * time.Millisecond)
		f.chunk("s1", "the whole ")
		f.chunk("s1", "answer")
		time.Sleep(time.Second)
		f.chunk("s1", "a new version is out")
		p := f.want("session/prompt")
		f.chunk("s1", "second")
		f.answer(p, endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		a, err := s.Prompt(ctx, "Go.")
		if err != nil || a.Text() != "the whole answer" {
			t.Errorf("%q, %v", a.Text(), err)
		}
		time.Sleep(5 * time.Second)
		select {
		case <-s.Belated():
		default:
			t.Error("nobody hears that there are late words")
		}
		if a, err = s.Prompt(ctx, "On."); err != nil || a.Text() != "second" {
			t.Errorf("%q, %v", a.Text(), err)
		}
		if late := s.Late(); late != "a new version is out" || s.Late() != "" {
			t.Errorf("late %q", late)
		}
	})
}

// An agent may part a character between two pieces of a message. Half a character does not reach the next message.
func TestPartedCharacters(t *testing.T) {
	t.Parallel()
	piece := func(f *fake, id, inner string) {
		f.update("s1", fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","messageId":%q,"content":{"type":"text","text":"%s"}}`, id, inner))
	}
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		piece(f, "m1", `hi \ud83d`)
		piece(f, "m1", `\ude00 gr`+"\xc3")
		piece(f, "m1", "\xbcn"+`\ud83d`)
		piece(f, "m2", `LOCAL_ACTION: x\ud83d`)
		f.answer(p, endTurn)
		p = f.want("session/prompt")
		piece(f, "m3", `LOCAL_ACTION: y`)
		f.answer(p, endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		for _, want := range []string{"hi 😀 grün\nLOCAL_ACTION: x", "LOCAL_ACTION: y"} {
			if a, err := s.Prompt(ctx, "Go."); err != nil || a.Text() != want {
				t.Errorf("%q, %v, want %q", a.Text(), err, want)
			}
		}
	})
}

// A message belongs to the turn in which it began. What comes of it within the time that an agent has after the end is in that turn's
// reply. What comes later is in no reply, in the midst of another turn too, and in a turn that has nothing else. An agent that uses the same
// id in each turn is known for it after two turns.
func TestMessagesBelongToTheirTurn(t *testing.T) {
	t.Parallel()
	playTurns(t, func(f *fake) {
		p := f.want("session/prompt")
		say(f, "m1", "I will run it.\n")
		f.answer(p, endTurn)
		time.Sleep(50 * time.Millisecond)
		say(f, "m1", "LOCAL_ACTION: late\n")
		p = f.want("session/prompt")
		say(f, "m2", "A is done.\n")
		f.answer(p, endTurn)
		p = f.want("session/prompt")
		say(f, "m2", "LOCAL_ACTION: leak\n")
		say(f, "m3", "B begins.\n")
		say(f, "m2", "and more")
		say(f, "m3", "B ends.")
		f.answer(p, endTurn)
		time.Sleep(time.Second)
		say(f, "m4", "nobody's ")
		p = f.want("session/prompt")
		say(f, "m4", "words")
		say(f, "m5", "C.")
		f.answer(p, endTurn)
		for range 3 {
			p = f.want("session/prompt")
			say(f, "m5", "counted anew")
			f.answer(p, endTurn)
		}
		p = f.want("session/prompt")
		say(f, "m1", "first, ")
		say(f, "m2", "second")
		f.answer(p, endTurn)
	}, []words{
		{"I will run it.\nLOCAL_ACTION: late\n", ""}, {"A is done.\n", ""}, {"B begins.\nB ends.", "LOCAL_ACTION: leak\nand more"}, {"C.", "nobody's words"}, {"", "counted anew"}, {"", "counted anew"}, {"counted anew", ""},
		{"", "first, \nsecond"},
	})
}

// words are those of a turn's reply, and those that came too late.
type words struct{ said, late string }

// playTurns plays turns of a session, with pauses before the first and between them, and wants of each its words.
func playTurns(t *testing.T, script func(*fake), turns []words) {
	t.Helper()
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		script(f)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		for _, want := range turns {
			time.Sleep(5 * time.Second)
			a, err := s.Prompt(ctx, "Go.")
			if got := (words{a.Text(), s.Late()}); err != nil || got != want {
				t.Errorf("%+q, %v; want %+q", got, err, want)
			}
		}
	})
}

// say sends a chunk of a message with an id.
func say(f *fake, id, text string) {
	f.update("s1", fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","messageId":%q,"content":{"type":"text","text":%q}}`, id, text))
}

// A message that is not the last of its turn goes on two turns later, and one whose first chunk is empty goes on in the next: both are late.
// Words before the first turn are a greeting, and are dropped.
func TestMessagesGoOnLater(t *testing.T) {
	t.Parallel()
	playTurns(t, func(f *fake) {
		time.Sleep(time.Second)
		say(f, "hi", "LOCAL_ACTION: greeting\n")
		p := f.want("session/prompt")
		say(f, "hi", "LOCAL_ACTION: greeting\n")
		say(f, "m1", "one")
		say(f, "m2", "two")
		say(f, "m3", "")
		f.answer(p, endTurn)
		p = f.want("session/prompt")
		say(f, "m3", "LOCAL_ACTION: empty first\n")
		say(f, "m4", "four")
		f.answer(p, endTurn)
		p = f.want("session/prompt")
		say(f, "m1", "LOCAL_ACTION: long ago\n")
		say(f, "m5", "five")
		f.answer(p, endTurn)
	}, []words{{"one\ntwo", ""}, {"four", "LOCAL_ACTION: empty first\n"}, {"five", "LOCAL_ACTION: long ago\n"}})
}

// The last words of a turn that was stopped, or that failed, are no words of the next one. Where they do not end, half a line is late.
func TestLastWordsOfAnEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *fake, p heard){
		"stopped": func(f *fake, p heard) { f.want("session/cancel"); f.answer(p, `{"stopReason":"cancelled"}`) },
		"failed":  func(f *fake, p heard) { f.fail(p, -32603, "out of tokens") },
		"refused": func(f *fake, p heard) { f.answer(p, `{"stopReason":"refusal"}`) },
	} {
		play(t, acp.Options{}, func(f *fake) {
			f.begin()
			p := f.want("session/prompt")
			f.chunk("s1", "first\n")
			end(f, p)
			time.Sleep(50 * time.Millisecond)
			f.chunk("s1", "LOCAL_ACTION: late")
			p = f.want("session/prompt")
			f.chunk("s1", "second\n")
			f.answer(p, endTurn)
			for range 20 {
				time.Sleep(200 * time.Millisecond)
				f.chunk("s1", "x\nLOCAL_ACTION: de")
			}
		}, func(ctx context.Context, c *acp.Conn) {
			s := open(t, ctx, c)
			turn, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			if a, err := s.Prompt(turn, "Go."); err == nil || a.Text() != "first\nLOCAL_ACTION: late" {
				t.Errorf("%s: %q, %v", name, a.Text(), err)
			}
			a, err := s.Prompt(ctx, "On.")
			if err != nil || !strings.HasPrefix(a.Text(), "second\nx\nLOCAL_ACTION: dex\n") || !strings.HasSuffix(a.Text(), "x\n") {
				t.Errorf("%s: %q, %v", name, a.Text(), err)
			}
			time.Sleep(5 * time.Second)
			if late := s.Late(); !strings.HasPrefix(late, "LOCAL_ACTION: de") {
				t.Errorf("%s: late %q", name, late)
			}
		})
	}
}

// A log that copies messages says nothing twice, asks nothing twice and answers nothing.
func TestCopiesInALog(t *testing.T) {
	t.Parallel()
	asked := 0
	play(t, acp.Options{Ask: func(context.Context, acp.Question) acp.Reply { asked++; return acp.Allow }}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		twice := func(message string) {
			f.write("[debug] send " + message + "\n" + message + "\n")
		}
		for _, text := range []string{"one ", "two ", "two "} {
			twice(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`, text))
		}
		twice(strings.TrimSuffix(question(`"q"`, "s1", `{"command":"ls"}`, ``), "\n"))
		f.hear()
		f.write(fmt.Sprintf("[debug] recv {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}\n", p.ID))
		f.answer(p, endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		if a, err := open(t, ctx, c).Prompt(ctx, "Go."); err != nil || a.Text() != "one two two " || asked != 1 {
			t.Errorf("%q, %v, asked %d times", a.Text(), err, asked)
		}
	})
}

// The form of an error, or an id that is null, loses nothing: the turn ends with the agent's words.
func TestFormsOfErrors(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{`"the model is gone"`: "the model is gone", `{"code":"-32603","message":"no tokens left"}`: "no tokens left", `{"code":-32603.0,"message":"no tokens left"}`: "no tokens left", `[1]`: "[1]"} {
		play(t, acp.Options{}, func(f *fake) {
			f.begin()
			p := f.want("session/prompt")
			f.write(`{"jsonrpc":"2.0","id":null,"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"said"}}}}` + "\n")
			f.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, p.ID, form) + "\n")
		}, func(ctx context.Context, c *acp.Conn) {
			a, err := open(t, ctx, c).Prompt(ctx, "Go.")
			if err == nil || agents.CauseOf(err) != agents.Failed || !strings.Contains(err.Error(), want) || a.Text() != "said" {
				t.Errorf("%s: %q, %v", form, a.Text(), err)
			}
		})
	}
}

// What a turn took only informs: numbers that cannot be read are unknown, and the answer stays.
func TestUsageOnlyInforms(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]*wire.Tokens{
		`{"inputTokens":"5","outputTokens":7.0}`: {Input: 5, Output: 7}, `{"inputTokens":5,"outputTokens":7,"cachedReadTokens":{}}`: {Input: 5, Output: 7},
		`{"inputTokens":-5,"outputTokens":7}`: nil, `[]`: nil, `"many"`: nil, `null`: nil,
	} {
		play(t, acp.Options{}, func(f *fake) {
			f.begin()
			p := f.want("session/prompt")
			f.chunk("s1", "done")
			f.answer(p, `{"stopReason":"end_turn","usage":`+usage+`}`)
		}, func(ctx context.Context, c *acp.Conn) {
			a, err := open(t, ctx, c).Prompt(ctx, "Go.")
			var got *wire.Tokens
			if a.Spent != nil {
				got = a.Spent.Tokens
			}
			if diff := cmp.Diff(want, got); err != nil || a.Text() != "done" || diff != "" {
				t.Errorf("%s: %q, %v\n%s", usage, a.Text(), err, diff)
			}
		})
	}
}

// A message counts that has something before or behind it in its line, such as the title of a terminal.
func TestNoiseAroundMessages(t *testing.T) {
	t.Parallel()
	update := func(text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`, text)
	}
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		f.write("\x1b]0;notes: ready\x07" + update("first ") + "\n\ufeff" + update("second ") + "\n[INFO] {x} " + update("third ") + "\x1b[0m\n")
		f.write("a banner {of} an agent\n\x1b[2K" + fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.ID, endTurn) + "\n")
	}, func(ctx context.Context, c *acp.Conn) {
		if a, err := open(t, ctx, c).Prompt(ctx, "Go."); err != nil || a.Text() != "first second third " {
			t.Errorf("%q, %v", a.Text(), err)
		}
		if noise := c.Noise(); noise.Lines != 5 || !strings.Contains(noise.First, "notes: ready") {
			t.Error(noise)
		}
	})
}

// A tool call without a status is pending, which is the protocol's default, and runs until it says its end.
func TestToolWithoutAStatus(t *testing.T) {
	t.Parallel()
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		f.update("s1", `{"sessionUpdate":"tool_call","toolCallId":"t1","title":"make check","kind":"execute"}`)
		f.chunk("s1", "") // Qwen tells its usage so
		time.Sleep(time.Minute)
		f.update("s1", `{"sessionUpdate":"tool_call_update","toolCallId":"t2","title":"another"}`)
		f.update("s1", `{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed"}`)
		time.Sleep(time.Minute)
		f.answer(p, endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		seen := make(chan [2]bool, 1)
		go func() {
			time.Sleep(30 * time.Second)
			first := s.Working()
			time.Sleep(time.Minute)
			seen <- [2]bool{first, s.Working()}
		}()
		if _, err := s.Prompt(ctx, "Go."); err != nil {
			t.Error(err)
		}
		if got := <-seen; got != [2]bool{true, false} {
			t.Errorf("it worked %v, want while the tool ran and not behind it", got)
		}
	})
}

// An answer that came is ours, also when the process ends in the same moment.
func TestAnswerBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for range 200 {
		play(t, acp.Options{}, func(f *fake) {
			f.begin()
			p := f.want("session/prompt")
			f.chunk("s1", "done")
			f.answer(p, endTurn)
			f.conn.Over(exited)
		}, func(ctx context.Context, c *acp.Conn) {
			if a, err := open(t, ctx, c).Prompt(ctx, "Go."); err != nil || a.Text() != "done" {
				t.Fatalf("%q, %v", a.Text(), err)
			}
		})
	}
}

// A turn that is stopped is cancelled at the agent, its questions are answered with cancelled, and an answer that comes all the same counts.
func TestStop(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	ask := func(ctx context.Context, _ acp.Question) acp.Reply {
		close(asked)
		<-ctx.Done()
		return acp.Allow
	}
	play(t, acp.Options{Ask: ask}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		f.chunk("s1", "half")
		f.write(question(`"q"`, "s1", `{}`, `{"optionId":"yes","name":"Yes","kind":"allow_once"}`))
		f.want("session/cancel")
		h, _ := f.hear()
		if string(h.Result) != `{"outcome":{"outcome":"cancelled"}}` {
			t.Errorf("the question was answered with %s", h.Result)
		}
		f.answer(p, `{"stopReason":"cancelled"}`)
		f.answer(f.want("session/prompt"), endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		stop, cancel := context.WithCancelCause(ctx)
		go func() { <-asked; cancel(&agents.Error{Cause: agents.Asking, Reason: "held long enough"}) }()
		a, err := s.Prompt(stop, "Go.")
		wantCause(t, err, agents.Asking, "held long enough")
		if a.Text() != "half" {
			t.Errorf("%q", a.Text())
		}
		if _, err := s.Prompt(ctx, "Again."); err != nil {
			t.Errorf("the next turn: %v", err)
		}
	})
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		f.want("session/cancel")
		f.chunk("s1", "done")
		f.answer(p, endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if a, err := s.Prompt(short, "Go."); err != nil || a.Text() != "done" {
			t.Errorf("an answer that crossed the cancel: %q, %v", a.Text(), err)
		}
	})
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		f.want("session/cancel")
		f.fail(p, -32603, "aborted")
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		stop, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		_, err := s.Prompt(stop, "Go.")
		wantCause(t, err, agents.Stopped, "the turn was stopped")
	})
}

// An agent that does not end a cancelled turn is given up.
func TestStopUnheard(t *testing.T) {
	t.Parallel()
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		f.want("session/prompt")
		f.want("session/cancel")
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		began := time.Now()
		_, err := s.Prompt(short, "Go.")
		wantCause(t, err, agents.Hung, "the turn took longer than allowed")
		if took := time.Since(began); took != 70*time.Second {
			t.Errorf("given up after %s", took)
		}
		select {
		case <-c.Done():
		default:
			t.Error("the connection goes on")
		}
		_, err = s.Prompt(ctx, "Again.")
		wantCause(t, err, agents.Hung, "did not end a cancelled turn")
	})
}

func TestOneTurnAtATime(t *testing.T) {
	t.Parallel()
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		p := f.want("session/prompt")
		time.Sleep(time.Second)
		f.answer(p, endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		first := make(chan error)
		go func() { _, err := s.Prompt(ctx, "Go."); first <- err }()
		time.Sleep(moment)
		if _, err := s.Prompt(ctx, "Too."); err == nil {
			t.Error("a second turn ran beside the first")
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// Sessions of an earlier process: by resume where the agent has it, else by load, whose replay is returned whole and not taken for the
// words of a turn.
func TestResume(t *testing.T) {
	t.Parallel()
	replay := func(f *fake) {
		f.update("old", `{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"[turn trn_1] Go."}}`)
		f.chunk("old", "I ")
		f.chunk("old", "went")
		f.update("old", `{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"[turn trn_2]"}}`)
	}
	play(t, acp.Options{}, func(f *fake) {
		f.answer(f.want("initialize"), whole)
		f.answer(f.want("session/resume"), `{}`)
		h := f.want("session/load")
		replay(f)
		f.answer(h, `null`)
		p := f.want("session/prompt")
		f.chunk("old", "new")
		f.answer(p, endTurn)
	}, func(ctx context.Context, c *acp.Conn) {
		if _, err := c.Initialize(ctx); err != nil {
			t.Fatal(err)
		}
		if s, err := c.Resume(ctx, "old", acp.Start{Dir: "/work"}); err != nil || s.ID != "old" {
			t.Error(err)
		}
		s, said, err := c.Load(ctx, "old", acp.Start{Dir: "/work"})
		want := []acp.Said{{User: true, Text: "[turn trn_1] Go."}, {Text: "I went"}, {User: true, Text: "[turn trn_2]"}}
		if diff := cmp.Diff(want, said); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		if a, err := s.Prompt(ctx, "Go."); err != nil || a.Text() != "new" || s.Late() != "" {
			t.Errorf("%q, %v", a.Text(), err)
		}
	})
	play(t, acp.Options{}, func(f *fake) {
		f.answer(f.want("initialize"), `{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}`)
		f.fail(f.want("session/load"), -32603, "service failure")
		f.fail(f.want("session/load"), -32002, "Resource not found")
		f.fail(f.want("session/load"), -32000, "Authentication required")
	}, func(ctx context.Context, c *acp.Conn) {
		if _, err := c.Initialize(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := c.Resume(ctx, "never", acp.Start{Dir: "/work"})
		wantCause(t, err, agents.SessionGone, "service failure")
		_, err = c.Resume(ctx, "never", acp.Start{Dir: "/work"})
		wantCause(t, err, agents.SessionGone, "does not know the session: Resource not found")
		_, err = c.Resume(ctx, "never", acp.Start{Dir: "/work"})
		wantCause(t, err, agents.LoginMissing, "Authentication required")
	})
	play(t, acp.Options{}, func(f *fake) {
		f.answer(f.want("initialize"), `{"protocolVersion":1}`)
	}, func(ctx context.Context, c *acp.Conn) {
		if _, err := c.Initialize(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Resume(ctx, "old", acp.Start{Dir: "/work"}); !errors.Is(err, acp.ErrCannotResume) {
			t.Errorf("%v", err)
		}
	})
}

// A session in a mode that asks nothing is not used, whichever way it got there.
func TestBypassingMode(t *testing.T) {
	t.Parallel()
	const bypassing = `{"sessionId":"s1","modes":{"currentModeId":"bypassPermissions","availableModes":[{"id":"bypassPermissions"}]}}`
	play(t, acp.Options{}, func(f *fake) {
		f.answer(f.want("initialize"), whole)
		f.answer(f.want("session/new"), bypassing)
		f.answer(f.want("session/resume"), bypassing)
		f.answer(f.want("session/load"), bypassing)
	}, func(ctx context.Context, c *acp.Conn) {
		if _, err := c.Initialize(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := c.NewSession(ctx, acp.Start{Dir: "/work"})
		wantCause(t, err, agents.Crashed, "where the agent acts without asking")
		_, err = c.Resume(ctx, "s1", acp.Start{Dir: "/work"})
		wantCause(t, err, agents.Crashed, "where the agent acts without asking")
		_, _, err = c.Load(ctx, "s1", acp.Start{Dir: "/work"})
		wantCause(t, err, agents.Crashed, "where the agent acts without asking")
	})
	play(t, acp.Options{Mode: "default"}, func(f *fake) {
		f.answer(f.want("initialize"), whole)
		f.answer(f.want("session/new"), bypassing)
		f.fail(f.want("session/set_mode"), -32603, "no such mode")
	}, func(ctx context.Context, c *acp.Conn) {
		if _, err := c.Initialize(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := c.NewSession(ctx, acp.Start{Dir: "/work"})
		wantCause(t, err, agents.Failed, "could not change the mode of the session: no such mode")
	})
	play(t, acp.Options{}, func(f *fake) {
		f.begin()
		f.want("session/prompt")
		f.update("s1", `{"sessionUpdate":"current_mode_update","currentModeId":"bypassPermissions"}`)
	}, func(ctx context.Context, c *acp.Conn) {
		_, err := open(t, ctx, c).Prompt(ctx, "Go.")
		wantCause(t, err, agents.Crashed, "the session is in mode bypassPermissions")
		<-c.Done()
	})
}

// An agent says what its session cost so far, and names its model when that changes. What cannot be a cost is none.
func TestSpent(t *testing.T) {
	t.Parallel()
	costs := func(amount string) string {
		return `{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":` + amount + `,"currency":"USD"}}`
	}
	want := []string{`{"model":"small"}`, `{"model":"small"} {"cost_micros":500000}`, `{"model":"large"} {"cost_micros":1750000}`, `{"model":"large"} {"cost_micros":100000}`}
	play(t, acp.Options{}, func(f *fake) {
		f.answer(f.want("initialize"), whole)
		f.answer(f.want("session/new"), `{"sessionId":"s1","models":{"currentModelId":"small"}}`)
		for _, updates := range [][]string{
			{}, {costs("0.5")}, {costs("1"), costs("1.75"), `{"sessionUpdate":"config_option_update","configOptions":[{"id":"m","category":"model","currentValue":"large"}]}`},
			{costs("0.1"), costs(`"2"`), costs("-1"), `{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":3,"currency":"EUR"}}`, `{"sessionUpdate":"config_option_update","configOptions":7}`},
		} {
			p := f.want("session/prompt")
			for _, u := range updates {
				f.update("s1", u)
			}
			f.answer(p, `{"stopReason":"end_turn"}`)
		}
	}, func(ctx context.Context, c *acp.Conn) {
		s := open(t, ctx, c)
		for n := range want {
			a, err := s.Prompt(ctx, "Go.")
			if got := spentText(a); err != nil || got != want[n] {
				t.Errorf("turn %d: %s, want %s; %v", n+1, got, want[n], err)
			}
		}
	})
}
