package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// stageKey is where a script keeps its processes.
type stageKey struct{}

// testStage is what goes on beside a script: processes, and requests that wait for their answer.
type testStage struct {
	running  map[string]*sideProcess
	inFlight map[string]chan string
}

func newTestStage() *testStage {
	return &testStage{running: map[string]*sideProcess{}, inFlight: map[string]chan string{}}
}

// sideProcess is one of them; what it prints is in log.
type sideProcess struct {
	cmd  *exec.Cmd
	log  string
	done chan error
	// keys is what a person types, nil without a terminal.
	keys *os.File
}

// patience bounds every wait; all of them end with the event they wait for.
const patience = 2 * time.Minute

// startProcess is "start <name> <arguments>": it runs the program beside the script, its output in <name>.log.
// "start cloud", "start relay" and "start bridge" alone run the parts of a world and wait until each is ready.
func startProcess(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: start <name> <arguments>")
	}
	parts := map[string][]string{
		"cloud":  {"cloudsim", "--listen", "127.0.0.1:" + ts.Getenv("CLOUDPORT"), "--script", "cloud.yaml"},
		"relay":  {"relay-run", "--config", "relay.yaml"},
		"bridge": {"serve", "--config", "bridge.yaml"},
	}
	if part := parts[args[0]]; part != nil && len(args) == 1 {
		p := spawnBeside(ts, args[0], part)
		p.wait(ts, regexp.MustCompile(`"message":"ready"|cloudsim ready`), 1)
		return
	}
	spawnBeside(ts, args[0], args[1:])
}

func spawnBeside(ts *testscript.TestScript, name string, args []string) *sideProcess {
	return spawnWith(ts, nil, append([]string{name}, args...))
}

// spawnWith starts the program with a standard input; its first argument is the name of the process.
func spawnWith(ts *testscript.TestScript, stdin *os.File, args []string) *sideProcess {
	name, args := args[0], args[1:]
	stage := ts.Value(stageKey{}).(*testStage)
	if stage.running[name] != nil {
		ts.Fatalf("%s runs already", name)
	}
	programs, _, _ := strings.Cut(ts.Getenv("PATH"), string(filepath.ListSeparator))
	p := &sideProcess{cmd: exec.Command(filepath.Join(programs, "drawbridge"), args...), log: ts.MkAbs(name + ".log"), done: make(chan error, 1)}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	ts.Check(err)
	defer log.Close()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = ts.MkAbs("."), log, log
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "CURSOR_API_KEY", "HTTPS_PROXY", "GORACE"} {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	if stdin != nil {
		p.cmd.Stdin, p.cmd.Stderr = stdin, stdin
	}
	ts.Check(p.cmd.Start())
	go func() { p.done <- p.cmd.Wait() }()
	stage.running[name] = p
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // it has ended already unless the script failed
		text, _ := os.ReadFile(p.log)
		ts.Logf("%s.log:\n%s", name, text)
	})
	return p
}

func takeProcess(ts *testscript.TestScript, name string) *sideProcess {
	stage := ts.Value(stageKey{}).(*testStage)
	p := stage.running[name]
	if p == nil {
		ts.Fatalf("%s does not run", name)
	}
	delete(stage.running, name)
	return p
}

// endProcess is "end <name> [INT]": it signals the process, TERM unless told otherwise, and expects exit code 0.
// With ! the process must have ended by itself with another code.
func endProcess(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: end <name> [INT]")
	}
	p := takeProcess(ts, args[0])
	if !neg {
		signal := syscall.SIGTERM
		if len(args) == 2 && args[1] == "INT" {
			signal = syscall.SIGINT
		}
		ts.Check(p.cmd.Process.Signal(signal))
	}
	select {
	case err := <-p.done:
		if (err != nil) != neg {
			ts.Fatalf("%s ended with %v", args[0], err)
		}
		if p.keys != nil && !cooked(p.keys) {
			ts.Fatalf("%s left its terminal in another mode", args[0])
		}
	case <-time.After(patience):
		ts.Fatalf("%s did not end", args[0])
	}
}

// crashProcess is "crash <name>": SIGKILL, as when the power goes.
func crashProcess(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: crash <name>")
	}
	p := takeProcess(ts, args[0])
	ts.Check(p.cmd.Process.Kill())
	var exit *exec.ExitError
	if err := <-p.done; !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		ts.Fatalf("%s had ended before the crash: %v", args[0], err)
	}
}

// waitLogged is "logged <name> <pattern>": it waits until the process has logged a line like that.
func waitLogged(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: logged <name> <pattern>")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	if neg {
		text, err := os.ReadFile(ts.MkAbs(args[0] + ".log"))
		ts.Check(err)
		if found := pattern.Find(text); found != nil {
			ts.Fatalf("%s has logged %q", args[0], found)
		}
		return
	}
	p := ts.Value(stageKey{}).(*testStage).running[args[0]]
	if p == nil {
		ts.Fatalf("%s does not run", args[0])
	}
	p.wait(ts, pattern, 1)
}

// wait polls the log until pattern is in it n times.
func (p *sideProcess) wait(ts *testscript.TestScript, pattern *regexp.Regexp, n int) {
	poll(ts, "a log line like "+pattern.String(), func() (bool, string) {
		text, err := os.ReadFile(p.log)
		ts.Check(err)
		if len(pattern.FindAll(text, n)) >= n {
			return true, ""
		}
		select {
		case err := <-p.done:
			p.done <- err
			ts.Fatalf("the process ended (%v) before it logged %s", err, pattern)
		default:
		}
		return false, "the log:\n" + string(text)
	})
}

// poll asks until the answer is yes.
func poll(ts *testscript.TestScript, what string, ask func() (yes bool, seen string)) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, seen := ask()
		if yes {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("waited without success for %s; last seen: %s", what, seen)
		}
	}
}
