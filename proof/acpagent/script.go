package acpagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drawbridge/internal/pause"
)

// prompt takes one turn to its end.
func (a *agent) prompt(m incoming) {
	var p struct {
		SessionID string
		Prompt    []struct{ Type, Text string }
	}
	err := json.Unmarshal(m.Params, &p)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.mu.Lock()
	s := a.sessions[p.SessionID]
	busy := s != nil && s.stop != nil
	if s != nil && !busy {
		s.stop = cancel
	}
	a.mu.Unlock()
	words := ""
	for _, block := range p.Prompt {
		if block.Type != "text" {
			err = errors.New("a block that is not text")
		}
		words += block.Text
	}
	if err != nil || s == nil || busy || words == "" {
		a.fault("a prompt that cannot be taken (%v, session known: %t, busy: %t): %s", err, s != nil, busy, m.Params)
		a.answer(m.ID, nil, &problem{-32602, "Invalid params"})
		return
	}
	// What it was told before it kept it has no effect, and is not in its log.
	s.keep(a, said{"user", words})
	t := &play{agent: a, session: s, ctx: ctx, id: m.ID, stop: "end_turn"}
	script := t.progressOf(words)
	if len(script.orders) > 0 { // whoever kills it once its log has the prompt finds the first order begun
		script.begins(script.orders[0], 0, "")
	}
	a.note(Line{Event: Prompted, Session: s.id, Text: words})
	if a.history != nil { // goesOn is later: whoever loaded the session hears it now
		a.history()
		a.history = nil
	}
	t.play(script)
	a.mu.Lock()
	s.stop = nil
	a.mu.Unlock()
	t.end()
}

// play is a turn.
type play struct {
	*agent
	session *session
	ctx     context.Context
	id      json.RawMessage
	words   string
	stop    string
	failed  *problem
	// after is done when the turn has ended.
	after []func()
}

// play does what the lines of a prompt that begin with "do: " say, one after the other:
//
//	say TEXT, think TEXT, quote TEXT, tool TEXT     updates of these kinds; only the first is the agent's answer
//	unknown                                         updates that no version of the protocol has
//	ask KIND COMMAND, run COMMAND                   asks for permission and says what was answered, or runs the command then
//	request METHOD                                  asks the client for something else
//	elsewhere TEXT                                  speaks and asks for a permission in a session that never was
//	sleep DURATION, hang, deaf                      does nothing for a time, without an end, or leaves its input unread
//	busy DURATION                                   runs a tool for a time, without a word
//	garbage N, line BYTES, updates N, stderr BYTES  too much of something
//	long BYTES                                      an answer of so many bytes
//	stop REASON, error CODE MESSAGE                 ends the turn in this way
//	twice, late TEXT                                answers again, or speaks, after the end
//	sh SCRIPT                                       runs it with sh in the folder of the session, and says what went wrong
//	mcp TOOL ARGUMENTS                              calls a tool of the session's first MCP server and says the answer
//	exit CODE, kill N, spawn                        ends the process, kill in the first N prompts of the turn (1 unless given); or starts
//	                                                one that leaves the process group
//
// A prompt without such a line, for which nothing was rehearsed, is answered with "done". One that asks to continue goes on behind what was begun.
func (t *play) play(p progress) {
	scripted := false
	for i, order := range p.orders {
		scripted = true
		p.begins(order, i, t.words)
		word, rest, _ := strings.Cut(order, " ")
		do := orders[word]
		if do == nil {
			t.fault("an order that is not known: %s", order)
			continue
		}
		do(t, rest)
		p.did(i, t.words)
		if t.ctx.Err() != nil {
			t.stop = "cancelled"
			return
		}
	}
	if !scripted {
		t.say(cmp.Or(p.finished, "done"))
	}
}

// end answers the prompt.
func (t *play) end() {
	t.session.keep(t.agent, said{"agent", t.words})
	t.note(Line{Event: Answered, Session: t.session.id, Text: t.words})
	t.answer(t.id, object{"stopReason": t.stop, "usage": object{"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}}, t.failed)
	t.note(Line{Event: Ended, Session: t.session.id})
	for _, do := range t.after {
		do()
	}
}

func (t *play) say(words string) {
	t.words += words
	t.update(t.session.id, object{"sessionUpdate": "agent_message_chunk", "content": text(words)})
}

func (t *play) chunk(kind, words string) {
	t.update(t.session.id, object{"sessionUpdate": kind, "content": text(words)})
}

func number(words string) int {
	n, _ := strconv.Atoi(words)
	return n
}

var orders map[string]func(t *play, rest string)

func init() {
	orders = map[string]func(t *play, rest string){
		"say":   (*play).say,
		"think": func(t *play, rest string) { t.chunk("agent_thought_chunk", rest) },
		"quote": func(t *play, rest string) { t.chunk("user_message_chunk", rest) },
		"tool":  (*play).tool,
		"unknown": func(t *play, _ string) {
			t.chunk("unheard_of", "SUBAGENT: unknown")
			t.update(t.session.id, object{"sessionUpdate": "unheard_of_too", "title": "SUBAGENT: unknown"})
			t.send(message{Method: "_acpagent/unheard_of", Params: object{}})
		},
		"ask": func(t *play, rest string) {
			kind, command, _ := strings.Cut(rest, " ")
			t.say("asked for " + command + ": " + t.askPermission(kind, command))
		},
		"run": func(t *play, rest string) {
			if t.askPermission("execute", rest) == "allow_once" {
				t.sh(rest)
			}
		},
		"request": func(t *play, rest string) {
			t.note(Line{Event: Replied, Session: t.session.id, Text: string(t.agent.ask(rest, object{"sessionId": t.session.id}))})
		},
		"elsewhere": func(t *play, rest string) {
			t.update("never-was", object{"sessionUpdate": "agent_message_chunk", "content": text(rest)})
			reply := t.agent.ask("session/request_permission", object{
				"sessionId": "never-was", "options": []object{{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}},
				"toolCall": object{"toolCallId": "call-1", "title": rest, "kind": "execute", "status": "pending", "rawInput": object{"command": rest}},
			})
			t.note(Line{Event: Replied, Session: t.session.id, Text: string(reply)})
		},
		"sleep": func(t *play, rest string) { d, _ := time.ParseDuration(rest); t.wait(d) },
		"busy":  (*play).busy,
		"long":  func(t *play, rest string) { t.say(strings.Repeat("w", number(rest))) },
		"hang":  func(t *play, _ string) { t.wait(1000 * time.Hour) },
		"deaf":  func(*play, string) { _ = os.Stdin.Close(); select {} },
		"garbage": func(t *play, rest string) {
			for range number(rest) {
				t.raw([]byte("\x1b[2Kprogress: \xff 10%\n"))
			}
		},
		"line": func(t *play, rest string) {
			t.raw([]byte(`{"jsonrpc":"2.0","method":"session/update","params":"`))
			for range number(rest) >> 16 {
				t.raw([]byte(strings.Repeat("x", 1<<16)))
			}
			t.raw([]byte("\"}\n"))
		},
		"updates": func(t *play, rest string) {
			for range number(rest) {
				t.update(t.session.id, object{"sessionUpdate": "usage_update", "used": 1, "size": 2})
			}
		},
		"stderr": func(_ *play, rest string) {
			for range number(rest) >> 16 {
				_, _ = os.Stderr.WriteString(strings.Repeat("w", 1<<16))
			}
		},
		"stop": func(t *play, rest string) { t.stop = rest },
		"error": func(t *play, rest string) {
			code, words, _ := strings.Cut(rest, " ")
			t.failed = &problem{number(code), words}
		},
		"twice": func(t *play, _ string) {
			t.after = append(t.after, func() { t.answer(t.id, object{"stopReason": "refusal"}, nil) })
		},
		"late": func(t *play, rest string) {
			t.after = append(t.after, func() { t.chunk("agent_message_chunk", rest) })
		},
		"exit":  func(_ *play, rest string) { os.Exit(number(rest)) },
		"kill":  (*play).kill,
		"spawn": (*play).spawn,
		"sh":    (*play).sh,
		"mcp":   (*play).mcp,
	}
}

// wait returns after a time, or when the turn is cancelled.
func (t *play) wait(d time.Duration) {
	_ = pause.For(t.ctx, d)
}

func (t *play) tool(rest string) {
	t.update(t.session.id, object{"sessionUpdate": "tool_call", "toolCallId": "call-1", "title": rest, "kind": "execute", "status": "pending", "rawInput": object{"command": rest}})
	t.update(t.session.id, object{
		"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "completed", "rawOutput": rest,
		"content": []object{{"type": "content", "content": text(rest)}},
	})
}

// askPermission asks as OpenCode does: the ids of the options say nothing about their kinds.
func (t *play) askPermission(kind, command string) string {
	options := []object{
		{"optionId": "reject", "name": "Allow once", "kind": "allow_once"}, {"optionId": "allow", "name": "Always", "kind": "allow_always"},
		{"optionId": "once", "name": "Reject", "kind": "reject_once"},
	}
	var got struct {
		Outcome struct{ Outcome, OptionID string }
	}
	reply := t.agent.ask("session/request_permission", object{
		"sessionId": t.session.id, "options": options,
		"toolCall": object{"toolCallId": "call-1", "title": command, "kind": kind, "status": "pending", "rawInput": object{"command": command}},
	})
	_ = json.Unmarshal(reply, &got)
	answer := got.Outcome.Outcome
	if answer == "selected" {
		at := slices.IndexFunc(options, func(o object) bool { return o["optionId"] == got.Outcome.OptionID })
		if at < 0 {
			t.fault("the option %q was not offered", got.Outcome.OptionID)
			return ""
		}
		answer = fmt.Sprint(options[at]["kind"])
	}
	if t.ctx.Err() != nil && answer != "cancelled" {
		t.fault("a question of a cancelled turn was answered with %s", answer)
	}
	t.note(Line{Event: Replied, Session: t.session.id, Text: answer})
	return answer
}

// busy is a tool that says when it begins and when it ends.
func (t *play) busy(rest string) {
	d, _ := time.ParseDuration(rest)
	t.update(t.session.id, object{"sessionUpdate": "tool_call", "toolCallId": "busy-1", "title": "make", "kind": "execute", "status": "in_progress"})
	t.wait(d)
	t.update(t.session.id, object{"sessionUpdate": "tool_call_update", "toolCallId": "busy-1", "status": "completed"})
}

func (t *play) sh(rest string) {
	cmd := exec.CommandContext(t.ctx, "sh", "-ec", rest)
	cmd.Env = append(os.Environ(), t.session.variables()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.say(fmt.Sprintf("%v: %s", err, out))
	}
}

// spawn starts a process that leaves the group and the session of the agent, and lives on.
func (t *play) spawn(rest string) {
	cmd := exec.Command("sleep", rest)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.fault("spawn: %v", err)
		return
	}
	t.say(fmt.Sprint("spawned ", cmd.Process.Pid))
}
