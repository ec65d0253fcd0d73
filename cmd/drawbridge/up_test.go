package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"drawbridge/proof/gobuild"
)

// machineBuilt builds the relay's program and the scripted agent, once for all scripts, and returns their folder. It takes the usual ports of
// a bridge for as long as the tests run, so that each script gets ports of its own.
var machineBuilt = sync.OnceValues(func() (string, error) {
	for _, addr := range []string{localDoor, localOperator} {
		if l, err := net.Listen("tcp", addr); err == nil { // a bridge of this machine has it otherwise
			usualPorts = append(usualPorts, l)
		}
	}
	dir, err := os.MkdirTemp("", "drawbridge-up-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	return dir, gobuild.Into(dir, "", "drawbridge/cmd/drawbridge-relay", "drawbridge/proof/acpagent/program")
})

// usualPorts keeps the listeners of machineBuilt.
var usualPorts []net.Listener

// builtDir is the folder of machineBuilt, to be removed after all scripts.
var builtDir string

func removeBuilt() {
	if builtDir != "" {
		_ = os.RemoveAll(builtDir)
	}
}

// setLocal is "local [agent]...": a machine with drawbridge-relay on PATH, with the scripted agent installed under these names, and with a
// home. $AGENTS is the folder of the agents, and $TOOLS the PATH of whoever runs the tests.
func setLocal(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: local [agent]...")
	}
	built, err := machineBuilt()
	ts.Check(err)
	programs, _, _ := strings.Cut(ts.Getenv("PATH"), string(filepath.ListSeparator))
	for _, dir := range []string{"agents", "home", "relay"} {
		ts.Check(os.MkdirAll(ts.MkAbs(dir), 0o700))
	}
	copyProgram(ts, filepath.Join(built, "drawbridge-relay"), ts.MkAbs("relay/drawbridge-relay"))
	for _, name := range args {
		copyProgram(ts, filepath.Join(built, "program"), filepath.Join(ts.MkAbs("agents"), name))
	}
	ts.Setenv("BIN", programs)
	ts.Setenv("AGENTS", ts.MkAbs("agents"))
	ts.Setenv("TOOLS", os.Getenv("PATH"))
	ts.Setenv("HOME", ts.MkAbs("home"))
	ts.Setenv("PATH", strings.Join([]string{programs, ts.MkAbs("agents"), ts.MkAbs("relay"), "/usr/bin", "/bin"}, ":"))
}

func copyProgram(ts *testscript.TestScript, from, to string) {
	text, err := os.ReadFile(from)
	ts.Check(err)
	ts.Check(os.WriteFile(to, text, 0o700))
}

// makeClone is "clone <folder> [remote]": a git repository with one commit of what is in the folder.
func makeClone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: clone <folder> [remote]")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	calls := [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "me"}, {"config", "user.email", "me@example.com"}, {"add", "--all"}, {"commit", "-q", "--allow-empty", "-m", "first"},
	}
	if len(args) > 1 {
		calls = append(calls, []string{"remote", "add", "origin", args[1]})
	}
	for _, call := range calls {
		cmd := exec.Command("git", append([]string{"-C", dir}, call...)...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + ts.MkAbs("home"), "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("git %v: %v\n%s", call, err, out)
		}
	}
}

// noneLeft is "noneleft <folder>": no process that was started with a path of the folder lives any more.
func noneLeft(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: noneleft <folder>")
	}
	dir := ts.MkAbs(args[0])
	poll(ts, "no process of "+dir, func() (bool, string) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "ps", "-eo", "pid=,args=").Output()
		ts.Check(err)
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, dir) {
				return false, line
			}
		}
		return true, ""
	})
}

// killChild is "killchild <folder> <words>": SIGKILL for the process of the folder whose command line has the words.
func killChild(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: killchild <folder> <words>")
	}
	out, err := exec.Command("ps", "-eo", "pid=,args=").Output()
	ts.Check(err)
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); strings.Contains(line, args[1]+" "+ts.MkAbs(args[0])) {
			pid, err := strconv.Atoi(fields[0])
			ts.Check(err)
			ts.Check(syscall.Kill(pid, syscall.SIGKILL))
			return
		}
	}
	ts.Fatalf("no process of %s with %q:\n%s", args[0], args[1], out)
}

// startTTY is "starttty <name> <arguments>": start with a terminal as standard input and standard error, for type. The log has what it shows.
func startTTY(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: starttty <name> <arguments>")
	}
	keys, terminal, err := openTTY()
	ts.Check(err)
	defer terminal.Close()
	var shown sync.WaitGroup
	ts.Defer(func() { // after the process is gone, also where the script fails
		shown.Wait()
		_ = keys.Close()
	})
	p := spawnWith(ts, terminal, args)
	p.keys = keys
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	shown.Go(func() {
		defer log.Close()
		_, _ = io.Copy(log, keys) // until the last process has closed the terminal
	})
}

// typeLine is "type <name> <text>": a person types a line.
func typeLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: type <name> <text>")
	}
	p := ts.Value(stageKey{}).(*testStage).running[args[0]]
	if p == nil || p.keys == nil {
		ts.Fatalf("%s has no terminal", args[0])
	}
	_, err := p.keys.WriteString(args[1] + "\n")
	ts.Check(err)
}

// followsPage is "follows <tutorial> <n> <name>": the log of a process has the lines of the nth block of a page of docs/tutorial, in their order.
// The page writes … for what it leaves out.
func followsPage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: follows <tutorial> <n> <name>")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "tutorial", args[0]+".md"))
	ts.Check(err)
	blocks := strings.Split(string(page), "\n```")
	if 2*n-1 >= len(blocks) {
		ts.Fatalf("the page has no block %d", n)
	}
	log, err := os.ReadFile(ts.MkAbs(args[2] + ".log"))
	ts.Check(err)
	shown := escapes.ReplaceAllString(strings.ReplaceAll(string(log), "\a", ""), "\n")
	for line := range strings.Lines(strings.TrimPrefix(blocks[2*n-1], "\n")) {
		if line = strings.TrimRight(line, "\n"); line == "…" || strings.HasPrefix(line, "$ ") {
			continue
		}
		parts := strings.Split(line, "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		at := regexp.MustCompile(`(?m)^ *(\[.*\] )?` + strings.Join(parts, ".*") + " *$").FindStringIndex(shown)
		if at == nil {
			ts.Fatalf("block %d has the line\n%s\nand there is none such in the rest of %s:\n%s", n, line, args[2], shown)
		}
		shown = shown[at[1]:]
	}
}

// escapes are what an input line writes to move the cursor and to clear, and the end of a line.
var escapes = regexp.MustCompile(`(\x1b\[[?0-9;]*[a-zA-Z]|\r)+`)
