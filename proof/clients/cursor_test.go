//go:build deep

package clients_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drawbridge/openai/cursor"
	"drawbridge/openai/cursor/agentsim"
	agentwire "drawbridge/openai/cursor/wire"
	"drawbridge/proof/tooltable"
)

// simulate serves a stand-in of the agent service on this machine; with secure over TLS and HTTP/2.
func simulate(t *testing.T, script string, secure bool) (sim *agentsim.Sim, url string) {
	t.Helper()
	s, err := agentsim.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	sim = agentsim.New(agentsim.Options{Script: s, Strict: true})
	web := httptest.NewUnstartedServer(sim)
	if web.EnableHTTP2 = secure; secure {
		web.StartTLS()
	} else {
		web.Start()
	}
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		for _, wrong := range sim.Wrong() {
			t.Errorf("the stand-in reports: %s", wrong)
		}
	})
	return sim, web.URL
}

// TestCodingAgentsOverTheAgentProtocol: an unmodified coding agent runs whole turns with a tool through the door, with the agent protocol behind.
func TestCodingAgentsOverTheAgentProtocol(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	script.WriteString("turns:\n")
	for _, shell := range shells {
		args, err := json.Marshal(map[string]string{commandIn(shell): "echo drawbridge-was-here > proof.txt; echo the-shell-ran", "description": "Says hello"})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&script, "  - { match: %s, tools: [%s], steps: [{ thinking: Hm. }, { calls: [{ name: %s, args: %s }] }, { text: \"The tools said {{.Result}}\" }] }\n", question, shell, shell, args)
	}
	for name, a := range agents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clientHome(t, name)
			sim, service := simulate(t, script.String(), false)
			c, err := cursor.New(cursor.Options{Name: "sim", URL: service, Key: agentsim.DefaultKey, Models: map[string]cursor.Model{"scripted": {Model: "composer-2"}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			url, token := open(t, "", c, func(h http.Handler) http.Handler { return h })
			work := t.TempDir()
			out, err := a.run(t.Context(), t, name, question, work, url, token)
			ran(t, work, out, err)
			with := slices.DeleteFunc(sim.Requests(), func(r *agentwire.AgentRunRequest) bool { return r.GetMcpTools() == nil }) // OpenCode asks for a title beside
			if len(with) != 1 {
				t.Errorf("%d runs with tools", len(with))
			}
		})
	}
}

// TestVendorsTools: the tools of the vendor's own client answer as the table says that those of drawbridge acp are tested with.
func TestVendorsTools(t *testing.T) {
	t.Parallel()
	table, err := tooltable.Vendors()
	if err != nil || len(table.Rows) < 30 {
		t.Fatal(len(table.Rows), err)
	}
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Put(work); err != nil {
		t.Fatal(err)
	}
	_, service := simulate(t, table.Script(work), false)
	for _, d := range table.Differences(vendor(t, service, work, "Use your own tools")[0].Said, work) {
		t.Error(d)
	}
}

// vendorTurn is what the vendor's client prints of a turn.
type vendorTurn struct {
	Status, Said, Thought string
	Ran                   []string
}

// vendor has the vendor's client say these words, each as a turn, and returns what it printed.
func vendor(t *testing.T, service, work string, words ...string) (got []vendorTurn) {
	t.Helper()
	cmd := program(t, "cursorsdk", "cursorsdk.mjs", words...)
	cmd.Dir = work
	cmd.Env = append(cmd.Env, "CURSOR_BACKEND_URL="+service, "SIM_KEY="+agentsim.DefaultKey, "SIM_CWD="+work, "NODE_TLS_REJECT_UNAUTHORIZED=0")
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, &trouble)
	}
	for line := range strings.Lines(string(out)) {
		var one vendorTurn
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		got = append(got, one)
	}
	return got
}

// TestVendorsClient: the client of the vendor itself takes the stand-in for its service: text, thoughts, tools one by one and together, failures, the
// tools of its own, questions, a cancelled run, and turns that go on from the state and the blobs of those before.
func TestVendorsClient(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"HTTP 1.1": false, "HTTP 2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vendorsClient(t, secure)
		})
	}
}

func vendorsClient(t *testing.T, secure bool) {
	t.Helper()
	work := t.TempDir()
	_, service := simulate(t, strings.ReplaceAll(vendorsStory, "CWD", work), secure)
	got := vendor(t, service, work, "Say hello", "Use tools", "Use your own tools", "Answer questions", "Turn five", "Hang")
	want := []vendorTurn{
		{"finished", "Hello world", "Hm. ", []string{}},
		{"finished", "Calling. 42; 2\n4; failed: it broke", "", []string{"add 2 40", "add 1 1", "add 2 2"}},
		{"finished", strings.ReplaceAll("write_result{success{path=CWD/a.txt lines_created=3 file_size=11}}; read_result{success{path=CWD/a.txt content=alpha\nbeta\n total_lines=3 file_size=11}}; "+
			"ls_result{success{directory_tree_root{abs_path=CWD children_files{name=a.txt} children_were_processed=true}}}; shell_stream{start{}} shell_stream{stdout{data=out\n}} shell_stream{exit{cwd=CWD}}; "+
			"grep_result{success{pattern=beta path=CWD output_mode=content CWD{content{matches{file=./a.txt matches{line_number=2 content=beta}} total_lines=1 total_matched_lines=1}}}}; "+
			"fetch_result{error{url=http://127.0.0.1:1/ error=fetch failed}}; failed: No handler found for server message of type undefined", "CWD", work), "", []string{}},
		{"finished", "web_search_request_response{approved{}}; ask_question_interaction_response{result{rejected{reason=Interactive questions are not supported in local SDK runs}}}; " +
			"create_plan_request_response{result{success{}}}; mcp_auth_request_response{rejected{reason=MCP authentication is not supported in local SDK runs}}", "", []string{}},
		{"finished", "turn 5", "", []string{}},
		{"cancelled", "wait", "", []string{}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

const vendorsStory = `
turns:
  - match: Say hello
    steps: [{ thinking: "Hm. " }, { text: "Hello " }, { checkpoint: true }, { text: world }]
  - match: Use tools
    steps:
      - text: "Calling. "
      - calls: [{ name: add, args: { a: 2, b: 40 } }]
      - text: "{{.Result}}; "
      - { listed: true, calls: [{ name: add, args: { a: 1, b: 1 } }, { name: add, args: { a: 2, b: 2 } }] }
      - text: "{{.Result}}; "
      - calls: [{ name: fail }]
      - text: "{{.Result}}"
  - match: Use your own tools
    steps:
      - exec: { write_args: { path: CWD/a.txt, file_text: "alpha\nbeta\n" } }
      - text: "{{.Result}}; "
      - exec: { read_args: { path: CWD/a.txt } }
      - text: "{{.Result}}; "
      - exec: { ls_args: { path: CWD } }
      - text: "{{.Result}}; "
      - exec: { shell_stream_args: { command: "echo out", working_directory: CWD } }
      - text: "{{.Result}}; "
      - exec: { grep_args: { pattern: beta, path: CWD, output_mode: content } }
      - text: "{{.Result}}; "
      - exec: { fetch_args: { url: "http://127.0.0.1:1/" } }
      - text: "{{.Result}}; "
      - raw: "120508329a0600"
      - text: "{{.Result}}"
  - match: Answer questions
    steps:
      - query: web_search_request_query
      - text: "{{.Result}}; "
      - query: ask_question_interaction_query
      - text: "{{.Result}}; "
      - query: create_plan_request_query
      - text: "{{.Result}}; "
      - query: mcp_auth_request_query
      - text: "{{.Result}}"
  - { match: Turn five, number: 5, steps: [{ blob: 1000000 }, { text: turn 5 }] }
  - { match: Hang, steps: [{ text: wait }, { wait: 1h }] }
`
