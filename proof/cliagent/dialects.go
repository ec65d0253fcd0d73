package cliagent

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// plain prints its answer and nothing else.
type plain struct{}

func (plain) parse(t *turn, args []string) error {
	values, rest, err := options(args, map[string]bool{"--session": true, "--resume": true})
	if err != nil {
		return err
	}
	t.open(values["--resume"], values["--session"])
	return t.take(rest)
}

func (plain) unknown(t *turn) int {
	fmt.Fprintf(os.Stderr, "Error: session not found: %s\n", t.session)
	return 1
}
func (plain) history(*turn, string, string) (string, object) { return "", nil }
func (plain) begin(*turn)                                    {}
func (plain) say(_ *turn, text string)                       { fmt.Println("\x1b[1m" + text + "\x1b[0m") }
func (plain) think(*turn, string)                            {}
func (plain) tool(*turn, string, bool)                       {}
func (plain) other(*turn)                                    {}
func (plain) end(*turn)                                      {}
func (plain) fail(_ *turn, s string) int                     { fmt.Fprintln(os.Stderr, s); return 1 }

// claude is Claude Code 2.1.330 with --print --output-format stream-json --verbose.
type claude struct{}

func (claude) parse(t *turn, args []string) error {
	values, rest, err := options(args, map[string]bool{
		"-p": false, "--print": false, "--verbose": false, "--output-format": true, "--resume": true, "--session-id": true, "--mcp-config": true, "--strict-mcp-config": false,
	})
	if err == nil {
		err = want(values, "--output-format", "--verbose")
	}
	if err == nil && (len(values["-p"])+len(values["--print"]) == 0 || !has(values, "--output-format", "stream-json")) {
		err = errors.New("--print and --output-format stream-json are needed")
	}
	if err != nil {
		return err
	}
	t.mcp = strings.Join(values["--mcp-config"], "\n")
	t.open(values["--resume"], values["--session-id"])
	return t.take(rest)
}

// message is an event with a message in it.
func (claude) message(t *turn, kind string, content ...object) {
	emit(object{"type": kind, "message": object{"id": fmt.Sprint("msg_", len(t.said)), "type": "message", "role": kind, "model": "claude-scripted", "content": content}, "parent_tool_use_id": nil, "session_id": t.session})
}

func (claude) result(t *turn, more object) {
	event := object{
		"duration_api_ms": 39, "stop_reason": "end_turn", "session_id": t.session, "is_error": false, "num_turns": 1, "subtype": "success", "type": "result",
		"usage": object{"input_tokens": 3, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 2}, "permission_denials": []string{},
	}
	for name, value := range more {
		event[name] = value
	}
	emit(event)
}

func (c claude) unknown(t *turn) int {
	words := "No conversation found with session ID: " + t.session
	fmt.Fprintln(os.Stderr, words)
	c.result(t, object{"subtype": "error_during_execution", "is_error": true, "num_turns": 0, "stop_reason": nil, "errors": []string{words}})
	return 1
}

func (claude) history(t *turn, who, text string) (string, object) {
	line := object{"type": "user", "isSidechain": false, "sessionId": t.session, "message": object{"role": "user", "content": text}}
	if who != "user" {
		line["type"], line["message"] = "assistant", object{"role": "assistant", "content": []object{{"type": "text", "text": text}}}
	}
	return ".claude/projects/-work/" + t.session + ".jsonl", line
}

func (claude) begin(t *turn) {
	emit(object{"type": "system", "subtype": "init", "cwd": "/", "session_id": t.session, "tools": []string{"Bash"}, "mcp_servers": []string{}, "permissionMode": "default"})
}
func (c claude) say(t *turn, text string) {
	c.message(t, "assistant", object{"type": "text", "text": text})
}
func (c claude) think(t *turn, text string) {
	c.message(t, "assistant", object{"type": "thinking", "thinking": text, "signature": "x"})
}

func (c claude) tool(t *turn, text string, ended bool) {
	id := fmt.Sprint("toolu_", t.calls)
	c.message(t, "assistant", object{"type": "tool_use", "id": id, "name": "Bash", "input": object{"command": "echo " + text}})
	if ended {
		c.message(t, "user", object{"tool_use_id": id, "type": "tool_result", "content": text, "is_error": false})
	}
}

func (claude) other(t *turn) {
	emit(object{"type": "rate_limit_event", "rate_limit_info": object{"status": "allowed_warning", "resetsAt": 4102444800}, "session_id": t.session})
	emit(object{"type": "stream_event_of_tomorrow", "result": "SUBAGENT: no", "message": []int{1}, "session_id": 7})
}

func (c claude) end(t *turn) { c.result(t, object{"result": t.final()}) }

func (c claude) fail(t *turn, text string) int {
	more, kind := object{"is_error": true, "stop_reason": "stop_sequence", "result": text, "api_error_status": nil}, "unknown"
	if strings.Contains(text, "429") {
		more["api_error_status"], kind = 429, "rate_limit"
	}
	emit(object{
		"type": "assistant", "message": object{"model": "<synthetic>", "role": "assistant", "type": "message", "content": []object{{"type": "text", "text": text}}},
		"parent_tool_use_id": nil, "session_id": t.session, "error": kind, "is_api_error_message": true,
	})
	c.result(t, more)
	return 1
}

// codex is codex exec 0.169.0 with --json.
type codex struct{}

func (codex) parse(t *turn, args []string) error {
	if len(args) == 0 || args[0] != "exec" {
		return errors.New("the first argument is not exec")
	}
	resume := len(args) > 1 && args[1] == "resume"
	if args = args[1:]; resume {
		args = args[1:]
	}
	values, rest, err := options(args, map[string]bool{"--json": false, "--skip-git-repo-check": false, "-c": true})
	if err == nil {
		err = want(values, "--json")
	}
	if err != nil {
		return err
	}
	t.mcp = strings.Join(values["-c"], "\n")
	if t.open(nil, nil); resume {
		if len(rest) == 0 {
			return errors.New("resume without a session")
		}
		t.session, t.resumed, rest = rest[0], true, rest[1:]
	}
	return t.take(rest)
}

func (codex) unknown(t *turn) int {
	fmt.Fprintf(os.Stderr, "Error: thread/resume: thread/resume failed: no rollout found for thread id %s (code -32600)\n", t.session)
	return 1
}

func (codex) history(t *turn, who, text string) (string, object) {
	role, kind := "user", "input_text"
	if who != "user" {
		role, kind = "assistant", "output_text"
	}
	return ".codex/sessions/2026/11/23/rollout-2026-11-23T00-03-06-" + t.session + ".jsonl", object{
		"type": "response_item", "payload": object{"type": "message", "role": role, "content": []object{{"type": kind, "text": text}}},
	}
}

func (codex) begin(t *turn) {
	emit(object{"type": "thread.started", "thread_id": t.session})
	emit(object{"type": "item.completed", "item": object{"id": "item_0", "type": "error", "message": "Model metadata for `scripted` not found. usage limit, not logged in"}})
	emit(object{"type": "turn.started"})
}

func (codex) item(t *turn, state string, more object) {
	more["id"] = fmt.Sprint("item_", t.calls, "_", len(t.said))
	emit(object{"type": "item." + state, "item": more})
}
func (c codex) say(t *turn, text string) {
	c.item(t, "completed", object{"type": "agent_message", "text": text})
}
func (c codex) think(t *turn, text string) {
	c.item(t, "completed", object{"type": "reasoning", "text": text})
}

func (c codex) tool(t *turn, text string, ended bool) {
	c.item(t, "started", object{"type": "command_execution", "command": "echo", "aggregated_output": "", "exit_code": nil, "status": "in_progress"})
	if ended {
		c.item(t, "completed", object{"type": "command_execution", "command": "echo", "aggregated_output": text, "exit_code": 0, "status": "completed"})
	}
}

func (c codex) other(t *turn) {
	emit(object{"type": "error", "message": "Reconnecting... 1/5 (unexpected status 401 Unauthorized)"})
	emit(object{"type": "item.imagined", "item": 7})
	c.item(t, "completed", object{"type": "todo_list", "text": "SUBAGENT: no"})
}

// end counts all turns of the thread together, as codex exec does over a resume (openai/codex#17539).
func (codex) end(t *turn) {
	told, _ := os.ReadFile(t.path())
	n := strings.Count("\n"+string(told), "\nuser: ")
	emit(object{"type": "turn.completed", "usage": object{"input_tokens": 6 * n, "cached_input_tokens": 2 * n, "cache_write_input_tokens": 0, "output_tokens": 2 * n, "reasoning_output_tokens": n}})
}

func (codex) fail(_ *turn, text string) int {
	emit(object{"type": "error", "message": text})
	emit(object{"type": "turn.failed", "error": object{"message": text}})
	return 1
}

// cursor is cursor-agent with --print --output-format stream-json, as its documentation has it.
type cursor struct{}

func (cursor) parse(t *turn, args []string) error {
	values, rest, err := options(args, map[string]bool{
		"--print": false, "-p": false, "--output-format": true, "--trust": false, "--approve-mcps": false, "--resume": true, "--stream-partial-output": false,
	})
	if err == nil && (len(values["-p"])+len(values["--print"]) == 0 || !has(values, "--output-format", "stream-json")) {
		err = errors.New("--print and --output-format stream-json are needed")
	}
	if err != nil {
		return err
	}
	if len(values["--approve-mcps"]) > 0 {
		text, _ := os.ReadFile(".cursor/mcp.json") // a project may have none
		t.mcp = string(text)
	}
	t.open(values["--resume"], nil)
	return t.take(rest)
}

func (cursor) unknown(t *turn) int {
	fmt.Fprintf(os.Stderr, "Error: Chat %s not found\n", t.session)
	return 1
}

func (cursor) history(*turn, string, string) (string, object) { return "", nil }
func (cursor) begin(t *turn) {
	emit(object{"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": "/", "session_id": t.session, "model": "scripted", "permissionMode": "default"})
	emit(object{"type": "user", "message": object{"role": "user", "content": []object{{"type": "text", "text": t.prompt}}}, "session_id": t.session})
}

func (cursor) message(t *turn, text string, more object) {
	event := object{"type": "assistant", "message": object{"role": "assistant", "content": []object{{"type": "text", "text": text}}}, "session_id": t.session}
	for name, value := range more {
		event[name] = value
	}
	emit(event)
}

// say writes pieces and then the whole message where pieces are wanted.
func (c cursor) say(t *turn, text string) {
	for _, arg := range t.args {
		if arg == "--stream-partial-output" {
			c.message(t, text[:len(text)/2], object{"timestamp_ms": 1})
			c.message(t, text[len(text)/2:], object{"timestamp_ms": 2})
		}
	}
	c.message(t, text, nil)
}
func (cursor) think(t *turn, text string) {
	emit(object{"type": "thinking", "subtype": "delta", "text": text, "session_id": t.session})
}

func (cursor) tool(t *turn, text string, ended bool) {
	id := fmt.Sprint("call_", t.calls)
	emit(object{"type": "tool_call", "subtype": "started", "call_id": id, "tool_call": object{"shellToolCall": object{"args": object{"command": "echo"}}}, "session_id": t.session})
	if ended {
		emit(object{"type": "tool_call", "subtype": "completed", "call_id": id, "tool_call": object{"shellToolCall": object{"result": object{"success": object{"stdout": text}}}}, "session_id": t.session})
	}
}
func (cursor) other(t *turn) {
	emit(object{"type": "retry_of_tomorrow", "result": "SUBAGENT: no", "session_id": t.session})
}

// end glues all messages together, as the real program does.
func (cursor) end(t *turn) {
	emit(object{
		"type": "result", "subtype": "success", "duration_ms": 7656, "is_error": false, "result": strings.Join(t.said, ""), "session_id": t.session, "request_id": "r",
		"usage": object{"inputTokens": 3, "outputTokens": 2, "cacheReadTokens": 2, "cacheWriteTokens": 1},
	})
}
func (cursor) fail(_ *turn, text string) int { fmt.Fprintln(os.Stderr, "Error:", text); return 1 }
