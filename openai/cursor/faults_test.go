package cursor_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"drawbridge/openai/cursor"
)

// TestBroken: what breaks off is tried again where nothing of it was shown, goes on from a state behind what was shown, and else is an error. It
// never hangs, and never repeats what the caller has seen.
func TestBroken(t *testing.T) {
	for name, tt := range map[string]struct {
		steps string // of the first try
		text  string // the answer; "" is an error
		code  string
		runs  int
		wrong string
	}{
		"cut before anything":           {"[{ end: cut }]", "whole", "", 2, ""},
		"ended before anything":         {"[{ end: clean }]", "whole", "", 2, ""},
		"internal before anything":      {"[{ error: { code: internal } }]", "whole", "", 2, ""},
		"cut behind text":               {"[{ text: some }, { end: cut }]", "", "upstream_cut", 1, ""},
		"ended behind text":             {"[{ text: some }, { end: clean }]", "", "upstream_cut", 1, ""},
		"cut behind a state":            {"[{ text: some }, { checkpoint: true }, { end: cut }]", "somewhole", "", 2, ""},
		"cut with text behind a state":  {"[{ checkpoint: true }, { text: some }, { end: cut }]", "", "upstream_cut", 1, ""},
		"silence before anything":       {"[{ silence: 40s }, { text: late }]", "whole", "", 2, ""},
		"silence behind text":           {"[{ text: some }, { silence: 40s }]", "", "upstream_silent", 1, ""},
		"a slow model":                  {"[{ text: some }, { wait: 9m }]", "some", "", 1, ""},
		"heartbeats alone":              {"[{ stall: true }]", "", "upstream_stalled", 1, ""},
		"a limit":                       {"[{ error: { code: resource_exhausted, kind: 9, title: Usage limit, detail: Wait. } }]", "", "insufficient_quota", 1, ""},
		"a limit behind text":           {"[{ text: some }, { error: { code: resource_exhausted, kind: 50 } }]", "", "rate_limit_exceeded", 1, ""},
		"a login":                       {"[{ error: { code: unauthenticated, kind: 2, title: Log in } }]", "", "upstream_login", 1, ""},
		"too long":                      {"[{ error: { code: invalid_argument, kind: 43, title: Too long } }]", "", "context_length_exceeded", 1, ""},
		"an unknown kind":               {"[{ error: { code: internal, kind: 52, title: Odd } }]", "", "upstream_failed", 1, ""},
		"a field that nobody knows":     {`[{ raw: a01f01 }, { raw: 0a03c20200 }, { text: ok }]`, "ok", "", 1, ""},
		"an exec that nobody knows":     {`[{ raw: "120508329a0600" }, { text: "{{.Result}}" }]`, "failed: this client does not know request 50", "", 1, ""},
		"a blob":                        {"[{ blob: 1048576 }, { text: ok }]", "ok", "", 1, ""},
		"a blob that is too large":      {"[{ blob: 8388609 }]", "whole", "", 2, ""},
		"many pieces":                   {"[{ text: x, times: 2000 }]", strings.Repeat("x", 2000), "", 1, ""},
		"a notice that is no answer":    {"[{ send: { interaction_update: { text_delta: { text: maintenance, is_server_notice: true } } } }, { text: ok }]", "ok", "", 1, ""},
		"a frame cut short":             {"[{ bytes: 00000000100a }, { end: cut }]", "whole", "", 2, ""},
		"a frame cut short behind text": {"[{ text: some }, { bytes: 00000000100a }, { end: cut }]", "", "upstream_cut", 1, ""},
		"a frame of 4 GiB":              {"[{ bytes: 00ffffffff }, { silence: 1h }]", "whole", "", 2, ""},
		"a frame of 4 GiB behind text":  {"[{ text: some }, { bytes: 00ffffffff }, { silence: 1h }]", "", "upstream_silent", 1, ""},
		"a frame that is no message":    {"[{ bytes: 0000000002ffff }, { wait: 1h }]", "whole", "", 2, ""},
		"no message behind text":        {"[{ text: some }, { bytes: 0000000002ffff }, { wait: 1h }]", "", "upstream_cut", 1, ""},
		"flags that nobody knows":       {"[{ bytes: 4000000000 }, { wait: 1h }]", "whole", "", 2, ""},
		"an end that is no JSON":        {"[{ bytes: 0200000003616263 }, { wait: 1h }]", "whole", "", 2, ""},
		"an empty frame":                {"[{ bytes: 0000000000 }, { text: ok }]", "ok", "", 1, ""},
		"no gzip where it says so":      {"[{ bytes: 01000000020102 }, { wait: 1h }]", "whole", "", 2, ""},
		"bytes behind the end":          {"[{ text: some }, { send: { interaction_update: { turn_ended: {} } } }, { bytes: 02000000027b7d }, { bytes: ffffffffff }, { end: cut }]", "some", "", 1, ""},
		"an error with a unit of words": {"[{ error: { code: unavailable } }]", "whole", "", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			playBoth(t, "turns:\n  - { try: 1, steps: "+tt.steps+" }\n  - steps: [{ text: whole }]\n", func(t *testing.T, w *world) {
				w.lenient = tt.wrong
				a := w.ask(user("go"))
				switch {
				case tt.text != "":
					w.expect(a, "stop", tt.text)
				case a.Error == nil || a.Error.Code != tt.code || a.text() != "":
					t.Errorf("%d %s; want the error %s", a.Status, a.Body, tt.code)
				}
				if n := len(w.sim.Requests()); n != tt.runs {
					t.Errorf("%d runs, want %d", n, tt.runs)
				}
			})
		})
	}
}

// TestStalled: a service that takes a result and then only says that it lives is cut off by time, with an error of its own.
func TestStalled(t *testing.T) {
	playBoth(t, "turns: [{ steps: [{ calls: [{ name: bash, args: { command: a } }] }, { stall: true }] }]\n", func(t *testing.T, w *world) {
		first := w.ask(user("go"))
		began := time.Now()
		a := w.ask(user("go"), first.says(), result(first.calls()[0].ID, "A"))
		if took := time.Since(began); a.Error == nil || a.Error.Code != "upstream_stalled" || took < 2*time.Minute || took > 130*time.Second || len(w.sim.Requests()) != 1 {
			t.Errorf("after %s, %d runs: %d %s", took, len(w.sim.Requests()), a.Status, a.Body)
		}
	})
}

// TestLostWhileParked: a run that breaks while the caller works is not begun again by itself. The results begin a new turn with the whole
// conversation; alone they are refused.
func TestLostWhileParked(t *testing.T) {
	for name, steps := range map[string]string{
		"cut":    "{ name: bash, args: { command: a } }] }, { text: x }",
		"silent": "{ name: bash, args: { command: a } }] }, { text: x }",
	} {
		t.Run(name, func(t *testing.T) {
			playBoth(t, "turns:\n  - { match: (calls bash, steps: [{ text: read on }] }\n  - steps: [{ calls: ["+steps+"]\n", func(t *testing.T, w *world) {
				first := w.ask(user("go"))
				if name == "silent" {
					w.sim.Hush()
				} else {
					w.sim.Break()
				}
				w.pass(time.Minute)
				late := w.post("/v1/tool_results", map[string]any{"tool_call_id": first.calls()[0].ID, "content": "A"})
				if late.Status != 422 || late.Error.Code != "too_late" {
					t.Errorf("a result alone: %d %s", late.Status, late.Body)
				}
				w.expect(w.ask(user("go"), first.says(), result(first.calls()[0].ID, "A")), "stop", "read on")
				if n := len(w.sim.Requests()); n != 2 {
					t.Errorf("%d runs", n)
				}
			})
		})
	}
}

// TestCalls: faults of the HTTP calls.
func TestCalls(t *testing.T) {
	for name, tt := range map[string]struct {
		faults string
		text   string
		code   string
		status int
		runs   int
	}{
		"a token that is too old":         {"{ call: run, status: 401 }", "whole", "", 200, 1},
		"a token that is never taken":     {"{ call: run, status: 401, times: 9 }", "", "upstream_login", 400, 0},
		"a key that is refused":           {"{ call: exchange, status: 401 }", "", "upstream_login", 400, 0},
		"an append with an old token":     {"{ call: append, status: 401 }", "whole", "", 200, 1},
		"an append that fails":            {"{ call: append, skip: 1, status: 500 }", "whole", "", 200, 2},
		"an append that is slow":          {"{ call: append, skip: 1, after: 10s }", "whole", "", 200, 1},
		"an append that is dropped":       {"{ call: append, skip: 1, drop: true }", "", "upstream_stalled", 400, 1},
		"the service is away for a while": {"{ call: run, status: 503 }", "whole", "", 200, 1},
		"the service is away":             {"{ call: run, status: 503, times: 9 }", "", "upstream_unavailable", 503, 0},
		"the service asks to wait":        {"{ call: run, status: 429, retry_after: 7 }", "", "rate_limit_exceeded", 429, 0},
		"another service answers":         {"{ call: run, status: 404, times: 9 }", "", "upstream_refused", 502, 0},
		"event-stream as the type":        {"{ call: run, type: text/event-stream }", "whole", "", 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, "faults: ["+tt.faults+"]\nturns: [{ steps: [{ text: whole }] }]\n", func(t *testing.T, w *world) {
				if tt.runs == 1 && tt.code != "" || tt.runs == 2 {
					w.lenient = "gap"
				}
				a := w.ask(user("go"))
				if a.Status != tt.status || a.text() != tt.text || tt.code != "" && (a.Error == nil || a.Error.Code != tt.code) {
					t.Errorf("%d %s", a.Status, a.Body)
				}
				if strings.Contains(a.Body, w.o.Key) {
					t.Error("the answer holds the key")
				}
				if n := len(w.sim.Requests()); n != tt.runs {
					t.Errorf("%d runs, want %d", n, tt.runs)
				}
			})
		})
	}
}

// TestTokenEnds: the access token is exchanged anew before it ends, and in the middle of a run.
func TestTokenEnds(t *testing.T) {
	play(t, "token_for: 6m\nturns: [{ steps: [{ calls: [{ name: bash, args: { command: a } }] }, { text: on }] }]\n", func(t *testing.T, w *world) {
		first := w.ask(user("go"))
		w.pass(7 * time.Minute)
		w.expect(w.ask(user("go"), first.says(), result(first.calls()[0].ID, "A")), "stop", "on")
		w.sim.RevokeTokens()
		w.expect(w.ask(user("go on")), "tool_calls", "", `bash {"command":"a"}`)
	})
}

// TestTokenIsKept: an exchange that fails while the token is still good ends no run.
func TestTokenIsKept(t *testing.T) {
	play(t, `
token_for: 8m
faults: [{ call: exchange, skip: 1, status: 503, times: 4 }]
turns: [{ steps: [{ calls: [{ name: bash, args: { command: a } }] }, { text: on }] }]
`, func(t *testing.T, w *world) {
		first := w.ask(user("go"))
		w.pass(6 * time.Minute)
		w.expect(w.ask(user("go"), first.says(), result(first.calls()[0].ID, "A")), "stop", "on")
	})
}

// TestDeliveryFails: results that do not reach the run are an error, and the same conversation again begins a new turn with all of it.
func TestDeliveryFails(t *testing.T) {
	play(t, `
faults: [{ call: append, skip: 4, status: 500 }]
turns:
  - match: (calls bash
    steps: [{ text: read on }]
  - steps: [{ calls: [{ name: bash, args: { command: a } }] }, { text: x }]
`, func(t *testing.T, w *world) {
		w.lenient = "gap"
		first := w.ask(user("go"))
		again := []message{user("go"), first.says(), result(first.calls()[0].ID, "A")}
		if a := w.ask(again...); a.Status < 400 || a.Error == nil {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		w.pass(time.Minute)
		w.expect(w.ask(again...), "stop", "read on")
	})
}

// TestCutBehindResults: a run that took results is not tried again from a state before them, so that no call is made twice.
func TestCutBehindResults(t *testing.T) {
	playBoth(t, "turns: [{ steps: [{ saved: true, calls: [{ name: bash, args: { command: a } }] }, { end: cut }] }]\n", func(t *testing.T, w *world) {
		first := w.ask(user("go"))
		w.pass(2 * time.Second)
		a := w.ask(user("go"), first.says(), result(first.calls()[0].ID, "A"))
		if a.Error == nil || a.Error.Code != "upstream_cut" || len(w.sim.Requests()) != 1 {
			t.Errorf("%d runs: %d %s", len(w.sim.Requests()), a.Status, a.Body)
		}
	})
}

// TestStateBeforeResults: a state that the service handed over before it had the results is none to go on from.
func TestStateBeforeResults(t *testing.T) {
	play(t, `
faults: [{ call: append, skip: 4, times: 2, after: 3s }]
turns:
  - match: ""
    steps: [{ calls: [{ name: bash, args: { command: a } }], saved: true }, { end: cut }]
`, func(t *testing.T, w *world) {
		first := w.ask(user("go"))
		a := w.ask(user("go"), first.says(), result(first.calls()[0].ID, "A"))
		if a.Error == nil || a.Error.Code != "upstream_cut" || len(w.sim.Requests()) != 1 {
			t.Errorf("%d runs: %d %s", len(w.sim.Requests()), a.Status, a.Body)
		}
	})
}

// TestNoFinalState: where the service hands over no state behind the end of a turn, the next one tells the whole conversation.
func TestNoFinalState(t *testing.T) {
	play(t, `
turns:
  - match: </conversation>
    steps: [{ text: "{{.Text}}" }]
  - match: one
    steps: [{ checkpoint: true }, { text: first }, { send: { interaction_update: { turn_ended: {} } } }, { end: clean }]
`, func(t *testing.T, w *world) {
		first := w.ask(user("one"))
		w.expect(first, "stop", "first")
		if a := w.ask(user("one"), first.says(), user("two")); !strings.Contains(a.text(), "[assistant]\nfirst\n</conversation>\n\ntwo") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
}

// TestNative: a tool of the service's own goes to the caller's tool of the same meaning, and its result goes back in the service's form. Where the
// caller has none, and for what is nobody's, the answer is a refusal in the form of that request.
func TestNative(t *testing.T) {
	tool := func(name string, properties string, required ...string) map[string]any {
		p := map[string]any{}
		for _, n := range strings.Fields(properties) {
			p[n] = map[string]any{"type": map[bool]string{true: "number", false: "string"}[n == "offset" || n == "limit"]}
		}
		return map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{"type": "object", "properties": p, "required": required}}}
	}
	tools := []any{tool("bash", "command description", "command", "description"), tool("read", "filePath offset limit", "filePath"), tool("write", "filePath content", "filePath", "content"),
		tool("list", "path", "path"), tool("grep", "pattern path include", "pattern"), tool("glob", "pattern path", "pattern")}
	const no = "this client runs no such tool; use the tools that it offers"
	refused := map[string]string{
		"shell_args: { command: ls }":                        "shell_result{rejected{command=ls reason=" + no + "}}",
		"shell_stream_args: { command: ls }":                 "shell_stream{rejected{command=ls reason=" + no + "}}",
		"background_shell_spawn_args: { command: ls }":       "background_shell_spawn_result{rejected{command=ls reason=" + no + "}}",
		"write_shell_stdin_args: {}":                         "write_shell_stdin_result{error{error=" + no + "}}",
		"read_args: { path: a }":                             "read_result{rejected{path=a reason=" + no + "}}",
		"redacted_read_args: { path: a }":                    "redacted_read_result{rejected{path=a reason=" + no + "}}",
		"write_args: { path: a, file_bytes: AAAA }":          "write_result{rejected{path=a reason=" + no + "}}",
		"delete_args: { path: a }":                           "delete_result{rejected{path=a reason=" + no + "}}",
		"ls_args: { path: a }":                               "ls_result{rejected{path=a reason=" + no + "}}",
		"grep_args: { pattern: a }":                          "grep_result{error{error=" + no + "}}",
		"diagnostics_args: { path: a }":                      "diagnostics_result{rejected{path=a reason=" + no + "}}",
		"fetch_args: { url: a }":                             "fetch_result{error{url=a error=" + no + "}}",
		"list_mcp_resources_exec_args: {}":                   "list_mcp_resources_exec_result{success{}}",
		"read_mcp_resource_exec_args: { server: s, uri: u }": "read_mcp_resource_exec_result{rejected{path=u reason=" + no + "}}",
		"shell_allowlist_precheck_args: {}":                  "shell_allowlist_precheck_result{}",
		"mcp_allowlist_precheck_args: {}":                    "mcp_allowlist_precheck_result{}",
		"web_fetch_allowlist_precheck_args: {}":              "web_fetch_allowlist_precheck_result{}",
		"mcp_state_exec_args: {}":                            "mcp_state_exec_result{success{servers{server_name=caller server_identifier=caller}}}",
	}
	mapped := map[string]struct {
		exec, call, result, back string
		failed                   bool
	}{
		"shell":         {"shell_args: { command: ls, working_directory: /w }", `bash {"command":"ls","description":"Run ls"}`, "a", "shell_result{success{command=ls working_directory=/w stdout=a}}", false},
		"shell failed":  {"shell_args: { command: ls }", `bash {"command":"ls","description":"Run ls"}`, "no", "shell_result{failure{command=ls exit_code=1 stderr=no}}", true},
		"shell stream":  {"shell_stream_args: { command: ls, description: List }", `bash {"command":"ls","description":"List"}`, "a", "shell_stream{start{}} shell_stream{stdout{data=a}} shell_stream{exit{}}", false},
		"stream failed": {"shell_stream_args: { command: ls }", `bash {"command":"ls","description":"Run ls"}`, "no", "shell_stream{start{}} shell_stream{stderr{data=no}} shell_stream{exit{code=1}}", true},
		"read":          {"read_args: { path: a.txt, offset: 2, limit: 1 }", `read {"filePath":"a.txt","limit":1,"offset":2}`, "l1\nl2\n", "read_result{success{path=a.txt content=l1\nl2\n total_lines=3 file_size=6}}", false},
		"read failed":   {"read_args: { path: a.txt }", `read {"filePath":"a.txt"}`, "no", "read_result{error{path=a.txt error=no}}", true},
		"write":         {"write_args: { path: a, file_text: \"l1\\nl2\\n\" }", `write {"content":"l1\nl2\n","filePath":"a"}`, "ok", "write_result{success{path=a lines_created=3 file_size=6}}", false},
		"ls":            {"ls_args: { path: /w }", `list {"path":"/w"}`, "sub/\na.txt\n", "ls_result{success{directory_tree_root{abs_path=/w children_dirs{abs_path=/w/sub} children_files{name=a.txt} children_were_processed=true}}}", false},
		"grep":          {"grep_args: { pattern: x, path: /w }", `grep {"path":"/w","pattern":"x"}`, "a.go:3:x = 1\n", "grep_result{success{pattern=x path=/w output_mode=content /w{content{matches{file=a.go matches{line_number=3 content=x = 1}} total_lines=1 total_matched_lines=1}}}}", false},
		"glob":          {"grep_args: { pattern: \"\", glob: \"**/*.ts\" }", `glob {"pattern":"**/*.ts"}`, "a.ts\nb/c.ts\n", "grep_result{success{path=. output_mode=files_with_matches .{files{a.ts b/c.ts total_files=2}}}}", false},
	}
	var script strings.Builder
	script.WriteString("turns:\n")
	for name, tt := range mapped {
		fmt.Fprintf(&script, "  - { match: \"<%s>\", steps: [{ exec: { %s } }, { text: \"{{.Result}}\" }] }\n", name, tt.exec)
	}
	for exec := range refused {
		fmt.Fprintf(&script, "  - { match: \"<%s>\", steps: [{ exec: { %s } }, { text: \"{{.Result}}\" }] }\n", exec, exec)
	}
	play(t, script.String(), func(t *testing.T, w *world) {
		for name, tt := range mapped {
			first := w.post("/v1/chat/completions", map[string]any{"model": "gpt-4o", "tools": tools, "messages": []message{user("<" + name + ">")}})
			w.expect(first, "tool_calls", "", tt.call)
			if len(first.calls()) == 1 {
				w.expect(w.post("/v1/tool_results", map[string]any{"tool_call_id": first.calls()[0].ID, "content": tt.result, "is_error": tt.failed, "stream": false}), "stop", tt.back)
			}
		}
		for exec, back := range refused {
			w.expect(w.post("/v1/chat/completions", map[string]any{"model": "gpt-4o", "messages": []message{user("<" + exec + ">")}}), "stop", back)
		}
	})
}

// TestQueries: what only a person could allow is answered with no.
func TestQueries(t *testing.T) {
	queries := map[string]string{"web_search": "", "web_fetch": "", "switch_mode": "", "mcp_auth": "", "generate_image": "", "ask_question_interaction": "_query", "create_plan": ""}
	var script strings.Builder
	script.WriteString("turns:\n")
	for query, end := range queries {
		fmt.Fprintf(&script, "  - { match: %s, steps: [{ query: %s%s }, { text: \"{{.Result}}\" }] }\n", query, query, cmp.Or(end, "_request_query"))
	}
	play(t, script.String(), func(t *testing.T, w *world) {
		for query := range queries {
			want := "rejected{reason="
			if query == "create_plan" {
				want = "success{}"
			}
			if a := w.ask(user(query)); !strings.Contains(a.text(), want) || !strings.HasPrefix(a.text(), "id=") && !strings.HasPrefix(a.text(), query) {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
	})
}

// TestAnsweredLate: the service goes on with the results and ends its turn before it answers the call that brought them.
func TestAnsweredLate(t *testing.T) {
	play(t, `
faults: [{ call: append, skip: 4, times: 2, late: 1m }]
turns: [{ steps: [{ calls: [{ name: bash, args: { command: a } }] }, { text: "{{.Result}}" }] }]
`, func(t *testing.T, w *world) {
		first := w.ask(user("go"))
		if len(first.calls()) != 1 {
			t.Fatalf("%d %s", first.Status, first.Body)
		}
		w.expect(w.ask(user("go"), first.says(), result(first.calls()[0].ID, "A")), "stop", "A")
	})
}

// TestAbort: the service withdraws one of two calls. Its result counts for nothing, and the turn goes on.
func TestAbort(t *testing.T) {
	playBoth(t, "turns: [{ steps: [{ calls: [{ name: bash, args: { command: a }, abort: true }, { name: bash, args: { command: b } }] }, { text: \"{{.Result}}\" }] }]\n", func(t *testing.T, w *world) {
		first := w.ask(user("go"))
		if len(first.calls()) != 2 {
			t.Fatalf("%d %s", first.Status, first.Body)
		}
		w.expect(w.ask(user("go"), first.says(), result(first.calls()[0].ID, "A"), result(first.calls()[1].ID, "B")), "stop", "error: the call was aborted\nB")
	})
}

// TestAllAborted: where the service withdraws all calls and goes on, at once or later, the late result brings the rest of the answer.
func TestAllAborted(t *testing.T) {
	playBoth(t, `
turns:
  - { match: later, steps: [{ calls: [{ name: bash, args: { command: a }, abort: true }] }, { wait: 1s }, { text: on }] }
  - { steps: [{ calls: [{ name: bash, args: { command: a }, abort: true }] }, { text: on }] }
`, func(t *testing.T, w *world) {
		for _, c := range []struct{ words, before, behind string }{{"go", "on", ""}, {"later", "", "on"}} {
			first := w.ask(user(c.words))
			w.expect(first, "tool_calls", c.before, `bash {"command":"a"}`)
			w.pass(time.Minute)
			w.expect(w.ask(user(c.words), first.says(), result(first.calls()[0].ID, "A")), "stop", c.behind)
		}
	})
}

// TestBadRequests: what the protocol cannot carry is refused before anything is sent.
func TestBadRequests(t *testing.T) {
	play(t, "turns: [{ steps: [{ text: x }] }]\n", func(t *testing.T, w *world) {
		for param, more := range map[string]map[string]any{
			"response_format": {"response_format": map[string]any{"type": "json_object"}},
			"tool_choice":     {"tool_choice": "required", "tools": []any{bash}},
			"messages[0]":     {"messages": []message{{"role": "user", "content": []any{message{"type": "image_url", "image_url": message{"url": "https://example.com/a.png"}}}}}},
		} {
			body := map[string]any{"model": "gpt-4o", "messages": []message{user("go")}}
			for key, v := range more {
				body[key] = v
			}
			if a := w.post("/v1/chat/completions", body); a.Status != 400 || !strings.Contains(a.Body, fmt.Sprintf("%q", param)) {
				t.Errorf("%s: %d %s", param, a.Status, a.Body)
			}
		}
		if n := len(w.sim.Requests()); n != 0 {
			t.Errorf("%d runs", n)
		}
	})
}

// TestNew: a key goes to addresses that are safe for it, and is needed.
func TestNew(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o  cursor.Options
		ok bool
	}{{cursor.Options{Key: "k"}, true}, {cursor.Options{}, false}, {cursor.Options{Key: "k", URL: "http://a.example"}, false}, {cursor.Options{Key: "k", AgentURL: "http://a.example"}, false}} {
		c, err := cursor.New(tt.o)
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.o, err)
		}
		if c != nil {
			c.Close()
		}
	}
}
