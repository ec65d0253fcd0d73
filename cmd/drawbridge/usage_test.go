package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drawbridge/bridge"
	"drawbridge/mcpserver"
)

// callInside runs a command as main does, without a process of its own: under -race a process costs a second.
func callInside(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := app{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr, getenv: func(string) (string, bool) { return "", false }}
	code := run(t.Context(), a, args)
	return outcome{stdout: stdout.String(), stderr: stderr.String(), code: code}
}

// Every command has a help with an example, on standard output.
func TestHelp(t *testing.T) {
	t.Parallel()
	all := callInside(t, "", "--help")
	if all.code != exitOK || all.stderr != "" || !strings.Contains(all.stdout, "Exit codes: 0 done, 1 no") {
		t.Errorf("%+v", all)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z-]+)(?: ([a-z]+))?  +[A-Z]`).FindAllStringSubmatch(all.stdout, -1) {
		names[m[1]] = true
		if m[2] != "" { // one of a group, which has a help, too
			names[m[1]+" "+m[2]] = true
		}
	}
	if len(names) < 40 || !names["reminders"] || !names["relay token"] || !names["mcp-config"] {
		t.Errorf("the help names %d commands:\n%s", len(names), all.stdout)
	}
	for name := range names {
		words := strings.Fields(name)
		got := callInside(t, "", append(words, "--help")...)
		_, example, _ := strings.Cut(got.stdout, "Example")
		if got.code != exitOK || got.stderr != "" || !strings.Contains(example, "drawbridge "+words[0]) {
			t.Errorf("drawbridge %s --help: %+v", name, got)
		}
	}
	if sim := callInside(t, "", "cloudsim", "--help"); !strings.Contains(sim.stdout, cursorKey) {
		t.Errorf("nothing says which API key the stand-in takes:\n%s", sim.stdout)
	}
}

// A wrong call exits with 2 and a plain no with 1; standard error says in a line or three what to do next, and standard
// output stays empty.
func TestWrongCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", "actions: { backup_script: {} }\n")
	broken := file("broken.yaml", "repos: [gitlab.com/me/my-app]\nnonsense: true\n")
	nowhere := filepath.Join(dir, "nowhere.yaml")
	for _, c := range []struct {
		args  string
		stdin string
		code  int
		says  string
	}{
		{args: "nonsense", code: 2, says: "unexpected argument nonsense\nSee drawbridge --help"},
		{args: "relay accept", code: 2, says: "expected \"<name>\"\nSee drawbridge relay accept --help"},
		{args: "serve --log xml", code: 2, says: "must be one of \"auto\",\"json\",\"console\" but got \"xml\"\nSee drawbridge serve --help"},
		{args: "parse --nonsense", code: 2, says: "unknown flag --nonsense"},
		{args: "parse extra", code: 2, says: "unexpected argument extra"},
		{args: "parse --fenced sometimes", code: 2, says: `must be one of "ignore","run"`},
		{args: "parse --allowlist " + nowhere, code: 2, says: "nowhere.yaml: does not exist"},
		{args: "parse --allowlist " + broken, code: 2, says: `broken.yaml:1: repos.*\n.*broken.yaml:2: nonsense|broken.yaml:2: nonsense.*\n.*broken.yaml:1: repos`},
		{args: "allowed", code: 2, says: "<kind>"},
		{args: "allowed banana x", code: 2, says: `must be one of "repo","action"`},
		{args: "allowed repo x", code: 2, says: "no allowlist.yaml in this folder; name one with --allowlist FILE"},
		{args: "allowed repo --upload-pack=/bin/sh --allowlist " + good, code: 2, says: "unknown flag --upload-pack"},
		{args: "allowed action --allowlist " + good, stdin: "\nbackup_script\n", code: 2, says: "line 2 is not a JSON string"},
		{args: "protocol --allowlist " + good + " --format html", code: 2, says: "must be one of"},
		{args: "launch github.com/me/my-app", code: 2, says: "<prompt>"},
		{args: "launch github.com/me/my-app Work --api v7", code: 2, says: "must be one of"},
		{args: "turns main --config " + nowhere, code: 2, says: "nowhere.yaml does not exist; correct the path"},
		{args: "turns main", code: 2, says: "no bridge was found: start drawbridge up"},
		{args: "agents --url ftp://127.0.0.1 --token x", code: 1, says: "must be http:// or https://"},
		{args: "agents --url http://127.0.0.1:1 --token x", code: 1, says: "no bridge answers at http://127.0.0.1:1; start it with"},
		{args: "agents --limit many", code: 2, says: "--limit"},
		{args: "approve", code: 2, says: "<command>"},
		{args: "serve --config " + nowhere, code: 2, says: "nowhere.yaml: does not exist; create it with: drawbridge init"},
		{args: "cloudsim --script " + nowhere, code: 2, says: "nowhere.yaml"},
		{args: "cloudsim --script " + broken, code: 2, says: "broken.yaml"},
		{args: "cloudsim --listen 0.0.0.0:0", code: 2, says: "loopback only"},
		{args: "init " + dir + "/b --repo gitlab.com/me/x", code: 2, says: "github.com/owner/name"},
		{args: "mcp --agent main --set office", code: 2, says: `must be one of "` + strings.Join(mcpserver.SetNames(), `","`) + `"`},
		{args: "mcp-config main --set office", code: 2, says: `must be one of "` + strings.Join(mcpserver.SetNames(), `","`) + `"`},
		{args: "demo extra", code: 2, says: "unexpected argument extra"},
	} {
		got := callInside(t, c.stdin, strings.Fields(c.args)...)
		if got.code != c.code || got.stdout != "" || !regexp.MustCompile(c.says).MatchString(got.stderr) {
			t.Errorf("drawbridge %s: %+v", c.args, got)
		}
		if lines := strings.Count(got.stderr, "\n"); lines > 3 || strings.Contains(got.stderr, "Usage:") {
			t.Errorf("drawbridge %s answers with a page of %d lines", c.args, lines)
		}
	}
}

// A refusal names its remedy: a text that begins with a dash, and one that comes on standard input.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args        []string
		stdin, says string
	}{
		{[]string{"say", "main", "- [ ] Add a health check"}, "", `unknown flag - ; put -- before a text that begins with a dash: drawbridge say main -- '- [ ] Add a health check'`},
		{[]string{"say", "main", "-5"}, "", `unknown flag -5; put -- before a text that begins with a dash: drawbridge say main -- -5`},
		{[]string{"launch", "github.com/me/my-app", "- fix it", "--name", "a b"}, "", `drawbridge launch github.com/me/my-app --name 'a b' -- '- fix it'`},
		{[]string{"say", "main", "-x"}, "", "unknown flag -x\nSee"},
		{[]string{"up", ".", "do it", "--dir=/home/me/my work", "--onec"}, "", "unknown flag --onec, did you mean \"--once\"?\nSee"},
		{[]string{"say", "main", "-"}, " \n", "standard input is empty; pipe a text in"},
		{[]string{"post", "general", "-"}, strings.Repeat("x", maxText+1), "has more than 1048576 bytes"},
		{[]string{"launch", "github.com/me/app", "-"}, "", "standard input is empty"},
		{[]string{"message", "edit", "msg_1", "-"}, "", "standard input is empty"},
		{[]string{"up", ".", "-"}, "", "standard input is empty"},
	} {
		if got := callInside(t, c.stdin, c.args...); got.code != exitUsage || got.stdout != "" || !strings.Contains(got.stderr, c.says) {
			t.Errorf("drawbridge %q: %+v", c.args, got)
		}
	}
	text := textArg("-")
	if err := text.AfterApply(app{stdin: strings.NewReader("- two\n- lines\r\n\n")}); err != nil || text != "- two\n- lines" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestHabits: what people type first at any program.
func TestHabits(t *testing.T) {
	t.Parallel()
	if alone := callInside(t, ""); alone.code != exitOK || alone.stderr != "" || !strings.HasPrefix(alone.stdout, overview) || !strings.Contains(alone.stdout, "drawbridge --help") {
		t.Errorf("alone: %+v", alone)
	}
	for _, same := range [][2]string{{"--version", "version"}, {"help", "--help"}, {"help relay token", "relay token --help"}} {
		got, want := callInside(t, "", strings.Fields(same[0])...), callInside(t, "", strings.Fields(same[1])...)
		if got.code != exitOK || got != want {
			t.Errorf("drawbridge %s: %+v, but %s: %+v", same[0], got, same[1], want)
		}
	}
	if wrong := callInside(t, "", "help", "nonsense"); wrong.code != exitUsage {
		t.Errorf("help nonsense: %+v", wrong)
	}
}

// TestCompletion: the shell hands over the line typed so far, and gets what may stand in the place of its last word.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                      "",
		"drawbridge":                            "",
		"drawbridge appr":                       "approve",
		"drawbridge relay-":                     "",
		"drawbridge relay re":                   "revoke",
		"drawbridge channels ":                  "list create add remove show close reopen",
		"drawbridge say --":                     "--help --version --wait --url --token --config --json",
		"drawbridge demo --fault ":              "kill no-webhooks",
		"drawbridge completion ":                "bash zsh fish",
		"drawbridge completion bash ":           "",
		"drawbridge allowed re":                 "repo",
		"drawbridge allowed repo x re":          "",
		"drawbridge help rel":                   "relay",
		"drawbridge help relay acc":             "accept",
		"drawbridge agents --state stop ":       "",
		"drawbridge launch github.com/me/my":    "",
		"drawbridge parse --allowlist ./allow":  "",
		"drawbridge agents --state idle --forg": "--forgotten",
	} {
		var stdout bytes.Buffer
		getenv := func(name string) (string, bool) { return line, name == "COMP_LINE" }
		code := run(t.Context(), app{stdout: &stdout, stderr: &stdout, getenv: getenv}, nil)
		if got := strings.Join(strings.Fields(stdout.String()), " "); code != exitOK || got != want {
			t.Errorf("%q: %d %q, want %q", line, code, got, want)
		}
	}
	for shell := range completionScripts {
		if got := callInside(t, "", "completion", shell); got.code != exitOK || !strings.Contains(got.stdout, "complete ") {
			t.Errorf("%s: %+v", shell, got)
		}
	}
}

// TestClosedPipe: a reader that goes away has what it wanted.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	a := app{stdin: strings.NewReader(""), stdout: goneReader{}, stderr: &stderr, getenv: func(string) (string, bool) { return "", false }}
	if code := run(t.Context(), a, []string{"--help"}); code != exitOK || stderr.Len() > 0 {
		t.Errorf("code %d, %s", code, stderr.String())
	}
}

// Errors carry words of others, such as why an agent failed; none of them commands the terminal.
func TestErrorsAreShownHarmless(t *testing.T) {
	t.Parallel()
	for _, err := range []error{bridge.Errorf(bridge.Conflict, "failed: \x1b[2Jred\u202e"), errors.New("failed: \x1b[2Jred\u202e")} {
		var out strings.Builder
		if code := (app{stderr: &out}).code(err); code != exitNo || out.String() != "drawbridge: failed: ?[2Jred?\n" {
			t.Errorf("code %d, %q", code, out.String())
		}
	}
}
