package settings_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drawbridge/relay/runner/settings"
	"drawbridge/relay/wire"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "relay.token"), token+"\n", 0o600)
	path := write(t, filepath.Join(dir, "relay.yaml"), `
listen: "[::1]:${PORT:-7421}"
token: ${file:relay.token}
actions:
  plain:
    argv: [/bin/echo, "$${X}", a${X}b${X}, 5, "$HOME", ${EMPTY}]
  full:
    argv: [/bin/sh, -c, echo]
    i_know: true
    dir: /usr
    env: { HOME: "${HOME}", PATH: /opt }
    timeout: ${T:-1h}
    output: 7
    concurrency: 2
    processes: 8
    memory: 512MiB
    open_files: 256
    file_size: ${SIZE:-3}
    cpu: 1m
    approval: once per 12h
    approve_by: either
    idempotent: true
    sha256: ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB
    files: [ { path: /bin/cat, sha256: `+strings.Repeat("AB", 32)+` } ]
    sandbox: { read: [/etc], write: [`+dir+`/out], network: true }
    redact: [ "${HOME}", { pattern: 'k-\d+' } ]
limits: { concurrent: 1, queue: 0, per_minute: 600, per_day: 9, approval_wait: 5m }
`, 0o644)
	must(t, os.Mkdir(filepath.Join(dir, "out"), 0o700))
	env := map[string]string{"X": "${file:/etc/passwd}", "HOME": "/home/me", "T": "", "EMPTY": ""}
	got, err := settings.Load(path, func(name string) (string, bool) { value, set := env[name]; return value, set })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]settings.Action{
		"plain": {
			Argv: []string{"/bin/echo", "${X}", "a${file:/etc/passwd}b${file:/etc/passwd}", "5", "$HOME", ""},
			Dir:  "/", Timeout: time.Minute, Output: wire.DefaultOutput, Concurrency: 1, Processes: 256,
			Approval: settings.Approval{Mode: "never", By: "machine"},
		},
		"full": {
			Argv: []string{"/bin/sh", "-c", "echo"}, Dir: "/usr", Timeout: time.Hour, Output: 7,
			Env:         []settings.EnvVar{{Name: "HOME", Value: "/home/me"}, {Name: "PATH", Value: "/opt"}},
			Concurrency: 2, Processes: 8, Idempotent: true, SHA256: strings.Repeat("ab", 32),
			Approval: settings.Approval{Mode: "once", For: 12 * time.Hour, By: "either"},
			Bounds:   settings.Bounds{Memory: 512 << 20, OpenFiles: 256, FileSize: 3, CPU: time.Minute},
			Files:    []settings.File{{Path: "/bin/cat", SHA256: strings.Repeat("ab", 32)}},
			Sandbox:  &settings.Sandbox{Read: []string{"/etc"}, Write: []string{dir + "/out"}, Network: true},
		},
	}
	if diff := cmp.Diff(want, got.Actions, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(settings.Action{})); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if got.Journal != dir+"/relay.journal" {
		t.Errorf("journal %q", got.Journal)
	}
	if got.Listen.String() != "[::1]:7421" || string(got.Token) != token {
		t.Errorf("listen %s, token of %d characters", got.Listen, len(got.Token))
	}
	if diff := cmp.Diff(settings.Limits{Concurrent: 1, Queue: 0, PerMinute: 600, PerDay: 9, ApprovalWait: 5 * time.Minute}, got.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	encoded, err := json.Marshal(got)
	printed := fmt.Sprintf("%v %+v %#v %v %#v %s", got, got, got, got.Token, got.Token, encoded)
	if err != nil || strings.Contains(printed, token) {
		t.Errorf("the token is printed: %s %v", printed, err)
	}
}

// A relative path is one beside the file, wherever the relay was started.
func TestLoadJournalPath(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	for setting, want := range map[string]string{
		"state/j": dir + "/state/j", other + "/j": other + "/j", "${WHERE:-j.log}": dir + "/j.log", "../" + filepath.Base(dir) + "/j": dir + "/j",
	} {
		path := write(t, filepath.Join(dir, "relay.yaml"), "token: "+token+"\nactions: {}\njournal: "+setting+"\n", 0o600)
		if got, err := settings.Load(path, noEnv); err != nil || got.Journal != want {
			t.Errorf("%s: %q, %v, want %q", setting, got.Journal, err, want)
		}
	}
}

func TestLoadProblems(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	base := "token: " + token + "\nactions:\n"
	action := func(settings string) string { return base + "  a: { argv: [/bin/echo], " + settings + " }\n" }
	tests := []struct{ name, text, want string }{
		{"empty", "", `: is empty; write listen and actions`},
		{"not a mapping", "- a\n", `:1: is not a mapping`},
		{"broken", "a: [\n", `:1: is not YAML`},
		{"second document", base + "  a: { argv: [/bin/echo] }\n---\nactions: {}\n", `: a second document begins here; keep one document`},
		{"nothing in it", "limits: {}\n", `: token: is missing; write listen: none for a relay that joins and dials out, or token: ${file:relay.token}`},
		{"no actions", "token: " + token + "\n", `: actions: is missing; list what may run`},
		{"unknown key", base + "relay: x\n", `: relay: is not a known key; use one of listen, token, actions, tools, agents, repos, limits, state, journal, redact`},
		{"case of a key", base + "Listen: 127.0.0.1:1\n", `:3: Listen: is not a known key`},
		{"key twice", base + "actions: {}\n", `:3: actions: is here twice`},
		{"merge key", base + "  a: { <<: { argv: [/bin/echo] } }\n", `:3: actions.a: has a key that is not a plain word`},
		{"alias", "listen: &x 127.0.0.1:1\ntoken: *x\nactions: {}\n", `:2: token: is not a single value`},
		{"too many actions", base + actions(wire.MaxOffers+1), `:3: actions: lists 513 actions; a bridge takes at most 512 from one relay; remove some, or run a second relay`},
		{"an argument too long", base + "  a: { argv: [/bin/echo, " + strings.Repeat("x", 128<<10) + "] }\n", `:3: actions.a: has an argument or a variable of 131072 bytes; a program cannot be started with one of 131072 bytes or more; put the text into a file`},
		{"a variable too long", action("env: { LONG: " + strings.Repeat("x", 128<<10-5) + " }"), `:3: actions.a: has an argument or a variable of 131072 bytes`},
		{"arguments too many", base + "  a: { argv: [/bin/echo" + strings.Repeat(", "+strings.Repeat("x", 100<<10), 8) + "] }\n", `:3: actions.a: has arguments and variables of 819218 bytes together; a program can get at most 786432`},
		{"memory of thousands", action("memory: 512MB"), `:3: actions.a.memory: "512MB": is not a size in range; write a whole number with KiB, MiB or GiB, such as 512MiB; from 16777216 to`},
		{"memory of half", action("memory: 1.5GiB"), `"1.5GiB": is not a size in range`},
		{"memory for nothing", action("memory: 1MiB"), `"1MiB": is not a size in range`},
		{"memory beyond numbers", action("memory: 9223372036854775807GiB"), `is not a size in range`},
		{"memory less than none", action("memory: -1GiB"), `is not a size in range`},
		{"memory of a unit", action("memory: MiB"), `"MiB": is not a size in range`},
		{"file size of nothing", action("file_size: 0"), `:3: actions.a.file_size: "0": is not a size in range`},
		{"too few files", action("open_files: 3"), `:3: actions.a.open_files: "3": is not a number in range; write a number from 16 to 1048576`},
		{"files as a size", action("open_files: 1KiB"), `is not a number in range`},
		{"half a second", action("cpu: 1500ms"), `:3: actions.a.cpu: "1500ms": is not a whole number of seconds; write one such as 60s or 5m`},
		{"no time", action("cpu: 0s"), `:3: actions.a.cpu: "0s": is not a duration in range`},
		{"files as words", action("files: [/bin/cat]"), `:3: actions.a.files[0]: is not a mapping`},
		{"files as a path", action("files: /bin/cat"), `:3: actions.a.files: "/bin/cat": is not a list of files; write [ { path: /path, sha256: 64 hex digits } ], at most 64`},
		{"a folder as a file", action("files: [ { path: /bin, sha256: " + strings.Repeat("0", 64) + " } ]"), `:3: actions.a.files[0].path: "/bin": is not a regular file; name the file itself`},
		{"more files than fit", action("files: [" + strings.Repeat("{ path: /usr/bin/../bin/"+strings.Repeat("x", 200)+", sha256: "+strings.Repeat("0", 64)+" },", 40) + "]"), `is too long for the audit log`},
		{"network address", base + "listen: 0.0.0.0:7420\n", `:3: listen: "0.0.0.0:7420": is not a loopback address with a port`},
		{"any address", base + "listen: :7420\n", `listen: ":7420": is not a loopback address`},
		{"name", base + "listen: localhost:7420\n", `is not a loopback address`},
		{"mapped address", base + "listen: '[::ffff:127.0.0.1]:7420'\n", `is not a loopback address`},
		{"no port", base + "listen: 127.0.0.1\n", `is not a loopback address`},
		{"short token", "token: secret-but-short\nactions: {}\n", `:1: token: "(hidden)": has 16 characters; use 32 to 512`},
		{"token with blank", "token: " + strings.Repeat("a b ", 16) + "c\nactions: {}\n", `token: "(hidden)": holds a blank`},
		{"variable", "token: ${TOKEN}\nactions: {}\n", `:1: token: refers to the environment variable TOKEN, which is not set; set TOKEN or write ${file:path}`},
		{"missing file", "token: ${file:nope}\nactions: {}\n", `nope, which does not exist; create the file or correct the path`},
		{"action id", base + "  Backup: { argv: [/bin/echo] }\n", `:3: actions: "Backup": is not an action id; use 1 to 64 of`},
		{"action as text", base + "  a: /bin/echo\n", `:3: actions.a: is not a mapping`},
		{"no argv", base + "  a: {}\n", `:3: actions.a.argv: is missing; write argv: [/path/to/program, argument]`},
		{"argv as text", base + "  a: { argv: /bin/echo hi }\n", `:3: actions.a.argv: "/bin/echo hi": is not a list`},
		{"empty argv", base + "  a: { argv: [] }\n", `actions.a.argv: is not a list`},
		{"nested argv", base + "  a: { argv: [/bin/echo, [x]] }\n", `:3: actions.a.argv[1]: is not a single value`},
		{"NUL", base + "  a: { argv: [/bin/echo, \"a\\0b\"] }\n", `actions.a.argv[1]: "a\x00b": holds a NUL character`},
		{"relative program", base + "  a: { argv: [echo] }\n", `:3: actions.a.argv[0]: "echo": is not an absolute path`},
		{"dots in program", base + "  a: { argv: [/bin/../bin/echo] }\n", `is not an absolute path without . and ..`},
		{"no such program", base + "  a: { argv: [/no/such] }\n", `:3: actions.a.argv[0]: "/no/such": does not exist; create it or correct the path`},
		{"folder as program", base + "  a: { argv: [/usr] }\n", `"/usr": is not a regular file`},
		{"not executable", base + "  a: { argv: [/etc/passwd] }\n", `"/etc/passwd": is not executable; run: chmod +x /etc/passwd`},
		{"shell", base + "  a: { argv: [/bin/sh, -c, echo] }\n", `:3: actions.a.argv: "/bin/sh -c": gives a command line to a shell; name the program`},
		{"shell flags joined", base + "  a: { argv: [/bin/bash, -euxc, echo] }\n", `gives a command line to a shell`},
		{"shell after options", base + "  a: { argv: [/bin/bash, -o, pipefail, --norc, -c, echo] }\n", `gives a command line to a shell`},
		{"shell behind env", base + "  a: { argv: [/usr/bin/env, -i, bash, -c, echo] }\n", `"bash -c": gives a command line`},
		{"env splits", base + "  a: { argv: [/usr/bin/env, -S, bash -c echo] }\n", `works like sh`},
		{"i_know false", action("i_know: maybe"), `i_know: "maybe": is neither true nor false`},
		{"relative dir", action("dir: home"), `:3: actions.a.dir: "home": is not an absolute path`},
		{"no such dir", action("dir: /no/such"), `actions.a.dir: "/no/such": does not exist`},
		{"file as dir", action("dir: /etc/passwd"), `is not a folder`},
		{"variable name", action("env: { 'A B': x }"), `actions.a.env.A B: is not a variable name`},
		{"preload", action("env: { LD_PRELOAD: x }"), `:3: actions.a.env.LD_PRELOAD: may not be set`},
		{"preload on macOS", action("env: { DYLD_INSERT_LIBRARIES: x }"), `may not be set`},
		{"bash env", action("env: { BASH_ENV: x }"), `may not be set`},
		{"git", action("env: { GIT_SSH_COMMAND: x }"), `may not be set`},
		{"proxy", action("env: { https_proxy: x }"), `actions.a.env.https_proxy: may not be set`},
		{"timeout", action("timeout: 61m"), `actions.a.timeout: "61m": is not a duration in range; write one above 0 and up to 1h`},
		{"timeout without unit", action("timeout: 60"), `is not a duration in range`},
		{"no timeout", action("timeout: 0s"), `is not a duration in range`},
		{"output", action("output: 524289"), `:3: actions.a.output: "524289": is not a number in range; write a number from 1 to 524288`},
		{"concurrent", base + "limits: { concurrent: 0 }\n", `:3: limits.concurrent: "0": is not a number in range`},
		{"journal without a name", base + "journal: ''\n", `:3: journal: is not the path of a file; write a path, or leave it out for relay.journal beside this file`},
		{"journal as folder", base + "journal: x/\n", `:3: journal: "x/": is not the path of a file`},
		{"journal is a folder", base + "journal: " + folder + "\n", folder + ` is not a regular file; name a plain file`},
		{"journal without a folder", base + "journal: x/y\n", `:3: journal: "x/y": its folder does not exist; create it or correct the path`},
		{"journal in a home", base + "journal: ~/j\n", `:3: journal: "~/j": begins with ~, which only a shell replaces by a home folder; write the whole path, such as /home/you/j`},
		{"journal of two lines", base + "journal: \"a\\nb\"\n", `holds a control character, such as a line break; write the path in one line`},
		{"state in a home", base + "state: ~/s\n", `:3: state: "~/s": begins with ~`},
		{"journal below a file", base + "journal: relay.yaml/j\n", `relay.yaml is a file; correct the path`},
		{"journal as list", base + "journal: [a]\n", `:3: journal: is not a single value`},
		{"unknown limit", base + "limits: { per_hour: 3 }\n", `limits.per_hour: is not a known key; use one of concurrent, queue, per_minute, per_day, approval_wait`},
		{"approval", action("approval: always"), `:3: actions.a.approval: "always": is not a way to approve; write never, each, or once per 24h`},
		{"approval period", action("approval: once per 1s"), `:3: actions.a.approval: "once per 1s": is not a period in range`},
		{"approver", action("approval: each, approve_by: agent"), `:3: actions.a.approve_by: "agent": is not known; write machine or bridge or either`},
		{"digest", action("sha256: abc"), `:3: actions.a.sha256: "abc": is not a SHA-256 digest; write the 64 hex digits`},
		{"sandbox as truth", action("sandbox: true"), `:3: actions.a.sandbox: "true": is not a mapping; write sandbox: { read:`},
		{"sandbox key", action("sandbox: { exec: [/] }"), `:3: actions.a.sandbox.exec: is not a known key; use one of read, write, network`},
		{"sandbox path", action("sandbox: { read: [home] }"), `:3: actions.a.sandbox.read[0]: "home": is not an absolute path`},
		{"sandbox path with dots", action("sandbox: { read: [/etc/../root] }"), `is not an absolute path without . and ..`},
		{"sandbox without path", action("sandbox: { write: [/no/such] }"), `:3: actions.a.sandbox.write[0]: "/no/such": does not exist`},
		{"sandbox over everything", action("sandbox: { write: [/] }"), `actions.a.sandbox.write[0]: "/": holds the program of action a, so the action could change what may run; name a folder beside it`},
		{"secret in the file", base + "redact: [hunter2-hunter2]\n", `:3: redact[0]: "(hidden)": is not a reference; write ${NAME} or ${file:path}`},
		{"secret with a default", base + "redact: ['${X:-hunter2-hunter2}']\n", `is not a reference`},
		{"broken pattern", base + "redact: [ { pattern: 'a(' } ]\n", `:3: redact[0].pattern: "a(": is not a regular expression`},
		{"pattern of nothing", base + "redact: [ { pattern: 'a*' } ]\n", `is not a regular expression that matches something`},
		{"processes", action("processes: 5000"), `is not a number in range; write a number from 1 to 4096`},
		{"approval wait", base + "limits: { approval_wait: 25h }\n", `limits.approval_wait: "25h": is not a duration in range; write one above 0 and up to 24h`},
		{"state", base + "state: /no/such\n", `:3: state: "/no/such": its folder does not exist`},
		{"socket without a folder", base + "listen: unix:/no/such/s\n", `:3: listen: "unix:/no/such/s": its folder does not exist`},
		{"long socket", base + "listen: unix:/" + strings.Repeat("../", 40) + "tmp/s\n", `is too long for the path of a socket`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, filepath.Join(t.TempDir(), "relay.yaml"), tt.text, 0o600)
			_, err := settings.Load(path, noEnv)
			var problems *settings.Error
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("error %v\nwant one with %s", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "secret-but")) {
				t.Errorf("the error prints the token: %v", err)
			}
		})
	}
}

// actions are so many entries of relay.yaml.
func actions(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "  a%d: { argv: [/bin/echo] }\n", i)
	}
	return text.String()
}

// What is at its bound is taken, and can be started.
func TestLoadAtTheBounds(t *testing.T) {
	t.Parallel()
	text := "token: " + token + "\nactions:\n  long: { argv: [/bin/true, " + strings.Repeat("x", 128<<10-1) + "], env: { LONG: " + strings.Repeat("x", 128<<10-6) + " } }\n" + actions(wire.MaxOffers-1)
	path := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := settings.Load(path, os.LookupEnv)
	if err != nil || len(config.Actions) != wire.MaxOffers {
		t.Fatalf("%d actions, %v", len(config.Actions), err)
	}
	long := config.Actions["long"]
	cmd := exec.Cmd{Path: long.Argv[0], Args: long.Argv, Env: []string{"LONG=" + long.Env[0].Value}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a program with the longest argument: %v, %s", err, out)
	}
}

func TestLoadReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "relay.yaml"), `listen: 10.0.0.1:80
token: short
actions:
  a: { argv: [no], timeout: long }
  b: { argv: [/bin/echo], env: { LD_PRELOAD: x }, what: 1 }
limits: { queue: -1 }
`, 0o600)
	_, err := settings.Load(path, noEnv)
	var problems *settings.Error
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems.Problems {
		got = append(got, fmt.Sprintf("%d %s", p.Line, p.Key))
	}
	want := []string{
		"1 listen", "2 token", "4 actions.a.argv[0]", "4 actions.a.timeout", "5 actions.b.env.LD_PRELOAD", "5 actions.b.what", "6 limits.queue",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Whoever can write the file, the token or a folder on the way decides what runs (Claude Code CVE-2026-25725, Cursor
// CVE-2025-54135: settings that an agent could create or change).
func TestWhoCanWrite(t *testing.T) {
	t.Parallel()
	good := "token: ${file:relay.token}\nactions: { a: { argv: [DIR/prog] } }\n"
	tests := []struct {
		name    string
		arrange func(t *testing.T, dir string)
		// want is part of the error; "" means that the file loads. DIR stands for the folder.
		want string
	}{
		{"owner only", func(*testing.T, string) {}, ""},
		{"group writes the file", chmod("relay.yaml", 0o620), "DIR/relay.yaml can be written by others (mode 0620); run: chmod go-w DIR/relay.yaml"},
		{"others read the file", chmod("relay.yaml", 0o644), ""},
		{"group writes the token", chmod("relay.token", 0o660), "relay.token, but DIR/relay.token can be written by others"},
		{"group reads the token", chmod("relay.token", 0o640), "relay.token, but DIR/relay.token can be read by others (mode 0640); run: chmod go-r DIR/relay.token"},
		{"group writes the folder", chmod(".", 0o770), "DIR can be written by others (mode 0770); run: chmod go-w DIR"},
		{"group writes the program", chmod("prog", 0o775), "chmod go-w DIR/prog"},
		{"group writes the journal", func(t *testing.T, dir string) { write(t, dir+"/relay.journal", "", 0o620) },
			"journal: \"relay.journal\": DIR/relay.journal can be written by others (mode 0620); run: chmod go-w DIR/relay.journal"},
		{"others read the journal", func(t *testing.T, dir string) { write(t, dir+"/relay.journal", "", 0o644) }, ""},
		{"no file", func(t *testing.T, dir string) { must(t, os.Remove(dir+"/relay.yaml")) }, "relay.yaml: does not exist"},
		{"large file", func(t *testing.T, dir string) {
			write(t, dir+"/relay.yaml", good+strings.Repeat("#\n", 1<<19), 0o600)
		}, "is larger than 1048576 bytes"},
		{"others write a folder further up", func(t *testing.T, dir string) {
			must(t, os.Chmod(filepath.Dir(dir), 0o777))
		}, "run: chmod go-w UP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "prog"), "#!/bin/sh\n", 0o700)
			write(t, filepath.Join(dir, "relay.token"), token, 0o600)
			path := write(t, filepath.Join(dir, "relay.yaml"), strings.ReplaceAll(good, "DIR", dir), 0o600)
			tt.arrange(t, dir)
			_, err := settings.Load(path, noEnv)
			want := strings.NewReplacer("DIR", dir, "UP", filepath.Dir(dir)).Replace(tt.want)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("error %v\nwant %q", err, want)
			}
		})
	}
}

// A token that stands in relay.yaml itself makes that file a key: who can read it can call the relay.
func TestWhoCanReadTheTokenInTheFile(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) { return token, name == "TOKEN" }
	for value, refused := range map[string]bool{
		token: true, "${NONE:-" + token + "}": true, "x${TOKEN}": true, "${TOKEN}": false, "${file:relay.token}": false, "${TOKEN}${file:relay.token}": false,
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "relay.token"), token, 0o600)
		path := write(t, filepath.Join(dir, "relay.yaml"), "token: '"+value+"'\nactions: {}\n", 0o600)
		if _, err := settings.Load(path, env); err != nil {
			t.Errorf("%s, for its owner alone: %v", value, err)
		}
		for _, mode := range []os.FileMode{0o640, 0o604} {
			must(t, os.Chmod(path, mode))
			_, err := settings.Load(path, env)
			want := fmt.Sprintf("token: \"(hidden)\": is written in this file itself, and %s can be read by others (mode %04o); run: chmod go-r %s, or write token: ${file:relay.token}", path, mode, path)
			if refused != (err != nil && strings.Contains(err.Error(), want)) || err != nil && strings.Contains(err.Error(), token) {
				t.Errorf("%s with mode %o: %v", value, mode, err)
			}
		}
	}
}

func chmod(name string, mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, name), mode)) }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever the file says, nothing is loaded that the rules forbid, and no error prints the token.
func FuzzLoad(f *testing.F) {
	f.Add("token: " + token + "\nactions:\n" + hello)
	f.Add("listen: 127.0.0.1:0\ntoken: ${T:-" + token + "}\nactions: { a: { argv: [/bin/sh, -c, x], i_know: true, timeout: 5s } }\nlimits: {queue: 3}\n")
	f.Add("a: &a [*a]\n? {b: c}\n: d\n--- !!x\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "relay.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := settings.Load(path, noEnv)
		if err != nil {
			var problems *settings.Error
			if !errors.As(err, &problems) || len(problems.Problems) == 0 {
				t.Fatalf("error of type %T: %v", err, err)
			}
			return
		}
		if config.Listens() && len(config.Token) < 32 || config.Listen.IsValid() && !config.Listen.Addr().IsLoopback() {
			t.Fatalf("loaded %+v", config)
		}
		for id, action := range config.Actions {
			if !wire.ValidAction(id) || len(action.Argv) == 0 || !filepath.IsAbs(action.Argv[0]) || !filepath.IsAbs(action.Dir) ||
				action.Timeout <= 0 || action.Timeout > time.Hour || action.Output < 1 || action.Output > wire.MaxOutput {
				t.Fatalf("loaded action %q %+v", id, action)
			}
		}
	})
}

func noEnv(string) (string, bool) { return "", false }

const (
	token = "0123456789abcdef0123456789abcdef-test"
	hello = "  hello: { argv: [/bin/echo, hello] }\n"
)

func TestMain(m *testing.M) {
	// Temporary folders of a process with a lax umask would be refused.
	syscall.Umask(0o077)
	os.Exit(m.Run())
}

// write puts text into a new file that only we can write.
func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), mode))
	must(t, os.Chmod(path, mode))
	return path
}

// An action may not write what decides about actions (Cursor CVE-2025-54135).
func TestSandboxCannotWriteWhatDecides(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	must(t, os.Symlink(dir, filepath.Join(state, "link")))
	for path, want := range map[string]string{
		dir:             "holds the folder of relay.yaml",
		state + "/link": "holds the folder of relay.yaml",
		state:           "holds the relay's state",
	} {
		text := "token: " + token + "\nstate: " + state + "\nactions: { a: { argv: [/bin/echo], sandbox: { write: [" + path + "] } } }\n"
		_, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), text, 0o600), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestDoors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for listen, want := range map[string]string{"unix:door": "unix:" + dir + "/door", "none": "no address", "127.0.0.1:5": "127.0.0.1:5"} {
		text := "token: " + token + "\nactions: {}\nlisten: " + listen + "\n"
		config, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), text, 0o600), noEnv)
		if err != nil || config.Door() != want || config.Listens() != (listen != "none") {
			t.Errorf("%s: %v, %v", listen, config, err)
		}
	}
	config, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), "actions: {}\nlisten: none\n", 0o600), noEnv)
	if err != nil || config.Token != "" {
		t.Errorf("a relay without a door needs no token: %v", err)
	}
}

// A newer relay does not ask again about what it would run as before: this is a digest that was made before files and bounds.
func TestDefinitionStays(t *testing.T) {
	t.Parallel()
	a := settings.Action{
		Argv: []string{"/bin/echo", "a"}, Dir: "/", Env: []settings.EnvVar{{Name: "A", Value: "b"}}, Timeout: time.Minute, Output: 1, Concurrency: 1,
		Processes: 256, Approval: settings.Approval{Mode: "each", By: "machine"}, Sandbox: &settings.Sandbox{Read: []string{"/etc"}},
	}
	if got := a.Definition("a", "digest", []byte("key")); got != "097d50ca502d3b01586adc6c8b1ee98a07ae03cf682edbb10ba5b31d440eac4d" {
		t.Errorf("%s is another definition than it was", got)
	}
}

// An approval covers the whole definition: whatever changes, the digest does (Cursor CVE-2025-54136).
func TestDefinitionCoversEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const base = "argv: [/bin/echo, x]"
	seen := map[string]string{}
	for _, action := range []string{
		base, "argv: [/bin/echo, x, y]", "argv: [/bin/echo, 'x y']", "argv: [/bin/cat, x]", base + ", dir: /usr", base + ", env: { A: x }",
		base + ", env: { A: y }", base + ", timeout: 61s", base + ", output: 5", base + ", concurrency: 2", base + ", processes: 5",
		base + ", approval: each", base + ", approval: once per 2h", base + ", approval: each, approve_by: either", base + ", idempotent: true",
		base + ", sha256: " + strings.Repeat("0", 64), base + ", sandbox: {}", base + ", sandbox: { read: [/etc] }", base + ", sandbox: { network: true }",
		base + ", memory: 64MiB", base + ", open_files: 99", base + ", file_size: 99", base + ", cpu: 99s",
		base + ", files: [ { path: /bin/echo, sha256: " + strings.Repeat("0", 64) + " } ]", base + ", files: [ { path: /bin/cat, sha256: " + strings.Repeat("0", 64) + " } ]",
		base + ", files: [ { path: /bin/echo, sha256: " + strings.Repeat("1", 64) + " } ]",
	} {
		text := "token: " + token + "\nactions: { a: { " + action + " } }\n"
		config, err := settings.Load(write(t, filepath.Join(dir, "relay.yaml"), text, 0o600), noEnv)
		must(t, err)
		definition := config.Actions["a"].Definition("a", "program", []byte("key"))
		if other, known := seen[definition]; known {
			t.Errorf("%s and %s have one definition", action, other)
		}
		seen[definition] = action
		for _, other := range []string{
			config.Actions["a"].Definition("b", "program", []byte("key")), config.Actions["a"].Definition("a", "other", []byte("key")),
			config.Actions["a"].Definition("a", "program", []byte("other")),
		} {
			if other == definition {
				t.Errorf("%s: id, program or key are not covered", action)
			}
		}
	}
}
