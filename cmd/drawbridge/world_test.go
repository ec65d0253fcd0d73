package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"drawbridge/internal/freeport"
)

// freeTestPort holds a port until the script ends.
func freeTestPort(ts *testscript.TestScript) string {
	port, release, err := freeport.Hold()
	ts.Check(err)
	ts.Defer(func() { _ = release() })
	return port
}

// setPorts is "port <NAME>...": it puts a free port into each variable.
func setPorts(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: port <NAME>...")
	}
	for _, name := range args {
		ts.Setenv(name, freeTestPort(ts))
	}
}

const worldBridge = `listen: 127.0.0.1:%s
public_url: http://127.0.0.1:%s
token: ${file:bridge.token}
operators: { vic: { token: "${file:vic.token}", role: viewer } }
key: ${file:bridge.key}
cursor: { key: "${file:cursor.key}", url: "http://127.0.0.1:%s", timeout: %s }
poll: { min: 100ms, max: 400ms }
orchestrators: [{ name: main, repo: github.com/me/agent-env%s }]
relays:
  laptop: { url: "http://127.0.0.1:%s", token: "${file:relay.token}" }
`

const worldRelay = `listen: 127.0.0.1:%s
token: ${file:relay.token}
actions:
  backup_script: { argv: [/bin/sh, backup.sh], dir: %s }
  lock_screen: { argv: [/bin/echo, locked] }
`

// worldBackup leaves a line in ran.txt for each run, so that a script can count what really happened.
const worldBackup = "echo ran >> ran.txt\necho 3 files saved\n"

const worldAllowlist = `repos: [github.com/me/my-app]
actions:
  backup_script: {}
  lock_screen: { approval: each }
`

// setWorld is "world [timeout]": it writes the files of a bridge, a relay and a simulated cloud on ports of their own,
// but for those that the script brought along, and sets the variables of the CLI. A file bridge.more is appended to
// bridge.yaml, with the relay's port for RELAYPORT, a file main.more to its orchestrator.
func setWorld(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: world [timeout of the API]")
	}
	timeout := "5s"
	if len(args) == 1 {
		timeout = args[0]
	}
	bridge, cloud, relay := freeTestPort(ts), freeTestPort(ts), freeTestPort(ts)
	more, _ := os.ReadFile(ts.MkAbs("bridge.more")) // most scripts have none
	orchestrator, _ := os.ReadFile(ts.MkAbs("main.more"))
	for name, text := range map[string]string{
		"bridge.yaml": fmt.Sprintf(worldBridge, bridge, bridge, cloud, timeout, strings.TrimRight(string(orchestrator), "\n"), relay) + strings.ReplaceAll(string(more), "RELAYPORT", relay),
		"relay.yaml":  fmt.Sprintf(worldRelay, relay, ts.MkAbs(".")), "backup.sh": worldBackup, "allowlist.yaml": worldAllowlist, "cloud.yaml": "{}\n",
		"bridge.token": operatorToken, "vic.token": viewerToken, "bridge.key": bridgeKey, "relay.token": relayToken, "cursor.key": cursorKey,
	} {
		path := ts.MkAbs(name)
		if _, err := os.Stat(path); err == nil {
			ts.Check(os.Chmod(path, 0o600))
			continue
		}
		ts.Check(os.WriteFile(path, []byte(text), 0o600))
	}
	for name, value := range map[string]string{
		"BRIDGEPORT": bridge, "CLOUDPORT": cloud, "RELAYPORT": relay, "BRIDGE": "http://127.0.0.1:" + bridge, "CLOUD": "http://127.0.0.1:" + cloud,
		"RELAY": "http://127.0.0.1:" + relay, "DRAWBRIDGE_URL": "http://127.0.0.1:" + bridge, "DRAWBRIDGE_TOKEN": operatorToken,
	} {
		ts.Setenv(name, value)
	}
}

// setLogin is "login": it sets CURSOR_API_KEY, without the key in the script's own log.
func setLogin(ts *testscript.TestScript, _ bool, _ []string) { ts.Setenv("CURSOR_API_KEY", cursorKey) }

// checkMode is "mode <octal> <file>...".
func checkMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: mode <octal> <file>...")
	}
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	for _, name := range args[1:] {
		info, err := os.Stat(ts.MkAbs(name))
		ts.Check(err)
		if info.Mode().Perm() != fs.FileMode(want) {
			ts.Fatalf("%s has mode %04o", name, info.Mode().Perm())
		}
	}
}

// keepSecret is "keep <file>...": from now on no output of any script may hold the file's text.
func keepSecret(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: keep <file>...")
	}
	for _, name := range args {
		text := strings.TrimSpace(ts.ReadFile(name))
		if len(text) < 32 {
			ts.Fatalf("%s holds a secret of %d characters", name, len(text))
		}
		secrets.add(text)
	}
}

// repeatLine is "repeat <file> <placeholder> <n> <line>": it replaces the placeholder with n numbered copies of the line.
func repeatLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: repeat <file> <placeholder> <n> <line>")
	}
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	indent := ""
	text := ts.ReadFile(args[0])
	for line := range strings.Lines(text) {
		if before, _, ok := strings.Cut(line, args[1]); ok {
			indent = before
		}
	}
	var lines strings.Builder
	for i := range n {
		if i > 0 {
			lines.WriteString(indent)
		}
		fmt.Fprintf(&lines, "%s %d\n", args[3], i)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, args[1], strings.TrimSuffix(lines.String(), "\n"), 1)), 0o600))
}

// replaceText is "replace <file> <old> <new>": it writes the file again, as an editor does, by renaming.
func replaceText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace <file> <old> <new>")
	}
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path+".new", []byte(strings.Replace(text, args[1], args[2], 1)), 0o600))
	ts.Check(os.Rename(path+".new", path))
}

// parsesAsJSON is "parseok": every line that the last command printed on its standard output is JSON.
func parsesAsJSON(ts *testscript.TestScript, neg bool, _ []string) {
	lines := bytes.Split(bytes.TrimSpace([]byte(ts.ReadFile("stdout"))), []byte("\n"))
	for _, line := range lines {
		if json.Valid(line) == neg {
			ts.Fatalf("%s", line)
		}
	}
}
