package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"drawbridge/proof/tooltable"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"
)

// exchange has the service make each request in one turn, and compares the results. prepare changes the world first; nil changes nothing.
func exchange(t *testing.T, files map[string]string, prepare func(*world), rows []tooltable.Row) *world {
	t.Helper()
	table := tooltable.Table{Files: files, Rows: rows}
	w := begin(t, table.Script("WORK"), files)
	if prepare != nil {
		prepare(w)
	}
	said, _ := w.say("go")
	for _, d := range table.Differences(said, w.dir) {
		t.Error(d)
	}
	return w
}

// TestAsVendor: every tool answers as the vendor's own client does. make clients runs that client against the same table.
func TestAsVendor(t *testing.T) {
	t.Parallel()
	table, err := tooltable.Vendors()
	if err != nil || len(table.Rows) < 30 {
		t.Fatal(len(table.Rows), err)
	}
	exchange(t, table.Files, nil, table.Rows)
}

var someFiles = map[string]string{
	"a.txt": "alpha\nbeta\ngamma alpha\n", "n.txt": "1\n2\n3\n4\n5\n6\n7\n", "sub/b.txt": "alpha in b\n", "sub/c.go": "package c\n", "nul.bin": "a\x00b", "empty.txt": "",
	".hid/h.txt": "alpha hidden", ".gitignore": "ign*\n!ignored.md\nbuild/\n", "ign.txt": "alpha", "ignored.md": "alpha", "build/x.txt": "alpha", ".git/x": "alpha",
}

// TestFiles: the tools for files answer as the vendor's client does, and stay in their folder.
func TestFiles(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(out, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	const no = "reason=this path is outside of the folder in which this client works}}"
	w := exchange(t, someFiles, func(w *world) {
		for link, to := range map[string]string{"out": out, "in": "a.txt", "away": filepath.Dir(out), "nowhere": "none"} {
			w.must(os.Symlink(to, filepath.Join(w.dir, link)))
		}
		w.must(syscall.Mkfifo(filepath.Join(w.dir, "pipe"), 0o600))
		w.must(os.MkdirAll(filepath.Join(w.dir, "odd"), 0o700))
		w.must(os.WriteFile(filepath.Join(w.dir, "odd", "caf\xe9"), nil, 0o600))
		w.must(os.Chmod(filepath.Join(w.dir, "n.txt"), 0o444))
		w.must(os.Chmod(filepath.Join(w.dir, "sub/c.go"), 0o775))
	}, []tooltable.Row{
		{Ask: "{ read_args: { path: in } }", Says: "read_result{success{path=WORK/in content=alpha\nbeta\ngamma alpha\n total_lines=4 file_size=23}}"},
		{Ask: "{ read_args: { path: nul.bin } }", Says: "read_result{success{path=WORK/nul.bin data=[97 0 98] file_size=3}}"},
		{Ask: "{ read_args: { path: /etc/passwd } }", Says: "read_result{rejected{path=/etc/passwd " + no},
		{Ask: "{ read_args: { path: ../x } }", Says: "read_result{rejected{path=../x " + no},
		{Ask: "{ read_args: { path: out } }", Says: "read_result{rejected{path=out " + no},
		{Ask: "{ read_args: { path: away/secret } }", Says: "read_result{rejected{path=away/secret " + no},
		{Ask: "{ redacted_read_args: { path: sub/c.go } }", Says: "redacted_read_result{success{path=WORK/sub/c.go content=package c\n total_lines=2 file_size=10}}"},
		{Ask: "{ ls_args: { path: ., ignore: ['*.txt'] } }", Says: "ls_result{success{directory_tree_root{abs_path=WORK children_dirs{abs_path=WORK/odd children_files{name=caf\ufffd} children_were_processed=true} children_dirs{abs_path=WORK/sub children_files{name=c.go} children_were_processed=true} " +
			"children_files{name=.gitignore} children_files{name=ignored.md} children_files{name=nul.bin} children_were_processed=true}}}"},
		{Ask: "{ ls_args: { path: .. } }", Says: "ls_result{rejected{path=.. " + no},
		{Ask: "{ ls_args: { path: away } }", Says: "ls_result{rejected{path=away " + no},
		{Ask: "{ write_args: { path: in, file_text: changed } }", Says: "write_result{success{path=WORK/in lines_created=1 file_size=7}}"},
		{Ask: "{ read_args: { path: a.txt } }", Says: "read_result{success{path=WORK/a.txt content=changed total_lines=1 file_size=7}}"},
		{Ask: "{ read_args: { path: pipe } }", Says: "read_result{error{path=WORK/pipe error=this path is not a regular file}}"},
		{Ask: "{ ls_args: { path: odd } }", Says: "ls_result{success{directory_tree_root{abs_path=WORK/odd children_files{name=caf\ufffd} children_were_processed=true}}}"},
		{Ask: "{ write_args: { path: n.txt, file_text: x } }", Says: "write_result{permission_denied{path=WORK/n.txt directory=WORK operation=write error=permission denied}}"},
		{Ask: "{ write_args: { path: sub/c.go, file_text: x } }", Says: "write_result{success{path=WORK/sub/c.go lines_created=1 file_size=1}}"},
		{Ask: "{ write_args: { path: nowhere, file_text: x } }", Says: "write_result{rejected{path=nowhere reason=this path goes through a link whose target does not exist}}"},
		{Ask: "{ write_args: { path: both, file_text: x, file_bytes: AAEC } }", Says: "write_result{rejected{path=both reason=the request has both text and bytes as the content; send one of them}}"},
		{Ask: "{ write_args: { path: sub, file_text: x } }", Says: "write_result{error{path=WORK/sub error=is a directory}}"},
		{Ask: "{ write_args: { path: out, file_text: x } }", Says: "write_result{rejected{path=out " + no},
		{Ask: "{ write_args: { path: away/new, file_text: x } }", Says: "write_result{rejected{path=away/new " + no},
		{Ask: "{ write_args: { path: /tmp/x, file_text: x } }", Says: "write_result{rejected{path=/tmp/x " + no},
		{Ask: "{ delete_args: { path: out } }", Says: "delete_result{success{path=WORK/out deleted_file=WORK/out}}"},
		{Ask: "{ delete_args: { path: away/secret } }", Says: "delete_result{rejected{path=away/secret " + no},
		{Ask: "{ background_shell_spawn_args: { command: x } }", Says: "background_shell_spawn_result{rejected{command=x reason=this client runs no such tool; use the tools that it offers}}"},
	})
	if at, err := os.Stat(filepath.Join(w.dir, "sub/c.go")); err != nil || at.Mode().Perm() != 0o775 {
		t.Errorf("the mode of a file that was written is %v, %v", at.Mode(), err)
	}
	for _, q := range w.questions() {
		if strings.Contains(q, "/etc/passwd") || strings.Contains(q, "..") {
			t.Errorf("somebody was asked: %s", q)
		}
	}
	if data, err := os.ReadFile(out); err != nil || string(data) != "secret" {
		t.Errorf("outside of the folder: %q, %v", data, err)
	}
}

// TestSearch: searches answer as the vendor's client does.
func TestSearch(t *testing.T) {
	t.Parallel()
	const all = "grep_result{success{pattern=alpha path=WORK output_mode="
	exchange(t, someFiles, func(w *world) { w.must(syscall.Mkfifo(filepath.Join(w.dir, "sub", ".gitignore"), 0o600)) }, []tooltable.Row{
		{Ask: "{ grep_args: { pattern: alpha, path: WORK, output_mode: files_with_matches, glob: '!*.md' } }", Says: all + "files_with_matches WORK{files{./.hid/h.txt ./a.txt ./sub/b.txt total_files=3}}}}"},
		{Ask: "{ grep_args: { pattern: alpha, path: WORK } }", Says: all + "content WORK{content{matches{file=./.hid/h.txt matches{line_number=1 content=alpha hidden}} matches{file=./a.txt matches{line_number=1 content=alpha} " +
			"matches{line_number=3 content=gamma alpha}} matches{file=./ignored.md matches{line_number=1 content=alpha}} matches{file=./sub/b.txt matches{line_number=1 content=alpha in b}} total_lines=5 total_matched_lines=5}}}}"},
		{Ask: "{ grep_args: { pattern: alpha, path: WORK, output_mode: files_with_matches } }", Says: all + "files_with_matches WORK{files{./.hid/h.txt ./a.txt ./ignored.md ./sub/b.txt total_files=4}}}}"},
		{Ask: "{ grep_args: { pattern: alpha, path: WORK, output_mode: count } }", Says: all + "count WORK{count{counts{file=./.hid/h.txt count=1} counts{file=./a.txt count=2} counts{file=./ignored.md count=1} counts{file=./sub/b.txt count=1} total_files=4 total_matches=5}}}}"},
		{Ask: "{ grep_args: { pattern: alpha, path: WORK, output_mode: files_with_matches, glob: '*.txt' } }", Says: all + "files_with_matches WORK{files{./.hid/h.txt ./a.txt ./ign.txt ./sub/b.txt total_files=4}}}}"},
		{Ask: "{ grep_args: { pattern: ALPHA, path: sub, case_insensitive: true } }", Says: "grep_result{success{pattern=ALPHA path=sub output_mode=content WORK{content{matches{file=sub/b.txt matches{line_number=1 content=alpha in b}} total_lines=1 total_matched_lines=1}}}}"},
		{Ask: "{ grep_args: { glob: '**/*.{go,md}', path: WORK } }", Says: "grep_result{success{path=WORK output_mode=files_with_matches WORK{files{./ignored.md ./sub/c.go total_files=2}}}}"},
		{Ask: "{ grep_args: { pattern: x, path: .. } }", Says: "grep_result{error{error=this path is outside of the folder in which this client works}}"},
		{Ask: "{ grep_args: { pattern: '(', path: WORK } }", Says: "grep_result{error{error=error parsing regexp: missing closing ): `(`}}"},
		{Ask: "{ grep_args: { pattern: x, type: cobol } }", Says: "grep_result{error{error=file type \"cobol\" is not known; use one of c, cpp, cs, css, go, html, java, js, json, kotlin, lua, md, php, py, ruby, rust, sh, sql, swift, toml, ts, txt, xml, yaml}}"},
	})
}

// TestCommands: commands run in their folder with their environment, end in time with all their children, and answer in the form that was asked for.
func TestCommands(t *testing.T) {
	t.Parallel()
	const never = "mkfifo pipe; sh -c 'echo $$ > pid; echo begin; exec cat pipe' & wait" // a pipe that nobody writes
	w := exchange(t, someFiles, nil, []tooltable.Row{
		{Ask: "{ shell_args: { command: 'echo hi; pwd; echo err >&2', working_directory: WORK/sub } }", Says: "shell_result{success{command=echo hi; pwd; echo err >&2 working_directory=WORK/sub stdout=hi\nWORK/sub\n stderr=err\n}}"},
		{Ask: "{ shell_args: { command: 'env | cut -d= -f1 | sort | tr \"\\n\" \" \"' } }", Says: "shell_result{success{command=env | cut -d= -f1 | sort | tr \"\\n\" \" \" working_directory=WORK stdout=HERE PATH PWD SHLVL _ }}"},
		{Ask: "{ shell_args: { command: 'kill -9 $$' } }", Says: "shell_result{failure{command=kill -9 $$ working_directory=WORK exit_code=-1 signal=SIGKILL}}"},
		{Ask: "{ shell_stream_args: { command: \"" + never + "\" } }", Withdraw: "begin", Says: "shell_stream{start{}} shell_stream{stdout{data=begin\n}} shell_stream{exit{code=4294967295 cwd=WORK aborted=true abort_reason=1}}"},
		{Ask: "{ shell_args: { command: pwd, working_directory: / } }", Says: "shell_result{rejected{command=pwd working_directory=/ reason=this path is outside of the folder in which this client works}}"},
		{Ask: "{ shell_stream_args: { command: 'echo err >&2' } }", Says: "shell_stream{start{}} shell_stream{stderr{data=err\n}} shell_stream{exit{cwd=WORK}}"},
		{Ask: "{ shell_stream_args: { command: pwd, working_directory: none } }", Says: "shell_stream{rejected{command=pwd working_directory=none reason=the folder of the command: no such file or directory}}"},
	})
	w.gone("pid")
	seen, err := json.Marshal(w.shown)
	if err != nil || !slices.Contains(w.shown, "kill -9 $$ failed") || !slices.Contains(w.shown, "echo err >&2 in_progress") {
		t.Errorf("the client was shown %s, %v", seen, err)
	}
}

// TestBounds: what is large has a bound, and says so.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := begin(t, fmt.Sprintf(`
turns:
  - match: lines
    steps: [{ exec: { grep_args: { pattern: "^", path: . } } }, { text: "{{.Result}}" }]
  - match: spans
    steps: [{ exec: { grep_args: { pattern: "(?s).*", path: ., multiline: true, output_mode: count } } }, { text: "{{.Result}}" }]
  - match: around
    steps: [{ exec: { grep_args: { pattern: "^", path: ., context: 1000000000 } } }, { text: "{{.Result}}" }]
  - match: write
    steps: [{ exec: { write_args: { path: new, file_text: %s } } }, { text: "{{.Result}}" }]
  - match: output
    steps: [{ exec: { shell_args: { command: "yes 12345678 | head -c 3000000" } } }, { text: "{{.Result}}" }]
  - match: words
    steps: [{ text: %s }]
`, strings.Repeat("x", 2<<20), strings.Repeat("ü", 50_000)), map[string]string{"lines": strings.Repeat("\n", 200_000)})
	for about, says := range map[string]string{"lines": "total_lines=5000 total_matched_lines=5000 client_truncated=true", "spans": "total_files=1 total_matches=200000",
		"around": "client_truncated=true", "output": "(1951424 more bytes are left out)", "write": "reason=the call has 2097", "words": strings.Repeat("ü", 50_000)} {
		if said, _ := w.say(about); !strings.Contains(said, says) {
			t.Errorf("%s: %d bytes, %s", about, len(said), said[max(0, len(said)-200):])
		}
	}
}

// TestPages: fetch answers with what an address has, and names a redirect to another host without following it.
func TestPages(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	t.Cleanup(away.Close)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, away.URL, http.StatusFound)
		case "/none":
			http.Error(w, "none", http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte("words"))
		}
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	at := web.URL
	w := exchange(t, nil, nil, []tooltable.Row{
		{Ask: "{ fetch_args: { url: '" + at + "/a' } }", Says: "fetch_result{success{url=" + at + "/a content=words status_code=200 content_type=text/plain}}"},
		{Ask: "{ fetch_args: { url: '" + at + "/none' } }", Says: "fetch_result{success{url=" + at + "/none content=none\n status_code=404 content_type=text/plain; charset=utf-8}}"},
		{Ask: "{ fetch_args: { url: '" + at + "/away' } }", Says: "fetch_result{error{url=" + at + "/away error=Get \"" + away.URL + "\": the page redirects to " + away.URL + "; fetch that address}}"},
		{Ask: "{ fetch_args: { url: 'file:///etc/passwd' } }", Says: "fetch_result{error{url=file:///etc/passwd error=Get \"file:///etc/passwd\": unsupported protocol scheme \"file\"}}"},
	})
	if got := w.questions()[0]; got != "fetch Fetch "+at+"/a url="+at+"/a" {
		t.Error(got)
	}
}

// TestQuestions: each tool asks with its exact arguments, and does nothing without a yes.
func TestQuestions(t *testing.T) {
	t.Parallel()
	no := " reason=the user does not allow this}}"
	w := exchange(t, someFiles, func(w *world) {
		w.must(os.Symlink(".git/x", filepath.Join(w.dir, "link")))
		w.allow = func(acp.ToolCallUpdate) bool { return false }
	}, []tooltable.Row{
		{Ask: "{ read_args: { path: a.txt } }", Says: "read_result{rejected{path=a.txt" + no},
		{Ask: "{ write_args: { path: x.sh, file_bytes: IyEvYmluL3No } }", Says: "write_result{rejected{path=x.sh" + no},
		{Ask: "{ write_args: { path: b.bin, file_bytes: AAEC } }", Says: "write_result{rejected{path=b.bin" + no},
		{Ask: "{ write_args: { path: link, file_text: x } }", Says: "write_result{rejected{path=link" + no},
		{Ask: "{ write_args: { path: new.txt, file_text: x } }", Says: "write_result{rejected{path=new.txt" + no},
		{Ask: "{ delete_args: { path: a.txt } }", Says: "delete_result{rejected{path=a.txt" + no},
		{Ask: "{ ls_args: { path: sub } }", Says: "ls_result{rejected{path=sub" + no},
		{Ask: "{ grep_args: { pattern: alpha, path: sub } }", Says: "grep_result{error{error=the user does not allow this}}"},
		{Ask: "{ diagnostics_args: { path: a.txt } }", Says: "diagnostics_result{rejected{path=a.txt" + no},
		{Ask: "{ shell_args: { command: touch made, description: Makes it } }", Says: "shell_result{rejected{command=touch made" + no},
		{Ask: "{ shell_stream_args: { command: touch made } }", Says: "shell_stream{rejected{command=touch made" + no},
		{Ask: "{ fetch_args: { url: 'http://127.0.0.1:1/' } }", Says: "fetch_result{error{url=http://127.0.0.1:1/ error=the user does not allow this}}"},
	})
	if d := cmp.Diff([]string{
		"read Read a.txt path=WORK/a.txt", "edit Write x.sh content=#!/bin/sh path=WORK/x.sh", "edit Write b.bin content=base64: AAEC path=WORK/b.bin", "edit Write link content=x path=WORK/.git/x", "edit Write new.txt content=x path=WORK/new.txt", "delete Delete a.txt path=WORK/a.txt", "read List sub path=WORK/sub",
		`search Search "alpha" in WORK/sub path=WORK/sub`, "read Diagnostics of a.txt path=WORK/a.txt", "execute touch made command=touch made cwd=WORK description=Makes it",
		"execute touch made command=touch made cwd=WORK", "fetch Fetch http://127.0.0.1:1/ url=http://127.0.0.1:1/",
	}, w.questions()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "made")); err == nil {
		t.Error("a command ran that nobody allowed")
	}
	if _, err := os.Stat(filepath.Join(w.dir, "a.txt")); err != nil {
		t.Error(err)
	}
}

// TestMoved: a path that leads elsewhere when it was allowed is not touched.
func TestMoved(t *testing.T) {
	t.Parallel()
	w := exchange(t, someFiles, func(w *world) {
		w.allow = func(acp.ToolCallUpdate) bool {
			w.must(os.Remove(filepath.Join(w.dir, "a.txt")))
			w.must(os.Symlink(".git/x", filepath.Join(w.dir, "a.txt")))
			return true
		}
	}, []tooltable.Row{{Ask: "{ write_args: { path: a.txt, file_text: x } }", Says: "write_result{rejected{path=a.txt reason=this path is outside of the folder in which this client works}}"}})
	if data, err := os.ReadFile(filepath.Join(w.dir, ".git", "x")); err != nil || string(data) != "alpha" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestSessions: a turn goes on from the state of the one before, also in another process, which shows what was said.
func TestSessions(t *testing.T) {
	t.Parallel()
	w := begin(t, `
turns:
  - { match: This conversation, steps: [{ text: "anew: {{.Text}}" }] }
  - { match: one, number: 1, steps: [{ blob: 100 }, { text: first }] }
  - { match: two, number: 2, steps: [{ text: second }] }
  - { match: three, number: 3, steps: [{ text: third }] }
  - { match: break, steps: [{ text: half }, { end: cut }] }
`, nil)
	for _, turn := range [][2]string{{"one", "first"}, {"two", "second"}} {
		if said, why := w.say(turn[0]); said != turn[1] || why != acp.StopReasonEndTurn {
			t.Error(said, why)
		}
	}
	w.hang()
	kept := filepath.Join(w.o.State, string(w.id), "said.jsonl")
	data, err := os.ReadFile(kept)
	w.must(err)
	w.must(os.WriteFile(kept, data[:len(data)-1], 0o600)) // as a kill in the middle of a line leaves it
	w.connect()
	w.mu.Lock()
	w.shown = nil
	w.mu.Unlock()
	if _, err := w.conn.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: w.id, Cwd: w.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	if said, _ := w.say("three"); said != "third" {
		t.Error(said)
	}
	if d := cmp.Diff([]string{"user: one", "said", "user: two", "said", "said"}, w.shown); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := w.conn.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: w.id, Cwd: w.dir, McpServers: []acp.McpServer{}}); err != nil || !slices.Contains(w.shown, "user: three") {
		t.Error(w.shown, err)
	}
	// A turn that broke off is an error, and stands in the history of the next one.
	_, err = w.conn.Prompt(t.Context(), acp.PromptRequest{SessionId: w.id, Prompt: []acp.ContentBlock{acp.TextBlock("break")}})
	if err == nil || !strings.Contains(err.Error(), "upstream_cut") {
		t.Error(err)
	}
	if said, _ := w.say("and now?"); !strings.Contains(said, "[user]\nbreak\n[assistant]\nhalf\n</conversation>") {
		t.Error(said)
	}
	w.o.Model = "nope"
	w.hang()
	w.connect()
	if _, err := w.conn.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: w.id, Cwd: w.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	if _, err = w.conn.Prompt(t.Context(), acp.PromptRequest{SessionId: w.id, Prompt: []acp.ContentBlock{acp.TextBlock("one")}}); err == nil || !strings.Contains(err.Error(), "choose another model with --model") {
		t.Error(err)
	}
	for id, want := range map[acp.SessionId]string{"11111111-1111-4111-8111-111111111111": "no session", "../../x": "no session"} {
		if _, err := w.conn.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: w.dir, McpServers: []acp.McpServer{}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}

// TestServers: the tools of the session's MCP servers are offered, and run without a question.
func TestServers(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := acp.McpServer{Stdio: &acp.McpServerStdio{Name: "loud", Command: self, Args: []string{}, Env: []acp.EnvVariable{{Name: "AGENT_TEST_SERVER", Value: "1"}, {Name: "WITH", Value: "words"}}}}
	w := begin(t, `
turns:
  - match: go
    tools: [loud_shout, loud_fail]
    steps:
      - calls: [{ name: loud_shout, args: { text: hello } }, { name: loud_fail, args: { text: x } }]
      - exec: { read_args: { path: a.txt } }
      - text: "{{.Result}}"
      - calls: [{ name: loud_shout, args: { text: again } }]
      - text: " {{.Result}}"
  - match: cancel
    steps: [{ text: wait }, { exec: { shell_args: { command: "mkfifo pipe; echo $$ > pid; exec cat pipe" } } }]
`, someFiles, server)
	if said, _ := w.say("go"); !strings.HasSuffix(said, "file_size=23}} AGAIN") {
		t.Error(said)
	}
	if d := cmp.Diff([]string{"read Read a.txt path=WORK/a.txt"}, w.questions()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !slices.Contains(w.shown, "loud_fail failed") || !slices.Contains(w.shown, "loud_shout completed") {
		t.Error(w.shown)
	}

	// The client ends a turn while a command runs.
	done := make(chan acp.StopReason, 1)
	go func() {
		_, why := w.say("cancel")
		done <- why
	}()
	w.await("pid")
	if err := w.conn.Cancel(t.Context(), acp.CancelNotification{SessionId: w.id}); err != nil {
		t.Fatal(err)
	}
	if why := <-done; why != acp.StopReasonCancelled {
		t.Error(why)
	}
	w.gone("pid")
}

// TestLeaves: an agent whose client hangs up, or loads the session again, ends the turn with its commands first, and keeps what was done.
func TestLeaves(t *testing.T) {
	t.Parallel()
	w := begin(t, `
turns:
  - match: and now?
    steps: [{ text: "{{.Text}}" }]
  - match: hold
    steps: [{ text: words }, { exec: { shell_args: { command: "touch made" } } }, { exec: { shell_args: { command: "trap '' TERM; mkfifo pipe; echo $$ > pid; exec cat pipe" } } }]
  - match: load
    steps: [{ exec: { shell_args: { command: "mkfifo pipe2; echo $$ > pid2; exec cat pipe2" } } }]
`, nil)
	done := make(chan acp.StopReason, 1)
	run := func(text string) {
		got, err := w.conn.Prompt(t.Context(), acp.PromptRequest{SessionId: w.id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
		if err != nil {
			got.StopReason = "hung up"
		}
		done <- got.StopReason
	}
	go run("load")
	pid, err := strconv.Atoi(w.await("pid2"))
	w.must(err)
	load := acp.LoadSessionRequest{SessionId: w.id, Cwd: w.dir, McpServers: []acp.McpServer{}}
	if _, err := w.conn.LoadSession(t.Context(), load); err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		t.Error(err, "or its command lives on")
	}
	if why := <-done; why != acp.StopReasonCancelled {
		t.Error(why)
	}
	go run("hold")
	pid, err = strconv.Atoi(w.await("pid"))
	w.must(err)
	w.hang()
	if <-done; !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		t.Error("a command outlives the agent")
	}
	w.connect()
	if _, err := w.conn.LoadSession(t.Context(), load); err != nil {
		t.Fatal(err)
	}
	if said, _ := w.say("and now?"); !strings.Contains(said, "words\n(Before this turn broke off, these were done: touch made; trap") {
		t.Error(said)
	}
}

// TestNothingTwice: a run that breaks off while a tool runs, or behind its result, never runs the tool again. From a state behind the result it goes
// on.
func TestNothingTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, `
turns:
  - { match: while, steps: [{ exec: { write_args: { path: while, file_text: x } } }] }
  - { match: saved, try: 1, steps: [{ exec: { write_args: { path: saved, file_text: x } } }, { checkpoint: true }, { end: cut }] }
  - { match: behind, steps: [{ exec: { write_args: { path: behind, file_text: x } } }, { end: cut }] }
  - { try: 2, steps: [{ text: went on }] }
`, nil)
		prompt := func(text string) error {
			_, err := w.conn.Prompt(t.Context(), acp.PromptRequest{SessionId: w.id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
			return err
		}
		if err := prompt("behind"); err == nil || !strings.Contains(err.Error(), "upstream_cut") {
			t.Error(err)
		}
		if said, _ := w.say("saved"); said != "went on" {
			t.Error(said)
		}
		w.hold = make(chan struct{})
		broke := make(chan error, 1)
		go func() { broke <- prompt("while") }()
		synctest.Wait() // the question is open
		w.sim.Break()
		if err := <-broke; err == nil || !strings.Contains(err.Error(), "upstream_cut") {
			t.Error(err)
		}
		close(w.hold)
		synctest.Wait()
		if d := cmp.Diff([]string{"edit Write behind content=x path=WORK/behind", "edit Write saved content=x path=WORK/saved", "edit Write while content=x path=WORK/while"}, w.questions()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if _, err := os.Stat(filepath.Join(w.dir, "while")); err == nil {
			t.Error("what was allowed too late was done")
		}
	})
}
